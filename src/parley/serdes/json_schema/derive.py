"""The shape and the JSON Schema of an Arrow type: the opposite of `shapes`."""

from __future__ import annotations

import json

import pyarrow as pa

from parley.errors import SchemaError
from parley.serdes.faults import inner_path
from parley.serdes.json_schema.shapes import Kind, Shape
from parley.serdes.schemas import Schema
from parley.types import Json

DRAFT = "http://json-schema.org/draft-07/schema#"
_KINDS: dict[pa.DataType, Shape] = {
    pa.null(): Shape(Kind.NULL),
    pa.bool_(): Shape(Kind.BOOLEAN),
    pa.int8(): Shape(Kind.INTEGER, bits=8),
    pa.int16(): Shape(Kind.INTEGER, bits=16),
    pa.int32(): Shape(Kind.INTEGER, bits=32),
    pa.uint8(): Shape(Kind.INTEGER, bits=16),
    pa.uint16(): Shape(Kind.INTEGER, bits=32),
    pa.int64(): Shape(Kind.INTEGER),
    pa.uint32(): Shape(Kind.INTEGER),
    pa.float32(): Shape(Kind.NUMBER, bits=32),
    pa.float64(): Shape(Kind.NUMBER),
    pa.string(): Shape(Kind.TEXT),
    pa.large_string(): Shape(Kind.TEXT),
    pa.string_view(): Shape(Kind.TEXT),
    pa.binary(): Shape(Kind.BYTES),
    pa.large_binary(): Shape(Kind.BYTES),
    pa.binary_view(): Shape(Kind.BYTES),
    pa.date32(): Shape(Kind.DATE),
}
_SAID: dict[Kind, dict[str, Json]] = {
    Kind.NULL: {"type": "null"},
    Kind.BOOLEAN: {"type": "boolean"},
    Kind.TEXT: {"type": "string"},
    Kind.BYTES: {"type": "string", "contentEncoding": "base64", "connect.type": "bytes"},
    Kind.DATE: {"type": "string", "format": "date"},
    Kind.TIMESTAMP: {"type": "string", "format": "date-time"},
}


def shape_of(kind: pa.DataType, path: str) -> Shape:
    """Return the shape of a column. Raises SchemaError, which names the field, if it has none."""
    if kind in _KINDS:
        return _KINDS[kind]
    if pa.types.is_dictionary(kind):
        return shape_of(kind.value_type, path)
    if pa.types.is_fixed_size_binary(kind):
        return Shape(Kind.BYTES)
    if pa.types.is_timestamp(kind) and kind.tz is not None and kind.unit != "ns":
        return Shape(Kind.TIMESTAMP)
    if pa.types.is_struct(kind):
        inner = {one.name: one for one in kind}
        return Shape(
            Kind.OBJECT,
            fields={
                name: shape_of(one.type, inner_path(path, name)) for name, one in inner.items()
            },
            required=frozenset(name for name, one in inner.items() if not one.nullable),
        )
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return Shape(Kind.ARRAY, items=shape_of(kind.value_type, inner_path(path, "element")))
    if pa.types.is_map(kind) and kind.key_type in (pa.string(), pa.large_string()):
        return Shape(Kind.MAP, items=shape_of(kind.item_type, inner_path(path, "value")))
    remedy = "cast it, or leave it out"
    if pa.types.is_timestamp(kind):
        remedy = 'cast it to timestamp("us", tz="UTC")'
    elif pa.types.is_decimal(kind):
        remedy = "cast it to float64, or to string to keep all digits"
    raise SchemaError(f"JSON Schema has no type for a column of {kind}; {remedy}", path=path)


def json_schema(kind: pa.DataType, name: str) -> Schema:
    """Return the schema of a column's type, with `name` as its title."""
    said = {"$schema": DRAFT, "title": name, **_described(kind, "")}
    return Schema(json.dumps(said), "JSON")


def _described(kind: pa.DataType, path: str) -> dict[str, Json]:
    shape = shape_of(kind, path)
    if shape.kind is Kind.OBJECT:
        properties: dict[str, Json] = {
            one.name: _maybe(one, inner_path(path, one.name)) for one in kind
        }
        found: dict[str, Json] = {"type": "object", "properties": properties}
        required: list[Json] = [one.name for one in kind if not one.nullable]
        return {**found, "required": required} if required else found
    if shape.kind is Kind.ARRAY:
        return {"type": "array", "items": _maybe(kind.value_field, inner_path(path, "element"))}
    if shape.kind is Kind.MAP:
        inner = _maybe(kind.item_field, inner_path(path, "value"))
        return {"type": "object", "additionalProperties": inner}
    if shape.kind is Kind.INTEGER:
        return {"type": "integer", "connect.type": f"int{shape.bits}"}
    if shape.kind is Kind.NUMBER:
        return {"type": "number", "connect.type": f"float{shape.bits}"}
    return _SAID[shape.kind]


def _maybe(field: pa.Field, path: str) -> dict[str, Json]:
    """Return a field's schema; what may be null is one of null and its type."""
    found = _described(field.type, path)
    if not field.nullable or found == _SAID[Kind.NULL]:
        return found
    return {"oneOf": [_SAID[Kind.NULL], found]}
