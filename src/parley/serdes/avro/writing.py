"""One Python value to one datum, as a schema says: the opposite of `reading`.

`compile_writer` walks the schema once and returns a function that appends to a bytearray. It takes
the values that programs have: numbers, texts, dicts, lists, and for logical types dates, times,
`Decimal` and UUIDs (`logical`); and those that `column_values` makes of columns. What does not fit
raises ValueFault, which says where: nothing is left out, and no whole number is rounded. Of
fractions float and double hold the nearest, as everywhere.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from struct import Struct, error as StructError
from typing import NamedTuple

from parley.errors import SchemaError, nearest_hint
from parley.serdes.avro.defaults import branch_of
from parley.serdes.avro.logical import logical_value
from parley.serdes.avro.model import Array, AvroType, Enum, Field, Fixed, Map, Record, Union
from parley.serdes.faults import ValueFault, bounded_depth, wrong_value
from parley.types import Json, shown

_FLOAT, _DOUBLE = Struct("<f"), Struct("<d")

Write = Callable[[bytearray, object], None]


class Chosen(NamedTuple):
    """A value of a union whose branch is known."""

    branch: int
    value: object


def write_datum(write: Write, value: object) -> bytes:
    """Return the datum of a value. Raises ValueFault for one that does not fit."""
    out = bytearray()
    try:
        write(out, value)
    except RecursionError:
        raise ValueFault("the value is nested too deep") from None
    return bytes(out)


def compile_writer(schema: AvroType) -> Write:
    """Return what writes values of a schema. Raises SchemaError for defaults that cannot be."""
    with bounded_depth():
        return _Compiler().write(schema)


def write_number(out: bytearray, value: int) -> None:
    """Append a whole number as a zigzag varint."""
    left = (value << 1) ^ (value >> 63)
    while left > 0x7F:
        out.append((left & 0x7F) | 0x80)
        left >>= 7
    out.append(left)


class _Compiler:
    """Makes what writes each type. That of a record is made once: it may contain itself."""

    def __init__(self) -> None:
        self._records: dict[int, Write] = {}

    def write(self, schema: AvroType) -> Write:
        if isinstance(schema, Union):
            return _UnionWriter(schema, [self.write(one) for one in schema.branches])
        if isinstance(schema, Record):
            return self._record(schema)
        if isinstance(schema, Array):
            return _write_list(self.write(schema.items))
        if isinstance(schema, Map):
            return _write_map(self.write(schema.values))
        if isinstance(schema, Enum):
            return _write_enum(schema)
        plain = _write_fixed(schema) if isinstance(schema, Fixed) else _PLAIN[schema.kind]
        if schema.logical is None:
            return plain
        convert = logical_value(schema)
        return lambda out, value: plain(out, convert(value))

    def _record(self, record: Record) -> Write:
        known = self._records.get(id(record))
        if known is not None:
            return known
        steps: list[tuple[str, Write, bytes | None]] = []
        names: set[str] = set()

        def write(out: bytearray, value: object) -> None:
            if not isinstance(value, Mapping):
                raise wrong_value(value, f"the record {record.name}")
            found = 0
            for name, step, absent in steps:
                if name in value:
                    found += 1
                    try:
                        step(out, value[name])
                    except ValueFault as fault:
                        raise fault.within(name) from None
                elif absent is None:
                    raise ValueFault("the field is missing, and has no default", name)
                else:
                    out += absent
            if found < len(value):
                extra = next(one for one in value if one not in names)
                raise ValueFault(
                    f"{record.name} has no field {shown(extra)}.{nearest_hint(str(extra), names)}"
                )

        self._records[id(record)] = write
        for one in record.fields:
            names.add(one.name)
            steps.append((one.name, self.write(one.type), _absent(one)))
        return write


def _absent(field: Field) -> bytes | None:
    """Return what stands for a field that a value does not have: its default, or null."""
    if field.has_default:
        try:
            return default_bytes(field.type, field.default)
        except ValueFault as fault:
            why = f"the default {shown(field.default)} cannot be used: {fault}"
            raise SchemaError(why, path=field.name) from None
    if not isinstance(field.type, Union):
        return None
    nulls = [index for index, one in enumerate(field.type.branches) if one.kind == "null"]
    return bytes([nulls[0] * 2]) if nulls else None


def default_bytes(kind: AvroType, default: Json) -> bytes:
    """Return the datum of a field's default."""
    out = bytearray()
    _write_default(out, kind, default)
    return bytes(out)


def _write_default(out: bytearray, kind: AvroType, value: Json) -> None:
    """Append a default. The parser has seen to it that it fits, and has an end."""
    if isinstance(kind, Union):
        index = branch_of(kind, value)
        write_number(out, index)
        _write_default(out, kind.branches[index], value)
    elif isinstance(kind, Record) and isinstance(value, dict):
        for one in kind.fields:
            _write_default(out, one.type, value.get(one.name, one.default))
    elif isinstance(kind, Array) and isinstance(value, list):
        _write_list(lambda inner, one: _write_default(inner, kind.items, one))(out, value)  # type: ignore[arg-type]
    elif isinstance(kind, Map) and isinstance(value, dict):
        _write_map(lambda inner, one: _write_default(inner, kind.values, one))(out, value)  # type: ignore[arg-type]
    elif isinstance(kind, Enum):
        _write_enum(kind)(out, value)
    elif isinstance(kind, Fixed):
        out += str(value).encode("latin-1")
    elif kind.kind == "bytes":
        _write_bytes(out, str(value).encode("latin-1"))
    elif kind.kind in ("float", "double"):
        _PLAIN[kind.kind](out, float(str(value)))
    else:
        _PLAIN[kind.kind](out, value)


class _UnionWriter:
    """Finds the branch of a value: what it says itself, else the first that takes it.

    Whole numbers go into int and long before float and double, others into double before float.
    """

    def __init__(self, union: Union, writes: Sequence[Write]) -> None:
        self._writes = writes
        self._kinds = [one.kind for one in union.branches]
        self._names = {
            one.name if isinstance(one, Record | Enum | Fixed) else one.kind: index
            for index, one in enumerate(union.branches)
        }
        self._null = self._names.get("null")
        kept = [index for index, kind in enumerate(self._kinds) if kind != "null"]
        self._only = kept[0] if len(kept) == 1 else None
        self._members = {f"member{place}": index for place, index in enumerate(kept)}
        self._orders: dict[type, list[int]] = {}

    def __call__(self, out: bytearray, value: object) -> None:
        if value is None:
            if self._null is None:
                raise ValueFault("null, and the union has no null")
            write_number(out, self._null)
            return
        if isinstance(value, Chosen):
            self._into(out, value.branch, value.value)
        elif self._only is not None:
            self._into(out, self._only, value)
        elif isinstance(value, tuple) and len(value) == 2 and value[0] in self._names:
            self._into(out, self._names[value[0]], value[1])
        else:
            self._try_each(out, value)

    def _into(self, out: bytearray, index: int, value: object) -> None:
        write_number(out, index)
        self._writes[index](out, value)

    def _try_each(self, out: bytearray, value: object) -> None:
        start = len(out)
        why: list[str] = []
        for index in self._order(type(value)):
            try:
                self._into(out, index, value)
            except ValueFault as fault:
                del out[start:]
                why.append(f"{self._kinds[index]}: {fault}")
            else:
                return None
        if isinstance(value, Mapping) and len(value) == 1:
            name, inner = next(iter(value.items()))
            if name in self._members:
                return self._into(out, self._members[name], inner)
        raise ValueFault(f"{shown(value)} fits no branch of the union ({'; '.join(why)})")

    def _order(self, kind: type) -> list[int]:
        if kind not in self._orders:
            last: tuple[str, ...] = ()
            if issubclass(kind, int):
                last = ("float", "double")
            elif issubclass(kind, float):
                last = ("float",)
            kept = [index for index, one in enumerate(self._kinds) if one != "null"]
            self._orders[kind] = sorted(kept, key=lambda index: self._kinds[index] in last)
        return self._orders[kind]


def _write_list(item: Write) -> Write:
    def write(out: bytearray, value: object) -> None:
        if not isinstance(value, Sequence) or isinstance(value, str | bytes | bytearray):
            raise wrong_value(value, "a list")
        if value:
            write_number(out, len(value))
            for index, one in enumerate(value):
                try:
                    item(out, one)
                except ValueFault as fault:
                    raise fault.within(f"[{index}]") from None
        out.append(0)

    return write


def _write_map(item: Write) -> Write:
    """Return what writes a dict, or the pairs of one."""

    def write(out: bytearray, value: object) -> None:
        pairs: object = list(value.items()) if isinstance(value, Mapping) else value
        if not isinstance(pairs, list):
            raise wrong_value(value, "a dict")
        if pairs:
            write_number(out, len(pairs))
            for key, one in pairs:
                _write_string(out, key)
                try:
                    item(out, one)
                except ValueFault as fault:
                    raise fault.within(f"[{key!r}]") from None
        out.append(0)

    return write


def _write_enum(schema: Enum) -> Write:
    indexes = {symbol: index for index, symbol in enumerate(schema.symbols)}

    def write(out: bytearray, value: object) -> None:
        index = indexes.get(value) if isinstance(value, str) else None
        if index is None:
            hint = nearest_hint(str(value), schema.symbols)
            raise ValueFault(f"{shown(value)} is no symbol of {schema.name}.{hint}")
        write_number(out, index)

    return write


def _write_fixed(schema: Fixed) -> Write:
    def write(out: bytearray, value: object) -> None:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise wrong_value(value, f"{schema.size} bytes")
        if len(value) != schema.size:
            raise ValueFault(f"{len(value)} bytes, where {schema.name} has {schema.size}")
        out += value

    return write


def _write_null(out: bytearray, value: object) -> None:
    if value is not None:
        raise wrong_value(value, "null")


def _write_boolean(out: bytearray, value: object) -> None:
    if value is not True and value is not False:
        raise wrong_value(value, "true or false")
    out.append(value)


def _write_whole(kind: str, limit: int) -> Write:
    def write(out: bytearray, value: object) -> None:
        number = whole_number(value, kind)
        if not -limit <= number < limit:
            raise ValueFault(f"{shown(value)} is too large for {kind}")
        write_number(out, number)

    return write


def whole_number(value: object, wanted: str) -> int:
    """Return a whole number of whatever type. Raises ValueFault for others, and for booleans."""
    if type(value) is int:
        return value
    if isinstance(value, bool):
        raise wrong_value(value, wanted)
    try:
        return operator.index(value)  # type: ignore[arg-type]  # what has no __index__ raises
    except TypeError:
        raise wrong_value(value, wanted) from None


def _write_float(kind: str) -> Write:
    packed = _FLOAT if kind == "float" else _DOUBLE

    def write(out: bytearray, value: object) -> None:
        if isinstance(value, bool | str | bytes):
            raise wrong_value(value, kind)
        try:
            raw = packed.pack(float(value))  # type: ignore[arg-type]  # what is no number raises
        except (TypeError, ValueError):
            raise wrong_value(value, kind) from None
        except (OverflowError, StructError):
            raise ValueFault(f"{shown(value)} is too large for {kind}") from None
        if type(value) is not float and isinstance(value, Integral):
            (kept,) = packed.unpack(raw)
            if kept != value:
                raise ValueFault(
                    f"{shown(value)} would be rounded to {int(kept)}, which {kind} has"
                )
        out += raw

    return write


def _write_bytes(out: bytearray, value: object) -> None:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise wrong_value(value, "bytes")
    raw = bytes(value)
    write_number(out, len(raw))
    out += raw


def _write_string(out: bytearray, value: object) -> None:
    if not isinstance(value, str):
        raise wrong_value(value, "a text")
    try:
        raw = value.encode()
    except UnicodeEncodeError as error:
        raise ValueFault(f"a text cannot be written as UTF-8 ({error.reason})") from None
    write_number(out, len(raw))
    out += raw


_PLAIN: dict[str, Write] = {
    "null": _write_null,
    "boolean": _write_boolean,
    "int": _write_whole("int", 2**31),
    "long": _write_whole("long", 2**63),
    "float": _write_float("float"),
    "double": _write_float("double"),
    "bytes": _write_bytes,
    "string": _write_string,
}
