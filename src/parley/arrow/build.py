"""Columns → pyarrow.RecordBatch, without copying a buffer.

Topic and partition are the same in every row of a batch: their columns are made once per topic and
partition and sliced, so that a batch costs nothing for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import pack

import pyarrow as pa

from parley.arrow.schema import HEADERS_TYPE, RECORD_SCHEMA, spark_schema
from parley.records import Buffer, Columns, HeadersColumn, VarColumn, Want

_WANTED = {
    "offset": Want.OFFSETS,
    "timestamp": Want.TIMESTAMPS,
    "timestamp_type": Want.TIMESTAMP_TYPES,
    "timestampType": Want.TIMESTAMP_TYPES,
    "key": Want.KEYS,
    "value": Want.VALUES,
    "headers": Want.HEADERS,
    "topic": Want.NOTHING,
    "partition": Want.NOTHING,
}
_TIMESTAMP_MS = pa.timestamp("ms", tz="UTC")
_TIMESTAMP_US = pa.timestamp("us", tz="UTC")
_ELEMENT_TYPE = HEADERS_TYPE.value_type
_MIN_CONSTANT_ROWS = 16_384


def want_for(columns: Sequence[str]) -> int:
    """Return the Want flags that a decode needs for the named columns (of either schema)."""
    flags = Want.NOTHING
    for name in columns:
        flags |= _WANTED[name]
    return int(flags)


def to_record_batch(columns: Columns) -> pa.RecordBatch:
    """Return the decoded columns as a batch of RECORD_SCHEMA, or of the columns that were decoded.

    Timestamps must have been decoded in milliseconds.
    """
    arrays, fields = [], []
    for field in RECORD_SCHEMA:
        array = _ARRAYS[field.name](columns, field.type)
        if array is not None:
            arrays.append(array)
            fields.append(field)
    if len(fields) == len(RECORD_SCHEMA):
        return pa.RecordBatch.from_arrays(arrays, schema=RECORD_SCHEMA)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def to_spark_batch(
    columns: Columns, topic: str, partition: int, schema: pa.Schema | None = None
) -> pa.RecordBatch:
    """Return the decoded columns as a batch of `schema` (default: spark_schema() without headers).

    `schema` names any of Spark's columns in any order; `key` and `value` may be string instead of
    binary, which costs nothing: the bytes are taken as UTF-8 as they are (see `valid_utf8`).
    The headers of a record without any are null, as Spark's own source has them.
    Timestamps must have been decoded with timestamp_scale=1000. Raises KeyError for other columns.
    """
    schema = spark_schema() if schema is None else schema
    arrays = []
    for field in schema:
        if field.name == "topic":
            arrays.append(_topic_column(topic, columns.rows))
        elif field.name == "partition":
            arrays.append(_partition_column(partition, columns.rows))
        elif field.name == "headers":
            arrays.append(_headers_or_null(columns.rows, field.type, columns.headers))
        else:
            arrays.append(_ARRAYS[field.name](columns, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def valid_utf8(array: pa.Array) -> bool:
    """Return whether every value of a string array is valid UTF-8; Arrow itself does not check."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _fixed(rows: int, kind: pa.DataType, buffer: Buffer | None) -> pa.Array | None:
    return (
        None
        if buffer is None
        else pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(buffer)], 0)
    )


def _variable(rows: int, kind: pa.DataType, column: VarColumn | None) -> pa.Array | None:
    if column is None:
        return None
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, rows, buffers, column.null_count)


def _headers(rows: int, kind: pa.DataType, column: HeadersColumn | None) -> pa.Array | None:
    if column is None:
        return None
    keys = _variable(column.count, pa.string(), column.keys)
    values = _variable(column.count, pa.binary(), column.values)
    pairs = pa.Array.from_buffers(_ELEMENT_TYPE, column.count, [None], 0, children=[keys, values])
    return pa.Array.from_buffers(
        kind, rows, [None, pa.py_buffer(column.offsets)], 0, children=[pairs]
    )


def _headers_or_null(rows: int, kind: pa.DataType, column: HeadersColumn | None) -> pa.Array | None:
    lists = _headers(rows, kind, column)
    if lists is None or not rows:
        return lists
    import pyarrow.compute as pc  # 9 MB and 0.1 s, for null headers alone

    given = pc.not_equal(pc.list_value_length(lists), one_int32(0)[0])
    if given.true_count == rows:
        return lists
    _, offsets = lists.buffers()[:2]
    return pa.Array.from_buffers(
        kind, rows, [given.buffers()[1], offsets], rows - given.true_count, 0, [lists.values]
    )


_ARRAYS: dict[str, Callable[[Columns, pa.DataType], pa.Array | None]] = {
    "offset": lambda columns, kind: _fixed(columns.rows, kind, columns.offsets),
    "timestamp": lambda columns, kind: _fixed(columns.rows, kind, columns.timestamps),
    "timestamp_type": lambda columns, kind: _fixed(columns.rows, kind, columns.timestamp_types),
    "timestampType": lambda columns, kind: _fixed(columns.rows, kind, columns.timestamp_types),
    "key": lambda columns, kind: _variable(columns.rows, kind, columns.key),
    "value": lambda columns, kind: _variable(columns.rows, kind, columns.value),
    "headers": lambda columns, kind: _headers(columns.rows, kind, columns.headers),
}


def _constant_rows(rows: int) -> int:
    # Powers of two, so that a reader of chunks of differing sizes makes few columns.
    return max(_MIN_CONSTANT_ROWS, 1 << (rows - 1).bit_length() if rows else 0)


def _topic_column(topic: str, rows: int) -> pa.Array:
    return _topic_rows(topic, _constant_rows(rows)).slice(0, rows)


def _partition_column(partition: int, rows: int) -> pa.Array:
    return _partition_rows(partition, _constant_rows(rows)).slice(0, rows)


@lru_cache(maxsize=8)
def _topic_rows(topic: str, rows: int) -> pa.Array:
    data = topic.encode()
    offsets = pack("=2i", 0, len(data))
    found = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return pa.repeat(found[0], rows)


@lru_cache(maxsize=32)
def _partition_rows(partition: int, rows: int) -> pa.Array:
    return pa.repeat(one_int32(partition)[0], rows)


def one_int32(number: int) -> pa.Array:
    """Return an array of one number. `pa.array` and `pa.scalar`, as all that takes values of
    Python's, import pandas where it is installed: 45 MB and 0.4 s that a reader has no use for.
    """
    return pa.Array.from_buffers(pa.int32(), 1, [None, pa.py_buffer(pack("=i", number))])
