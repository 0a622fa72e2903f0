"""Whether a reader's schema can read what was written with another: Avro's schema resolution.

The kinds of what is wrong are named as Avro's own check names them, for that is what registries
answer. Time is bounded: each pair of named types is compared once.
"""

from __future__ import annotations

from typing import NamedTuple

from parley.errors import SchemaError
from parley.serdes.avro.model import (
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Union,
)

NAME_MISMATCH = "NAME_MISMATCH"
FIXED_SIZE_MISMATCH = "FIXED_SIZE_MISMATCH"
MISSING_ENUM_SYMBOLS = "MISSING_ENUM_SYMBOLS"
READER_FIELD_MISSING_DEFAULT_VALUE = "READER_FIELD_MISSING_DEFAULT_VALUE"
TYPE_MISMATCH = "TYPE_MISMATCH"
MISSING_UNION_BRANCH = "MISSING_UNION_BRANCH"

MOST = 100
"""How many are listed at most: people need a few, and schemas may be made to have more."""

MAX_COMPARED = 1_000_000
"""How often types are compared for the unions of a reader."""

_PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""What is written -> as what it can also be read."""


class Incompatibility(NamedTuple):
    """What a reader cannot read: kind, place (names of fields, joined by dots), and why."""

    kind: str
    path: str
    why: str


def incompatibilities(reader: AvroType, writer: AvroType) -> list[Incompatibility]:
    """Return why a reader cannot read what a writer wrote; nothing where it can."""
    return _Check().compare(reader, writer, "")


class _Check:
    def __init__(self) -> None:
        self._compared: dict[tuple[int, int], list[Incompatibility]] = {}

    def compare(self, reader: AvroType, writer: AvroType, path: str) -> list[Incompatibility]:
        if isinstance(writer, Union):
            found: list[Incompatibility] = []
            for one in writer.branches:
                found += self.compare(reader, one, path)
            return found[:MOST]
        if isinstance(reader, Union):
            return self._any_branch(reader, writer, path)
        if isinstance(reader, Record | Enum | Fixed) and isinstance(writer, Record | Enum | Fixed):
            return self._named(reader, writer, path)
        if isinstance(reader, Array) and isinstance(writer, Array):
            return self.compare(reader.items, writer.items, path)
        if isinstance(reader, Map) and isinstance(writer, Map):
            return self.compare(reader.values, writer.values, path)
        if (
            isinstance(reader, Primitive)
            and isinstance(writer, Primitive)
            and (reader.kind == writer.kind or reader.kind in _PROMOTIONS.get(writer.kind, ()))
        ):
            return []
        return [_mismatch(reader, writer, path)]

    def _any_branch(self, reader: Union, writer: AvroType, path: str) -> list[Incompatibility]:
        for branch in reader.branches:
            if not self.compare(branch, writer, path):
                return []
        return [
            Incompatibility(
                MISSING_UNION_BRANCH, path, f"no branch of the reader's union reads {_name(writer)}"
            )
        ]

    def _named(
        self, reader: Record | Enum | Fixed, writer: Record | Enum | Fixed, path: str
    ) -> list[Incompatibility]:
        key = (id(reader), id(writer))
        if key in self._compared:
            return self._compared[key]
        self._compared[key] = []  # what contains itself is compared once
        if reader.kind != writer.kind:
            found = [_mismatch(reader, writer, path)]
        elif why := name_mismatch(reader, writer):
            found = [Incompatibility(NAME_MISMATCH, path, why)]
        elif isinstance(reader, Record) and isinstance(writer, Record):
            found = self._record(reader, writer, path)
        else:
            found = _enum_or_fixed(reader, writer, path)
        self._compared[key] = found
        return found

    def _record(self, reader: Record, writer: Record, path: str) -> list[Incompatibility]:
        found: list[Incompatibility] = []
        for one, written in paired_fields(reader, writer):
            if len(found) >= MOST:
                break
            where = f"{path}.{one.name}" if path else one.name
            if written is not None:
                found += self.compare(one.type, written.type, where)
            elif not one.has_default:
                why = f"{writer.name} has no field {one.name}, and the reader has no default for it"
                found.append(Incompatibility(READER_FIELD_MISSING_DEFAULT_VALUE, where, why))
        return found[:MOST]


class TooMuch(SchemaError):
    """Writer and reader take too long. No union makes up for it, as for a branch of the writer."""


class Readability:
    """Whether types of one schema can read those of another, asked again and again.

    What is known of a pair of named types serves all questions: unions within records within
    unions would cost the whole schema at each of them.
    """

    def __init__(self) -> None:
        self._left = MAX_COMPARED
        self._known: dict[tuple[int, int], bool] = {}
        self._assumed: dict[tuple[int, int], bool] = {}
        """Of pairs that were met in this walk: whether the assumption was used that it can be."""
        self._is_refuted = False

    def can_read(self, reader: AvroType, writer: AvroType) -> bool:
        """Return whether a reader can read what a writer wrote: no `incompatibilities`.

        Raises TooMuch where finding out takes too long.
        """
        while True:
            self._assumed, self._is_refuted = {}, False
            found = self._compare(reader, writer)
            if not self._is_refuted:  # all that was assumed holds
                self._known |= dict.fromkeys(self._assumed, True)
                return found

    def _compare(self, reader: AvroType, writer: AvroType) -> bool:
        self._left -= 1
        if self._left < 0:
            raise TooMuch(
                f"what the reader's unions read takes more than {MAX_COMPARED} comparisons"
            )
        if isinstance(writer, Union):
            return all(self._compare(reader, one) for one in writer.branches)
        if isinstance(reader, Union):
            return any(self._compare(one, writer) for one in reader.branches)
        if isinstance(reader, Record) and isinstance(writer, Record):
            return self._records(reader, writer)
        if isinstance(reader, Array) and isinstance(writer, Array):
            return self._compare(reader.items, writer.items)
        if isinstance(reader, Map) and isinstance(writer, Map):
            return self._compare(reader.values, writer.values)
        return not incompatibilities(reader, writer)  # of what holds no other types

    def _records(self, reader: Record, writer: Record) -> bool:
        if name_mismatch(reader, writer):
            return False
        key = (id(reader), id(writer))
        if key in self._known:
            return self._known[key]
        if key in self._assumed:  # it contains itself, or was met before in this walk
            self._assumed[key] = True
            return True
        self._assumed[key] = False
        found = all(
            one.has_default if written is None else self._compare(one.type, written.type)
            for one, written in paired_fields(reader, writer)
        )
        if not found:
            # That holds whatever was assumed: to assume less cannot make it readable.
            self._known[key] = False
            self._is_refuted |= self._assumed.pop(key)
        return found


def name_mismatch(reader: Named, writer: Named) -> str:
    """Return why a name cannot be read as another; nothing where it can."""
    if reader.short_name == writer.short_name or writer.name in reader.aliases:
        return ""
    return f"{reader.name} cannot read {writer.name}; an alias would allow it"


def paired_fields(reader: Record, writer: Record) -> list[tuple[Field, Field | None]]:
    """Return each field of the reader with the writer's that it is read from, or None.

    A field is found by its name, or else by one of its aliases.
    """
    by_name = {one.name: one for one in writer.fields}
    return [
        (one, next((by_name[name] for name in (one.name, *one.aliases) if name in by_name), None))
        for one in reader.fields
    ]


def _enum_or_fixed(
    reader: Record | Enum | Fixed, writer: Record | Enum | Fixed, path: str
) -> list[Incompatibility]:
    if isinstance(reader, Fixed) and isinstance(writer, Fixed) and reader.size != writer.size:
        why = f"{reader.size} bytes are read where {writer.size} were written"
        return [Incompatibility(FIXED_SIZE_MISMATCH, path, why)]
    if isinstance(reader, Enum) and isinstance(writer, Enum) and reader.default is None:
        missing = [one for one in writer.symbols if one not in reader.symbols]
        if missing:
            why = f"the reader has no symbol {', '.join(missing)}, and no default"
            return [Incompatibility(MISSING_ENUM_SYMBOLS, path, why)]
    return []


def _mismatch(reader: AvroType, writer: AvroType, path: str) -> Incompatibility:
    return Incompatibility(
        TYPE_MISMATCH, path, f"{_name(writer)} cannot be read as {_name(reader)}"
    )


def _name(kind: AvroType) -> str:
    return f"{kind.kind} {kind.name}" if isinstance(kind, Record | Enum | Fixed) else kind.kind
