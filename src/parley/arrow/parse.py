"""pyarrow batches → Columns for producing.

Columns by name; others are refused, so that nothing is dropped silently:

    value      binary or string (large, view, fixed-size and dictionary types too), nullable
    key        the same
    headers    list<struct<key: string, value: binary>>; null is no headers
    timestamp  timestamp of any unit, or int64 milliseconds; null is "the time of the produce"
    topic      string (or dictionary of it): where the row goes, where the call does not say
    partition  any integer type, nullable: the same

Binary and string columns are taken over without a copy; the other types are cast once.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from parley.arrow.schema import HEADERS_TYPE
from parley.errors import ConfigError, nearest_hint
from parley.records import Buffer, Columns, HeadersColumn, VarColumn, int32s

COLUMNS = ("value", "key", "headers", "timestamp", "topic", "partition")
_NAMES = ", ".join(COLUMNS)
"""What a batch may name, in the order of the table above."""


@dataclass(frozen=True, slots=True)
class ProduceColumns:
    """What a batch says: columns for encoding, and where its rows go (None: not said).

    `topic` is a string array and `partition` an int32 array, both with nulls where a row says
    nothing.
    """

    columns: Columns
    topic: pa.Array | None
    partition: pa.Array | None


def columns_from_arrow(batch: pa.RecordBatch, *, now_ms: int) -> ProduceColumns:
    """Return the batch's rows as columns for encoding.

    `now_ms` is the timestamp of rows without one. Raises ConfigError, naming the column, for types
    and names that cannot be produced, and for header keys that are null.
    """
    if not batch.num_columns:
        raise ConfigError(
            f"a batch to produce needs a column named value or key. It may have: {_NAMES}."
        )
    for name in batch.schema.names:
        if name not in COLUMNS:
            raise ConfigError(
                "a batch to produce cannot have a column "
                f'"{name}".{nearest_hint(name, COLUMNS)} It may have: {_NAMES}.'
            )
    if len(set(batch.schema.names)) != batch.num_columns:
        raise ConfigError("a batch to produce names a column twice")
    found = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns = Columns(
        rows=batch.num_rows,
        timestamps=_timestamps(found.get("timestamp"), now_ms),
        key=_variable("key", found.get("key")),
        value=_variable("value", found.get("value")),
        headers=_headers(found.get("headers")),
    )
    topic, partition = found.get("topic"), found.get("partition")
    return ProduceColumns(
        columns,
        None if topic is None else _cast("topic", topic, pa.string()),
        None if partition is None else _cast("partition", partition, pa.int32()),
    )


def _cast(name: str, array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type.equals(kind):
        return array
    try:
        return array.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ConfigError(
            f'column "{name}" has type {array.type}, which cannot be produced as {kind} ({error}). '
            f"Cast it before producing."
        ) from error


def _variable(name: str, array: pa.Array | None) -> VarColumn | None:
    if array is None or pa.types.is_null(array.type):
        return None
    kind = array.type
    if pa.types.is_dictionary(kind):
        array = _cast(name, array, kind.value_type)
        kind = array.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _flat(array)
    if not (
        pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary_view(kind)
    ):
        raise ConfigError(
            f'column "{name}" has type {kind}; Kafka stores bytes: give binary or string '
            f"(for example by casting, or with to_json)."
        )
    return _flat(_cast(name, array, pa.string() if "string" in str(kind) else pa.binary()))


def _flat(array: pa.Array) -> VarColumn:
    validity, offsets, data = array.buffers()
    if offsets is None or len(array) == 0:  # Arrow may leave out the buffers of an empty array
        return VarColumn(None, bytes(4), b"")
    nulls = array.null_count
    return VarColumn(
        _view(validity) if nulls else None,
        _view(offsets)[4 * array.offset : 4 * (array.offset + len(array) + 1)],
        b"" if data is None else _view(data),
        nulls,
        array.offset if nulls else 0,
    )


def _view(buffer: pa.Buffer) -> memoryview:
    return memoryview(buffer).cast("B")


def _timestamps(array: pa.Array | None, now_ms: int) -> Buffer | None:
    if array is None or pa.types.is_null(array.type):
        return None
    if pa.types.is_timestamp(array.type):
        # Kafka keeps milliseconds: the rest of finer units is cut off.
        array = array.cast(pa.timestamp("ms", tz=array.type.tz), safe=False).cast(pa.int64())
    elif not pa.types.is_int64(array.type):
        raise ConfigError(
            f'column "timestamp" has type {array.type}; give a timestamp, or int64 milliseconds'
        )
    if array.null_count:
        import pyarrow.compute as pc  # 9 MB and 0.1 s, which readers never need

        array = pc.fill_null(array, now_ms)
    buffer = array.buffers()[1]
    if buffer is None:
        return b""
    return _view(buffer)[8 * array.offset : 8 * (array.offset + len(array))]


def _headers(array: pa.Array | None) -> HeadersColumn | None:
    if array is None or pa.types.is_null(array.type):
        return None
    if not array.type.equals(HEADERS_TYPE):
        array = _cast("headers", array, HEADERS_TYPE)
    if array.null_count:
        import pyarrow.compute as pc

        array = pc.if_else(array.is_valid(), array, pa.scalar([], HEADERS_TYPE))
    offsets = array.buffers()[1]
    pairs = array.values
    if offsets is None or len(pairs) == 0:
        return None
    ends = _view(offsets)[4 * array.offset : 4 * (array.offset + len(array) + 1)]
    keys, values = pairs.field(0), pairs.field(1)
    first, last = int32s(ends)[0], int32s(ends)[-1]
    used, used_keys = pairs.slice(first, last - first), keys.slice(first, last - first)
    if used.null_count or used_keys.null_count:
        raise ConfigError(
            'column "headers" has a header without a key; a header\'s key cannot be null'
        )
    return HeadersColumn(ends, _flat(keys), _flat(values), len(pairs))
