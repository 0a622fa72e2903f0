"""Record bytes of one fetch → chunks of columns, with the position after each.

Rules

1. The position after a batch is its last offset + 1, whether its records are shown, compacted away,
   control records or aborted; so a reader never waits for an offset that does not exist.
2. A damaged batch raises after everything in front of it was yielded; the position stays at it.
3. Offsets never go back: of a batch that reaches behind the position only the rest is shown.
   Which batches are shown the kernel decides for all of them in one call: a fetch of a million tiny
   batches, markers or formats costs no Python for each.
4. A chunk never holds part of a batch (except for the bounds asked for), and ends before the batch
   that would pass `max_rows` or `max_bytes`. A batch of more records than `max_rows`, and than any
   producer puts into one (pieces.py), comes as several chunks, once all of it was looked at.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from parley.errors import KafkaError
from parley.kernel import (
    NO_OFFSET_LIMIT,
    SPAN_FIELDS,
    Buffer,
    Columns,
    Decoded,
    DecodeOptions,
    KernelError,
    ScanOptions,
    Want,
    active,
)
from parley.records.failures import translate_decode
from parley.records.info import warn_if_pure
from parley.records.layout import INT64
from parley.records.pieces import decode_in_pieces, is_too_many, span_limit
from parley.records.split import fault_at


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a decode fills and its bounds.

    `want` is a set of Want flags. `timestamp_scale` 1000 gives microseconds. `max_batch_bytes`
    bounds what one batch may decompress to; 0 means max(64 MiB, 64 x compressed).
    """

    want: int = int(Want.ALL)
    timestamp_scale: int = 1
    max_rows: int = 65_536
    max_bytes: int = 32 * 1024 * 1024
    max_batch_bytes: int = 0
    check_crc: bool = True

    def of_kernel(self, first_offset: int = 0, end_offset: int = NO_OFFSET_LIMIT) -> DecodeOptions:
        """Return the kernel's options for records of [first_offset, end_offset)."""
        return DecodeOptions(
            first_offset=first_offset,
            end_offset=end_offset,
            want=self.want,
            timestamp_scale=self.timestamp_scale,
            check_crc=self.check_crc,
            max_rows=self.max_rows,
            max_bytes=self.max_bytes,
            max_batch_bytes=self.max_batch_bytes,
            max_span_rows=span_limit(self.max_rows),
        )


class DecodedChunk(NamedTuple):
    """Columns, the position after them, the last batch's leader epoch (-1: unknown).

    A chunk without rows only moves the position (control, aborted or compacted batches).
    """

    columns: Columns
    next_offset: int
    last_leader_epoch: int


_DEFAULT = ReadOptions()


def decode_columns(
    data: Buffer,
    *,
    first_offset: int,
    end_offset: int | None = None,
    aborted: Iterable[tuple[int, int]] | None = None,
    options: ReadOptions = _DEFAULT,
    where: tuple[str, int] | None = None,
) -> Iterator[DecodedChunk]:
    """Yield the records of [first_offset, end_offset) in chunks.

    `aborted` is the fetch's list of (producer id, first offset) for read_committed, None otherwise.
    `data` must not change before the iterator is exhausted or closed. Yields nothing where `data`
    holds no whole batch. Raises CorruptRecordError (rule 2), naming `where`, a topic and partition.
    """
    warn_if_pure()
    end = NO_OFFSET_LIMIT if end_offset is None else end_offset
    fields = tuple(chain.from_iterable(aborted or ()))
    hidden = struct.pack(f"={len(fields)}q", *fields)
    scan = active.scan_batches(
        data, 0, ScanOptions(position=first_offset, end_offset=end, aborted=hidden)
    )
    reader = _Reader(data, scan.table, (first_offset, end), options, where)
    yield from reader.chunks()
    if scan.next_offset > reader.shown:
        nothing = active.decode(b"", b"", DecodeOptions(want=options.want)).columns
        yield DecodedChunk(nothing, scan.next_offset, scan.leader_epoch)
    if scan.next_offset < end:
        failure = fault_at(data, scan.end, scan.next_offset, where)
        if failure is not None:
            raise failure


class _Reader:
    """Decodes a table's spans in chunks; `shown` is the position after what was yielded."""

    def __init__(
        self,
        data: Buffer,
        table: Buffer,
        offsets: tuple[int, int],
        options: ReadOptions,
        where: tuple[str, int] | None,
    ) -> None:
        self._data, self._options, self._where = data, options, where
        self.shown, self._end = offsets
        self._table = memoryview(table).cast("B").cast("q")
        self._count = len(self._table) // SPAN_FIELDS

    def chunks(self) -> Iterator[DecodedChunk]:
        """Yield the records of all spans. Raises the error of a damaged one."""
        done = 0
        while done < self._count:
            spans = self._table[done * SPAN_FIELDS : self._stop(done) * SPAN_FIELDS]
            decoded = self._decode(spans)
            if decoded is None:
                yield from self._decode_pieces(spans)
                done += 1
                continue
            done += decoded.spans_done
            *_, self.shown, epoch = spans[
                (decoded.spans_done - 1) * SPAN_FIELDS : decoded.spans_done * SPAN_FIELDS
            ]
            yield DecodedChunk(decoded.columns, self.shown, epoch)

    def _stop(self, first: int) -> int:
        """Return where spans end that `max_bytes` from the first one's start hold; at least it."""
        limit = self._table[first * SPAN_FIELDS] + self._options.max_bytes
        if self._table[-SPAN_FIELDS + 1] <= limit:
            return self._count
        ends = range(1, len(self._table), SPAN_FIELDS)
        return bisect_right(ends, limit, first + 1, self._count, key=self._table.__getitem__)

    def _decode_pieces(self, spans: memoryview) -> Iterator[DecodedChunk]:
        """Yield a batch of very many records; the position never passes the one after it."""
        start, end, after, epoch = spans[:SPAN_FIELDS]
        try:
            for columns, position in decode_in_pieces(self._data, start, end, self._wanted()):
                position = after if position is None else min(max(position, self.shown), after)
                self.shown = position
                if columns.rows or position == after:
                    yield DecodedChunk(columns, position, epoch)
        except KernelError as error:
            raise self._corrupt(error, start) from error

    def _wanted(self) -> DecodeOptions:
        return self._options.of_kernel(self.shown, self._end)

    def _decode(self, spans: memoryview) -> Decoded | None:
        """Decode from the front as far as it goes; an error counts in the first batch only.

        Returns None where that one is too large for one piece.
        """
        wanted = self._wanted()
        try:
            return active.decode(self._data, spans, wanted)
        except KernelError as error:
            if is_too_many(error):
                return None
            if error.span <= 0:
                raise self._corrupt(error, spans[0]) from error
            return active.decode(self._data, spans[: error.span * SPAN_FIELDS], wanted)

    def _corrupt(self, error: KernelError, start: int) -> KafkaError:
        (base_offset,) = INT64.unpack_from(self._data, start)
        return translate_decode(error, max(self.shown, base_offset), self._where)
