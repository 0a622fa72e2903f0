"""The Arrow types of an Avro schema, and arrays of decoded values.

The types are those that Spark takes where it has any: dates and times in microseconds, enums and
UUIDs as texts, fixed as binary. Durations are Arrow's intervals, which Spark does not have.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from parley.errors import SchemaError
from parley.serdes.avro.conversions import MAX_PRECISION
from parley.serdes.avro.model import (
    Array,
    AvroType,
    Enum,
    Fixed,
    Logical,
    Map,
    Primitive,
    Record,
    Union,
)
from parley.serdes.avro.unions import UnionShape, members, union_shape
from parley.serdes.faults import inner_path

_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL = {
    "date": pa.date32(),
    "time-millis": pa.time64("us"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("us", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "timestamp-nanos": pa.timestamp("ns", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
    "uuid": pa.string(),
    "duration": pa.month_day_nano_interval(),
}


def arrow_type(schema: AvroType) -> pa.DataType:
    """Return the type of the values of a schema.

    Raises SchemaError, which names the field, for records that contain themselves and for decimals
    of more than 76 digits.
    """
    return _type(schema, "", ())


def array_of(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    """Return an array of values as `reading` makes them."""
    return pa.array(values, type=kind)


def _type(schema: AvroType, path: str, above: tuple[Record, ...]) -> pa.DataType:
    if isinstance(schema, Primitive):
        return _with_logical(schema.logical, _PRIMITIVES[schema.kind], path)
    if isinstance(schema, Fixed):
        return _with_logical(schema.logical, pa.binary(), path)
    if isinstance(schema, Enum):
        return pa.string()
    if isinstance(schema, Array):
        items = pa.field("element", _type(schema.items, path, above), is_nullable(schema.items))
        return pa.list_(items)
    if isinstance(schema, Map):
        values = pa.field("value", _type(schema.values, path, above), is_nullable(schema.values))
        return pa.map_(pa.string(), values)
    if isinstance(schema, Union):
        return _union_type(schema, path, above)
    if schema in above:
        raise SchemaError(
            f"the record {schema.name} contains itself, no column can hold it", path=path
        )
    fields = []
    for one in schema.fields:
        inner = inner_path(path, one.name)
        kind = _type(one.type, inner, (*above, schema))
        fields.append(pa.field(one.name, kind, is_nullable(one.type)))
    return pa.struct(fields)


def _union_type(union: Union, path: str, above: tuple[Record, ...]) -> pa.DataType:
    shape = union_shape(union)
    if shape is UnionShape.LONG:
        return pa.int64()
    if shape is UnionShape.DOUBLE:
        return pa.float64()
    kept = members(union)
    if shape is UnionShape.ONE:
        return _type(kept[0], path, above) if kept else pa.null()
    named = [pa.field(f"member{index}", _type(one, path, above)) for index, one in enumerate(kept)]
    return pa.struct(named)


def is_nullable(schema: AvroType) -> bool:
    """Return whether a value may be null."""
    if isinstance(schema, Union):
        return any(one.kind == "null" for one in schema.branches)
    return schema.kind == "null"


def _with_logical(logical: Logical | None, plain: pa.DataType, path: str) -> pa.DataType:
    if logical is None:
        return plain
    if logical.name != "decimal":
        return _LOGICAL[logical.name]
    if logical.precision > MAX_PRECISION:
        raise SchemaError(
            f"a decimal of {logical.precision} digits; a column holds {MAX_PRECISION}", path=path
        )
    make = pa.decimal128 if logical.precision <= 38 else pa.decimal256
    return make(logical.precision, logical.scale)
