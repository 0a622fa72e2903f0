"""Decoded records of one partition, handed out one after the other."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from parley.kernel.contract import Buffer, Columns, VarColumn
from parley.kernel.listed import ListedRecords
from parley.kernel.record import ConsumerRecord, Headers
from parley.kernel.reference.columns import values

Epochs = Sequence[tuple[int, int]]


def record_cursor(
    columns: Columns,
    topic: str,
    partition: int,
    epochs: Epochs,
    next_offset: int,
    counts: Buffer | None = None,
) -> ListedRecords:
    """Return the records of the columns; with `counts` those that have one above 0."""
    rows = columns.rows
    deliveries: Sequence[int | None] = [None] * rows if counts is None else _int32s(counts)
    types = [-1] * rows if columns.timestamp_types is None else _int32s(columns.timestamp_types)
    offsets, times = _int64s(columns.offsets, rows), _int64s(columns.timestamps, rows)
    keys, contents = _values(columns.key, rows), _values(columns.value, rows)
    headers = _headers(columns)
    made = [
        ConsumerRecord(
            topic,
            partition,
            offsets[at],
            times[at],
            types[at],
            keys[at],
            contents[at],
            headers[at],
            _epoch_before(epochs, offsets[at] + 1),
            count,
        )
        for at, count in enumerate(deliveries)
        if count is None or count > 0
    ]
    return ListedRecords(made, next_offset)


def _epoch_before(epochs: Epochs, position: int) -> int:
    at = bisect_left(epochs, position, key=lambda epoch: epoch[0])
    return epochs[min(at, len(epochs) - 1)][1] if epochs else -1


def _int64s(buffer: Buffer | None, rows: int) -> Sequence[int]:
    return [-1] * rows if buffer is None else memoryview(buffer).cast("B").cast("q")


def _int32s(buffer: Buffer) -> Sequence[int]:
    return memoryview(buffer).cast("B").cast("i")


def _values(column: VarColumn | None, rows: int) -> Sequence[bytes | None]:
    return [None] * rows if column is None else list(values(column))


def _headers(columns: Columns) -> list[Headers]:
    if columns.headers is None:
        return [()] * columns.rows
    names = [(name or b"").decode() for name in values(columns.headers.keys)]
    pairs = list(zip(names, values(columns.headers.values), strict=True))
    ends = _int32s(columns.headers.offsets)
    return [tuple(pairs[ends[row] : ends[row + 1]]) for row in range(columns.rows)]
