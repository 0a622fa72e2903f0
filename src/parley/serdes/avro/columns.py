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
from parley.serdes.faults import bounded_depth, inner_path

MAX_PARTS = 10_000
"""Columns of one schema, with those within others. Few lines can ask for billions."""

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

    Raises SchemaError, which names the field, for records that contain themselves, for decimals of
    more than 76 digits and for more than 10 000 columns.
    """
    with bounded_depth():
        return _Types().type_of(schema, "", ())


def array_of(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    """Return an array of values as `reading` makes them."""
    return pa.array(values, type=kind)


class _Types:
    """Makes types, and counts them."""

    def __init__(self) -> None:
        self._made = 0

    def type_of(self, schema: AvroType, path: str, above: tuple[Record, ...]) -> pa.DataType:
        self._made += 1
        if self._made > MAX_PARTS:
            raise SchemaError(f"the schema has more than {MAX_PARTS} columns", path=path)
        if isinstance(schema, Primitive):
            return _with_logical(schema.logical, _PRIMITIVES[schema.kind], path)
        if isinstance(schema, Fixed):
            return _with_logical(schema.logical, pa.binary(), path)
        if isinstance(schema, Enum):
            return pa.string()
        if isinstance(schema, Array):
            return pa.list_(self._inner("element", schema.items, path, above))
        if isinstance(schema, Map):
            return pa.map_(pa.string(), self._inner("value", schema.values, path, above))
        if isinstance(schema, Union):
            return self._union_type(schema, path, above)
        if schema in above:
            raise SchemaError(
                f"the record {schema.name} contains itself, no column can hold it", path=path
            )
        above = (*above, schema)
        fields = schema.fields
        return pa.struct(
            [self._inner(one.name, one.type, inner_path(path, one.name), above) for one in fields]
        )

    def _inner(self, name: str, schema: AvroType, path: str, above: tuple[Record, ...]) -> pa.Field:
        return pa.field(name, self.type_of(schema, path, above), is_nullable(schema))

    def _union_type(self, union: Union, path: str, above: tuple[Record, ...]) -> pa.DataType:
        shape = union_shape(union)
        if shape is UnionShape.LONG:
            return pa.int64()
        if shape is UnionShape.DOUBLE:
            return pa.float64()
        kept = members(union)
        if shape is UnionShape.ONE:
            return self.type_of(kept[0], path, above) if kept else pa.null()
        named = [
            pa.field(f"member{index}", self.type_of(one, path, above))
            for index, one in enumerate(kept)
        ]
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
