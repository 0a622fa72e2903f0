"""One datum to one Python value: what a writer's schema wrote, as a reader's schema wants it.

`compile_reader` walks both schemas once and returns a function of a `Datum`; what the reader does
not want is skipped and not built. Values are those that Arrow's builders take: numbers for dates
and times, `Decimal`, texts for enums and UUIDs, a dict for a record. With `plain` they are those
that programs want: dates and times of Python, a dict for a map, and a union's value as it is.

Rules of this file:
1. Foreign bytes raise DatumFault and nothing else. A length is compared with the bytes that are
   left, a number of items with what they can be; nesting ends where Python's does.
2. What a reader cannot have of a writer is found when a datum has it: a union's branch, a symbol.
   All else is found when the function is made (SchemaError).
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from parley.errors import SchemaError
from parley.serdes.avro.conversions import Convert, as_text, conversion, default_value
from parley.serdes.avro.logical import plain_value
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
from parley.serdes.avro.resolution import incompatibilities, paired_fields
from parley.serdes.avro.unions import UnionShape, member_name, union_shape
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
    return _Compiler(plain).read(writer, reader)


class _Compiler:
    def __init__(self, plain: bool) -> None:
        self._plain = plain
        self._skips: dict[int, Read] = {}

    # -- reading -------------------------------------------------------------------------------

    def read(self, writer: AvroType, reader: AvroType) -> Read:
        if isinstance(writer, Union):
            return self._read_branches(writer, reader)
        if isinstance(reader, Union):
            return self._into_union(writer, reader)
        if isinstance(writer, Record) and isinstance(reader, Record):
            return self._read_record(writer, reader)
        if isinstance(writer, Array) and isinstance(reader, Array):
            return _read_list(self.read(writer.items, reader.items))
        if isinstance(writer, Map) and isinstance(reader, Map):
            return _read_map(self.read(writer.values, reader.values), as_dict=self._plain)
        wrong = incompatibilities(reader, writer)
        if wrong:
            raise SchemaError(wrong[0].why, path=wrong[0].path)
        if isinstance(writer, Enum) and isinstance(reader, Enum):
            return _read_enum(writer, reader)
        if isinstance(writer, Fixed) and isinstance(reader, Fixed):
            return _read_fixed(writer.size, conversion(reader, "fixed"))
        assert isinstance(writer, Primitive)
        read = _read_primitive(writer.kind, conversion(reader, writer.kind))
        convert = plain_value(reader) if self._plain else None
        return read if convert is None else _converted(read, convert)

    def _read_branches(self, writer: Union, reader: AvroType) -> Read:
        reads: list[Read] = []
        usable = 0
        why = ""
        for branch in writer.branches:
            try:
                reads.append(self.read(branch, reader))
                usable += 1
            except SchemaError as error:
                why = str(error)
                reads.append(_unreadable(branch.kind, why))
        if not usable:
            raise SchemaError(f"no branch of the writer's union can be read: {why}")

        def read(datum: Datum) -> object:
            index = datum.number()
            if not 0 <= index < len(reads):
                raise datum.fault(f"the union has no branch {index}")
            return reads[index](datum)

        return read

    def _into_union(self, writer: AvroType, reader: Union) -> Read:
        index = _branch_for(writer, reader)
        inner = self.read(writer, reader.branches[index])
        wrapped = union_shape(reader) is UnionShape.MEMBERS and not self._plain
        return _member(inner, reader, index) if wrapped else inner

    def _read_record(self, writer: Record, reader: Record) -> Read:
        wrong = [one for one in incompatibilities(reader, writer) if not one.path]
        if wrong:
            raise SchemaError(wrong[0].why)
        wanted: dict[int, tuple[str, AvroType]] = {}
        absent: list[Field] = []
        for one, written in paired_fields(reader, writer):
            if written is not None:
                wanted[id(written)] = (one.name, one.type)
            elif one.has_default:
                absent.append(one)
            else:
                raise SchemaError(
                    f"{writer.name} has no such field, and the reader has no default",
                    path=one.name,
                )
        steps: list[tuple[str | None, Read]] = []
        for field in writer.fields:
            name, kind = wanted.get(id(field), (None, field.type))
            try:
                step = self.skip(field.type) if name is None else self.read(field.type, kind)
            except SchemaError as error:
                inner = f"{field.name}.{error.path}" if error.path else field.name
                raise SchemaError(error.problem, path=inner) from error
            steps.append((name, step))
        return _read_fields(steps, absent, self._plain)

    # -- skipping ------------------------------------------------------------------------------

    def skip(self, writer: AvroType) -> Read:
        """Return what passes over a value. Records may contain themselves."""
        known = self._skips.get(id(writer))
        if known is not None:
            return known
        if isinstance(writer, Record):
            steps: list[Read] = []

            def skip_record(datum: Datum) -> object:
                for step in steps:
                    step(datum)
                return None

            self._skips[id(writer)] = skip_record
            steps += [self.skip(field.type) for field in writer.fields]
            return skip_record
        made = self._made_skip(writer)
        self._skips[id(writer)] = made
        return made

    def _made_skip(self, writer: AvroType) -> Read:
        if isinstance(writer, Union):
            branches = [self.skip(one) for one in writer.branches]

            def skip_branch(datum: Datum) -> object:
                index = datum.number()
                if not 0 <= index < len(branches):
                    raise datum.fault(f"the union has no branch {index}")
                return branches[index](datum)

            return skip_branch
        if isinstance(writer, Array):
            return _read_list(self.skip(writer.items), kept=False)
        if isinstance(writer, Map):
            return _read_map(self.skip(writer.values), kept=False)
        if isinstance(writer, Fixed):
            return _read_fixed(writer.size, None)
        if isinstance(writer, Enum):
            return lambda datum: datum.number(2**31)
        assert isinstance(writer, Primitive)
        return _read_primitive(writer.kind, None)


def _unreadable(kind: str, why: str) -> Read:
    def read(datum: Datum) -> object:
        raise datum.fault(f"a {kind} of the writer's union cannot be read ({why})")

    return read


def _branch_for(writer: AvroType, reader: Union) -> int:
    """Return the reader's branch for a writer's type: the same one, else one that reads it."""
    same: list[int] = []
    possible: list[int] = []
    for index, branch in enumerate(reader.branches):
        if incompatibilities(branch, writer):
            continue
        possible.append(index)
        if branch.kind == writer.kind:
            same.append(index)
    if not possible:
        raise SchemaError(f"no branch of the reader's union reads {writer.kind}")
    return (same or possible)[0]


def _member(inner: Read, reader: Union, index: int) -> Read:
    name = member_name(reader, index)
    return inner if name is None else lambda datum: {name: inner(datum)}


def _read_fields(steps: list[tuple[str | None, Read]], absent: list[Field], plain: bool) -> Read:
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
    symbols = [one if one in reader.symbols else reader.default for one in writer.symbols]

    def read(datum: Datum) -> object:
        index = datum.number(2**31)
        if not 0 <= index < len(symbols):
            raise datum.fault(f"the enum {writer.name} has no symbol {index}")
        symbol = symbols[index]
        if symbol is None:
            raise datum.fault(
                f"the reader's {reader.name} has no symbol {writer.symbols[index]}, and no default"
            )
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
