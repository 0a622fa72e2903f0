"""A group of the consumer protocol at its coordinator: heartbeats in, epochs and assignments out
(KIP-848).

Rules of this file:
1. Three epochs: the group's rises with subscriptions and with the topics' metadata, from 4.1 on
   also with their replicas' racks (KIP-1101); the target's follows it when an assignor has run,
   each member's follows the target's (H22, reconciliation).
2. A heartbeat is checked before it changes anything.
3. A target is computed by the heartbeat that finds it out of date, from 4.3 on not before the
   assignment interval has passed since the last one (H23).
4. A member whose session or whose time to give partitions up is over is removed, as if it had left.
5. Time comes in as `now_ms`; `next_due_ms` says when to call `expire`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from parley.devcluster.state.groups.modern.assignors import ASSIGNORS, Part, Subscriber
from parley.devcluster.state.groups.modern.heartbeats import (
    Heartbeat,
    HeartbeatAnswer,
    check_form,
    subscribed,
)
from parley.devcluster.state.groups.modern.members import (
    JOINING,
    LEAVING,
    LEAVING_FOR_A_WHILE,
    Member,
    MemberState,
    Subscription,
)
from parley.devcluster.state.groups.modern.reconciliation import next_assignment
from parley.devcluster.state.groups.record_parts import (
    Racks,
    RacksOf,
    Topics as KnownTopics,
    no_racks,
    topics_hash,
)
from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    FENCED_INSTANCE_ID,
    GROUP_MAX_SIZE_REACHED,
    UNKNOWN_MEMBER_ID,
    UNRELEASED_INSTANCE_ID,
)

DEFAULT_REBALANCE_TIMEOUT_MS = 300_000


@dataclass(frozen=True, slots=True)
class Settings:
    """What a release, or a configuration, sets for all such groups. Milliseconds."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 0
    """`group.consumer.assignment.interval.ms`: 1000 from 4.3 on."""
    first_epoch: int = 0
    """The epoch of a group before its first subscription: 1 from 4.3 on."""
    max_size: int = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics as the coordinator knows them: (id, number of partitions) by
    name, and how to match names.
    """

    known: KnownTopics
    matching: Callable[[str], frozenset[str]]
    """Raises Refused (INVALID_REGULAR_EXPRESSION)."""
    racks: RacksOf = no_racks
    """The racks of a topic's replicas, where the coordinator's release looks at them."""


class ConsumerGroup:
    """One group; of no other type as long as it has members."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name, self.settings = name, settings
        self.epoch = settings.first_epoch
        self.target_epoch = 0
        self.members: dict[str, Member] = {}
        self.target: dict[str, frozenset[Part]] = {}
        self.changed: set[str] = set()
        """The members, present and past, whose records are out of date."""
        self.kept_expressions: dict[str, frozenset[str]] = {}
        """The regular expressions that are written, with what each of them matched."""
        self.metadata: dict[str, tuple[bytes, int]] = {}
        """Id and number of partitions of each topic that is subscribed to and exists,
        as of the last heartbeat.
        """
        self.metadata_hash = 0
        """Of these topics and their racks; after a restart what the log has (KIP-1101)."""
        self.rose = False
        """Whether the epoch has risen since it was written last."""
        self._racks: dict[str, Racks] = {}
        self._seen: tuple[object, ...] | None = None
        """The topics and racks that the hash is of, None where nobody has seen them."""
        self.targeted_at_ms: int | None = None

    @property
    def state(self) -> str:
        """The state's name as ListGroups and ConsumerGroupDescribe have it."""
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        for member in self.members.values():
            if (
                member.assignment.state is not MemberState.STABLE
                or member.assignment.epoch != self.target_epoch
            ):
                return "Reconciling"
        return "Stable"

    @property
    def is_left_to_classic(self) -> bool:
        """Whether it has members, and all of them speak the classic protocol."""
        return bool(self.members) and all(one.classic is not None for one in self.members.values())

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """The names that any member subscribes to."""
        return frozenset().union(*(member.wanted_topics for member in self.members.values()))

    @property
    def assignor(self) -> str:
        """The assignor that most members name, else the default."""
        named = [
            member.subscription.assignor
            for member in self.members.values()
            if member.subscription.assignor
        ]
        return max(sorted(set(named)), key=named.count) if named else next(iter(ASSIGNORS))

    # -- heartbeats --------------------------------------------------------------------------------

    def heartbeat(self, said: Heartbeat, topics: Topics, now_ms: int) -> HeartbeatAnswer:
        """Answer one heartbeat. Raises Refused, after which nothing has changed."""
        check_form(said)
        if said.epoch in {LEAVING, LEAVING_FOR_A_WHILE}:
            return self._leave(said)
        found = self._find(said)
        subscription = subscribed(found.subscription if found else None, said)
        matched = topics.matching(subscription.regex) if subscription.regex else frozenset()
        member = (
            found if found and found.id == said.member_id else self.enter(said.member_id, found)
        )
        member.speaks_consumer()
        changed = (subscription, matched) != (member.subscription, member.matched)
        before = member.assignment
        if changed:
            member.subscription, member.matched = subscription, matched
            self.changed.add(member.id)
        self.refresh(topics, changed=changed, now_ms=now_ms)
        if said.epoch == JOINING and member.assignment.epoch == LEAVING_FOR_A_WHILE:
            member.assignment = replace(member.assignment, epoch=JOINING)
        self.reconcile(member, said.owned if said.epoch != JOINING else frozenset())
        self._set_deadlines(member, now_ms)
        now = member.assignment
        news = said.epoch == JOINING or said.is_full or now.owned != before.owned
        return HeartbeatAnswer(member.id, now.epoch, now.owned if news else None)

    def _find(self, said: Heartbeat) -> Member | None:
        """Return the member that speaks, or the static one that a joiner takes the
        place of. Raises Refused.
        """
        known = self.members.get(said.member_id)
        if said.instance_id is not None:
            known = self.static(said.instance_id)
            if known is None and said.epoch != JOINING:
                raise self.unknown(said.member_id)
            if known is not None and known.id != said.member_id:
                if said.epoch != JOINING:
                    raise self.fenced(said.instance_id)
                if not known.is_away and known.classic is None:
                    text = (
                        f"member {known.id} of group {self.name} still uses the instance id "
                        f"{said.instance_id}"
                    )
                    raise Refused(UNRELEASED_INSTANCE_ID, text)
        if known is None:
            if said.epoch != JOINING:
                raise self.unknown(said.member_id)
            self.check_size()
        elif said.epoch != JOINING:
            known.check_epoch(self.name, said.epoch, said.owned)
        return known

    def check_size(self) -> None:
        """Raise Refused (GROUP_MAX_SIZE_REACHED) where nobody more is taken."""
        if len(self.members) >= self.settings.max_size:
            text = (
                f"group {self.name} has its largest size already, {self.settings.max_size} members"
            )
            raise Refused(GROUP_MAX_SIZE_REACHED, text)

    def static(self, instance_id: str) -> Member | None:
        """Return the member with an instance id."""
        return next(
            (one for one in self.members.values() if one.subscription.instance_id == instance_id),
            None,
        )

    def unknown(self, member_id: str) -> Refused:
        """Return the refusal of who is no member."""
        return Refused(UNKNOWN_MEMBER_ID, f"{member_id} is no member of group {self.name}")

    def fenced(self, instance_id: str | None) -> Refused:
        """Return the refusal of a member whose instance id another one has."""
        return Refused(
            FENCED_INSTANCE_ID,
            f"another member of group {self.name} has the instance id {instance_id}",
        )

    def enter(self, member_id: str, replaced: Member | None) -> Member:
        """Return a new member; it has what the static member had whose place it
        takes, and its target.
        """
        member = Member(member_id, Subscription())
        if replaced is not None:
            del self.members[replaced.id]
            self.changed.add(replaced.id)
            self.target[member.id] = self.target.pop(replaced.id, frozenset())
            member.subscription, member.matched = replaced.subscription, replaced.matched
            member.assignment, member.since = replaced.assignment, replaced.since
        self.members[member.id] = member
        return member

    def _leave(self, said: Heartbeat) -> HeartbeatAnswer:
        member = (
            self.members.get(said.member_id)
            if said.instance_id is None
            else self.static(said.instance_id)
        )
        if member is None:
            raise self.unknown(said.member_id)
        if member.id != said.member_id:
            raise self.fenced(said.instance_id)
        if said.epoch == LEAVING_FOR_A_WHILE:
            member.leave_for_a_while()
            self.changed.add(member.id)
        else:
            self.remove(member.id)
        return HeartbeatAnswer(said.member_id, said.epoch)

    def take_out(self, member_id: str, instance_id: str | None) -> None:
        """Remove a member that LeaveGroup names; a static one may be named by its instance
        id alone. Raises Refused.
        """
        member = self.members.get(member_id) if instance_id is None else self.static(instance_id)
        if member is None:
            raise self.unknown(member_id or f"instance {instance_id}")
        if instance_id is not None and member_id not in ("", member.id):
            raise self.fenced(instance_id)
        self.remove(member.id)

    def remove(self, member_id: str) -> None:
        """Take a member out with everything it holds; the rest shares that
        at the next heartbeats.
        """
        del self.members[member_id]
        self.target.pop(member_id, None)
        self.changed.add(member_id)
        self.epoch += 1
        wanted = self.subscribed_topics & self.metadata.keys()
        self.know({name: self.metadata[name] for name in wanted}, self._racks)

    # -- epochs and targets ------------------------------------------------------------------------

    def refresh(self, topics: Topics, *, changed: bool, now_ms: int) -> None:
        """Raise the group's epoch where something has changed, and compute the target
        that it asks for (rule 1).
        """
        wanted = sorted(self.subscribed_topics & topics.known.keys())
        racks = {name: found for name in wanted if (found := topics.racks(name))}
        if self.know({name: topics.known[name] for name in wanted}, racks) or changed:
            self.epoch += 1
            self.rose = True
        early = (
            self.targeted_at_ms is not None
            and now_ms < self.targeted_at_ms + self.settings.assignment_interval_ms
        )
        if self.epoch > self.target_epoch and not early:
            self._retarget(now_ms)

    def know(self, topics: KnownTopics, racks: Mapping[str, Racks]) -> bool:
        """Take the topics as they are now; return whether those before had another hash."""
        now = dict(sorted(topics.items())), {n: r for n, r in racks.items() if n in topics}
        if now == self._seen:
            return False
        self._seen, before = now, self.metadata_hash
        self.metadata, self._racks = now
        self.metadata_hash = topics_hash(*now)
        return self.metadata_hash != before

    def loaded(self, topics: KnownTopics, metadata_hash: int) -> None:
        """Take what a log says: the next heartbeat holds its hash against the topics of then."""
        self.metadata, self.metadata_hash = dict(sorted(topics.items())), metadata_hash
        self._seen = None

    def _retarget(self, now_ms: int) -> None:
        counts = dict(self.metadata.values())
        members = {
            member.id: Subscriber(
                frozenset(
                    self.metadata[name][0] for name in member.wanted_topics & self.metadata.keys()
                ),
                self.target.get(member.id, frozenset()),
                member.subscription.instance_id,
            )
            for member in self.members.values()
        }
        before, self.target = self.target, ASSIGNORS[self.assignor](members, counts)
        self.changed.update(
            name for name, parts in self.target.items() if before.get(name) != parts
        )
        self.target_epoch, self.targeted_at_ms = self.epoch, now_ms

    def is_held(self, part: Part, *, but_by: Member) -> bool:
        """Whether another member than this one has a partition, or has not given it up yet."""
        return any(
            part in one.assignment.held for one in self.members.values() if one is not but_by
        )

    def reconcile(self, member: Member, reported: Collection[Part] | None) -> None:
        """Lead a member one step towards its target; `reported` is what it says it
        owns, None if it does not.
        """
        held = frozenset[Part]().union(
            *(one.assignment.held for one in self.members.values() if one is not member)
        )
        target = self.target.get(member.id, frozenset())
        now = member.assignment
        following = next_assignment(
            now, target, self.target_epoch, reported=reported, held=held.__contains__
        )
        if following is not now:
            member.assign(following)
            self.changed.add(member.id)

    # -- time --------------------------------------------------------------------------------------

    def begin_session(self, member: Member, now_ms: int) -> None:
        """Let a member's session begin again."""
        own = member.classic
        timeout_ms = self.settings.session_timeout_ms if own is None else own.session_timeout_ms
        member.session_due_ms = now_ms + timeout_ms

    def _set_deadlines(self, member: Member, now_ms: int) -> None:
        self.begin_session(member, now_ms)
        if (
            member.classic is not None
            or member.assignment.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            member.revoke_due_ms = None
        elif member.revoke_due_ms is None:
            timeout_ms = member.subscription.rebalance_timeout_ms
            member.revoke_due_ms = now_ms + (
                DEFAULT_REBALANCE_TIMEOUT_MS if timeout_ms < 0 else timeout_ms
            )

    @property
    def next_due_ms(self) -> int | None:
        """When the next member will have been silent, or slow, for too long."""
        return min((member.due_ms for member in self.members.values()), default=None)

    def expire(self, now_ms: int) -> list[str]:
        """Remove the members whose time is over (rule 4); return their ids."""
        late = [member.id for member in self.members.values() if member.due_ms <= now_ms]
        for member_id in late:
            self.remove(member_id)
        return late

    def resume(self, now_ms: int) -> None:
        """Let every member's time begin now, and know of the topics nothing
        yet: after a restart.
        """
        for member in self.members.values():
            self._set_deadlines(member, now_ms)

    # -- commits -----------------------------------------------------------------------------------

    def check_commit(
        self, member_id: str, epoch: int, part: Part | None, *, per_partition: bool
    ) -> None:
        """Raise Refused unless this member may commit this partition (G57, G58)."""
        member = self.members.get(member_id)
        if member is None:
            raise self.unknown(member_id)
        member.check_commit(self.name, epoch, part, per_partition=per_partition)
