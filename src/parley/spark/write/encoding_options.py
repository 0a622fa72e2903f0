"""How keys and values are encoded, as the user gave it: checked, immutable, picklable."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parley.errors import ConfigError
from parley.spark.options.schema_table import (
    PART_ROWS,
    REGISTER_SCHEMAS,
    SCHEMA_ROWS,
)
from parley.spark.options.schemas import read_registry_options
from parley.spark.options.table import TOPIC
from parley.spark.options.texts import GivenOptions

if TYPE_CHECKING:
    from parley.client import RegistryOptions

_PARTS = ("value", "key")


@dataclass(frozen=True, slots=True)
class PartEncoding:
    """How keys or values are encoded. Without `schema` it is derived."""

    part: str
    value_format: str
    schema: str | None
    subject: str | None
    framing: str
    message: str | None
    register: bool


@dataclass(frozen=True, slots=True)
class EncodingOptions:
    """What is encoded, and where schemas are."""

    parts: tuple[PartEncoding, ...]
    registry: RegistryOptions | None = field(default=None)

    @property
    def names(self) -> frozenset[str]:
        """The columns that are encoded: value, key or both."""
        return frozenset(one.part for one in self.parts)


def read_encoding_options(given: GivenOptions) -> EncodingOptions | None:
    """Return how a write encodes; None for one of bytes. Raises ConfigError for contradictions."""
    named = [row.name for row in SCHEMA_ROWS if row.name in given.own.given]
    if not named:
        return None
    parts = tuple(_part(given, part) for part in _PARTS if given[PART_ROWS[f"{part}_format"]])
    if not parts:
        raise ConfigError(f"{named[0]} is given, and valueFormat is not: nothing is encoded")
    registry = read_registry_options(given)
    if registry is None and (lacks := [one for one in parts if _names_schema(one.framing)]):
        part = lacks[0].part
        raise ConfigError(
            f"schemaRegistryUrl is missing: {part}s name a schema of a registry. Without one give "
            f"{part}Framing=none."
        )
    return EncodingOptions(parts, registry)


def _part(given: GivenOptions, part: str) -> PartEncoding:
    value_format = given[PART_ROWS[f"{part}_format"]]
    assert value_format is not None  # it was looked at before
    framing = given[PART_ROWS[f"{part}_framing"]] or "confluent-prefix"
    schema, subject = given[PART_ROWS[f"{part}_schema"]], given[PART_ROWS[f"{part}_subject"]]
    message = given[PART_ROWS[f"{part}_message"]]
    register = given[REGISTER_SCHEMAS]
    if schema is None and not register and _names_schema(framing):
        schema = "latest"
    if subject is None:
        topic = given[TOPIC]
        if topic is None and _names_schema(framing) and schema in (None, "latest"):
            raise ConfigError(
                f"{part}Subject is missing: the rows have their topics in a column, and so there "
                "is none whose name the subject could have"
            )
        subject = None if topic is None else f"{topic}-{part}"
    return PartEncoding(part, value_format, schema, subject, framing, message, register)


def _names_schema(framing: str) -> bool:
    """Return whether messages name a schema of a registry."""
    from parley.client import WITHOUT_REGISTRY

    return framing not in WITHOUT_REGISTRY
