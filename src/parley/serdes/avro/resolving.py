"""What of a writer's data becomes what of a reader's: both schemas are walked once, together.

`resolve` decides; a `Builder` makes of it what reads: functions of Python (`reading`) or a plan for
the compiled decoder (`native`). What a reader cannot have of a writer is found when a datum has it,
if it is a branch of a union or a symbol. All else raises SchemaError, and so do numbers that would
be taken for others wherever they stand (`rescaling`). Each record of the writer is
paired once with one of the reader, whether that can be read or not: schemas of strangers can be
made to name records again and again, and records may contain themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from parley.errors import SchemaError
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
from parley.serdes.avro.rescaling import Misread, check_exact
from parley.serdes.avro.resolution import (
    Readability,
    TooMuch,
    incompatibilities,
    name_mismatch,
    paired_fields,
)
from parley.serdes.avro.unions import UnionShape, union_shape
from parley.serdes.faults import bounded_depth, inner_path

MAX_PARTS = 100_000
"""How many types of a writer are paired with those of a reader, or passed over."""

Made = TypeVar("Made")


class Builder(Protocol[Made]):
    """Makes what reads, or passes over, a value of a writer."""

    def primitive(self, writer: Primitive, reader: Primitive) -> Made: ...

    def fixed(self, writer: Fixed, reader: Fixed) -> Made: ...

    def enum(self, writer: Enum, reader: Enum) -> Made: ...

    def array(self, item: Made) -> Made: ...

    def map(self, value: Made) -> Made: ...

    def branches(self, branches: Sequence[Made]) -> Made:
        """Of a writer's union, read or passed over."""
        ...

    def unreadable(self, why: str) -> Made:
        """Of a branch that the reader has no place for."""
        ...

    def member(self, inner: Made, reader: Union, index: int) -> Made:
        """Of a branch of the reader's union, which in columns is a struct."""
        ...

    def record(
        self, reader: Record, steps: Sequence[tuple[Field | None, Made]], absent: Sequence[Field]
    ) -> Made:
        """`steps` are the writer's fields with the reader's, `absent` those with defaults."""
        ...

    def later(self, made: Sequence[Made]) -> Made:
        """Of a record within itself: `made` is filled with what reads it afterwards."""
        ...

    def skip_primitive(self, kind: str) -> Made: ...

    def skip_fixed(self, size: int) -> Made: ...

    def skip_enum(self) -> Made: ...

    def skip_array(self, item: Made) -> Made: ...

    def skip_map(self, value: Made) -> Made: ...

    def skip_record(self, fields: Sequence[Made]) -> Made:
        """`fields` are filled in afterwards: the record may contain itself."""
        ...


def resolve(writer: AvroType, reader: AvroType, make: Builder[Made]) -> Made:
    """Return what reads a writer's data as a reader wants it.

    Raises SchemaError where nothing can be read that way.
    """
    with bounded_depth():
        return _Resolver(make).read(writer, reader)


class _Resolver(Generic[Made]):
    def __init__(self, make: Builder[Made]) -> None:
        self._make = make
        self._parts = 0
        self._reads: dict[tuple[int, int], list[Made]] = {}
        self._unreadable: dict[tuple[int, int], SchemaError] = {}
        self._skips: dict[int, Made] = {}
        self._readability = Readability()

    def _count(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise TooMuch(f"writer and reader together have more than {MAX_PARTS} parts")

    # -- reading -------------------------------------------------------------------------------

    def read(self, writer: AvroType, reader: AvroType) -> Made:
        self._count()
        if isinstance(writer, Union):
            return self._read_branches(writer, reader)
        if isinstance(reader, Union):
            return self._into_union(writer, reader)
        if isinstance(writer, Record) and isinstance(reader, Record):
            return self._read_record(writer, reader)
        if isinstance(writer, Array) and isinstance(reader, Array):
            return self._make.array(self.read(writer.items, reader.items))
        if isinstance(writer, Map) and isinstance(reader, Map):
            return self._make.map(self.read(writer.values, reader.values))
        wrong = incompatibilities(reader, writer)
        if wrong:
            raise SchemaError(wrong[0].why, path=wrong[0].path)
        if isinstance(writer, Enum) and isinstance(reader, Enum):
            return self._make.enum(writer, reader)
        if isinstance(writer, Fixed) and isinstance(reader, Fixed):
            check_exact(writer, reader)
            return self._make.fixed(writer, reader)
        assert isinstance(writer, Primitive)
        assert isinstance(reader, Primitive)
        check_exact(writer, reader)
        return self._make.primitive(writer, reader)

    def _read_branches(self, writer: Union, reader: AvroType) -> Made:
        reads: list[Made] = []
        usable = 0
        why = ""
        for branch in writer.branches:
            try:
                reads.append(self.read(branch, reader))
                usable += 1
            except (Misread, TooMuch):
                raise
            except SchemaError as error:
                why = str(error)
                said = f"a {branch.kind} of the writer's union cannot be read ({why})"
                reads.append(self._make.unreadable(said))
        if not usable:
            raise SchemaError(f"no branch of the writer's union can be read: {why}")
        return self._make.branches(reads)

    def _into_union(self, writer: AvroType, reader: Union) -> Made:
        index = _branch_for(writer, reader, self._readability)
        inner = self.read(writer, reader.branches[index])
        if union_shape(reader) is UnionShape.MEMBERS:
            return self._make.member(inner, reader, index)
        return inner

    def _read_record(self, writer: Record, reader: Record) -> Made:
        pair = (id(writer), id(reader))
        if pair in self._unreadable:
            known = self._unreadable[pair]
            raise type(known)(known.problem, path=known.path)
        if pair in self._reads:
            made = self._reads[pair]
            return made[0] if made else self._make.later(made)
        made = self._reads[pair] = []
        try:
            made.append(self._made_record(writer, reader))
        except SchemaError as error:
            # others within it may have been made to read it
            made.append(self._make.unreadable(str(error)))
            self._unreadable[pair] = error
            raise
        return made[0]

    def _made_record(self, writer: Record, reader: Record) -> Made:
        wrong = name_mismatch(reader, writer)
        if wrong:
            raise SchemaError(wrong)
        wanted: dict[int, Field] = {}
        absent: list[Field] = []
        for one, written in paired_fields(reader, writer):
            if written is not None:
                wanted[id(written)] = one
            elif one.has_default:
                absent.append(one)
            else:
                raise SchemaError(
                    f"{writer.name} has no such field, and the reader has no default",
                    path=one.name,
                )
        steps: list[tuple[Field | None, Made]] = []
        for field in writer.fields:
            into = wanted.get(id(field))
            try:
                step = self.skip(field.type) if into is None else self.read(field.type, into.type)
            except SchemaError as error:
                inner = inner_path(field.name, error.path) if error.path else field.name
                raise type(error)(error.problem, path=inner) from error
            steps.append((into, step))
        return self._make.record(reader, steps, absent)

    # -- skipping ------------------------------------------------------------------------------

    def skip(self, writer: AvroType) -> Made:
        """Return what passes over a value. Records may contain themselves."""
        known = self._skips.get(id(writer))
        if known is not None:
            return known
        self._count()
        if isinstance(writer, Record):
            fields: list[Made] = []
            record = self._skips[id(writer)] = self._make.skip_record(fields)
            fields += [self.skip(field.type) for field in writer.fields]
            return record
        made = self._skips[id(writer)] = self._made_skip(writer)
        return made

    def _made_skip(self, writer: AvroType) -> Made:
        if isinstance(writer, Union):
            return self._make.branches([self.skip(one) for one in writer.branches])
        if isinstance(writer, Array):
            return self._make.skip_array(self.skip(writer.items))
        if isinstance(writer, Map):
            return self._make.skip_map(self.skip(writer.values))
        if isinstance(writer, Fixed):
            return self._make.skip_fixed(writer.size)
        if isinstance(writer, Enum):
            return self._make.skip_enum()
        assert isinstance(writer, Primitive)
        return self._make.skip_primitive(writer.kind)


def _branch_for(writer: AvroType, reader: Union, readability: Readability) -> int:
    """Return the reader's branch for a writer's type: the same one, else one that reads it."""
    if isinstance(writer, Record | Enum | Fixed):
        named = _branch_named(writer, reader)
        if named is not None:
            return named
    same: list[int] = []
    possible: list[int] = []
    for index, branch in enumerate(reader.branches):
        if not readability.can_read(branch, writer):
            continue
        possible.append(index)
        if branch.kind == writer.kind:
            same.append(index)
    if possible:
        return (same or possible)[0]
    others = [index for index, branch in enumerate(reader.branches) if branch.kind != "null"]
    if len(others) == 1:  # why that one cannot be read says more
        return others[0]
    raise SchemaError(f"no branch of the reader's union reads {writer.kind}")


def _branch_named(writer: Record | Enum | Fixed, reader: Union) -> int | None:
    """Return the branch that says by its name that it is the writer's type; None where none does.

    Avro's specification takes the first branch that matches, and compares names without their
    namespaces. Of two records of one short name that may be the wrong one, so this does what Java
    does: the branch of the same full name is the one, whether it can be read or not; else that
    with the full name as an alias (Java puts the reader's name in its place before it looks). Only
    where neither is there the first branch of the same short name is taken that can be read.
    """
    named = [
        (index, one)
        for index, one in enumerate(reader.branches)
        if isinstance(one, Record | Enum | Fixed) and one.kind == writer.kind
    ]
    same = [index for index, one in named if one.name == writer.name]
    aliased = [index for index, one in named if writer.name in one.aliases]
    return next(iter(same + aliased), None)
