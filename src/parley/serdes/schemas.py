"""A schema's text and what it refers to, and who can be asked for one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from parley.errors import ConfigError, nearest_hint
from parley.serdes.frames import SchemaGuid, SchemaRef
from parley.types import Json, shown

SCHEMA_TYPES = ("AVRO", "JSON", "PROTOBUF")


class SchemaReference(NamedTuple):
    """A schema that another one uses: by which name, and under which subject and version it is."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as registries keep it: a text of a type, and references to others.

    `schema_type` is AVRO, JSON or PROTOBUF. Raises ConfigError for another one.
    """

    text: str
    schema_type: str = "AVRO"
    references: tuple[SchemaReference, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise ConfigError(f"{shown(self.text)} is no schema: its text is expected")
        if self.schema_type not in SCHEMA_TYPES:
            hint = nearest_hint(str(self.schema_type).upper(), SCHEMA_TYPES)
            known = ", ".join(SCHEMA_TYPES)
            raise ConfigError(f'schema_type="{self.schema_type}" is none of {known}.{hint}')
        object.__setattr__(self, "references", tuple(self.references))


def schema_json(schema: Schema) -> dict[str, Json]:
    """Return a schema as Confluent's protocol has it: the type is left out for Avro."""
    found: dict[str, Json] = {}
    if schema.schema_type != "AVRO":
        found["schemaType"] = schema.schema_type
    if schema.references:
        found["references"] = [
            {"name": one.name, "subject": one.subject, "version": one.version}
            for one in schema.references
        ]
    found["schema"] = schema.text
    return found


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as a registry knows it. What the answer did not say is None."""

    schema: Schema
    id: int
    guid: SchemaGuid | None = None
    subject: str | None = None
    version: int | None = None


class NamedSchema(NamedTuple):
    """A schema that is referred to, and the name by which it is."""

    name: str
    schema: Schema


class SchemaSource(Protocol):
    """Who knows schemas: a `parley.registry.SchemaRegistryClient`, or one of a test's own."""

    def get_schema_for(self, ref: SchemaRef) -> Schema:
        """Return the schema that a message names. Raises SchemaNotFoundError if there is none."""
        ...

    def get_references(self, schema: Schema) -> Sequence[NamedSchema]:
        """Return all schemas that one refers to, each once, before those that use it."""
        ...


class SchemaRegistry(SchemaSource, Protocol):
    """Who registers schemas as well: a `parley.registry.SchemaRegistryClient`."""

    def register_schema(
        self, subject: str, schema: Schema, *, normalize: bool = False
    ) -> RegisteredSchema:
        """Register a schema under a subject, or find it there."""
        ...

    def lookup_schema(
        self, subject: str, schema: Schema, *, normalize: bool = False
    ) -> RegisteredSchema:
        """Return a schema's id under a subject. Raises SchemaNotFoundError if none."""
        ...

    def choose_schema(self, choice: str, subject: str | None = None) -> RegisteredSchema | Schema:
        """Return the schema that a text means: latest, id:7, guid:..., subject:...:3, file:..."""
        ...
