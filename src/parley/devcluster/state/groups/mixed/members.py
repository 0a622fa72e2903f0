"""Members of the classic protocol in a group of the consumer protocol: JoinGroup, SyncGroup,
Heartbeat (H24, G71).

Rules of this file:
1. To such a member the epoch is its generation. It joins to be led one step towards its target, and
   SyncGroup answers what it owns: nobody leads, the broker's assignor has assigned.
2. A heartbeat asks it to join again when the group's epoch is newer than its own, when it has to
   give partitions up, and when what it waits for is free.
3. Once asked, it has its rebalance timeout for joining, and again for syncing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from parley.devcluster.state.groups.classic.group import MemberIdRequired
from parley.devcluster.state.groups.classic.members import Join, JoinAnswer, SyncAnswer
from parley.devcluster.state.groups.mixed.formats import (
    CONSUMER_PROTOCOL,
    read_subscription,
    version_of,
    write_assignment,
)
from parley.devcluster.state.groups.modern.group import ConsumerGroup, Topics
from parley.devcluster.state.groups.modern.members import (
    JOINING,
    ClassicWords,
    Member,
    MemberState,
    Subscription,
)
from parley.devcluster.state.refused import Refused
from parley.errors import RemoteProtocolError
from parley.errors.codes import (
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    NONE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)
from parley.messages import ConsumerProtocolSubscription


def join(
    group: ConsumerGroup, said: Join, topics: Topics, new_id: Callable[[], str], now_ms: int
) -> JoinAnswer:
    """Take a member in, or again, and lead it one step. Raises Refused, and MemberIdRequired."""
    if said.member_id not in group.members:
        group.check_size()
    _check_protocols(group, said)
    subscription = _subscription(said)
    if not said.member_id and said.instance_id is None and said.requires_id:
        raise MemberIdRequired(new_id())
    member = _entered(group, said, new_id)
    words = Subscription(
        said.instance_id,
        subscription.rack_id,
        frozenset(subscription.topics),
        rebalance_timeout_ms=said.rebalance_timeout_ms,
        client_id=said.client_id,
        client_host=said.client_host,
    )
    changed = words.topics != member.wanted_topics
    member.subscription, member.matched = words, frozenset()
    member.classic = ClassicWords(said.session_timeout_ms, said.protocols)
    group.changed.add(member.id)
    group.refresh(topics, changed=changed, now_ms=now_ms)
    if member.is_away:
        member.assignment = replace(member.assignment, epoch=JOINING)
    owned = {
        (topics.known[one.topic][0], index)
        for one in subscription.owned_partitions
        if one.topic in topics.known
        for index in one.partitions
    }
    group.reconcile(member, owned)
    group.begin_session(member, now_ms)
    member.revoke_due_ms = member.join_due_ms = None
    member.sync_due_ms = now_ms + said.rebalance_timeout_ms
    return JoinAnswer(
        member.id, NONE, member.assignment.epoch, CONSUMER_PROTOCOL, said.protocols[0][0]
    )


def _check_protocols(group: ConsumerGroup, said: Join) -> None:
    """Raise Refused (INCONSISTENT_GROUP_PROTOCOL) where it has no protocol that all
    other classic members support.
    """
    others = [
        one.classic
        for one in group.members.values()
        if one.classic is not None and one.id != said.member_id
    ]
    names = {name for name, _ in said.protocols}
    shared = names.intersection(*(words.supported for words in others))
    if said.protocol_type != CONSUMER_PROTOCOL or not shared:
        text = f"the protocols of the member do not fit those of group {group.name}"
        raise Refused(INCONSISTENT_GROUP_PROTOCOL, text)


def _subscription(said: Join) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(said.protocols[0][1])
    except RemoteProtocolError as error:
        raise Refused(
            INCONSISTENT_GROUP_PROTOCOL, f"the member's subscription cannot be read: {error}"
        ) from None


def _entered(group: ConsumerGroup, said: Join, new_id: Callable[[], str]) -> Member:
    """Return the member that joins: a known one, a new one, or one in the
    place of a static one (G16).
    """
    replaced = None
    if said.instance_id is not None:
        replaced = group.static(said.instance_id)
        if said.member_id and replaced is None:
            raise group.unknown(said.member_id)
        if said.member_id and replaced is not None and replaced.id != said.member_id:
            raise group.fenced(said.instance_id)
    return group.members.get(said.member_id) or group.enter(said.member_id or new_id(), replaced)


def find(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> Member:
    """Return a classic member of this generation.

    Raises Refused: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
    """
    member = group.members.get(member_id) if instance_id is None else group.static(instance_id)
    if member is None:
        raise group.unknown(member_id)
    if member.id != member_id:
        raise group.fenced(instance_id)
    if member.classic is None:
        raise Refused(
            UNKNOWN_MEMBER_ID,
            f"member {member_id} of group {group.name} speaks the consumer protocol",
        )
    epoch = member.assignment.epoch
    if generation != epoch:
        raise Refused(
            ILLEGAL_GENERATION, f"member {member_id} is at generation {epoch}, not {generation}"
        )
    return member


def sync(
    group: ConsumerGroup,
    member: Member,
    named: tuple[str | None, str | None],
    names: Mapping[bytes, str],
    now_ms: int,
) -> SyncAnswer:
    """Answer what a member owns; `named` are type and name of the protocol. Raises Refused."""
    assert member.classic is not None
    first, metadata = member.classic.protocols[0]
    if named[0] not in (None, CONSUMER_PROTOCOL) or named[1] not in (None, first):
        text = f"member {member.id} joined group {group.name} with {first} of {CONSUMER_PROTOCOL}"
        raise Refused(INCONSISTENT_GROUP_PROTOCOL, text)
    now = member.assignment
    if group.epoch > now.epoch and now.state is not MemberState.UNREVOKED_PARTITIONS:
        _ask_to_join(member, now_ms)
        raise Refused(REBALANCE_IN_PROGRESS, f"group {group.name} rebalances")
    member.sync_due_ms = None
    group.begin_session(member, now_ms)
    return SyncAnswer(NONE, write_assignment(now.owned, names, version_of(metadata)), *named)


def heartbeat(group: ConsumerGroup, member: Member, now_ms: int) -> int:
    """Let a member live on; return REBALANCE_IN_PROGRESS where it has to join again (rule 2)."""
    group.begin_session(member, now_ms)
    now = member.assignment
    asked = now.epoch < group.epoch or now.state is MemberState.UNREVOKED_PARTITIONS
    if now.state is MemberState.UNRELEASED_PARTITIONS:
        missing = group.target.get(member.id, frozenset()) - now.owned
        asked = asked or not any(group.is_held(part, but_by=member) for part in missing)
    if asked:
        _ask_to_join(member, now_ms)
    return REBALANCE_IN_PROGRESS if asked else NONE


def _ask_to_join(member: Member, now_ms: int) -> None:
    if member.join_due_ms is None:
        member.join_due_ms = now_ms + member.subscription.rebalance_timeout_ms
