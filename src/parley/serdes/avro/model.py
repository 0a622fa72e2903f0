"""What an Avro schema is made of. Records may contain themselves, so they are filled after they
are made, and all types are compared by identity.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from parley.types import Json

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


@dataclass(frozen=True, slots=True)
class Logical:
    """A logical type and what belongs to it. One that does not fit its type is left out."""

    name: str
    precision: int = 0
    scale: int = 0


@dataclass(eq=False, slots=True)
class Primitive:
    """One of Avro's primitive types."""

    kind: str
    logical: Logical | None = None


@dataclass(eq=False, slots=True)
class Named:
    """A type with a name; `name` is whole, with its namespace. Aliases are whole too."""

    name: str
    aliases: tuple[str, ...] = ()

    @property
    def short_name(self) -> str:
        """The name without its namespace, by which readers and writers find each other."""
        return self.name.rpartition(".")[2]


@dataclass(eq=False, slots=True)
class Field:
    """A field of a record. `default` means something only where `has_default` is true."""

    name: str
    type: AvroType
    default: Json = None
    has_default: bool = False
    aliases: tuple[str, ...] = ()


@dataclass(eq=False, slots=True)
class Record(Named):
    """Fields in order."""

    fields: list[Field] = field(default_factory=list)
    kind: str = "record"


@dataclass(eq=False, slots=True)
class Enum(Named):
    """Symbols in order; `default` stands for those that a reader does not know."""

    symbols: tuple[str, ...] = ()
    default: str | None = None
    kind: str = "enum"


@dataclass(eq=False, slots=True)
class Fixed(Named):
    """Bytes of one length."""

    size: int = 0
    logical: Logical | None = None
    kind: str = "fixed"


@dataclass(eq=False, slots=True)
class Array:
    """Items of one type."""

    items: AvroType
    kind: str = "array"


@dataclass(eq=False, slots=True)
class Map:
    """Values of one type by text."""

    values: AvroType
    kind: str = "map"


@dataclass(eq=False, slots=True)
class Union:
    """One of several types."""

    branches: tuple[AvroType, ...]
    kind: str = "union"


AvroType: TypeAlias = Primitive | Record | Enum | Fixed | Array | Map | Union
