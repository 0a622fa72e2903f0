"""A share group at its coordinator: heartbeats in, epochs and assignments out (KIP-932).

Rules of this file:
1. The group's epoch rises with members, subscriptions and the topics' metadata; the target follows
   when it is computed, a member's epoch follows the target at its next heartbeat. Nothing is given
   up first: several members may read one partition.
2. A heartbeat is checked before it changes anything.
3. From 4.3 on no target is computed before the assignment interval since the last one is over.
4. A partition is known to the group once a member has subscribed to its topic, and stays so.
5. A member whose session is over is removed, as if it had left. What it acquired ends with its
   locks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from parley.devcluster.state.groups.record_parts import (
    Racks,
    RacksOf,
    Topics,
    no_racks,
    topics_hash,
)
from parley.devcluster.state.groups.share.assignor import Part, assign
from parley.devcluster.state.groups.share.settings import ShareSettings
from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    FENCED_MEMBER_EPOCH,
    GROUP_MAX_SIZE_REACHED,
    INVALID_REQUEST,
    UNKNOWN_MEMBER_ID,
)

JOINING, LEAVING = 0, -1
"""Member epochs that say what a member wants."""


@dataclass(frozen=True, slots=True)
class ShareHeartbeat:
    """A member's words. Topics that are None are as they were."""

    member_id: str
    epoch: int
    rack: str | None = None
    topics: frozenset[str] | None = None
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True)
class ShareAnswer:
    """What the member is to know: its epoch, and its assignment where it should hear of it."""

    member_id: str
    epoch: int
    assignment: frozenset[Part] | None = None


@dataclass(slots=True)
class ShareMember:
    """One member."""

    id: str
    rack: str | None = None
    topics: frozenset[str] = frozenset()
    client_id: str = ""
    client_host: str = ""
    epoch: int = 0
    previous_epoch: int = 0
    assigned: frozenset[Part] = frozenset()
    session_due_ms: int = field(default=0, compare=False)


class ShareGroup:
    """One group."""

    def __init__(self, name: str, settings: ShareSettings) -> None:
        self.name, self.settings = name, settings
        self.epoch = settings.first_epoch
        self.target_epoch = 0
        self.members: dict[str, ShareMember] = {}
        self.target: dict[str, frozenset[Part]] = {}
        self.metadata: dict[str, tuple[bytes, int]] = {}
        """Id and number of partitions of each topic that is subscribed to and exists."""
        self.metadata_hash = 0
        """Of these topics and their racks; after a restart what the log has (KIP-1101)."""
        self.rose = False
        """Whether the epoch has risen since it was written last."""
        self._racks: dict[str, Racks] = {}
        self.known: dict[bytes, int] = {}
        """How many partitions of each topic, by id, the group has begun to read (rule 4)."""
        self.changed: set[str] = set()
        """The members, present and past, whose records are out of date."""
        self.targeted_at_ms: int | None = None
        """When the target was computed, None where nobody knows."""

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """The names that any member subscribes to."""
        return frozenset[str]().union(*(member.topics for member in self.members.values()))

    @property
    def state(self) -> str:
        """The state's name as ListGroups and ShareGroupDescribe have it."""
        return "Stable" if self.members else "Empty"

    def heartbeat(
        self, said: ShareHeartbeat, topics: Topics, now_ms: int, racks: RacksOf = no_racks
    ) -> ShareAnswer:
        """Answer one heartbeat. Raises Refused, after which nothing has changed."""
        check_form(said)
        member = self._find(said)
        if said.epoch == LEAVING:
            self.remove(said.member_id)
            return ShareAnswer(said.member_id, LEAVING)
        before = member.topics if said.member_id in self.members else None
        known = replace(member)
        self.members[member.id] = member
        member.rack = member.rack if said.rack is None else said.rack
        member.topics = member.topics if said.topics is None else said.topics
        member.client_id, member.client_host = said.client_id, said.client_host
        self._refresh(topics, racks, changed=member.topics != before, now_ms=now_ms)
        assigned = member.assigned
        self._advance(member)
        member.session_due_ms = now_ms + self.settings.session_timeout_ms
        if before is None or member != known:
            self.changed.add(member.id)
        news = said.epoch == JOINING or said.topics is not None or member.assigned != assigned
        return ShareAnswer(member.id, member.epoch, member.assigned if news else None)

    def _find(self, said: ShareHeartbeat) -> ShareMember:
        member = self.members.get(said.member_id)
        if member is None:
            if said.epoch != JOINING:
                text = f"Member {said.member_id} is not a member of group {self.name}."
                raise Refused(UNKNOWN_MEMBER_ID, text)
            if len(self.members) >= self.settings.max_size:
                text = f"group {self.name} has its largest size, {self.settings.max_size} members"
                raise Refused(GROUP_MAX_SIZE_REACHED, text)
            return ShareMember(said.member_id)
        if said.epoch > member.epoch:
            raise _fenced(member, said.epoch, "greater")
        if JOINING < said.epoch < member.epoch and said.epoch != member.previous_epoch:
            raise _fenced(member, said.epoch, "smaller")
        return member

    def remove(self, member_id: str) -> None:
        """Take a member out; the others share its partitions at their next heartbeats."""
        del self.members[member_id]
        self.target.pop(member_id, None)
        self.changed.add(member_id)
        self.epoch += 1
        wanted = self.subscribed_topics & self.metadata.keys()
        self._know({name: self.metadata[name] for name in wanted})

    def knows(self, part: Part) -> bool:
        """Whether the group has begun to read a partition."""
        topic_id, index = part
        return 0 <= index < self.known.get(topic_id, 0)

    # -- epochs and targets ----------------------------------------------------------------------

    def _refresh(self, topics: Topics, racks: RacksOf, *, changed: bool, now_ms: int) -> None:
        wanted, before = self.subscribed_topics & topics.keys(), self.metadata_hash
        self._racks = {name: racks(name) for name in wanted}
        self._know({name: topics[name] for name in wanted})
        if changed or self.metadata_hash != before:
            self.epoch += 1
            self.rose = True
            self.known.update(self.metadata.values())
        interval_ms, at_ms = self.settings.assignment_interval_ms, self.targeted_at_ms
        early = at_ms is not None and now_ms < at_ms + interval_ms
        if self.epoch > self.target_epoch and not early:
            self._retarget(now_ms)

    def _know(self, topics: Topics) -> None:
        self.metadata = dict(sorted(topics.items()))
        self.metadata_hash = topics_hash(self.metadata, self._racks)

    def _retarget(self, now_ms: int) -> None:
        members = {
            member.id: frozenset(
                self.metadata[name][0] for name in member.topics & self.metadata.keys()
            )
            for member in self.members.values()
        }
        before = self.target
        self.target = assign(members, dict(self.metadata.values()), before)
        self.changed.update(
            name for name, parts in self.target.items() if before.get(name) != parts
        )
        self.target_epoch, self.targeted_at_ms = self.epoch, now_ms

    def _advance(self, member: ShareMember) -> None:
        """Take a member to the target, without topics that it left meanwhile."""
        mine = {self.metadata[name][0] for name in member.topics & self.metadata.keys()}
        target = self.target.get(member.id, frozenset())
        assigned = frozenset(part for part in target if part[0] in mine)
        if member.epoch != self.target_epoch:
            member.previous_epoch, member.epoch = member.epoch, self.target_epoch
        member.assigned = assigned

    # -- time --------------------------------------------------------------------------------------

    @property
    def next_due_ms(self) -> int | None:
        """When the next member will have been silent for too long."""
        return min((member.session_due_ms for member in self.members.values()), default=None)

    def expire(self, now_ms: int) -> bool:
        """Remove the members that were silent for too long; return whether there were some."""
        late = [one.id for one in self.members.values() if one.session_due_ms <= now_ms]
        for member_id in late:
            self.remove(member_id)
        return bool(late)

    def resume(self, now_ms: int) -> None:
        """Let every member's time begin now: after a restart."""
        for member in self.members.values():
            member.session_due_ms = now_ms + self.settings.session_timeout_ms


def check_form(said: ShareHeartbeat) -> None:
    """Raise Refused (INVALID_REQUEST) for a heartbeat that no group could answer."""
    if not said.member_id:
        raise Refused(INVALID_REQUEST, None)
    wrong = ""
    if said.epoch < LEAVING:
        wrong = "MemberEpoch is invalid."
    elif said.rack == "":
        wrong = "RackId can't be empty."
    elif said.epoch == JOINING and not said.topics:
        wrong = "SubscribedTopicNames must be set in first request."
    if wrong:
        raise Refused(INVALID_REQUEST, wrong)


def _fenced(member: ShareMember, epoch: int, how: str) -> Refused:
    text = (
        f"The share group member {member.id} has a {how} member epoch ({epoch}) than the one that"
        f" the group coordinator knows ({member.epoch}). It must give up its partitions and rejoin."
    )
    return Refused(FENCED_MEMBER_EPOCH, text)
