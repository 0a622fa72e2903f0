"""Record bytes of one fetch → chunks of columns, with the position after each.

Rules

1. The position after a batch is its last offset + 1, whether its records are shown, compacted away,
   control records or aborted; so a reader never waits for an offset that does not exist.
2. A damaged batch raises after everything in front of it was yielded; the position stays at it.
3. Offsets never go back: of a batch that reaches behind the position only the rest is shown.
4. A chunk never holds part of a batch (except for the bounds asked for), and ends before the batch
   that would pass `max_rows` or `max_bytes`. A batch of more records than `max_rows`, and than any
   producer puts into one (pieces.py), comes as several chunks, once all of it was looked at.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from parley.errors import CorruptRecordError, KafkaError
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
from parley.records.split import AbortedFilter, RawBatch, iter_batches


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a decode fills and its bounds.

    `want` is a set of Want flags. `timestamp_scale` 1000 gives microseconds. `max_batch_bytes` bounds
    what one batch may decompress to; 0 means max(64 MiB, 64 x compressed).
    """

    want: int = int(Want.ALL)
    timestamp_scale: int = 1
    max_rows: int = 65_536
    max_bytes: int = 32 * 1024 * 1024
    max_batch_bytes: int = 0
    check_crc: bool = True


class DecodedChunk(NamedTuple):
    """Columns, the position after them, and the leader epoch of the last batch passed (-1: unknown).

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
    reader = _Reader(data, first_offset, NO_OFFSET_LIMIT if end_offset is None else end_offset, options, where)
    hidden = AbortedFilter(aborted or ())
    watched = array("q", sorted({producer for producer, _ in aborted or ()})).tobytes()
    failure: CorruptRecordError | None = None
    while reader.position < reader.end:
        if reader.follow(watched):
            yield from reader.flush()
            continue
        try:
            batch = next(iter_batches(data, where, start=reader.at, expected=reader.position), None)
            if batch is None:
                break
            skip = hidden.is_aborted(data, batch, where) or batch.is_control
        except CorruptRecordError as error:
            failure = error
            break
        if batch.last_offset >= reader.position > batch.base_offset and batch.record_count > 0:
            yield from reader.flush()  # rule 3: the next chunk is trimmed at its position
        if reader.take(batch, skip=skip):
            yield from reader.flush()
    yield from reader.flush()
    if reader.position > reader.shown:
        nothing = active.decode(b"", b"", DecodeOptions(want=options.want)).columns
        yield DecodedChunk(nothing, reader.position, reader.epoch)
    if failure is not None:
        raise failure


class _Reader:
    """Gathers spans for a chunk and decodes them; `position` counts every batch passed.

    The kernel follows ordinary batches in one go (contract.py, BatchScan); each other batch comes
    through `take` after it was looked at here. So a fetch of many small batches costs no Python per
    batch, and control batches do not cut chunks short.
    """

    def __init__(
        self, data: Buffer, first_offset: int, end: int, options: ReadOptions, where: tuple[str, int] | None
    ) -> None:
        self._data, self._options, self._where = data, options, where
        self.end = end
        self.at = 0  # bytes passed
        self.position = self.shown = first_offset
        self.epoch = -1
        self._table = array("q")
        self._rows = self._bytes = 0

    def follow(self, watched: bytes) -> bool:
        """Take ordinary batches as far as they go; return whether the chunk is full."""
        found = active.scan_batches(
            self._data,
            self.at,
            ScanOptions(
                position=self.position,
                passed=self.position if self._table else -1,
                end_offset=self.end,
                max_rows=self._options.max_rows - self._rows,
                max_bytes=max(self._options.max_bytes - self._bytes, 0),
                watched=watched,
            ),
        )
        self._table.frombytes(found.table)
        self._rows += found.rows
        self._bytes += found.bytes
        if found.leader_epoch >= 0 or found.spans:
            self.epoch = found.leader_epoch
        self._pass(found.end, found.next_offset)
        return found.full

    def take(self, batch: RawBatch, *, skip: bool) -> bool:
        """Pass one batch and, unless it shows nothing, take it; return whether the chunk is full."""
        if batch.last_offset < self.position:
            self.at = batch.end
            return False
        known = batch.record_count >= 0  # where not, a compressed set may begin before its offset
        if not skip and batch.record_count != 0 and (batch.base_offset < self.end or not known):
            self._table.extend((batch.start, batch.end, 0, 0))
            self._rows += max(batch.record_count, 1)
            self._bytes += batch.size
        self.epoch = batch.leader_epoch
        self._pass(batch.end, min(batch.next_offset, self.end))
        return self._rows >= self._options.max_rows or self._bytes >= self._options.max_bytes

    def _pass(self, at: int, position: int) -> None:
        self.at, self.position = at, position
        if self._table:
            self._table[-2], self._table[-1] = position, self.epoch

    def flush(self) -> Iterator[DecodedChunk]:
        """Decode and yield what was gathered; more than one chunk where it decompresses beyond the limits."""
        table, self._table = self._table, array("q")
        self._rows = self._bytes = 0
        done = 0
        while done < len(table):
            decoded = self._decode(table[done:])
            if decoded is None:
                yield from self._decode_pieces(table[done : done + SPAN_FIELDS])
                done += SPAN_FIELDS
                continue
            done += decoded.spans_done * SPAN_FIELDS
            self.shown = table[done - 2]
            yield DecodedChunk(decoded.columns, self.shown, table[done - 1])

    def _decode_pieces(self, span: array[int]) -> Iterator[DecodedChunk]:
        """Yield one batch of very many records; the position never passes the one after the batch."""
        start, end, after, epoch = span
        try:
            for columns, position in decode_in_pieces(self._data, start, end, self._wanted()):
                position = after if position is None else min(max(position, self.shown), after)
                self.shown = position
                if columns.rows or position == after:
                    yield DecodedChunk(columns, position, epoch)
        except KernelError as error:
            raise self._corrupt(error, start) from error

    def _wanted(self) -> DecodeOptions:
        options = self._options
        return DecodeOptions(
            first_offset=self.shown,
            end_offset=self.end,
            want=options.want,
            timestamp_scale=options.timestamp_scale,
            check_crc=options.check_crc,
            max_rows=options.max_rows,
            max_bytes=options.max_bytes,
            max_batch_bytes=options.max_batch_bytes,
            max_span_rows=span_limit(options.max_rows),
        )

    def _decode(self, table: array[int]) -> Decoded | None:
        """Decode from the front as far as it goes; an error counts only when the first batch has it.

        Returns None where that one is too large for one piece.
        """
        wanted = self._wanted()
        try:
            return active.decode(self._data, table.tobytes(), wanted)
        except KernelError as error:
            if is_too_many(error):
                return None
            if error.span <= 0:
                raise self._corrupt(error, table[0]) from error
            return active.decode(self._data, table[: error.span * SPAN_FIELDS].tobytes(), wanted)

    def _corrupt(self, error: KernelError, start: int) -> KafkaError:
        (base_offset,) = INT64.unpack_from(self._data, start)
        return translate_decode(error, max(self.shown, base_offset), self._where)
