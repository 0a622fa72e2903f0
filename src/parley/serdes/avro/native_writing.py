"""Plans for the compiled encoder, for columns whose types lie as a schema wants them.

`writing_of` decides between it and the reference: unions of several types, casts between kinds of
numbers and types that are rare stay with the reference. What does not fit is found by the compiled
encoder and named by the reference, which encodes such a column again.
"""

from __future__ import annotations

import pyarrow as pa

from parley.serdes import native
from parley.serdes.avro.logical import time_type
from parley.serdes.avro.model import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Union
from parley.serdes.avro.unions import members
from parley.serdes.avro.writing import default_bytes
from parley.serdes.native import WIDTHS, NativeWriting, OnlyReference, Plan

_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def writing_of(kind: pa.DataType, schema: AvroType) -> NativeWriting | None:
    """Return what writes columns of a type; None where only the reference can.

    The type is one that the reference takes (`column_values.compile_column`).
    """
    return native.writing("avro", lambda: _plan(kind, schema))


def _plan(kind: pa.DataType, schema: AvroType) -> Plan:
    if isinstance(schema, Union):
        return _optional(kind, schema)
    if pa.types.is_null(kind):
        if schema.kind != "null":
            raise OnlyReference
        return ("null",)
    if isinstance(schema, Record):
        return _record(kind, schema)
    if isinstance(schema, Array):
        if not pa.types.is_list(kind):
            raise OnlyReference
        return ("list", _plan(kind.value_type, schema.items))
    if isinstance(schema, Map):
        if kind.key_type != pa.string():
            raise OnlyReference
        return ("map", _plan(kind.item_type, schema.values))
    return _leaf(kind, schema)


def _optional(kind: pa.DataType, union: Union) -> Plan:
    kept = members(union)
    if len(kept) != 1:
        raise OnlyReference
    kinds = [one.kind for one in union.branches]
    null = kinds.index("null") if "null" in kinds else None
    inner = ("null",) if pa.types.is_null(kind) else _plan(kind, kept[0])
    return ("optional", null, union.branches.index(kept[0]), inner)


def _record(kind: pa.DataType, record: Record) -> Plan:
    if not pa.types.is_struct(kind):
        raise OnlyReference
    columns = {one.name: (place, one.type) for place, one in enumerate(kind)}
    fields: list[tuple[int | None, Plan | bytes]] = []
    for one in record.fields:
        if one.name in columns:
            place, inner = columns[one.name]
            fields.append((place, _plan(inner, one.type)))
        elif one.has_default:
            fields.append((None, default_bytes(one.type, one.default)))
        else:
            assert isinstance(one.type, Union)  # of null: the reference has seen to that
            nulls = [
                index for index, branch in enumerate(one.type.branches) if branch.kind == "null"
            ]
            fields.append((None, bytes([nulls[0] * 2])))
    return ("record", fields)


def _leaf(kind: pa.DataType, schema: Primitive | Enum | Fixed) -> Plan:
    if isinstance(schema, Enum):
        return ("enum", _is_wide(kind, "string"), list(schema.symbols))
    if schema.logical is not None and schema.logical.name != "uuid":
        return _logical(kind, schema)
    if isinstance(schema, Fixed):
        if schema.logical is not None:
            raise OnlyReference
        return ("fixed", _is_wide(kind, "binary"), schema.size)
    if schema.kind in ("int", "long") and kind in WIDTHS:
        return ("whole", WIDTHS[kind], 1, schema.kind == "int")
    if schema.kind in ("string", "bytes"):
        name = "string" if schema.kind == "string" else "binary"
        return ("bytes", _is_wide(kind, name), schema.kind == "string")
    if schema.kind == "boolean":
        return ("boolean",)
    if schema.kind == "float" and kind == pa.float32():
        return ("float",)
    if schema.kind == "double" and kind in (pa.float32(), pa.float64()):
        return ("double", kind == pa.float32())
    raise OnlyReference


def _logical(kind: pa.DataType, schema: Primitive | Fixed) -> Plan:
    logical = schema.logical
    assert logical is not None
    if logical.name == "decimal":
        if (
            not pa.types.is_decimal128(kind)
            or kind.scale != logical.scale
            or logical.precision > 38
        ):
            raise OnlyReference
        return ("decimal", logical.precision, schema.size if isinstance(schema, Fixed) else None)
    unit = time_type(logical.name)
    if unit is None:
        raise OnlyReference
    if pa.types.is_date32(kind):
        return ("whole", 4, 1, True)
    if pa.types.is_date(kind):
        raise OnlyReference
    divide, rest = divmod(_UNITS[kind.unit], _UNITS[unit.unit])
    if rest:
        raise OnlyReference
    return ("whole", kind.bit_width // 8, divide, unit.bit_width == 32)


def _is_wide(kind: pa.DataType, name: str) -> bool:
    """Return whether offsets have 64 bits, of texts or bytes."""
    if str(kind) not in (name, f"large_{name}"):
        raise OnlyReference
    return str(kind) != name
