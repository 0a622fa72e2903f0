"""The members of a group of the consumer protocol, and what their epochs
allow (KIP-848, KIP-1251).
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from parley.devcluster.state.groups.modern.assignors import Part
from parley.devcluster.state.refused import Refused
from parley.errors.codes import FENCED_MEMBER_EPOCH, ILLEGAL_GENERATION, STALE_MEMBER_EPOCH

JOINING, LEAVING, LEAVING_FOR_A_WHILE = 0, -1, -2
"""Member epochs that say what a member wants. The last is a static member's that comes back."""


class MemberState(enum.Enum):
    """Where a member stands between what it owns and its target; the values are
    those of Kafka's records.
    """

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It was asked to give partitions up and has not said yet that it did;
    its epoch waits for that.
    """
    UNRELEASED_PARTITIONS = 2
    """It has the target's epoch and waits for partitions that others have not given up yet."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member said of itself when it joined, or since."""

    instance_id: str | None = None
    rack: str | None = None
    topics: frozenset[str] = frozenset()
    regex: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a member owns at the coordinator: `owned` it was given, `revoking`
    it has to give up first.
    """

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    owned: frozenset[Part] = frozenset()
    revoking: frozenset[Part] = frozenset()

    @property
    def held(self) -> frozenset[Part]:
        """The partitions that nobody else may be given."""
        return self.owned | self.revoking


@dataclass(frozen=True, slots=True)
class ClassicWords:
    """What a member of the classic protocol said when it joined (H24)."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """The assignors that it supports, with its subscription as each of them has it."""

    @property
    def supported(self) -> frozenset[str]:
        """The names of its protocols."""
        return frozenset(name for name, _ in self.protocols)


@dataclass(slots=True)
class Member:
    """One member: its words, its assignment, its deadlines."""

    id: str
    subscription: Subscription
    assignment: Assignment = field(default_factory=Assignment)
    since: dict[Part, int] = field(default_factory=dict)
    """The member epoch at which each owned partition was given to it."""
    matched: frozenset[str] = frozenset()
    """The topics that its regular expression matched when they were last looked through."""
    session_due_ms: int = 0
    revoke_due_ms: int | None = None
    """When it must have given up what it was asked to; None while it was asked for nothing."""
    classic: ClassicWords | None = None
    """Present for a member that speaks the classic protocol: the group answers its
    JoinGroup and SyncGroup.
    """
    join_due_ms: int | None = None
    """When such a member must have joined again, after a heartbeat that asked it to."""
    sync_due_ms: int | None = None
    """When such a member must have synced, after it joined."""

    @property
    def is_away(self) -> bool:
        """Whether it is a static member that left for a while."""
        return self.assignment.epoch == LEAVING_FOR_A_WHILE

    @property
    def wanted_topics(self) -> frozenset[str]:
        """The names of all topics it subscribes to."""
        return self.subscription.topics | self.matched

    def assign(self, assignment: Assignment) -> None:
        """Take an assignment over, and remember since when each partition is the member's."""
        self.since = {part: self.since.get(part, assignment.epoch) for part in assignment.owned}
        self.assignment = assignment

    def speaks_consumer(self) -> None:
        """Note that it speaks the consumer protocol, whoever had its place before."""
        self.classic = self.join_due_ms = self.sync_due_ms = None

    @property
    def due_ms(self) -> int:
        """When it will have been silent, or slow, for too long."""
        others = (self.revoke_due_ms, self.join_due_ms, self.sync_due_ms)
        return min([self.session_due_ms, *(due_ms for due_ms in others if due_ms is not None)])

    def leave_for_a_while(self) -> None:
        """Keep everything for the process that comes back with the same instance id."""
        self.assignment = replace(self.assignment, epoch=LEAVING_FOR_A_WHILE, revoking=frozenset())
        self.revoke_due_ms = None

    def check_epoch(self, group: str, epoch: int, owned: Collection[Part] | None) -> None:
        """Raise Refused (FENCED_MEMBER_EPOCH) for a heartbeat with another epoch than the member's
        (H25).

        The previous epoch is allowed to a member that owns nothing beyond its assignment: the
        answer that raised its epoch was lost.
        """
        known = self.assignment
        if epoch > known.epoch:
            raise _fenced(group, self, epoch, "greater")
        missed = epoch == known.previous_epoch and owned is not None and known.owned >= set(owned)
        if epoch < known.epoch and not missed:
            raise _fenced(group, self, epoch, "smaller")

    def check_commit(
        self, group: str, epoch: int, part: Part | None, *, per_partition: bool
    ) -> None:
        """Raise Refused for offsets of another epoch than the member's (G57): STALE_MEMBER_EPOCH.

        For a member of the classic protocol, whose generation the epoch is: ILLEGAL_GENERATION.
        `per_partition` (4.3, KIP-1251): an older epoch may commit for a partition that the member
        has had since then or longer.
        """
        known = self.assignment.epoch
        if epoch == known or (
            per_partition
            and epoch < known
            and part is not None
            and self.since.get(part, known) <= epoch
        ):
            return
        text = (
            f"member {self.id} of group {group} has epoch {known}; the offset was committed with "
            f"epoch {epoch}"
        )
        raise Refused(STALE_MEMBER_EPOCH if self.classic is None else ILLEGAL_GENERATION, text)


def _fenced(group: str, member: Member, epoch: int, how: str) -> Refused:
    text = (
        f"member {member.id} of group {group} has a {how} member epoch ({epoch}) than the "
        "coordinator knows "
        f"({member.assignment.epoch}). It must give up its partitions and join again"
    )
    return Refused(FENCED_MEMBER_EPOCH, text)
