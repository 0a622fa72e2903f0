"""The log of one replica: batches in segments, read by offset, cut at either end.

Rules of this file:
1. Offsets only rise: a batch begins at the end offset or behind it (compaction leaves gaps).
2. An append that fails changes nothing: not the offsets, not the index, not the bytes.
3. A read returns whole batches by reference, and never one that begins at or behind `end_offset`.
4. It knows neither leaders nor producers nor the high watermark; `replica` does.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from parley.devcluster.state.log.batches import BatchFacts, Bytes, read_facts
from parley.devcluster.state.log.bytestore import Part, StoreFactory
from parley.devcluster.state.log.segment import Segment

logger = logging.getLogger("parley.devcluster")

DEFAULT_SEGMENT_BYTES = 1 << 30  # Kafka's log.segment.bytes
NO_LIMIT = 2**63 - 1
DEFAULT_READ_BYTES = 1 << 20


@dataclass(slots=True)
class Changes:
    """Counts what may have given the cleaner something to do, in any log that shares it."""

    count: int = 0


@dataclass(slots=True)
class ReadResult:
    """Batches by reference; `size` is their sum in bytes, `next_offset` the offset behind them."""

    parts: list[memoryview] = field(default_factory=list)
    size: int = 0
    next_offset: int = -1


class Log:
    """An append-only sequence of batches."""

    def __init__(self, stores: StoreFactory, *, segment_bytes: int = DEFAULT_SEGMENT_BYTES) -> None:
        self._stores = stores
        # a topic's settings may change while it is written
        self.segment_bytes, self.segment_ms = segment_bytes, NO_LIMIT
        self.changes = Changes()
        self._segments: list[Segment] = []
        self._bases: list[int] = []
        self.start_offset = 0
        self.end_offset = 0

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments, oldest first."""
        return self._segments

    @property
    def max_timestamp_ms(self) -> int:
        """The largest timestamp in the log, or -1."""
        return max((segment.max_timestamp_ms for segment in self._segments), default=-1)

    # -- writing -------------------------------------------------------------------------------

    def append(self, run: Sequence[BatchFacts], part: Part, *, now_ms: int = -1) -> Part:
        """Append batches in one piece, their offsets final; return what a follower may share.

        Mutates: end_offset. Raises OSError when the store refuses; the log is then as it was.
        """
        base = run[0].base_offset if run[0].magic == 2 else self.end_offset
        if base < self.end_offset or run[-1].last_offset < base:
            raise ValueError(
                f"batches {base}..{run[-1].last_offset} do not follow the end offset "
                f"{self.end_offset}"
            )
        segment = self._segment_for(run, base, now_ms)
        shared = segment.append(run, base, part)
        segment.last_append_ms = now_ms
        if segment.begun_ms < 0:
            segment.begun_ms = now_ms
        self.end_offset = run[-1].last_offset + 1
        return shared

    def _segment_for(self, run: Sequence[BatchFacts], base: int, now_ms: int) -> Segment:
        last = self._segments[-1] if self._segments else None
        if last is None:
            return self._roll(base)
        size = sum(facts.size for facts in run)
        is_full = (
            last.size + size > self.segment_bytes or last.age_ms(run, now_ms) > self.segment_ms
        )
        return self._roll(base) if is_full and len(last) else last

    def _roll(self, base: int) -> Segment:
        segment = Segment(base, self._stores.create(base))
        if self._segments:
            self.changes.count += 1
        self._segments.append(segment)
        self._bases.append(base)
        return segment

    def begin_segment(self) -> None:
        """Let what is appended next go into a segment of its own."""
        if self._segments and len(self._segments[-1]):
            self._roll(self.end_offset)

    def truncate_to(self, offset: int) -> bool:
        """Remove every batch that holds `offset` or lies behind it; return whether one did.

        Mutates: end_offset, which becomes `offset`, or the base of the batch that held it.
        """
        if offset >= self.end_offset:
            return False
        offset = max(offset, self.start_offset)
        end = offset
        while self._segments:
            segment = self._segments[-1]
            keep = segment.batches_before(offset)
            if keep < len(segment):
                end = min(end, segment.base_of(keep))
            if keep or len(self._segments) == 1:
                segment.truncate(keep)
                break
            self._drop(len(self._segments) - 1)
        self.end_offset = end
        return True

    def restart_at(self, offset: int) -> None:
        """Empty the log and begin at `offset`, as a follower whose leader's log starts later."""
        while self._segments:
            self._drop(len(self._segments) - 1)
        self._roll(offset)
        self.start_offset = self.end_offset = offset

    def advance_start(self, offset: int) -> None:
        """Raise the start offset (retention, DeleteRecords); drop segments wholly below it."""
        if offset <= self.start_offset:
            return
        self.start_offset = min(offset, self.end_offset)
        while len(self._segments) > 1 and self._bases[1] <= self.start_offset:
            self._drop(0)

    def end_of_older_than(self, timestamp_ms: int) -> int:
        """Return the offset behind the front segments with nothing from `timestamp_ms` on."""
        end = self.start_offset
        for which, segment in enumerate(self._segments):
            newest = (
                segment.max_timestamp_ms
                if segment.max_timestamp_ms >= 0
                else segment.last_append_ms
            )
            is_last = which == len(self._segments) - 1
            if newest >= timestamp_ms or (is_last and not len(segment)):
                break
            end = self._end_of(which)
        return max(end, self.start_offset)

    def end_of_excess(self, most_bytes: int) -> int:
        """Return the offset behind the front segments without which `most_bytes` remain."""
        end, excess = self.start_offset, self.size - most_bytes
        for which, segment in enumerate(self._segments):  # the last one too, where nothing remains
            excess -= segment.size
            if excess < 0:
                break
            end = self._end_of(which)
        return max(end, self.start_offset)

    def _end_of(self, which: int) -> int:
        """Return where the segment behind one begins, or the end: its own last batches may be gone
        (compaction).
        """
        return self._bases[which + 1] if which + 1 < len(self._bases) else self.end_offset

    def _drop(self, which: int) -> None:
        self._segments.pop(which).store.delete()
        self._bases.pop(which)

    # -- cleaning ------------------------------------------------------------------------------

    def begin_cleaned(self, first: int) -> Segment:
        """Return an empty segment for what stays of the segments from number `first` on."""
        base = self._bases[first]
        return Segment(base, self._stores.create_beside(base))

    def put_cleaned(self, cleaned: Segment, first: int, stop: int) -> None:
        """Put such a segment in the place of those from `first` to before `stop`.

        Raises OSError; the log is then as it was. What a reader holds stays as it is.
        """
        replaced = self._segments[first:stop]
        self._stores.put_in_place(cleaned.store, cleaned.base_offset)
        replaced[0].store.close()  # its file is gone
        for one in replaced[1:]:
            one.store.delete()
        cleaned.last_append_ms = replaced[-1].last_append_ms
        cleaned.begun_ms = replaced[0].begun_ms
        self._segments[first:stop] = [cleaned]
        self._bases[first:stop] = [cleaned.base_offset]

    # -- reading -------------------------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, *, end_offset: int = NO_LIMIT, at_least_one: bool = True
    ) -> ReadResult:
        """Return batches from that of `offset` on: at most `max_bytes`, not past `end_offset`.

        With `at_least_one` (KIP-74) the first batch is returned even if it is larger than that.
        """
        result = ReadResult(next_offset=offset)
        which = max(0, bisect_right(self._bases, offset) - 1)
        while which < len(self._segments) and offset < end_offset:
            segment = self._segments[which]
            first = segment.first_batch_reaching(offset)
            if first < len(segment):
                limits = (max_bytes, end_offset, at_least_one)
                if not self._read_from(segment, first, limits, result):
                    break
            which += 1
        return result

    @staticmethod
    def _read_from(
        segment: Segment, first: int, limits: tuple[int, int, bool], result: ReadResult
    ) -> bool:
        """Add a segment's batches to `result`; return whether the next segment may go on."""
        max_bytes, end_offset, at_least_one = limits
        start = segment.start_of(first)
        stop = segment.batches_within(start + max_bytes - result.size)
        if stop <= first:
            if result.size or not at_least_one:
                return False
            stop = first + 1
        limit = segment.batches_before(end_offset)
        stop = min(stop, limit)
        if stop <= first:
            return False
        end = segment.end_of(stop - 1)
        result.parts += segment.view(start, end)
        result.size += end - start
        result.next_offset = segment.last_of(stop - 1) + 1
        return stop == len(segment)

    def batches_from(self, offset: int) -> Iterator[tuple[BatchFacts, memoryview]]:
        """Yield facts and bytes of each batch that holds `offset` or lies behind it."""
        while offset < self.end_offset:
            found = self.read(offset, DEFAULT_READ_BYTES)
            if not found.parts:
                return
            for piece in found.parts:
                at = 0
                while (facts := read_facts(piece, at)) is not None:
                    yield facts, piece[at : at + facts.size]
                    at += facts.size
            offset = found.next_offset

    def batches_at_time(self, timestamp_ms: int) -> Iterator[tuple[int, memoryview]]:
        """Yield offset and bytes of the batches from the first with a record at `timestamp_ms` or
        later: that record may be gone (compaction).
        """
        for segment in self._segments:
            for which in range(segment.first_batch_at_time(timestamp_ms), len(segment)):
                if segment.last_of(which) >= self.start_offset:
                    pieces = segment.view(segment.start_of(which), segment.end_of(which))
                    data = pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))
                    yield segment.base_of(which), data

    # -- life ----------------------------------------------------------------------------------

    def recover(self, check: Callable[[Bytes], bool] | None) -> list[BatchFacts]:
        """Load the segments found by the store: index rebuilt, a torn tail cut off.

        `check` judges a batch's CRC; it is asked for the last segment only, since a process that
        dies can tear no other. Segments behind a damaged one are removed, as Kafka does.
        Returns the facts of all batches, for the producers' and epochs' state.
        """
        facts: list[BatchFacts] = []
        found = self._stores.existing()
        for number, (base, store) in enumerate(found):
            if self._segments and base < self._segments[-1].end_offset:
                store.delete()  # left over: cleaning put another segment in its place
                continue
            last = number == len(found) - 1
            before = store.size
            segment = Segment(base, store)
            facts += segment.recover(check if last else None)
            self._segments.append(segment)
            self._bases.append(base)
            if store.size < before and not last:
                for _, later in found[number + 1 :]:
                    logger.warning(
                        "%s is removed, %d bytes: it lies behind a damage", later.name, later.size
                    )
                    later.delete()
                break
        if len(self._segments) > 1:
            self.changes.count += 1
        if self._segments:
            self.start_offset = self._segments[0].base_offset
            self.end_offset = self._segments[-1].end_offset
        return facts

    def close(self, *, sync: bool = False) -> None:
        """Close the files."""
        for segment in self._segments:
            segment.store.close(sync=sync)

    def delete(self) -> None:
        """Remove the log and everything it left outside of memory."""
        for segment in self._segments:
            segment.store.delete()
        self._segments.clear()
        self._bases.clear()
        self._stores.delete()
