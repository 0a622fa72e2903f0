"""One segment of a log: its bytes and an index with one entry per batch."""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence

from parley.devcluster.state.log.batches import BatchFacts, Bytes, walk
from parley.devcluster.state.log.bytestore import ByteStore, Part

log = logging.getLogger("parley.devcluster")

NO_TIMESTAMP = -1
CUT_OFF = "is cut off, or its header is damaged"
WRONG_CRC = "has another CRC than its header says"
WRONG_OFFSETS = "has offsets that do not follow those before it"
WINDOW_BYTES = 4 * 1024 * 1024


class Segment:
    """Batches from `base_offset` on, found by offset, by position and by time.

    The index is four flat arrays, one entry per batch: 32 bytes for what is usually 16 KiB of
    records, so it is dense, unlike Kafka's, and needs no file of its own.
    """

    __slots__ = (
        "_bases", "_ends", "_lasts", "_times", "base_offset", "begun_ms", "last_append_ms", "store",
    )  # fmt: skip

    def __init__(self, base_offset: int, store: ByteStore) -> None:
        self.base_offset = base_offset
        self.store = store
        self.begun_ms = NO_TIMESTAMP
        self.last_append_ms = NO_TIMESTAMP
        self._bases = array("q")  # first offset of each batch
        self._lasts = array("q")  # last offset
        self._ends = array("q")  # position behind the batch
        # largest timestamp up to and including the batch, so that it never falls
        self._times = array("q")

    def __len__(self) -> int:
        return len(self._bases)

    @property
    def size(self) -> int:
        """Bytes held."""
        return self.store.size

    @property
    def end_offset(self) -> int:
        """The offset behind the last batch."""
        return self._lasts[-1] + 1 if self._lasts else self.base_offset

    @property
    def max_timestamp_ms(self) -> int:
        """The largest timestamp held, or -1."""
        return self._times[-1] if self._times else NO_TIMESTAMP

    @property
    def first_timestamp_ms(self) -> int:
        """The largest timestamp of the first batch, or -1."""
        return self._times[0] if self._times else NO_TIMESTAMP

    @property
    def written_ms(self) -> int:
        """When it was written last; by its records, where that is not known any more."""
        return self.last_append_ms if self.last_append_ms >= 0 else self.max_timestamp_ms

    def age_ms(self, run: Sequence[BatchFacts], now_ms: int) -> int:
        """Return how far what comes next is from its beginning: by the records' time if they have
        one, as brokers do since 0.10.1.
        """
        if not self._times:
            return 0
        if self._times[0] >= 0:
            return max(facts.max_timestamp_ms for facts in run) - self._times[0]
        return now_ms - self.begun_ms if self.begun_ms >= 0 else 0

    def append(self, run: Sequence[BatchFacts], base_offset: int, part: Part) -> Part:
        """Append batches that lie in one piece, the first of them beginning at `base_offset`.

        Returns what followers may share. Raises OSError and changes nothing then.
        """
        end = self.store.size
        shared = self.store.append(part)
        for facts in run:
            end += facts.size
            self._index(facts, facts.base_offset if facts.magic == 2 else base_offset, end)
            base_offset = facts.last_offset + 1
        return shared

    def _index(self, facts: BatchFacts, base_offset: int, end: int) -> None:
        self._bases.append(base_offset)
        self._lasts.append(facts.last_offset)
        self._ends.append(end)
        self._times.append(max(facts.max_timestamp_ms, self.max_timestamp_ms))

    def first_batch_reaching(self, offset: int) -> int:
        """Return the number of the first batch whose last offset is at `offset` or behind it."""
        return bisect_left(self._lasts, offset)

    def first_batch_at_time(self, timestamp_ms: int) -> int:
        """Return the number of the first batch with a record at `timestamp_ms` or later."""
        return bisect_left(self._times, timestamp_ms)

    def base_of(self, batch: int) -> int:
        """Return the first offset of a batch."""
        return self._bases[batch]

    def last_of(self, batch: int) -> int:
        """Return the last offset of a batch."""
        return self._lasts[batch]

    def start_of(self, batch: int) -> int:
        """Return the position at which a batch begins."""
        return self._ends[batch - 1] if batch else 0

    def end_of(self, batch: int) -> int:
        """Return the position behind a batch."""
        return self._ends[batch]

    def batches_before(self, offset: int) -> int:
        """Return how many batches lie wholly below `offset`."""
        return bisect_left(self._lasts, offset)

    def batches_within(self, position: int) -> int:
        """Return how many batches end at `position` or before it."""
        return bisect_right(self._ends, position)

    def view(self, start: int, end: int) -> list[memoryview]:
        """Return the bytes between two positions, in few pieces."""
        return self.store.view(start, end)

    def truncate(self, batches: int) -> None:
        """Keep the first `batches` batches only."""
        self.store.truncate(self.start_of(batches))
        for column in (self._bases, self._lasts, self._ends, self._times):
            del column[batches:]

    def recover(self, check: Callable[[Bytes], bool] | None) -> list[BatchFacts]:
        """Rebuild the index from the stored bytes and cut off what is not a whole, sound batch.

        `check` is asked about each batch's CRC; without it headers are trusted (a clean stop).
        Logs what is cut off, as a warning. Returns the facts of the batches kept.
        """
        kept, end, next_offset = [], 0, self.base_offset
        why = CUT_OFF
        for facts, data in self.batches():
            sound = facts.last_offset >= next_offset and (
                facts.magic < 2 or facts.base_offset >= next_offset
            )
            if not sound or (check is not None and not check(data)):
                why = WRONG_CRC if sound else WRONG_OFFSETS
                break
            end += facts.size
            self._index(facts, facts.base_offset if facts.magic == 2 else next_offset, end)
            kept.append(facts)
            next_offset = facts.last_offset + 1
        if end < self.store.size:
            self._warn_of_cut(end, next_offset, why)
            self.store.truncate(end)
        return kept

    def _warn_of_cut(self, end: int, offset: int, why: str) -> None:
        behind = [facts for facts, _ in self.batches(end)]
        log.warning(
            "%s: the batch at byte %d, where offset %d is expected, %s. What "
            "lies from there on is dropped: %d bytes, in which %d whole batches "
            "with %d records can be recognized. Brokers in sync may have them.",
            self.store.name,
            end,
            offset,
            why,
            self.store.size - end,
            len(behind),
            sum(max(facts.record_count, 0) for facts in behind),
        )

    def batches(self, at: int = 0) -> Iterator[tuple[BatchFacts, memoryview]]:
        """Yield each whole batch from a position on, with its bytes.

        Reads a window at a time: a segment may be larger than memory should be.
        """
        window = WINDOW_BYTES
        while at < self.store.size:
            pieces = self.store.view(at, min(self.store.size, at + window))
            data = pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))
            used = 0
            for start, facts in walk(data):
                yield facts, data[start : start + facts.size]
                used = start + facts.size
            if not used and at + len(data) >= self.store.size:
                return
            at, window = at + used, WINDOW_BYTES if used else window * 2
