"""A share partition at its leader: which records are in flight, who has them, what becomes of them.

Rules of this file:
1. From the start offset to the next offset every record is in exactly one state (`runs`). What lies
   below the start was accepted or archived; it never comes back, and the start never falls.
2. A record is acquired by one member at a time, until it acknowledges, its lock is over, or its
   session ends. Each acquisition counts as a delivery; with the last allowed one it is archived.
3. An acknowledgement of several ranges counts whole or not at all.
4. Records that were delivered often are handed out in ever smaller pieces, for one of them may be
   what members fail on: halves, quarters, and alone at the last attempt.
5. What is acquired is lost with the leader: the next one finds it available, as it was before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from parley.devcluster.state.groups.share.runs import RecordState, Run, changed, merged
from parley.devcluster.state.refused import Refused
from parley.errors.codes import INVALID_RECORD_STATE, INVALID_REQUEST

GAP, ACCEPT, RELEASE, REJECT, RENEW = 0, 1, 2, 3, 4
"""What an acknowledgement says of a record (AcknowledgeType, and 0 for an offset without one)."""
UNKNOWN_START = -1
NOT_ACQUIRED = "The offset cannot be acknowledged. The offset is not acquired."
NOT_OWNER = "Member is not the owner of offset"
NO_RENEWALS = "Renewing acquisition locks is not enabled for the group."


class RecordLimits(NamedTuple):
    """What a group's settings allow. Milliseconds, and numbers of records."""

    lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    max_record_locks: int = 2_000
    renews: bool = True


class Wish(NamedTuple):
    """What a member asks for. `strict`: never more than `max_records` (KIP-1206)."""

    member: str
    max_records: int
    batch_size: int
    strict: bool = False


class Acquired(NamedTuple):
    """A range that a member was given, and its number of deliveries with this one."""

    first: int
    last: int
    deliveries: int


class Acknowledgement(NamedTuple):
    """A range and what is said of it: one type for all, or one for each offset."""

    first: int
    last: int
    types: Sequence[int]


class Saved(NamedTuple):
    """Everything that a restart must find again."""

    start_offset: int
    next_offset: int
    runs: list[Run]


class SharePartition:
    """The records of one partition that one group has in flight. `on_change`:
    some may be available now.
    """

    def __init__(self, saved: Saved | None = None) -> None:
        self.start_offset, self.next_offset, self.runs = saved or Saved(
            UNKNOWN_START, UNKNOWN_START, []
        )
        self.limits = RecordLimits()
        self.leader_epoch = -1
        self.next_due_ms: int | None = None
        self.on_change: list[Callable[[], None]] = []

    @property
    def is_begun(self) -> bool:
        """Whether it is known where the group begins."""
        return self.start_offset != UNKNOWN_START

    @property
    def done(self) -> int:
        """How many records behind the start offset are accepted or archived."""
        return sum(run.size for run in self.runs if run.state.is_final)

    @property
    def saved(self) -> Saved:
        """What is left of it without the locks (rule 5)."""
        kept = merged(_unlocked(run) for run in self.runs)
        while kept and kept[-1].state is RecordState.AVAILABLE and not kept[-1].deliveries:
            kept.pop()  # never delivered, as far as anybody will know
        end = kept[-1].last + 1 if kept else self.start_offset
        return Saved(self.start_offset, end, kept)

    def begin(self, offset: int) -> None:
        """Begin at an offset; nothing is in flight."""
        self.start_offset = self.next_offset = offset
        self._settle([])

    def lead(self, leader_epoch: int) -> None:
        """Take note of who leads: with a new epoch all locks are over (rule 5)."""
        if leader_epoch != self.leader_epoch:
            if self.leader_epoch >= 0:
                self.go_back_to(self.saved)
            self.leader_epoch = leader_epoch

    def go_back_to(self, saved: Saved) -> None:
        """Be as saved; nothing is acquired."""
        self.start_offset, self.next_offset, runs = saved
        self._settle(list(runs))

    def log_begins_at(self, offset: int) -> bool:
        """Take note that the log has nothing below `offset`; return whether
        that changes anything.
        """
        if not self.is_begun or offset <= self.start_offset:
            return False
        runs = changed(self.runs, self.start_offset, offset - 1, _archived)
        self.start_offset = offset
        self.next_offset = max(self.next_offset, offset)
        self._settle([run for run in runs if run.first >= offset])
        return True

    # -- acquiring ------------------------------------------------------------------------------

    def fetch_offset(self) -> int | None:
        """Return from where to read for the next member; None while too many
        records are in flight.
        """
        for run in self.runs:
            if run.state is RecordState.AVAILABLE:
                return run.first
        return self.next_offset if self._room > 0 else None

    @property
    def _room(self) -> int:
        """How many more records may be in flight."""
        return self.limits.max_record_locks - (self.next_offset - self.start_offset)

    def acquire(
        self,
        wish: Wish,
        batches: Sequence[tuple[int, int]],
        hidden: Sequence[tuple[int, int]],
        now_ms: int,
    ) -> list[Acquired]:
        """Give a member records of `batches`, first and last offsets as they were read.

        Records that a read_committed group must not see are `hidden`: they are archived.
        """
        if not batches or wish.max_records <= 0:
            return []
        lock = (wish.member, now_ms + self.limits.lock_duration_ms)
        taken = list(self._available(wish, batches[0][0], batches[-1][1]))
        left = wish.max_records - sum(last - first + 1 for first, last in taken)
        runs = self.runs
        if left > 0 and not self._throttles(taken):
            runs = self._with_new(wish, batches, left, taken)
        for first, last in taken:
            runs = changed(runs, first, last, lambda run: _locked(run, *lock))
        for first, last in hidden:
            runs = changed(runs, first, last, lambda run: _hidden(run, *lock))
        self._settle(runs)
        mine = [run for run in runs if (run.member, run.due_ms) == lock]
        return [
            Acquired(max(first, run.first), min(last, run.last), run.deliveries)
            for first, last in taken
            for run in mine
            if run.first <= last and run.last >= first
        ]

    def _available(self, wish: Wish, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield what is available in a range, as far as wished."""
        left = wish.max_records
        batch: tuple[int, int] | None = None
        for run in self.runs:
            if run.state is not RecordState.AVAILABLE or run.last < first or run.first > last:
                continue
            if left <= 0 and (wish.strict or run.batch != batch):
                return
            begin, end = max(run.first, first), min(run.last, last)
            piece = self._piece(run)
            if piece is not None:
                if batch is not None:
                    return
                end = min(end, begin + piece - 1)
            if wish.strict:
                end = min(end, begin + left - 1)
            yield begin, end
            if piece is not None:
                return
            batch = run.batch
            left -= end - begin + 1

    def _piece(self, run: Run) -> int | None:
        """Return how much of a run is handed out at once; None for all of it (rule 4)."""
        limit = self.limits.delivery_count_limit
        often = -(-limit // 2)
        if run.deliveries < often or not run.deliveries:
            return None
        if run.deliveries >= limit - 1:
            return 1
        size = run.batch[1] - run.batch[0] + 1
        return max(1, size >> (run.deliveries - often + 1))

    def _throttles(self, taken: Sequence[tuple[int, int]]) -> bool:
        """Whether what was taken must go alone (rule 4)."""
        return any(
            self._piece(run) is not None
            for run in self.runs
            if taken and run.first <= taken[0][0] <= run.last
        )

    def _with_new(
        self,
        wish: Wish,
        batches: Sequence[tuple[int, int]],
        left: int,
        taken: list[tuple[int, int]],
    ) -> list[Run]:
        """Return the runs with records that were never in flight, which `taken` has then too."""
        runs, most = list(self.runs), min(left, self._room)
        begin, size = self.next_offset, 0
        for first, last in batches:
            if last < self.next_offset:
                continue
            if most <= 0:
                break
            if first > self.next_offset:  # the log has a gap
                gap = (self.next_offset, first - 1)
                if not size:
                    runs.append(Run(*gap, RecordState.ARCHIVED, 0, gap))
                    begin = first
                else:
                    size += first - self.next_offset
            end = min(last, max(first, self.next_offset) + most - 1) if wish.strict else last
            added = end - max(first, self.next_offset) + 1
            size, most, self.next_offset = size + added, most - added, end + 1
            if size >= wish.batch_size:
                runs.append(_new(begin, end))
                taken.append((begin, end))
                begin, size = end + 1, 0
        if size:
            runs.append(_new(begin, self.next_offset - 1))
            taken.append((begin, self.next_offset - 1))
        return runs

    # -- giving back ----------------------------------------------------------------------------

    def acknowledge(
        self, member: str, said: Sequence[Acknowledgement], *, renews: bool, now_ms: int
    ) -> None:
        """Take a member's word on records that it holds.

        Raises Refused, after which nothing has changed: INVALID_REQUEST for what no member may say,
        INVALID_RECORD_STATE for records that are not the member's, or not any more.
        """
        check_form(said, renews=renews)
        if not self.limits.renews and any(RENEW in ack.types for ack in said):
            raise Refused(INVALID_RECORD_STATE, NO_RENEWALS)
        runs: Sequence[Run] = self.runs
        for ack in said:
            if ack.last < self.start_offset:
                continue  # decided already
            if ack.last >= self.next_offset:
                text = "The last offset in the request is past acquired records."
                raise Refused(INVALID_REQUEST, text)
            for first, last, kind in _spans(ack):
                if last >= self.start_offset:
                    due_ms = now_ms + self.limits.lock_duration_ms

                    def change(run: Run, kind: int = kind, due_ms: int = due_ms) -> Run:
                        return self._acknowledged(run, member, kind, due_ms)

                    runs = changed(runs, max(first, self.start_offset), last, change)
        self._settle(runs)

    def _acknowledged(self, run: Run, member: str, kind: int, due_ms: int) -> Run:
        if run.state is not RecordState.ACQUIRED:
            raise Refused(INVALID_RECORD_STATE, NOT_ACQUIRED)
        if run.member != member:
            raise Refused(INVALID_RECORD_STATE, NOT_OWNER)
        if kind == RENEW:
            return run._replace(due_ms=due_ms)
        if kind == RELEASE:
            return self._released(run)
        return run.free(RecordState.ACKNOWLEDGED if kind == ACCEPT else RecordState.ARCHIVED)

    def _released(self, run: Run) -> Run:
        ends = run.deliveries >= self.limits.delivery_count_limit
        return run.free(RecordState.ARCHIVED if ends else RecordState.AVAILABLE)

    def release(self, member: str) -> bool:
        """Take everything from a member; return whether it had something."""
        return self._release(lambda run: run.member == member)

    def expire(self, now_ms: int) -> bool:
        """End the locks whose time is over; return whether there were some."""
        if self.next_due_ms is None or self.next_due_ms > now_ms:
            return False
        return self._release(lambda run: run.due_ms <= now_ms)

    def _release(self, wanted: Callable[[Run], bool]) -> bool:
        found = [run.state is RecordState.ACQUIRED and wanted(run) for run in self.runs]
        if any(found):
            pairs = zip(self.runs, found, strict=True)
            self._settle([self._released(run) if over else run for run, over in pairs])
        return any(found)

    def _settle(self, runs: Sequence[Run]) -> None:
        """Take runs over: the start goes on over what is final, and who waits hears of it."""
        kept = merged(runs)
        final = 0
        while final < len(kept) and kept[final].state.is_final:
            self.start_offset = kept[final].last + 1
            final += 1
        self.runs = kept[final:]
        due = [run.due_ms for run in self.runs if run.state is RecordState.ACQUIRED]
        self.next_due_ms = min(due, default=None)
        for callback in tuple(self.on_change):
            callback()


def check_form(said: Sequence[Acknowledgement], *, renews: bool) -> None:
    """Raise Refused (INVALID_REQUEST) for acknowledgements that no member may send."""
    known = range(GAP, RENEW + 1 if renews else RENEW)
    last = -1
    for ack in said:
        count = ack.last - ack.first + 1
        if count < 1 or len(ack.types) not in (1, count) or ack.first < last:
            raise Refused(INVALID_REQUEST, None)
        if any(kind not in known for kind in ack.types):
            raise Refused(INVALID_REQUEST, None)
        last = ack.last


def _spans(ack: Acknowledgement) -> Iterator[tuple[int, int, int]]:
    """Yield the ranges of one type each."""
    if len(ack.types) == 1:
        yield ack.first, ack.last, ack.types[0]
        return
    for kind, offsets in groupby(
        range(ack.first, ack.last + 1), lambda at: ack.types[at - ack.first]
    ):
        several = list(offsets)
        yield several[0], several[-1], kind


def _new(first: int, last: int) -> Run:
    return Run(first, last, RecordState.AVAILABLE, 0, (first, last))


def _locked(run: Run, member: str, due_ms: int) -> Run:
    state = RecordState.ACQUIRED
    return run._replace(state=state, deliveries=run.deliveries + 1, member=member, due_ms=due_ms)


def _hidden(run: Run, member: str, due_ms: int) -> Run:
    return _archived(run) if (run.member, run.due_ms) == (member, due_ms) else run


def _archived(run: Run) -> Run:
    return run.free(RecordState.ARCHIVED)


def _unlocked(run: Run) -> Run:
    """Return a run as it was before it was acquired."""
    if run.state is not RecordState.ACQUIRED:
        return run
    return run.free(RecordState.AVAILABLE)._replace(deliveries=run.deliveries - 1)
