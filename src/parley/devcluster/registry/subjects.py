"""Schemas under subjects, as a registry holds them: plain values, and what is equal to what.

A schema's text is kept without the spaces that mean nothing, so that texts which differ in them are
one schema, with one id under all subjects.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from parley.devcluster.registry.protobuf import as_text
from parley.devcluster.registry.refusals import RegistryRefused, invalid_schema
from parley.errors import ConfigError
from parley.serdes import Schema, SchemaReference
from parley.serdes.frames import guid_text
from parley.serdes.schemas import schema_json
from parley.types import Json

MAX_REFERENCES = 1_000


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a subject."""

    subject: str
    number: int
    schema_id: int
    schema: Schema
    deleted: bool = False

    def as_json(self) -> dict[str, Json]:
        """Return it as answers have it."""
        return {
            "subject": self.subject,
            "version": self.number,
            "id": self.schema_id,
            "guid": guid_of(self.schema),
            **schema_json(self.schema),
        }


@dataclass(slots=True)
class Subject:
    """A subject's versions by number, those that are deleted among them."""

    versions: dict[int, Version] = field(default_factory=dict)

    def live(self) -> list[Version]:
        """Return the versions that are not deleted, in order."""
        return [self.versions[number] for number in sorted(self.versions) if self.is_live(number)]

    def is_live(self, number: int) -> bool:
        """Return whether a version is there, and not deleted."""
        found = self.versions.get(number)
        return found is not None and not found.deleted

    def find(self, schema: Schema, *, deleted: bool = False) -> Version | None:
        """Return the newest version that has a schema."""
        for number in sorted(self.versions, reverse=True):
            one = self.versions[number]
            if one.schema == schema and (deleted or not one.deleted):
                return one
        return None


def guid_of(schema: Schema) -> str:
    """Return a GUID that depends on the schema alone. Confluent's of the same schema is another."""
    parts = [schema.schema_type, schema.text, *(map(list, schema.references))]
    return guid_text(hashlib.md5(json.dumps(parts).encode(), usedforsecurity=False).digest())


def schema_of(said: Mapping[str, Json]) -> Schema:
    """Return the schema of a request. Raises RegistryRefused for what is none."""
    text, kind, listed = said.get("schema"), said.get("schemaType"), said.get("references")
    if not isinstance(text, str) or not text.strip():
        raise invalid_schema("Empty schema")
    if listed is not None and (not isinstance(listed, list) or len(listed) > MAX_REFERENCES):
        raise invalid_schema("references are no list, or too many")
    references = tuple(_reference(one) for one in listed or ())
    try:
        return Schema(text, "AVRO" if kind is None else str(kind), references)
    except ConfigError as error:
        raise RegistryRefused(42201, f"Invalid schema type {kind}") from error


def without_spaces(schema: Schema, *, ordered: bool = False) -> Schema:
    """Return a schema in the one way it is kept. `ordered`: the order of attributes is one too."""
    if schema.schema_type == "PROTOBUF":
        return as_text(schema)
    try:
        found = json.loads(schema.text)
    except (ValueError, RecursionError):
        # a primitive's bare name, or what the parser refuses
        return replace(schema, text=schema.text.strip())
    text = json.dumps(found, separators=(",", ":"), ensure_ascii=False, sort_keys=ordered)
    return replace(schema, text=text)


def _reference(said: Json) -> SchemaReference:
    if isinstance(said, dict):
        name, subject, version = said.get("name"), said.get("subject"), said.get("version")
        if isinstance(name, str) and isinstance(subject, str) and isinstance(version, int):
            return SchemaReference(name, subject, int(version))
    raise invalid_schema("a reference has a name, a subject and a version")
