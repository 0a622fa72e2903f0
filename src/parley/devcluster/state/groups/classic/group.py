"""A classic group at its coordinator: who is in it, which generation, who has which assignment.

The rules are those of every release, H1 to H16; what differs between releases comes in with the
calls.

Rules of this file:
1. Time comes in as `now_ms`; `next_due_ms` says when to call `expire`.
2. An answer that must wait for other members is `Parked`. Each member has at most one of a kind.
3. An assignment is handed out after `keep` has written it (H8).
"""

# size: one machine: joins, syncs, departures and time change the same state and members

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from parley.devcluster.state.groups.classic.members import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    Join,
    JoinAnswer,
    Member,
    SyncAnswer,
    vote,
)
from parley.devcluster.state.groups.classic.parked import Parked, given
from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    FENCED_INSTANCE_ID,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    MEMBER_ID_REQUIRED,
    NONE,
    NOT_COORDINATOR,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)


class GroupState(enum.Enum):
    """The states, by the names that DescribeGroups has for them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class Rules:
    """What a release, or a configuration, says of all classic groups."""

    initial_delay_ms: int = 0
    """`group.initial.rebalance.delay.ms`: how long the first generation waits for
    more members (0.11, KIP-134).
    """
    max_size: int = 2**31 - 1
    demands_type: bool = True
    """A member needs a protocol type (1.0); before, it may be empty."""
    heartbeats_while_completing: bool = True
    """A heartbeat between join and sync is fine (2.6); before, REBALANCE_IN_PROGRESS."""
    removes_unsynced: bool = True
    """Who does not sync within the rebalance timeout is removed (2.8)."""


class ClassicGroup:
    """One group. `new_id` makes member ids, `keep` writes the group as it is, at a time."""

    def __init__(
        self, name: str, keep: Callable[[ClassicGroup, int], None], new_id: Callable[[], str]
    ) -> None:
        self.name, self.rules = name, Rules()
        self._keep, self._new_id = keep, new_id
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.pending: dict[str, int] = {}
        """Ids that newcomers were given and have not joined with, and when these lapse."""
        self.empty_since_ms = -1
        """When the last member went, -1 where that is not known or there never was one."""
        self._phase_due_ms: int | None = None
        self._initial_left_ms: int | None = None
        self._newcomers = False
        self._unsynced: set[str] = set()
        self._due_ms: int | None = None
        self._due_known = False

    # -- lookups -----------------------------------------------------------------------------------

    def find(self, member_id: str, instance_id: str | None) -> Member:
        """Return a member. Raises Refused: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
        if instance_id is not None:
            static = self.static(instance_id)
            if static is not None and static.id != member_id:
                raise Refused(
                    FENCED_INSTANCE_ID,
                    f"another member of group {self.name} has instance id {instance_id}",
                )
        member = self.members.get(member_id)
        if member is None or (instance_id is not None and member.instance_id != instance_id):
            raise Refused(UNKNOWN_MEMBER_ID, f"{member_id!r} is no member of group {self.name}")
        return member

    def static(self, instance_id: str) -> Member | None:
        """Return the member with an instance id."""
        return next((one for one in self.members.values() if one.instance_id == instance_id), None)

    def check(self, member_id: str, instance_id: str | None, generation: int) -> Member:
        """Return a member of this generation. Raises Refused: as `find`, and ILLEGAL_GENERATION."""
        member = self.find(member_id, instance_id)
        if generation != self.generation:
            text = f"group {self.name} is at generation {self.generation}, not {generation}"
            raise Refused(ILLEGAL_GENERATION, text)
        return member

    # -- joining -----------------------------------------------------------------------------------

    def join(self, join: Join, now_ms: int) -> Parked[JoinAnswer]:
        """Take a member in, or again. Raises Refused; the answer may have to wait for others."""
        self._check_protocols(join)
        if join.member_id or (
            join.instance_id is not None and self.static(join.instance_id) is not None
        ):
            return self._join_known(join, now_ms)
        if join.instance_id is None and join.requires_id:
            member_id = f"{join.client_id}-{self._new_id()}"
            self.pending[member_id] = now_ms + join.session_timeout_ms
            self._due_by(self.pending[member_id])
            raise MemberIdRequired(member_id)
        prefix = join.client_id if join.instance_id is None else join.instance_id
        return self._add(f"{prefix}-{self._new_id()}", join, now_ms)

    def _check_protocols(self, join: Join) -> None:
        wrong = not join.protocols or (self.rules.demands_type and not join.protocol_type)
        if self.members and not wrong:
            names = {name for name, _ in join.protocols}
            others = [one for one in self.members.values() if one.id != join.member_id]
            common = frozenset.intersection(*(one.supported for one in others)) if others else names
            wrong = join.protocol_type != self.protocol_type or names.isdisjoint(common)
        if wrong:
            text = f"the protocols of the member do not fit those of group {self.name}"
            raise Refused(INCONSISTENT_GROUP_PROTOCOL, text)

    def _join_known(self, join: Join, now_ms: int) -> Parked[JoinAnswer]:
        if join.member_id in self.pending:
            del self.pending[join.member_id]
            return self._add(join.member_id, join, now_ms)
        if not join.member_id and join.instance_id is not None:
            return self._replace(join, now_ms)
        member = self.find(join.member_id, join.instance_id)
        same = member.protocols == join.protocols
        if self.state is GroupState.COMPLETING and same:
            return given(self._joined(member))
        if self.state is GroupState.STABLE and same and member.id != self.leader:
            return given(self._joined(member))
        member.update(join)
        return self._park(member, now_ms)

    def _add(self, member_id: str, join: Join, now_ms: int) -> Parked[JoinAnswer]:
        member = Member(
            member_id,
            join.instance_id,
            join.client_id,
            join.client_host,
            join.session_timeout_ms,
            join.rebalance_timeout_ms,
            join.protocols,
        )
        self.members[member_id] = member
        self.protocol_type = join.protocol_type
        self.leader = self.leader or member_id
        self._newcomers = True
        return self._park(member, now_ms)

    def _replace(self, join: Join, now_ms: int) -> Parked[JoinAnswer]:
        """Give a static member's place to the process that came with its instance id (G16, H15)."""
        old = self.static(join.instance_id or "")
        assert old is not None
        self._fence(old, FENCED_INSTANCE_ID)
        new_id, led_by = f"{join.instance_id}-{self._new_id()}", self.leader
        # A member keeps its place: the order of members is that in which they joined.
        self.members = {
            new_id if name == old.id else name: one for name, one in self.members.items()
        }
        if old.id in self._unsynced:  # who has the place now is to sync in its stead
            self._unsynced = self._unsynced - {old.id} | {new_id}
        old.id = new_id
        self.leader = new_id if led_by and led_by not in self.members else led_by
        old.update(join)
        if (
            self.state is not GroupState.STABLE
            or vote(list(self.members.values())) != self.protocol
        ):
            return self._park(old, now_ms)
        self._keep(self, now_ms)  # its new id has to be known to the next coordinator as well
        self._beat(old, now_ms)
        if join.skips_assignment and self.leader == new_id:
            return given(self._joined(old, skip=True))
        # Without that version it cannot know that it need not assign: nobody says that it leads
        # (G18).
        answer = self._joined(old, members=False)
        return given(replace(answer, leader=led_by or ""))

    def _park(self, member: Member, now_ms: int) -> Parked[JoinAnswer]:
        member.joining = member.joining or Parked()
        member.due_ms = now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else 0
        if member.is_new:
            self._due_by(member.due_ms)
        parked = member.joining
        self._prepare(now_ms)
        return parked

    # -- the join phase ----------------------------------------------------------------------------

    def _prepare(self, now_ms: int) -> None:
        """Begin a rebalance unless one is under way, and end its join phase
        if nobody is missing.
        """
        if self.state is GroupState.COMPLETING:
            for member in self.members.values():
                self._end_sync(member, SyncAnswer(REBALANCE_IN_PROGRESS))
        if self.state is not GroupState.PREPARING:
            timeout_ms = max((one.rebalance_timeout_ms for one in self.members.values()), default=0)
            first = self.state is GroupState.EMPTY and self.rules.initial_delay_ms > 0
            delay_ms = min(self.rules.initial_delay_ms, timeout_ms) if first else timeout_ms
            self._initial_left_ms = max(timeout_ms - delay_ms, 0) if first else None
            self._phase_due_ms, self._newcomers = now_ms + delay_ms, False
            self.state = GroupState.PREPARING
            self._unsynced.clear()
            self._due_known = False
        everybody = not self.pending and all(
            one.joining is not None for one in self.members.values()
        )
        if everybody and self._initial_left_ms is None:
            self._complete(now_ms)

    def _join_phase_over(self, now_ms: int) -> None:
        left_ms = self._initial_left_ms
        if left_ms and self._newcomers:  # each newcomer extends the first join phase (H4)
            delay_ms = min(self.rules.initial_delay_ms, left_ms)
            self._initial_left_ms, self._newcomers = left_ms - delay_ms, False
            self._phase_due_ms = now_ms + delay_ms
            return
        self._complete(now_ms)

    def _complete(self, now_ms: int) -> None:
        """End the join phase: who is missing is out, the others are in the next generation (H6)."""
        for member in list(self.members.values()):
            if member.joining is None and member.instance_id is None:
                self._drop(member)
        joined = [one for one in self.members.values() if one.joining is not None]
        # static members alone, and all away: they may still come back
        if self.members and not joined:
            self._phase_due_ms = now_ms + max(
                one.rebalance_timeout_ms for one in self.members.values()
            )
            return
        if joined and not any(one.id == self.leader for one in joined):
            self.leader = joined[0].id
        self.generation += 1
        self._phase_due_ms = self._initial_left_ms = None
        self._due_known = False
        self.protocol = vote(list(self.members.values()))
        if not self.members:
            self.state, self.leader, self.empty_since_ms = GroupState.EMPTY, None, now_ms
            self._keep(self, now_ms)
            return
        self.state = GroupState.COMPLETING
        self._unsynced = set(self.members)
        self._phase_due_ms = now_ms + max(one.rebalance_timeout_ms for one in self.members.values())
        for member in list(self.members.values()):
            parked, member.joining, member.is_new = member.joining, None, False
            member.beat(now_ms)
            if parked is not None:
                parked.give(self._joined(member))

    def _joined(self, member: Member, *, members: bool = True, skip: bool = False) -> JoinAnswer:
        shown = self.members.values() if members and member.id == self.leader else ()
        every = tuple((one.id, one.instance_id, one.metadata(self.protocol)) for one in shown)
        return JoinAnswer(
            member.id,
            NONE,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader or "",
            every,
            skip,
        )

    # -- syncing, heartbeats -----------------------------------------------------------------------

    def sync(
        self, member: Member, assignments: Mapping[str, bytes], now_ms: int
    ) -> Parked[SyncAnswer]:
        """Take the leader's assignments, or wait for them. Raises Refused, or
        OSError where the disk refuses.
        """
        if self.state is GroupState.PREPARING:
            raise Refused(REBALANCE_IN_PROGRESS, f"group {self.name} rebalances")
        self._beat(member, now_ms)
        self._unsynced.discard(member.id)
        if self.state is GroupState.STABLE:
            self._end_sync_phase()
            return given(self._synced(member))
        parked = member.syncing = member.syncing or Parked()
        if member.id == self.leader:
            before = {one.id: one.assignment for one in self.members.values()}
            for one in self.members.values():
                one.assignment = assignments.get(one.id, b"")
            self.state = GroupState.STABLE
            try:
                self._keep(self, now_ms)
            except OSError:
                self.state = GroupState.COMPLETING
                for one in self.members.values():
                    one.assignment = before[one.id]
                raise
            for one in self.members.values():
                if one.syncing is not None:
                    self._end_sync(one, self._synced(one))
                    self._beat(one, now_ms)
        self._end_sync_phase()
        return parked

    def _end_sync_phase(self) -> None:
        if self.state is GroupState.STABLE and not self._unsynced:
            self._phase_due_ms = None

    def _synced(self, member: Member) -> SyncAnswer:
        return SyncAnswer(NONE, member.assignment, self.protocol_type, self.protocol)

    @staticmethod
    def _end_sync(member: Member, answer: SyncAnswer) -> None:
        parked, member.syncing = member.syncing, None
        if parked is not None:
            parked.give(answer)

    def heartbeat(self, member: Member, now_ms: int) -> int:
        """Let a member live on; return REBALANCE_IN_PROGRESS where it has to
        join, or to sync (H5, H7).
        """
        self._beat(member, now_ms)
        if self.state is GroupState.STABLE:
            return NONE
        quiet = self.state is GroupState.COMPLETING and self.rules.heartbeats_while_completing
        return NONE if quiet else REBALANCE_IN_PROGRESS

    # -- leaving -----------------------------------------------------------------------------------

    def leave(self, member_id: str, instance_id: str | None, now_ms: int) -> None:
        """Let a member go; a static one may be named by its instance id alone
        (H14). Raises Refused.
        """
        if self.pending.pop(member_id, None) is not None:
            if self.state is GroupState.PREPARING:
                self._prepare(now_ms)
            return
        if not member_id and instance_id is not None:
            static = self.static(instance_id)
            member_id = "" if static is None else static.id
        self._remove(self.find(member_id, instance_id), now_ms)

    def _remove(self, member: Member, now_ms: int) -> None:
        self._drop(member)
        self._prepare(now_ms)

    def _drop(self, member: Member) -> None:
        del self.members[member.id]
        self._unsynced.discard(member.id)
        self._fence(member, UNKNOWN_MEMBER_ID)
        if member.id == self.leader:
            self.leader = next(iter(self.members), None)

    @staticmethod
    def _fence(member: Member, code: int) -> None:
        """Answer what a member, or the process that had its place, still waits for."""
        joining, member.joining = member.joining, None
        if joining is not None:
            joining.give(JoinAnswer(member.id, code))
        ClassicGroup._end_sync(member, SyncAnswer(code))

    # -- time, moves -------------------------------------------------------------------------------

    @property
    def next_due_ms(self) -> int | None:
        """When a session, a phase or a pending id is over, at the earliest.

        Whoever heartbeats does not make it later: of a thousand members that would mean to look at
        all of them at each request. `expire` finds out when it really is.
        """
        if not self._due_known:
            due = [one.due_ms for one in self.members.values() if self._can_expire(one)]
            due += self.pending.values()
            if self._phase_due_ms is not None:
                due.append(self._phase_due_ms)
            self._due_ms, self._due_known = min(due, default=None), True
        return self._due_ms

    def _due_by(self, due_ms: int) -> None:
        if self._due_known and (self._due_ms is None or due_ms < self._due_ms):
            self._due_ms = due_ms

    def _beat(self, member: Member, now_ms: int) -> None:
        member.beat(now_ms)
        self._due_by(member.due_ms)

    @staticmethod
    def _can_expire(member: Member) -> bool:
        return (member.is_new and member.joining is not None) or not member.waits

    def expire(self, now_ms: int) -> None:
        """Do what is due by now."""
        self._due_known = False
        for member_id in [one for one, due_ms in self.pending.items() if due_ms <= now_ms]:
            del self.pending[member_id]
            if self.state is GroupState.PREPARING:
                self._prepare(now_ms)
        for member in list(self.members.values()):
            if self._can_expire(member) and member.due_ms <= now_ms and member.id in self.members:
                self._remove(member, now_ms)
        if self._phase_due_ms is None or self._phase_due_ms > now_ms:
            return
        if self.state is GroupState.PREPARING:
            self._join_phase_over(now_ms)
        else:
            self._phase_due_ms = None
            if self.rules.removes_unsynced and self._unsynced:
                for member_id in sorted(self._unsynced):
                    self._drop(self.members[member_id])
                self._prepare(now_ms)

    def let_go(self, code: int = NOT_COORDINATOR) -> None:
        """Answer all that wait: this broker coordinates the group no more (H19), or
        it changed its protocol.
        """
        for member in self.members.values():
            self._fence(member, code)
        self._due_known = False

    def expire_member(self, member_id: str, now_ms: int) -> None:
        """Take out a member as if its session had ended."""
        self._remove(self.members[member_id], now_ms)

    def rebalance(self, now_ms: int) -> None:
        """Ask all members to join again."""
        self._prepare(now_ms)


class MemberIdRequired(Refused):
    """A newcomer has to join again with the id that it is given (KIP-394)."""

    def __init__(self, member_id: str) -> None:
        super().__init__(MEMBER_ID_REQUIRED, "the member has to join with the id that it is given")
        self.member_id = member_id
