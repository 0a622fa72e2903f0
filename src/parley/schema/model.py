"""What a notation file says, as values: APIs, messages, structs and fields."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from parley.errors import KafkaError
from parley.schema.apikeys import ApiKey
from parley.schema.ranges import VersionRange

PRIMITIVES = frozenset(
    (
        "bool",
        "int8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "float64",
        "uuid",
        "string",
        "bytes",
        "records",
    )
)
"""The types that are not structs."""


class NotationError(KafkaError):
    """A notation file cannot be read; the text names the file and the line. Correct the file."""


class Fresh(Enum):
    """Defaults that are made for every message, because they can be changed."""

    LIST = "[]"
    STRUCT = "struct"


Default = bool | int | float | str | bytes | None | Fresh
"""A field's default: a value, or the kind of a fresh one."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message, for all its versions.

    `type` is a primitive, or the name of the struct in `struct`; `is_array` says that there are
    any number of them. `nullable` are the versions in which null may be sent. A field with a
    `tag` is sent in the tagged section (KIP-482), in every version that has it. An `ignorable`
    field may be dropped silently when the version sent has no place for it; any other one must
    then hold its default. `never_compact` fields keep the old encoding in flexible versions
    (the header's client id). Only `secret` is parley's own: a repr masks the value.
    """

    name: str
    kafka_name: str
    type: str
    is_array: bool
    versions: VersionRange
    nullable: VersionRange | None = None
    default: Default = None
    struct: Struct | None = None
    tag: int | None = None
    ignorable: bool = False
    map_key: bool = False
    never_compact: bool = False
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Struct:
    """A named group of fields. `name` is Kafka's; a message itself is a struct too."""

    name: str
    fields: tuple[Field, ...]

    def field(self, name: str) -> Field:
        """Return the field of that name. Raises KeyError."""
        for candidate in self.fields:
            if candidate.name == name:
                return candidate
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class MessageSchema:
    """A request, response, header or data message in all its versions.

    `unstable` versions are drafts that brokers do not advertise unless they are configured to;
    `deprecated` ones were announced to go with 4.0.
    """

    name: str
    kind: str
    root: Struct
    valid_versions: VersionRange
    flexible_versions: VersionRange | None
    deprecated_versions: VersionRange | None = None
    unstable_versions: VersionRange | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of the message itself."""
        return self.root.fields

    def is_flexible(self, version: int) -> bool:
        """Return whether a version uses compact lengths and tagged fields (KIP-482)."""
        return self.flexible_versions is not None and version in self.flexible_versions


@dataclass(frozen=True, slots=True)
class ApiSchema:
    """One API: its request and its response, which always have the same versions."""

    key: ApiKey
    name: str
    listeners: tuple[str, ...]
    request: MessageSchema
    response: MessageSchema
