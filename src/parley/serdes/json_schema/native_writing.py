"""Plans for the compiled writer of JSON. `writing_of` decides between it and the reference.

It writes the same bytes. Types that are rare, and texts that hold any JSON, stay with the
reference; what does not fit is found by the compiled writer and named by the reference, which
writes such a column again.
"""

from __future__ import annotations

import pyarrow as pa

from parley.serdes import native
from parley.serdes.json_schema.shapes import Kind, Shape
from parley.serdes.native import WIDTHS, NativeWriting, OnlyReference, Plan

_MICROS = {"s": 10**6, "ms": 10**3, "us": 1}


def writing_of(kind: pa.DataType, shape: Shape) -> NativeWriting | None:
    """Return what writes columns of a type; None where only the reference can.

    The shape has the properties of the type, and what a schema says of them
    (`writing.column_shape`).
    """
    return native.writing("json", lambda: _plan(kind, shape))


def _plan(kind: pa.DataType, shape: Shape) -> Plan:
    if pa.types.is_null(kind):
        return ("null",)
    if shape.kind is Kind.OBJECT:
        return ("object", [_property(one, shape) for one in _fields(kind)])
    if shape.items is not None:
        if shape.kind is Kind.ARRAY and pa.types.is_list(kind):
            return ("array", _plan(kind.value_type, shape.items))
        if shape.kind is Kind.MAP and pa.types.is_map(kind) and kind.key_type == pa.string():
            return ("map", _plan(kind.item_type, shape.items))
        raise OnlyReference
    if shape.kind in (Kind.INTEGER, Kind.NUMBER) and kind in WIDTHS:
        bits = shape.bits if shape.kind is Kind.INTEGER else 64
        return ("whole", WIDTHS[kind], bits)
    if shape.kind is Kind.NUMBER and kind in (pa.float32(), pa.float64()):
        return ("real", kind == pa.float32(), shape.bits == 32)
    if shape.kind is Kind.TEXT and kind in (pa.string(), pa.large_string()):
        return ("text", kind == pa.large_string())
    if shape.kind is Kind.BYTES and kind in (pa.binary(), pa.large_binary()):
        return ("bytes", kind == pa.large_binary())
    if shape.kind is Kind.BOOLEAN:
        return ("boolean",)
    if shape.kind is Kind.DATE and pa.types.is_date32(kind):
        return ("date",)
    if shape.kind is Kind.TIMESTAMP and pa.types.is_timestamp(kind) and kind.tz == "UTC":
        return ("timestamp", _MICROS[kind.unit])
    raise OnlyReference


def _fields(kind: pa.DataType) -> list[pa.Field]:
    fields = list(kind)
    if len({one.name for one in fields}) < len(fields):
        raise OnlyReference
    return fields


def _property(column: pa.Field, shape: Shape) -> tuple[str, str, Plan]:
    """Return a property's name, what is written where it has no value, and its plan."""
    inner = shape.fields[column.name]
    absent = ""
    if column.name in shape.required:
        absent = "null" if inner.nullable or inner.kind is Kind.NULL else "refused"
    return (column.name, absent, _plan(column.type, inner))
