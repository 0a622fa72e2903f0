"""Whether a default, as JSON has it, is a value of a type."""

from __future__ import annotations

from parley.serdes.avro.model import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Union
from parley.types import Json

_LIMITS = {"int": 2**31, "long": 2**63}


def fits(kind: AvroType, value: Json) -> bool:
    """Return whether a default fits. That of a union may be of any branch (Avro 1.12)."""
    if isinstance(kind, Union):
        return any(fits(branch, value) for branch in kind.branches)
    if isinstance(kind, Primitive):
        return _fits_primitive(kind.kind, value)
    if isinstance(kind, Enum):
        return value in kind.symbols
    if isinstance(kind, Fixed):
        return _is_bytes(value) and isinstance(value, str) and len(value) == kind.size
    if isinstance(kind, Array):
        return isinstance(value, list) and all(fits(kind.items, one) for one in value)
    if isinstance(kind, Map):
        return isinstance(value, dict) and all(fits(kind.values, one) for one in value.values())
    return isinstance(value, dict) and _fits_record(kind, value)


def _fits_record(record: Record, value: dict[str, Json]) -> bool:
    for one in record.fields:
        if one.name in value:
            if not fits(one.type, value[one.name]):
                return False
        elif not one.has_default:
            return False
    return True


def _fits_primitive(kind: str, value: Json) -> bool:
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if kind in _LIMITS:
        return isinstance(value, int) and -_LIMITS[kind] <= value < _LIMITS[kind]
    if kind in ("float", "double"):
        return isinstance(value, int | float) or value in ("NaN", "Infinity", "-Infinity")
    return _is_bytes(value) if kind == "bytes" else isinstance(value, str)


def _is_bytes(value: Json) -> bool:
    """Whether a text stands for bytes: one character for each."""
    return isinstance(value, str) and all(ord(char) < 256 for char in value)
