"""Defaults, as JSON has them: whether they are values of their types, and how much they hold."""

from __future__ import annotations

from parley.serdes.avro.model import (
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Primitive,
    Record,
    Union,
)
from parley.types import Json

MAX_COMPARED = 1_000_000
"""How often the values of one schema's defaults are compared with types."""
MAX_VALUES = 100_000
"""How many values the defaults of one schema hold, with those that stand in them by default."""
_LIMITS = {"int": 2**31, "long": 2**63}


def branch_of(union: Union, value: Json) -> int:
    """Return the first branch that a default fits. That of a union may be of any (Avro 1.12)."""
    fitting = Fitting()
    return next(i for i, one in enumerate(union.branches) if fitting.fits(one, value))


class Fitting:
    """Compares defaults with types, each value with each record once.

    Raises ValueError where more is to be compared than a schema of people needs.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], bool] = {}
        self._compared = 0

    def fits(self, kind: AvroType, value: Json) -> bool:
        """Return whether a default fits. The values have to live as long as this does."""
        self._compared += 1
        if self._compared > MAX_COMPARED:
            raise ValueError("the defaults take too long to compare with their types")
        if isinstance(kind, Union):
            return any(self.fits(branch, value) for branch in kind.branches)
        if isinstance(kind, Primitive):
            return _fits_primitive(kind.kind, value)
        if isinstance(kind, Enum):
            return value in kind.symbols
        if isinstance(kind, Fixed):
            return _is_bytes(value) and isinstance(value, str) and len(value) == kind.size
        if isinstance(kind, Array):
            return isinstance(value, list) and all(self.fits(kind.items, one) for one in value)
        if isinstance(kind, Map):
            return isinstance(value, dict) and all(
                self.fits(kind.values, one) for one in value.values()
            )
        return isinstance(value, dict) and self._fits_record(kind, value)

    def _fits_record(self, record: Record, value: dict[str, Json]) -> bool:
        key = (id(record), id(value))
        if key not in self._known:
            self._known[key] = self._fits_each(record, value)
        return self._known[key]

    def _fits_each(self, record: Record, value: dict[str, Json]) -> bool:
        self._compared += len(record.fields)
        for one in record.fields:
            if one.name in value:
                if not self.fits(one.type, value[one.name]):
                    return False
            elif not one.has_default:
                return False
        return True


class Sizes:
    """How many values defaults hold that fit. Raises ValueError for those without an end."""

    def __init__(self) -> None:
        self._known: dict[int, int | None] = {}
        self._whole = 0

    def add(self, field: Field) -> None:
        """Add a default to those of the schema. Raises ValueError where they are too many."""
        self._whole += self._default(field)
        if self._whole > MAX_VALUES:
            raise ValueError(f"the defaults of the schema hold more than {MAX_VALUES} values")

    def _default(self, field: Field) -> int:
        if id(field) in self._known:
            known = self._known[id(field)]
            if known is None:
                raise ValueError("the default holds itself, without an end")
            return known
        self._known[id(field)] = None
        found = self._known[id(field)] = self._size(field.type, field.default)
        return found

    def _size(self, kind: AvroType, value: Json) -> int:
        if isinstance(kind, Union):
            return self._size(kind.branches[branch_of(kind, value)], value)
        found = 1
        if isinstance(kind, Record) and isinstance(value, dict):
            for one in kind.fields:
                given = one.name in value
                found += self._size(one.type, value[one.name]) if given else self._default(one)
        elif isinstance(kind, Array) and isinstance(value, list):
            for item in value:
                found += self._size(kind.items, item)
        elif isinstance(kind, Map) and isinstance(value, dict):
            for item in value.values():
                found += self._size(kind.values, item)
        return found


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
