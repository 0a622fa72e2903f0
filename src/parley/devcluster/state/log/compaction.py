"""What compaction leaves of a log: for each key the newest record, at its offset.

It is Kafka's log cleaner, without the log: stored batches come in, what stays of each comes out.

Rules of this file:
1. Nothing at or behind `bound` is looked at. Of what lies in front of it a record goes when it has
   no key, when the dirty part has a later one of its key, or when it is a tombstone whose time has
   come. No record ever moves.
2. A tombstone is kept for a time in which readers see it. From 3.1 on the batch says until when
   (KIP-534): the first round that meets it dates it. Before, and in formats 0 and 1, it stays until
   its segment is older than the clean part by that time.
3. Records of aborted transactions go at once. The marker of a transaction goes like a tombstone,
   once nothing of the transaction is left.
4. The last batch of each producer stays, without its records if need be: it says which sequence
   comes next. From 4.0 on the last batch of a round stays as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from parley.devcluster.state.log.batches import BatchFacts, read_facts
from parley.devcluster.state.log.transactions import AbortedTransaction
from parley.records import delete_horizon, emptied, keyed_rows, layout, retain


@dataclass(frozen=True, slots=True)
class CleanerRules:
    """What releases differ in: rules 2 and 4."""

    dates_tombstones: bool = True
    keeps_last_batch: bool = True


NEWEST_CLEANER = CleanerRules()


class Stored(NamedTuple):
    """A batch as it lies in a log."""

    facts: BatchFacts
    data: memoryview

    @property
    def next_offset(self) -> int:
        """The offset behind its last one."""
        return self.facts.last_offset + 1

    @property
    def offsets(self) -> range:
        """The offsets of a batch of magic 2."""
        return range(self.facts.base_offset, self.next_offset)


class Kept(NamedTuple):
    """What stays of a batch."""

    facts: BatchFacts
    data: memoryview | bytes


class LastOfProducer(NamedTuple):
    """The offset of a producer's last record, None where only a marker is left; and its epoch."""

    offset: int | None
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One cleaning of one log: all in front of `bound`, of which `first_dirty` on is new.

    `is_whole`: nothing lies behind the bound, so that the last batch has to stay.
    `undated_until_ms`: tombstones without a date go where their segment was last written by then;
    None lets them stay.
    """

    first_dirty: int
    bound: int
    now_ms: int
    delete_retention_ms: int
    undated_until_ms: int | None = None
    is_whole: bool = False
    producers: Mapping[int, LastOfProducer] = field(default_factory=dict)
    aborted: Sequence[AbortedTransaction] = ()
    rules: CleanerRules = NEWEST_CLEANER


def newest_offsets(dirty: Iterable[Stored], todo: Round) -> dict[bytes, int]:
    """Return where each key of the dirty part stands last. Aborted records do not count."""
    found: dict[bytes, int] = {}
    transactions = _Transactions(todo.aborted)
    for batch in dirty:
        if batch.facts.is_control:
            transactions.is_over(batch.facts)
        elif not transactions.is_aborted(batch.facts):
            for row in keyed_rows(batch.data):
                if row.key is not None and row.offset >= todo.first_dirty:
                    found[row.key] = row.offset
    return found


class Compaction:
    """One round over a log's batches, in their order. `newest` are the keys of its dirty part.

    `records_gone` counts what went so far, markers left out.
    """

    def __init__(self, todo: Round, newest: Mapping[bytes, int]) -> None:
        self._todo, self._newest = todo, newest
        self._transactions = _Transactions(todo.aborted)
        self.records_gone = 0

    @property
    def aborted(self) -> list[AbortedTransaction]:
        """The aborted transactions of which readers must still know: batches were met."""
        return self._transactions.met

    def clean(self, batch: Stored, written_ms: int) -> Kept | None:
        """Return what stays of a batch, None where nothing does; its segment was last written at
        `written_ms`.
        """
        facts = batch.facts
        dated_ms = delete_horizon(batch.data) if facts.magic == 2 else None
        is_past = self._is_past(facts, dated_ms, written_ms)
        if facts.is_control:
            return self._of_marker(batch, is_past, is_dated=dated_ms is not None)
        if self._transactions.is_aborted(facts):
            self.records_gone += facts.record_count
            return self._without_records(batch)
        return self._of_records(batch, is_past, is_dated=dated_ms is not None)

    def _is_past(self, facts: BatchFacts, dated_ms: int | None, written_ms: int) -> bool:
        """Whether tombstones and markers of a batch have been there for long enough."""
        todo = self._todo
        if facts.magic < 2 or not todo.rules.dates_tombstones:
            return todo.undated_until_ms is not None and written_ms <= todo.undated_until_ms
        return dated_ms is not None and dated_ms <= todo.now_ms

    def _of_marker(self, batch: Stored, is_past: bool, *, is_dated: bool) -> Kept | None:
        if not self._transactions.is_over(batch.facts):
            return Kept(*batch)
        if is_past:
            return self._without_records(batch)
        if is_dated or not self._todo.rules.dates_tombstones or not batch.facts.record_count:
            return Kept(*batch)
        return _kept(retain(batch.data, batch.offsets, self._horizon_ms))

    def _of_records(self, batch: Stored, is_past: bool, *, is_dated: bool) -> Kept | None:
        facts, offsets, gone, has_tombstone = batch.facts, set[int](), 0, False
        for row in keyed_rows(batch.data):
            if (
                row.key is None
                or row.offset < self._newest.get(row.key, -1)
                or (is_past and not row.has_value)
            ):
                gone += 1
                continue
            offsets.add(row.offset)
            has_tombstone = has_tombstone or not row.has_value
        if not offsets and facts.magic < 2 and self._ends_log(batch):
            offsets, gone = {facts.last_offset}, gone - 1  # a message cannot be there without one
        self.records_gone += gone
        if not offsets:
            return self._without_records(batch)
        dates = has_tombstone and not is_dated and facts.magic == 2
        if dates and self._todo.rules.dates_tombstones:
            return _kept(retain(batch.data, offsets, self._horizon_ms))
        return _kept(retain(batch.data, offsets)) if gone else Kept(*batch)

    @property
    def _horizon_ms(self) -> int:
        return self._todo.now_ms + self._todo.delete_retention_ms

    def _without_records(self, batch: Stored) -> Kept | None:
        """Keep a batch empty, where it has to stay."""
        facts = batch.facts
        ends_round = self._todo.rules.keeps_last_batch and batch.next_offset == self._todo.bound
        stays = ends_round or self._ends_log(batch) or self._is_last_of_producer(facts)
        if facts.magic < 2 or not stays:
            return None
        return _kept(emptied(batch.data)) if facts.record_count else Kept(*batch)

    def _ends_log(self, batch: Stored) -> bool:
        return self._todo.is_whole and batch.next_offset == self._todo.bound

    def _is_last_of_producer(self, facts: BatchFacts) -> bool:
        last = self._todo.producers.get(facts.producer_id)
        if last is None:
            return False
        if last.offset is None:
            return facts.is_control and facts.producer_epoch == last.epoch
        return facts.last_offset == last.offset


def _kept(data: bytes) -> Kept:
    facts = read_facts(data)
    assert facts is not None  # it was written just now
    return Kept(facts, data)


class _Transactions:
    """Which batches belong to aborted transactions, and which markers nothing needs any more."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._waiting = deque(sorted(aborted, key=lambda one: one.first_offset))
        self._open: dict[int, AbortedTransaction] = {}
        self._met: set[int] = set()
        self._committed: set[int] = set()
        self.met: list[AbortedTransaction] = []

    def is_aborted(self, facts: BatchFacts) -> bool:
        """Whether a batch of records was aborted; called for each, in their order."""
        if not facts.is_transactional:
            return False
        self._open_up_to(facts.last_offset)
        if facts.producer_id in self._open:
            self._met.add(facts.producer_id)
            return True
        self._committed.add(facts.producer_id)
        return False

    def is_over(self, facts: BatchFacts) -> bool:
        """Whether nothing of a marker's transaction was met; called for each, in their order."""
        self._open_up_to(facts.last_offset)
        if not facts.record_count:
            return True
        if facts.control_type == layout.ABORT:
            aborted = self._open.pop(facts.producer_id, None)
            if aborted is None or facts.producer_id not in self._met:
                return True
            self._met.discard(facts.producer_id)
            self.met.append(aborted)
            return False
        if facts.control_type != layout.COMMIT:
            return False
        was_met = facts.producer_id in self._committed
        self._committed.discard(facts.producer_id)
        return not was_met

    def _open_up_to(self, offset: int) -> None:
        while self._waiting and self._waiting[0].first_offset <= offset:
            one = self._waiting.popleft()
            self._open.setdefault(one.producer_id, one)
