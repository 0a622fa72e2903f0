"""The Avro schema of an Arrow type: the opposite of `columns`.

A field that may be null becomes a union of null and its type, with null as default. Nested records
are named by the fields that lead to them, below the name of the outermost one as a namespace.
"""

from __future__ import annotations

import json
import re

import pyarrow as pa

from parley.errors import ConfigError, SchemaError
from parley.serdes.faults import inner_path
from parley.serdes.schemas import Schema
from parley.types import Json, shown

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PRIMITIVES: dict[pa.DataType, str] = {
    pa.null(): "null",
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.uint8(): "int",
    pa.uint16(): "int",
    pa.int64(): "long",
    pa.uint32(): "long",
    pa.float16(): "float",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.binary(): "bytes",
    pa.large_binary(): "bytes",
    pa.binary_view(): "bytes",
}
_TIMES: dict[pa.DataType, tuple[str, str]] = {
    pa.date32(): ("int", "date"),
    pa.date64(): ("int", "date"),
    pa.time32("s"): ("int", "time-millis"),
    pa.time32("ms"): ("int", "time-millis"),
    pa.time64("us"): ("long", "time-micros"),
}
_UNITS = {"s": "millis", "ms": "millis", "us": "micros", "ns": "nanos"}
_REMEDIES = {
    "uint64": "cast it to int64, or to decimal128(20, 0)",
    "time64[ns]": 'cast it to time64("us")',
}


def avro_schema(kind: pa.DataType, name: str) -> Schema:
    """Return the schema of a column's type; `name` is the full name of the outermost record.

    Raises SchemaError, which names the field, for types and names that Avro does not have.
    """
    if not all(_NAME.fullmatch(part) for part in name.split(".")):
        raise ConfigError(
            f"{shown(name)} is no full name of a record: letters, digits and _ are expected, and "
            "dots between namespaces"
        )
    return Schema(json.dumps(_described(kind, name, "")))


def record_name(subject: str) -> str:
    """Return a record's name that is made of a subject's: `orders-value` gives `orders_value`."""
    found = re.sub(r"[^A-Za-z0-9_]", "_", subject)
    return found if _NAME.fullmatch(found) else f"_{found}"


def _described(kind: pa.DataType, name: str, path: str) -> Json:
    if kind in _PRIMITIVES:
        return _PRIMITIVES[kind]
    if kind in _TIMES:
        plain, logical = _TIMES[kind]
        return {"type": plain, "logicalType": logical}
    if pa.types.is_dictionary(kind):
        return _described(kind.value_type, name, path)
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.uuid":
            return {"type": "string", "logicalType": "uuid"}
        return _described(kind.storage_type, name, path)
    if pa.types.is_timestamp(kind):
        local = "local-" if kind.tz is None else ""
        return {"type": "long", "logicalType": f"{local}timestamp-{_UNITS[kind.unit]}"}
    if pa.types.is_decimal(kind) and kind.scale >= 0:
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision,
                "scale": kind.scale}  # fmt: skip
    if pa.types.is_fixed_size_binary(kind):
        return {"type": "fixed", "name": name, "size": kind.byte_width}
    if kind == pa.month_day_nano_interval():
        return {"type": "fixed", "name": name, "size": 12, "logicalType": "duration"}
    return _nested(kind, name, path)


def _nested(kind: pa.DataType, name: str, path: str) -> Json:
    if pa.types.is_struct(kind):
        return {
            "type": "record",
            "name": name,
            "fields": [_field(one, name, path) for one in kind],
        }
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        inner = inner_path(path, "element")
        return {"type": "array", "items": _maybe(kind.value_field, f"{name}.element", inner)}
    if pa.types.is_map(kind) and kind.key_type in (pa.string(), pa.large_string()):
        inner = inner_path(path, "value")
        return {"type": "map", "values": _maybe(kind.item_field, f"{name}.value", inner)}
    remedy = _REMEDIES.get(str(kind), "cast it, or leave it out")
    raise SchemaError(f"Avro has no type for a column of {kind}; {remedy}", path=path)


def _field(field: pa.Field, name: str, path: str) -> Json:
    inner = inner_path(path, field.name)
    if not _NAME.fullmatch(field.name):
        raise SchemaError(
            f"{shown(field.name)} is no name in Avro (letters, digits and _ are); rename the field",
            path=path,
        )
    made: dict[str, Json] = {
        "name": field.name,
        "type": _maybe(field, f"{name}.{field.name}", inner),
    }
    if field.nullable:
        made["default"] = None
    return made


def _maybe(field: pa.Field, name: str, path: str) -> Json:
    kind = _described(field.type, name, path)
    return ["null", kind] if field.nullable and kind != "null" else kind
