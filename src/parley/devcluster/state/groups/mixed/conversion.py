"""Makes a group of the consumer protocol out of a live classic one, and the other way round (H24).

Rules of this file:
1. Members keep their ids. Classic ones keep their generation too: it is their epoch.
2. Nothing is changed here: what is made takes the place of the other group once it is written.
3. What members said in bytes must be readable, and no assignor may have put data of its own into an
   assignment: the broker's assignor would lose it.
"""

from __future__ import annotations

from collections.abc import Mapping

from parley.devcluster.state.groups.classic.group import ClassicGroup, GroupState
from parley.devcluster.state.groups.classic.members import Member as ClassicMember, vote
from parley.devcluster.state.groups.mixed.formats import (
    CONSUMER_PROTOCOL,
    NEWEST_VERSION,
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
)
from parley.devcluster.state.groups.modern.assignors import Part
from parley.devcluster.state.groups.modern.group import ConsumerGroup, Settings
from parley.devcluster.state.groups.modern.members import (
    Assignment,
    ClassicWords,
    Member,
    MemberState,
    Subscription,
)
from parley.devcluster.state.refused import Refused
from parley.errors import RemoteProtocolError
from parley.errors.codes import GROUP_ID_NOT_FOUND

KnownTopics = Mapping[str, tuple[bytes, int]]
"""Id and number of partitions by name."""


def upgraded(old: ClassicGroup, settings: Settings, known: KnownTopics) -> ConsumerGroup:
    """Return the group of the consumer protocol that a classic one becomes. Raises
    Refused (GROUP_ID_NOT_FOUND).
    """
    if old.protocol_type != CONSUMER_PROTOCOL or len(old.members) > settings.max_size:
        raise Refused(GROUP_ID_NOT_FOUND, f"Group {old.name} is not a consumer group.")
    group = ConsumerGroup(old.name, settings)
    group.epoch = group.target_epoch = old.generation
    taken: set[Part] = set()
    for one in old.members.values():
        try:
            member = _modern(one, old, known, taken)
        except RemoteProtocolError as error:
            raise _cannot(
                old.name, f"the embedded consumer protocol is malformed: {error}"
            ) from None
        taken |= member.assignment.owned
        group.members[member.id], group.target[member.id] = member, member.assignment.owned
        group.changed.add(member.id)
    wanted = group.subscribed_topics
    group.know({name: known[name] for name in wanted & known.keys()}, {})
    return group


def _cannot(name: str, why: str) -> Refused:
    return Refused(
        GROUP_ID_NOT_FOUND, f"Cannot upgrade classic group {name} to consumer group because {why}"
    )


def _modern(
    old: ClassicMember, group: ClassicGroup, known: KnownTopics, taken: set[Part]
) -> Member:
    # A group that never had a generation has no protocol yet; each of a member's says the same.
    metadata = old.metadata(group.protocol) or old.protocols[0][1]
    said, given = read_subscription(metadata), read_assignment(old.assignment)
    if given.user_data:
        raise _cannot(
            group.name, "an assignor of its members' own is in use, whose data would be lost"
        )
    listed = {
        (known[topic.topic][0], index)
        for topic in given.assigned_partitions
        if topic.topic in known
        for index in topic.partitions
    }
    subscription = Subscription(
        old.instance_id,
        said.rack_id,
        frozenset(said.topics),
        rebalance_timeout_ms=old.rebalance_timeout_ms,
        client_id=old.client_id,
        client_host=old.client_host,
    )
    member = Member(
        old.id, subscription, classic=ClassicWords(old.session_timeout_ms, old.protocols)
    )
    member.assign(
        Assignment(
            group.generation, group.generation, MemberState.STABLE, frozenset(listed - taken)
        )
    )
    return member


def downgrade(old: ConsumerGroup, group: ClassicGroup, generation: int, now_ms: int) -> None:
    """Fill a new classic group with the members of a group whose members are all of the classic
    protocol.

    Each has what its target says; it begins a session.
    """
    names = {topic_id: name for name, (topic_id, _) in old.metadata.items()}
    for member in old.members.values():
        if member.classic is None:
            continue
        said = member.subscription
        group.members[member.id] = ClassicMember(
            member.id,
            said.instance_id,
            said.client_id,
            said.client_host,
            member.classic.session_timeout_ms,
            said.rebalance_timeout_ms,
            member.classic.protocols,
            is_new=False,
        )
    group.generation, group.protocol_type = generation, CONSUMER_PROTOCOL
    group.protocol = vote(list(group.members.values()))
    for one in group.members.values():
        version = _version(one.metadata(group.protocol))
        one.assignment = write_assignment(old.target.get(one.id, frozenset()), names, version)
        one.beat(now_ms)
    group.state = GroupState.STABLE


def _version(metadata: bytes) -> int:
    try:
        return version_of(metadata)
    except RemoteProtocolError:
        return NEWEST_VERSION
