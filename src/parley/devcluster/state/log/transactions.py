"""The transactions on a partition (KIP-98): open, aborted, and how far all are decided.

Rules of this file:
1. All of it follows from the batches of the log, so that every replica has it and a truncation can
   rebuild it.
2. A transaction that has ended holds the last stable offset until its marker is below the high
   watermark.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from typing import NamedTuple

from parley.devcluster.state.log.batches import BatchFacts
from parley.records import layout


class EndedTransaction(NamedTuple):
    """A transaction with its marker: where it begins, and where the marker lies."""

    first_offset: int
    last_offset: int


class AbortedTransaction(NamedTuple):
    """An entry of the index of aborted transactions.

    `last_stable_offset` is what it became with the marker: no later entry can concern a reader
    below it.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class PartitionTransactions:
    """Open, ended and aborted transactions of one log."""

    def __init__(self) -> None:
        # producer id: first offset; offsets only rise, so the first is the lowest
        self._open: dict[int, int] = {}
        self._ended: list[EndedTransaction] = []
        self._aborted: list[AbortedTransaction] = []

    def note(self, batch: BatchFacts) -> None:
        """Take in a batch that was appended."""
        if not batch.is_transactional:
            return
        if not batch.is_control:
            self._open.setdefault(batch.producer_id, batch.base_offset)
            return
        first = self._open.pop(batch.producer_id, None)
        if first is None:  # a marker of a producer that wrote nothing here decides nothing
            return
        self._ended.append(EndedTransaction(first, batch.last_offset))
        if batch.control_type == layout.ABORT:
            stable = next(iter(self._open.values()), batch.last_offset + 1)
            self._aborted.append(
                AbortedTransaction(batch.producer_id, first, batch.last_offset, stable)
            )

    def first_offset(self, producer_id: int) -> int | None:
        """Return where a producer's open transaction begins, or None."""
        return self._open.get(producer_id)

    def first_unstable(self, high_watermark: int) -> int | None:
        """Return the first offset undecided, or whose decision may be lost; None if none is."""
        if self._ended and self._ended[0].last_offset < high_watermark:
            self._ended = [ended for ended in self._ended if ended.last_offset >= high_watermark]
        lowest = next(iter(self._open.values()), None)
        if self._ended:
            waiting = min(ended.first_offset for ended in self._ended)
            return waiting if lowest is None else min(waiting, lowest)
        return lowest

    def aborted_within(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that a reader of offsets leaves out, by markers."""
        found = []
        at = bisect_left(self._aborted, start_offset, key=lambda entry: entry.last_offset)
        for entry in self._aborted[at:]:
            if entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                break
        return found

    def aborted_before(self, offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that begin below an offset."""
        return [entry for entry in self._aborted if entry.first_offset < offset]

    def cleaned(self, bound: int, met: Collection[AbortedTransaction]) -> None:
        """Forget the aborted transactions below `bound` but those met: their records are gone, and
        a marker that went as well could end them no more.
        """
        self._aborted = [
            entry for entry in self._aborted if entry.last_offset >= bound or entry in met
        ]
