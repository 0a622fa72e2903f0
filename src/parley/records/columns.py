"""Columns: records as flat buffers, and the plain views of them that need no Arrow.

The shapes are the kernel's (kernel/contract.py); layers above import them from here. Reading rows
one by one makes Python objects per record: for tests, control records and small tools only.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from parley.kernel import (
    Buffer,
    Columns,
    HeadersColumn,
    KernelError,
    RecordCursor,
    VarColumn,
    active,
)
from parley.records.failures import translate_encode

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record as Python values. `timestamp_type` is -1 (none), 0 (create) or 1 (log append)."""

    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def int64s(buffer: Buffer) -> memoryview:
    """Return a view of the buffer's int64 numbers."""
    return memoryview(buffer).cast("B").cast("q")


def int32s(buffer: Buffer) -> memoryview:
    """Return a view of the buffer's int32 numbers."""
    return memoryview(buffer).cast("B").cast("i")


def var_values(column: VarColumn) -> Iterator[bytes | None]:
    """Yield each value of the column."""
    offsets = int32s(column.offsets)
    data = memoryview(column.data).cast("B")
    validity = None if column.validity is None else memoryview(column.validity).cast("B")
    for row in range(len(offsets) - 1):
        bit = row + column.bit_offset
        if validity is not None and not validity[bit >> 3] >> (bit & 7) & 1:
            yield None
        else:
            yield bytes(data[offsets[row] : offsets[row + 1]])


def record_cursor(
    columns: Columns,
    where: tuple[str, int],
    epochs: Sequence[tuple[int, int]],
    next_offset: int,
    counts: Buffer | None = None,
) -> RecordCursor:
    """Return the rows as records to be handed out, of a topic and partition.

    Each has the leader epoch that `epochs` has for its offset: pairs of the position after the last
    record of an epoch, and the epoch. With `counts`, an int32 for each row, records are those that
    have one above 0, which is their delivery count.
    """
    return active.record_cursor(columns, *where, epochs, next_offset, counts)


def records(columns: Columns) -> list[Record]:
    """Return the rows as Python values; columns that were not decoded read as -1, None or empty."""
    rows = columns.rows
    absent = [-1] * rows
    nulls: list[bytes | None] = [None] * rows
    headers: list[Headers] = [()] * rows
    if columns.headers is not None:
        names = [(name or b"").decode() for name in var_values(columns.headers.keys)]
        pairs = list(zip(names, var_values(columns.headers.values), strict=True))
        ends = int32s(columns.headers.offsets)
        headers = [tuple(pairs[ends[row] : ends[row + 1]]) for row in range(rows)]
    return [
        Record(*fields)
        for fields in zip(
            int64s(columns.offsets) if columns.offsets is not None else absent,
            int64s(columns.timestamps) if columns.timestamps is not None else absent,
            int32s(columns.timestamp_types) if columns.timestamp_types is not None else absent,
            var_values(columns.key) if columns.key is not None else nulls,
            var_values(columns.value) if columns.value is not None else nulls,
            headers,
            strict=True,
        )
    ]


def var_column(values: Iterable[bytes | None]) -> VarColumn:
    """Return the column of the values. Raises LocalProtocolError beyond 2 GiB."""
    try:
        return active.bytes_column(values if isinstance(values, list) else list(values))
    except KernelError as error:
        raise translate_encode(error) from error


def columns_from_records(rows: Sequence[Record], *, with_offsets: bool = True) -> Columns:
    """Return the columns of the rows. Without offsets an encode counts them up itself."""
    ends = array("i", (0,))
    for row in rows:
        ends.append(ends[-1] + len(row.headers))
    headers = HeadersColumn(
        ends.tobytes(),
        var_column(name.encode() for row in rows for name, _ in row.headers),
        var_column(value for row in rows for _, value in row.headers),
        ends[-1],
    )
    return Columns(
        rows=len(rows),
        offsets=array("q", (row.offset for row in rows)).tobytes() if with_offsets else None,
        timestamps=array("q", (row.timestamp_ms for row in rows)).tobytes(),
        timestamp_types=array("i", (row.timestamp_type for row in rows)).tobytes(),
        key=var_column(row.key for row in rows),
        value=var_column(row.value for row in rows),
        headers=headers if ends[-1] else None,
    )
