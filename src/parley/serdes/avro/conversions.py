"""From what stands in a datum to what a column's builder takes, by the reader's type.

Dates and times stay numbers, in the units that columns have; decimals become `Decimal`, UUIDs
texts. What does not fit a column raises ValueError, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from struct import Struct

from parley.errors import SchemaError
from parley.serdes.avro.defaults import branch_of
from parley.serdes.avro.logical import plain_value
from parley.serdes.avro.model import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Union
from parley.serdes.avro.rescaling import decimal_shift, time_factor
from parley.serdes.avro.unions import UnionShape, member_name, union_shape
from parley.serdes.frames import guid_text
from parley.types import Json

Convert = Callable[[object], object]

MAX_PRECISION = 76
"""Of decimals in columns: those of 256 bits."""
_DURATION = Struct("<III")


def conversion(reader: Primitive | Fixed, writer: Primitive | Fixed) -> Convert | None:
    """Return what makes a column's value of a written one; None where it is the same."""
    logical = reader.logical
    if logical is not None and logical.name == "decimal":
        return _decimal(logical.precision, logical.scale, decimal_shift(writer, reader))
    if isinstance(reader, Fixed):
        return _fixed(reader)
    assert isinstance(writer, Primitive)
    if reader.kind in ("float", "double") and writer.kind in ("int", "long"):
        return _as_float
    if reader.kind == "string":
        return as_text
    factor = time_factor(writer, reader)
    return None if factor == 1 else _multiplied(factor)


def as_text(value: object) -> object:
    """Return the text of a string's bytes."""
    assert isinstance(value, bytes)
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"a text is not UTF-8 ({error.reason})") from error


def default_value(kind: AvroType, value: Json, *, plain: bool = False) -> object:
    """Return a default as reading would return the value, `plain` or for columns."""
    if isinstance(kind, Union):
        index = branch_of(kind, value)
        inner = default_value(kind.branches[index], value, plain=plain)
        name = member_name(kind, index)
        wrapped = union_shape(kind) is UnionShape.MEMBERS and name is not None and not plain
        return {name: inner} if wrapped else inner
    if isinstance(kind, Record):
        given = value if isinstance(value, dict) else {}
        return {
            one.name: default_value(one.type, given.get(one.name, one.default), plain=plain)
            for one in kind.fields
        }
    if isinstance(kind, Array):
        return [default_value(kind.items, one, plain=plain) for one in value or ()]  # type: ignore[union-attr]  # a list: it fits
    if isinstance(kind, Map):
        given = value if isinstance(value, dict) else {}
        pairs = {key: default_value(kind.values, one, plain=plain) for key, one in given.items()}
        return pairs if plain else list(pairs.items())
    if isinstance(kind, Enum):
        return value
    if isinstance(kind, Primitive) and kind.kind == "string":
        return value
    found: object = value
    if isinstance(kind, Fixed) or kind.kind == "bytes":
        found = str(value).encode("latin-1")
    elif kind.kind in ("float", "double"):
        found = float(str(value))
    last = plain_value(kind) if plain else None
    try:
        for convert in (conversion(kind, kind), last):
            found = found if convert is None else convert(found)
        return found
    except ValueError as error:
        raise SchemaError(f"the default {value!r} cannot be used: {error}") from error


def enum_symbols(writer: Enum, reader: Enum) -> list[tuple[str | None, str]]:
    """Return of each of the writer's symbols what the reader has, or why it has nothing."""
    found: list[tuple[str | None, str]] = []
    for symbol in writer.symbols:
        known = symbol if symbol in reader.symbols else reader.default
        why = f"the reader's {reader.name} has no symbol {symbol}, and no default"
        found.append((known, why))
    return found


def _fixed(reader: Fixed) -> Convert | None:
    logical = reader.logical
    if logical is None:
        return None
    return _uuid if logical.name == "uuid" else _duration


def _as_float(value: object) -> object:
    assert isinstance(value, int)
    return float(value)


def _multiplied(factor: int) -> Convert:
    def convert(value: object) -> object:
        assert isinstance(value, int)
        found = value * factor
        if not -(2**63) <= found < 2**63:
            raise ValueError(f"the time {value} does not fit the unit of its column")
        return found

    return convert


def _decimal(precision: int, scale: int, shift: int) -> Convert:
    """Return what reads decimals; `shift` digits behind the point are not written."""

    def convert(value: object) -> object:
        assert isinstance(value, bytes)
        if len(value) > 64:
            raise ValueError(f"a decimal of {len(value)} bytes")
        unscaled = int.from_bytes(value, "big", signed=True)
        if abs(unscaled) >= 10 ** (precision - shift):
            raise ValueError(f"a decimal has more digits than its precision of {precision}")
        unscaled *= 10**shift
        digits = tuple(map(int, str(abs(unscaled))))
        return Decimal((int(unscaled < 0), digits, -scale))

    return convert


def _uuid(value: object) -> object:
    assert isinstance(value, bytes)
    return guid_text(value)


def _duration(value: object) -> object:
    """Return months, days and nanoseconds."""
    assert isinstance(value, bytes)
    months, days, millis = _DURATION.unpack(value)
    if months >= 2**31 or days >= 2**31:
        raise ValueError("a duration has more months or days than a column can hold")
    return months, days, millis * 1_000_000
