"""How keys and values of fetched records are decoded into columns, declared once and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from parley.client.options.fields import OptionSet, option
from parley.errors import ConfigError
from parley.registry import RegistryOptions, SchemaRegistryClient
from parley.registry.choices import parse_choice
from parley.serdes import FRAMINGS, RegisteredSchema, Schema
from parley.serdes.formats import FORMATS
from parley.serdes.framing import IN_HEADERS
from parley.types import Names, texts

_FRAMINGS = tuple(FRAMINGS)
PARTS = ("value", "key")


class ChosenSchema(NamedTuple):
    """A reader's schema, and the text that will always name it at its registry.

    The text is None where only the schema itself says what it is: from a file, or the caller's.
    """

    schema: Schema
    named: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaOptions(OptionSet):
    """How keys and values are decoded. What has no format stays bytes."""

    value_format: str | None = option(None, "format of values", choices=FORMATS, kind=str)
    key_format: str | None = option(None, "format of keys", choices=FORMATS, kind=str)
    schema_registry_url: str | None = option(
        None, "URL of the schema registry, or several with commas", kind=str, shown=False
    )
    value_subject: str | None = option(
        None, "subject of the values' schema; None: the topic's name and -value", kind=str
    )
    key_subject: str | None = option(
        None, "subject of the keys' schema; None: the topic's name and -key", kind=str
    )
    value_message: str | None = option(
        None, "Protobuf message of the values, by its full name; None: the schema's first", kind=str
    )
    key_message: str | None = option(
        None, "Protobuf message of the keys, by its full name; None: the schema's first", kind=str
    )
    value_framing: str = option("confluent", "how values name their schema", choices=_FRAMINGS)
    key_framing: str = option("confluent", "how keys name their schema", choices=_FRAMINGS)
    on_schema_error: str = option(
        "fail", "what becomes of a message that cannot be decoded", choices=("fail", "null")
    )
    value_schema: Schema | str = field(default="latest")
    """The reader's schema, which decides the columns: a Schema, or `latest`, `id:7`, `guid:...`,
    `subject:NAME:3`, `file:PATH`. It is asked for once, before anything is read."""
    key_schema: Schema | str = field(default="latest")
    """The same for keys."""
    value_columns: Names | None = field(default=None)
    """Fields of values to decode, in this order; None for all. Others are skipped, not built."""
    key_columns: Names | None = field(default=None)
    """The same for keys."""
    schema_registry: SchemaRegistryClient | RegistryOptions | Mapping[str, object] | None = field(
        default=None
    )
    """A client of the registry, its options, or a configuration of Confluent's clients; instead of
    `schema_registry_url`, where credentials or TLS are needed."""

    def _check_together(self) -> None:
        if self.value_format is None and self.key_format is None:
            raise ConfigError(
                f"value_format is missing: {' or '.join(FORMATS)}; without it and key_format "
                "nothing is decoded"
            )
        given = self.schema_registry
        if given is not None and self.schema_registry_url is not None:
            raise ConfigError("schema_registry_url and schema_registry are given; give one")
        if given is not None and not isinstance(
            given, SchemaRegistryClient | RegistryOptions | Mapping
        ):
            raise ConfigError(
                "schema_registry is a SchemaRegistryClient, RegistryOptions or a configuration of "
                f"Confluent's clients, not {type(given).__name__}"
            )
        for part in self.parts:
            self._check_part(part)

    def _check_part(self, part: str) -> None:
        schema, columns = getattr(self, f"{part}_schema"), getattr(self, f"{part}_columns")
        if not isinstance(schema, Schema | str):
            raise ConfigError(f"{part}_schema is a Schema or a text, not {type(schema).__name__}")
        if columns is not None:
            texts(f"{part}_columns", columns)
        if isinstance(schema, str):
            in_file = parse_choice(schema).file is not None
            if not in_file and self.schema_registry is None and self.schema_registry_url is None:
                raise ConfigError(
                    f'{part}_schema="{schema}" needs a registry: give schema_registry_url, or a '
                    "Schema"
                )

    def registry(self) -> SchemaRegistryClient | None:
        """Return the client of the registry; None without one."""
        given = self.schema_registry
        if isinstance(given, SchemaRegistryClient):
            return given
        if isinstance(given, Mapping):
            given = RegistryOptions.from_config(given)
        if given is None and self.schema_registry_url is not None:
            given = RegistryOptions(url=self.schema_registry_url)
        return None if given is None else SchemaRegistryClient(options=given)

    @property
    def parts(self) -> tuple[str, ...]:
        """What is decoded: "value", "key" or both."""
        return tuple(part for part in PARTS if getattr(self, f"{part}_format") is not None)

    def reads_headers(self, part: str) -> bool:
        """Return whether records' headers may say which schema their values (keys) have."""
        return getattr(self, f"{part}_framing") in IN_HEADERS

    def reader(self, part: str, topic: str, registry: SchemaRegistryClient | None) -> Schema:
        """Return the reader's schema of a topic's keys ("key") or values ("value").

        Raises SchemaNotFoundError where the registry does not have it, RegistryUnreachable.
        """
        return self.choose(part, topic, registry).schema

    def choose(
        self, part: str, topic: str | None, registry: SchemaRegistryClient | None
    ) -> ChosenSchema:
        """Return the reader's schema as `reader` does, and the text that names it.

        Without a topic the options have to say of which subject the latest is.
        """
        chosen: Schema | str = getattr(self, f"{part}_schema")
        if isinstance(chosen, Schema):
            return ChosenSchema(chosen)
        choice = parse_choice(chosen)
        if registry is None:
            return ChosenSchema(choice.read_file())
        subject = getattr(self, f"{part}_subject")
        if subject is None and topic is not None:
            subject = f"{topic}-{part}"
        found = registry.choose_schema(chosen, subject)
        if isinstance(found, RegisteredSchema):
            return ChosenSchema(found.schema, f"id:{found.id}")
        return ChosenSchema(found, None if choice.guid is None else chosen)


def schema_to_write(
    part: str, value_format: str, schema: Schema | str | None, registry: object | None
) -> Schema | str | None:
    """Return the schema that an encoder of keys or values is given: where no registry is asked, a
    text names a file, which is read. Raises ConfigError for a text that does not.
    """
    if not isinstance(schema, str) or registry is not None:
        return schema
    named = {f"{part}_format": value_format, f"{part}_schema": schema}
    return SchemaOptions.of(named).choose(part, None, None).schema
