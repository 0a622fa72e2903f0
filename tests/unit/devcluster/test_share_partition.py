"""The records that a share group has in flight: as measured on 4.3.0, and whatever members do."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from parley.devcluster.state.groups.share.partition import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    Acquired,
    RecordLimits,
    SharePartition,
    Wish,
)
from parley.devcluster.state.groups.share.runs import RecordState
from parley.devcluster.state.refused import Refused
from parley.errors import codes

Offsets = tuple[int, int]


class Leader:
    """A share partition, a log of batches and a clock."""

    def __init__(self, *sizes: int, limits: RecordLimits | None = None) -> None:
        self.partition, self.now_ms = SharePartition(), 0
        self.partition.limits = limits or RecordLimits()
        self.partition.lead(0)
        self.partition.begin(0)
        self.batches: list[Offsets] = []
        for size in sizes:
            self.append(size)

    @property
    def end(self) -> int:
        return self.batches[-1][1] + 1 if self.batches else 0

    def append(self, size: int) -> None:
        self.batches.append((self.end, self.end + size - 1))

    def fetch(
        self, member: str = "A", most: int = 500, batch: int = 500, *, strict: bool = False,
        hidden: Sequence[Offsets] = (),
    ) -> list[Acquired]:  # fmt: skip
        offset = self.partition.fetch_offset()
        read = [] if offset is None else [one for one in self.batches if one[1] >= offset]
        return self.partition.acquire(Wish(member, most, batch, strict), read, hidden, self.now_ms)

    def say(self, member: str, first: int, last: int, *types: int, renews: bool = False) -> None:
        said = [Acknowledgement(first, last, types)]
        self.partition.acknowledge(member, said, renews=renews, now_ms=self.now_ms)

    def refused(self, member: str, first: int, last: int, *types: int, renews: bool = False) -> int:
        before = self.partition.runs
        with pytest.raises(Refused) as raised:
            self.say(member, first, last, *types, renews=renews)
        assert self.partition.runs == before
        return raised.value.code

    def later(self, ms: int) -> None:
        self.now_ms += ms
        self.partition.expire(self.now_ms)


def test_whole_batches_until_there_are_enough() -> None:
    leader = Leader(10, 10, 10)
    assert leader.fetch(most=5, batch=3) == [(0, 9, 1)]
    assert leader.fetch(most=15, batch=100) == [(10, 29, 1)]
    assert leader.fetch() == []
    leader.say("A", 2, 4, RELEASE)
    leader.say("A", 12, 12, RELEASE)
    assert leader.fetch(most=1) == [(2, 4, 2)]
    assert leader.fetch(most=5) == [(12, 12, 2)]


def test_kip_1206_never_more_records_than_asked_for() -> None:
    leader = Leader(10, 10)
    assert leader.fetch(most=5, batch=3, strict=True) == [(0, 4, 1)]
    assert leader.fetch(most=7, batch=3, strict=True) == [(5, 9, 1), (10, 11, 1)]
    assert leader.fetch(most=7, batch=100, strict=True) == [(12, 18, 1)]
    assert leader.fetch(most=7, batch=100, strict=True) == [(19, 19, 1)]


def test_what_was_delivered_often_comes_in_halves_and_then_alone() -> None:
    leader = Leader(16)
    rounds = []
    for _ in range(7):
        taken: list[Acquired] = []
        while found := leader.fetch():
            taken += found
        rounds.append([last - first + 1 for first, last, _ in taken])
        leader.partition.release("A")
    assert rounds == [[16], [16], [16], [8, 8], [1] * 16, [], []]
    assert leader.partition.start_offset == 16


def test_no_more_records_in_flight_than_allowed() -> None:
    leader = Leader(*[40] * 5, limits=RecordLimits(max_record_locks=100))
    assert leader.fetch() == [(0, 119, 1)]
    assert leader.partition.fetch_offset() is None
    leader.say("A", 0, 9, ACCEPT)
    leader.say("A", 50, 50, ACCEPT)
    leader.say("A", 60, 60, RELEASE)
    assert leader.fetch() == [(60, 60, 2)]
    leader.say("A", 10, 49, ACCEPT)
    assert leader.fetch() == [(120, 159, 1)]


def test_what_members_may_not_say() -> None:
    leader = Leader(7)
    leader.fetch()
    leader.say("A", 0, 0, ACCEPT)
    leader.say("A", 0, 0, ACCEPT)  # below the start: decided before
    assert leader.refused("B", 2, 2, ACCEPT) == codes.INVALID_RECORD_STATE
    assert leader.refused("A", 2, 2, 9) == codes.INVALID_REQUEST
    assert leader.refused("A", 2, 4, ACCEPT, ACCEPT) == codes.INVALID_REQUEST
    assert leader.refused("A", 4, 2, ACCEPT) == codes.INVALID_REQUEST
    assert leader.refused("A", 4, 4) == codes.INVALID_REQUEST
    assert leader.refused("A", 6, 9, ACCEPT) == codes.INVALID_REQUEST
    assert leader.refused("A", 2, 2, RENEW) == codes.INVALID_REQUEST
    leader.say("A", 3, 3, REJECT)
    assert leader.refused("A", 2, 4, ACCEPT, GAP, ACCEPT) == codes.INVALID_RECORD_STATE
    leader.say("A", 2, 2, RENEW, renews=True)
    leader.partition.limits = RecordLimits(renews=False)
    assert leader.refused("A", 2, 2, RENEW, renews=True) == codes.INVALID_RECORD_STATE


def test_a_lock_ends_and_a_renewed_one_later() -> None:
    leader = Leader(2)
    assert leader.fetch("A") == [(0, 1, 1)]
    leader.later(20_000)
    leader.say("A", 1, 1, RENEW, renews=True)
    leader.later(9_999)
    assert leader.fetch("B") == []
    leader.later(1)
    assert leader.fetch("B") == [(0, 0, 2)]
    leader.later(20_000)
    assert leader.fetch("B") == [(1, 1, 2)]


def test_read_committed_groups_never_see_aborted_records() -> None:
    leader = Leader(2, 4, 3, 1, 2)
    assert leader.fetch(hidden=[(6, 8)]) == [(0, 5, 1), (9, 11, 1)]
    leader.say("A", 0, 5, ACCEPT)
    assert leader.partition.start_offset == 9


def test_another_leader_finds_what_was_acquired_as_it_was_before() -> None:
    leader = Leader(6)
    leader.fetch()
    leader.say("A", 1, 1, ACCEPT)
    leader.say("A", 2, 2, RELEASE)
    assert leader.fetch("B") == [(2, 2, 2)]
    leader.partition.lead(1)
    assert leader.fetch("B") == [(0, 0, 1), (2, 2, 2), (3, 5, 1)]


def test_records_that_are_deleted_from_the_log_are_nobodys() -> None:
    leader = Leader(5, 5)
    leader.fetch(most=5)
    leader.partition.log_begins_at(3)
    leader.say("A", 0, 2, ACCEPT)
    assert (leader.partition.start_offset, leader.partition.next_offset) == (3, 5)
    leader.partition.log_begins_at(8)
    assert leader.fetch() == [(8, 9, 1)]


def test_a_gap_in_the_log_is_archived() -> None:
    leader = Leader()
    leader.batches = [(0, 1), (5, 6)]
    assert leader.fetch(batch=1) == [(0, 1, 1), (5, 6, 1)]
    leader.say("A", 0, 1, ACCEPT)
    assert leader.partition.start_offset == 5


MEMBERS = st.sampled_from("ABC")
LIMITS = RecordLimits(lock_duration_ms=100, delivery_count_limit=3, max_record_locks=20)


class InFlight(RuleBasedStateMachine):
    """Members that fetch, acknowledge, stay silent and vanish, beside a model of who has what."""

    def __init__(self) -> None:
        super().__init__()
        self.leader = Leader(limits=LIMITS)
        self.held: dict[int, str] = {}
        self.delivered: dict[int, int] = {}
        self.final: set[int] = set()
        self.lowest_start = 0

    def states(self) -> dict[int, RecordState]:
        runs = self.leader.partition.runs
        return {at: run.state for run in runs for at in range(run.first, run.last + 1)}

    def note(self) -> None:
        """Forget holders whose locks are over, as the partition has it;
        never the other way round.
        """
        runs = self.leader.partition.runs
        has = {at: run.member for run in runs for at in range(run.first, run.last + 1)}
        for offset, member in list(self.held.items()):
            if has.get(offset, "") != member:
                assert has.get(offset, "") == "", "a record went from one member to another"
                del self.held[offset]

    @rule(size=st.integers(1, 6))
    def append(self, size: int) -> None:
        self.leader.append(size)

    @rule(member=MEMBERS, most=st.integers(1, 9), batch=st.integers(1, 9), strict=st.booleans())
    def fetch(self, member: str, most: int, batch: int, strict: bool) -> None:
        taken = self.leader.fetch(member, most, batch, strict=strict)
        if strict:
            assert sum(last - first + 1 for first, last, _ in taken) <= most
        for first, last, deliveries in taken:
            for offset in range(first, last + 1):
                assert offset not in self.held, "acquired by two"
                assert offset not in self.final, "delivered after it was decided"
                assert deliveries <= LIMITS.delivery_count_limit
                assert deliveries == self.delivered.get(offset, 0) + 1
                self.held[offset], self.delivered[offset] = member, deliveries

    @precondition(lambda self: self.held)
    @rule(data=st.data(), kind=st.sampled_from([GAP, ACCEPT, RELEASE, REJECT, RENEW]))
    def acknowledge(self, data: st.DataObject, kind: int) -> None:
        offset = data.draw(st.sampled_from(sorted(self.held)))
        member, last = self.held[offset], offset
        while self.held.get(last + 1) == member and data.draw(st.booleans()):
            last += 1
        self.leader.say(member, offset, last, kind, renews=True)
        for at in range(offset, last + 1):
            if kind != RENEW:
                del self.held[at]
            if kind in (GAP, ACCEPT, REJECT):
                self.final.add(at)

    @rule(member=MEMBERS, ahead=st.integers(-2, 8), size=st.integers(1, 3))
    def acknowledge_what_is_not_theirs(self, member: str, ahead: int, size: int) -> None:
        start = self.leader.partition.start_offset
        first = max(0, start + ahead)
        end = first + size
        wanted = range(max(first, start), end)
        if all(self.held.get(at) == member for at in wanted):
            return
        self.leader.refused(member, first, end - 1, ACCEPT)

    @rule(member=MEMBERS)
    def lose_session(self, member: str) -> None:
        self.leader.partition.release(member)
        self.note()
        assert member not in self.held.values()

    @rule(ms=st.integers(1, 120))
    def wait(self, ms: int) -> None:
        self.leader.later(ms)
        self.note()

    @rule()
    def move_leader(self) -> None:
        partition = self.leader.partition
        partition.lead(partition.leader_epoch + 1)
        for offset in self.held:
            self.delivered[offset] -= 1
        self.held.clear()

    @rule()
    def restart(self) -> None:
        before = self.leader.partition
        self.leader.partition = SharePartition(before.saved)
        self.leader.partition.limits = LIMITS
        self.leader.partition.lead(before.leader_epoch)
        for offset in self.held:
            self.delivered[offset] -= 1
        self.held.clear()

    @rule(by=st.integers(1, 4))
    def delete_records(self, by: int) -> None:
        start = min(self.leader.partition.start_offset + by, self.leader.end)
        self.leader.partition.log_begins_at(start)
        for offset in [at for at in self.held if at < start]:
            del self.held[offset]

    @invariant()
    def every_record_is_in_one_state(self) -> None:
        partition = self.leader.partition
        at = partition.start_offset
        for run in partition.runs:
            assert run.first == at
            assert run.last >= run.first
            at = run.last + 1
        assert at == partition.next_offset
        states = self.states()
        assert {o for o, state in states.items() if state is RecordState.ACQUIRED} == set(self.held)
        for offset in self.final:
            assert offset < partition.start_offset or states[offset].is_final

    @invariant()
    def the_start_never_falls(self) -> None:
        start = self.leader.partition.start_offset
        assert start >= self.lowest_start
        self.lowest_start = start

    @invariant()
    def limits_are_kept(self) -> None:
        partition = self.leader.partition
        assert partition.next_offset - partition.start_offset < LIMITS.max_record_locks + 9 + 6
        assert all(run.deliveries <= LIMITS.delivery_count_limit for run in partition.runs)
        due = [run.due_ms for run in partition.runs if run.state is RecordState.ACQUIRED]
        assert partition.next_due_ms == min(due, default=None)


TestInFlight = InFlight.TestCase
TestInFlight.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
