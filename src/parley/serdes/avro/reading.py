"""One datum to one Python value: what a writer's schema wrote, as a reader's schema wants it.

`compile_reader` has both schemas walked once (`resolving`) and returns a function of a `Datum`:
what the reader does not want is skipped. Values are those that Arrow's builders take:
numbers for dates and times, `Decimal`, texts for enums and UUIDs, a dict for a record. With `plain`
they are those that programs want: dates and times of Python, a dict for a map, and a union's value
as it is.

Rules of this file:
1. Foreign bytes raise DatumFault and nothing else. A length is compared with the bytes that are
   left, a number of items with what they can be; nesting ends where Python's does.
2. The compiled decoder (native-schemas/src) says the same of the same bytes, word for word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct

from parley.serdes.avro.conversions import (
    Convert,
    as_text,
    conversion,
    default_value,
    enum_symbols,
)
from parley.serdes.avro.logical import plain_value
from parley.serdes.avro.model import AvroType, Enum, Field, Fixed, Primitive, Record, Union
from parley.serdes.avro.resolving import resolve
from parley.serdes.avro.unions import member_name
from parley.serdes.faults import DatumFault
from parley.serdes.frames import Buffer

FREE_ITEMS = 65_536
"""Items without bytes (nulls, empty records) that one datum may have."""
_FLOAT, _DOUBLE = Struct("<f"), Struct("<d")

Read = Callable[["Datum"], object]


class Datum:
    """The bytes of one datum, and how far they were read."""

    __slots__ = ("data", "end", "items", "pos")

    def __init__(self, data: Buffer) -> None:
        self.data = bytes(data)
        self.pos = 0
        self.end = len(self.data)
        self.items = self.end + FREE_ITEMS

    def fault(self, why: str) -> DatumFault:
        """Return the error for what stands here."""
        return DatumFault(f"{why} at byte {self.pos} of {self.end}")

    def raw(self, size: int) -> bytes:
        """Return the next bytes."""
        start, stop = self.pos, self.pos + size
        if size < 0 or stop > self.end:
            raise self.fault(f"{size} bytes are announced and {self.end - start} are left")
        self.pos = stop
        return self.data[start:stop]

    def number(self, limit: int = 2**63) -> int:
        """Return the next zigzag varint, from -limit up to limit."""
        value = shift = 0
        data, pos = self.data, self.pos
        while True:
            if pos >= self.end or shift > 63:
                raise self.fault("a number has no end")
            byte = data[pos]
            pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        found = (value >> 1) ^ -(value & 1)
        if not -limit <= found < limit:
            raise self.fault(f"the number {found} is too large")
        self.pos = pos
        return found

    def spend(self, items: int) -> None:
        """Take note of items to come. Raises DatumFault for more than there can be."""
        self.items -= items
        if self.items < 0:
            raise self.fault(f"{items} items are announced")


def read_datum(read: Read, data: Buffer) -> object:
    """Return the value of a whole datum. Raises DatumFault where it is damaged, or goes on."""
    datum = Datum(data)
    try:
        value = read(datum)
    except RecursionError:
        raise DatumFault("the datum is nested too deep") from None
    if datum.pos != datum.end:
        raise datum.fault(f"{datum.end - datum.pos} bytes too many")
    return value


def compile_reader(writer: AvroType, reader: AvroType, *, plain: bool = False) -> Read:
    """Return what reads a writer's data as a reader wants it.

    Raises SchemaError where nothing can be read that way.
    """
    return resolve(writer, reader, _Functions(plain))


class _Functions:
    """Makes functions of what `resolving` finds."""

    def __init__(self, plain: bool) -> None:
        self._plain = plain

    def primitive(self, writer: Primitive, reader: Primitive) -> Read:
        read = _read_primitive(writer.kind, conversion(reader, writer))
        convert = plain_value(reader) if self._plain else None
        return read if convert is None else _converted(read, convert)

    def fixed(self, writer: Fixed, reader: Fixed) -> Read:
        return _read_fixed(writer.size, conversion(reader, writer))

    def enum(self, writer: Enum, reader: Enum) -> Read:
        return _read_enum(writer, reader)

    def array(self, item: Read) -> Read:
        return _read_list(item)

    def map(self, value: Read) -> Read:
        return _read_map(value, as_dict=self._plain)

    def branches(self, branches: Sequence[Read]) -> Read:
        def read(datum: Datum) -> object:
            index = datum.number()
            if not 0 <= index < len(branches):
                raise datum.fault(f"the union has no branch {index}")
            return branches[index](datum)

        return read

    def unreadable(self, why: str) -> Read:
        def read(datum: Datum) -> object:
            raise datum.fault(why)

        return read

    def member(self, inner: Read, reader: Union, index: int) -> Read:
        name = None if self._plain else member_name(reader, index)
        return inner if name is None else lambda datum: {name: inner(datum)}

    def record(
        self, reader: Record, steps: Sequence[tuple[Field | None, Read]], absent: Sequence[Field]
    ) -> Read:
        named = [(None if field is None else field.name, step) for field, step in steps]
        return _read_fields(named, absent, self._plain)

    def later(self, made: Sequence[Read]) -> Read:
        def read(datum: Datum) -> object:
            return made[0](datum)

        return read

    def skip_primitive(self, kind: str) -> Read:
        return _read_primitive(kind, None)

    def skip_fixed(self, size: int) -> Read:
        return _read_fixed(size, None)

    def skip_enum(self) -> Read:
        return lambda datum: datum.number(2**31)

    def skip_array(self, item: Read) -> Read:
        return _read_list(item, kept=False)

    def skip_map(self, value: Read) -> Read:
        return _read_map(value, kept=False)

    def skip_record(self, fields: Sequence[Read]) -> Read:
        def skip(datum: Datum) -> object:
            for step in fields:
                step(datum)
            return None

        return skip


def _read_fields(
    steps: Sequence[tuple[str | None, Read]], absent: Sequence[Field], plain: bool
) -> Read:
    def defaults() -> dict[str, object]:
        return {one.name: default_value(one.type, one.default, plain=plain) for one in absent}

    shared = defaults()

    def read(datum: Datum) -> object:
        # a program may change the lists of its own values
        found = defaults() if plain and absent else dict(shared)
        for name, step in steps:
            if name is None:
                step(datum)
            else:
                found[name] = step(datum)
        return found

    return read


def _blocks(datum: Datum) -> int:
    """Return how many items the next block has, 0 at the end."""
    count = datum.number()
    if count < 0:
        count = -count
        size = datum.number()
        if not 0 <= size <= datum.end - datum.pos:
            raise datum.fault(f"a block of {size} bytes is announced")
    datum.spend(count)
    return count


def _read_list(item: Read, *, kept: bool = True) -> Read:
    def read(datum: Datum) -> object:
        found: list[object] = []
        while count := _blocks(datum):
            for _ in range(count):
                value = item(datum)
                if kept:
                    found.append(value)
        return found

    return read


def _read_map(item: Read, *, kept: bool = True, as_dict: bool = False) -> Read:
    text = _read_primitive("string", as_text if kept else None)

    def read(datum: Datum) -> object:
        found: dict[object, object] = {}
        while count := _blocks(datum):
            for _ in range(count):
                key = text(datum)
                value = item(datum)
                if kept:
                    found[key] = value
        return found if as_dict else list(found.items())

    return read


def _read_enum(writer: Enum, reader: Enum) -> Read:
    symbols = enum_symbols(writer, reader)

    def read(datum: Datum) -> object:
        index = datum.number(2**31)
        if not 0 <= index < len(symbols):
            raise datum.fault(f"the enum {writer.name} has no symbol {index}")
        symbol, why = symbols[index]
        if symbol is None:
            raise datum.fault(why)
        return symbol

    return read


def _read_fixed(size: int, convert: Convert | None) -> Read:
    if convert is None:
        return lambda datum: datum.raw(size)
    return _converted(lambda datum: datum.raw(size), convert)


def _read_primitive(kind: str, convert: Convert | None) -> Read:
    """Return what reads a primitive value; without `convert` it is only passed over."""
    plain = _PLAIN[kind]
    return plain if convert is None else _converted(plain, convert)


def _converted(plain: Read, convert: Convert) -> Read:
    def read(datum: Datum) -> object:
        value = plain(datum)
        try:
            return convert(value)
        except (ValueError, OverflowError) as error:
            raise datum.fault(str(error)) from error

    return read


def _read_boolean(datum: Datum) -> object:
    byte = datum.raw(1)[0]
    if byte > 1:
        raise datum.fault(f"a boolean is {byte}")
    return byte == 1


_PLAIN: dict[str, Read] = {
    "null": lambda datum: None,
    "boolean": _read_boolean,
    "int": lambda datum: datum.number(2**31),
    "long": lambda datum: datum.number(),
    "float": lambda datum: _FLOAT.unpack(datum.raw(4))[0],
    "double": lambda datum: _DOUBLE.unpack(datum.raw(8))[0],
    "bytes": lambda datum: datum.raw(datum.number()),
    "string": lambda datum: datum.raw(datum.number()),
}
