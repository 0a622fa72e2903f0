"""(message, version) → what is on the wire, in order: the one input of all encoders and decoders.

A plan holds no version question any more: which fields are there, which may be null, which are
compact, which travel as tagged fields and which have no place at all is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from parley.errors import LocalProtocolError
from parley.schema import Field, MessageSchema, Struct

FIXED_CODES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""The types of fixed size, by their codes in Python's struct module."""

READ_EARLY = {
    ("ProduceResponse", "current_leader"): 9,
    ("ProduceResponse", "node_endpoints"): 9,
    ("FetchResponse", "node_endpoints"): 12,
}
"""Tagged fields read in versions before those that have them: (message, field) → first version.

KIP-951 put the leader hints into Produce 9+ and Fetch 12+, since tagged fields need no new version;
Kafka's definitions have them from 10 and 16 on. Brokers that follow the page are understood; what
is written follows the definitions. Safe because nobody else uses these tags there.
"""

FIXED_SIZES = {"b": 1, "?": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}


@dataclass(frozen=True, slots=True)
class Step:
    """One field in one version. `kind`: a primitive or "struct"; for arrays, an element's."""

    field: Field
    name: str
    kind: str
    is_array: bool
    nullable: bool
    compact: bool
    struct: StructPlan | None

    @property
    def code(self) -> str | None:
        """The struct code of a scalar of fixed size, None for everything else."""
        return None if self.is_array else FIXED_CODES.get(self.kind)

    @property
    def null_marker(self) -> int:
        """The byte in front of a struct that says that it is null; 1 says that it is there.

        A tagged field has its size in front already; there Kafka writes 0 for null.
        """
        return -1 if self.field.tag is None else 0

    @property
    def least_bytes(self) -> int:
        """The fewest bytes that the field can take."""
        if self.is_array or self.kind in ("bytes", "records"):
            return 1 if self.compact else 4
        if self.struct is not None:
            return 1 if self.nullable else self.struct.least_bytes
        return self.least_element_bytes

    @property
    def least_element_bytes(self) -> int:
        """The fewest bytes of one element of an array; at least 1, so that counts are bounded."""
        if self.struct is not None:
            return max(1, self.struct.least_bytes)
        code = FIXED_CODES.get(self.kind)
        if code is not None:
            return FIXED_SIZES[code]
        return 1 if self.compact else 2 if self.kind == "string" else 4


@dataclass(frozen=True, slots=True)
class StructPlan:
    """A struct's fields in one version: in wire order, tagged by tag, and those without place."""

    name: str
    steps: tuple[Step, ...]
    tagged: tuple[Step, ...]
    absent: tuple[Field, ...]
    flexible: bool

    @property
    def least_bytes(self) -> int:
        """The fewest bytes that the struct can take."""
        return sum(step.least_bytes for step in self.steps) + (1 if self.flexible else 0)

    def holds_records(self) -> bool:
        """Return whether record batches may lie inside, which are decoded as views of the frame."""
        return any(step.kind == "records" for step in self.walk())

    def walk(self) -> Iterator[Step]:
        """Yield all steps, those of inner structs included."""
        for step in (*self.steps, *self.tagged):
            yield step
            if step.struct is not None:
                yield from step.struct.walk()


def make_plan(schema: MessageSchema, version: int, *, reading: bool = False) -> StructPlan:
    """Return a message's plan in a version; `reading`: with places for READ_EARLY's fields.

    Raises LocalProtocolError for a version that the message does not have.
    """
    if version not in schema.valid_versions:
        raise LocalProtocolError(
            f"{schema.name} has no version {version}: parley knows {schema.valid_versions}. "
            "Negotiate another one."
        )
    early = {
        field: first
        for (name, field), first in READ_EARLY.items()
        if reading and name == schema.name
    }
    return _struct_plan(schema.root, version, schema.is_flexible(version), early)


def _struct_plan(
    struct: Struct, version: int, flexible: bool, early: Mapping[str, int]
) -> StructPlan:
    steps: list[Step] = []
    tagged: list[Step] = []
    absent: list[Field] = []
    for field in struct.fields:
        if version not in field.versions:
            if field.tag is not None and early.get(field.name, version + 1) <= version:
                tagged.append(_step(field, field.versions.min, flexible, early))
            else:
                absent.append(field)
        elif field.tag is not None and flexible:
            tagged.append(_step(field, version, flexible, early))
        else:
            steps.append(_step(field, version, flexible, early))
    tagged.sort(key=lambda step: step.field.tag or 0)
    return StructPlan(struct.name, tuple(steps), tuple(tagged), tuple(absent), flexible)


def _step(field: Field, version: int, flexible: bool, early: Mapping[str, int]) -> Step:
    return Step(
        field=field,
        name=field.name,
        kind="struct" if field.struct is not None else field.type,
        is_array=field.is_array,
        nullable=field.nullable is not None and version in field.nullable,
        compact=flexible and not field.never_compact,
        struct=None
        if field.struct is None
        else _struct_plan(field.struct, version, flexible, early),
    )
