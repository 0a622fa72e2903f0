"""Which schema messages are written with, and how they name it.

A schema is given (`Schema`), or named by a text that the registry understands ("latest", "id:7",
"subject:orders-value:3", "file:orders.avsc"), or derived from a column's type. The registry is
asked once, when the first message is written. It is asked to register a schema only with
`auto_register_schemas`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from parley.errors import ConfigError, SchemaError, SchemaNotFoundError
from parley.serdes.apicurio import ApicurioHeaders, ApicurioPrefix
from parley.serdes.confluent import Confluent, ConfluentHeader, ConfluentPrefix
from parley.serdes.formats import ValueFormat, format_class
from parley.serdes.frames import (
    Bare,
    ContentId,
    Fingerprint,
    Frame,
    Framing,
    SchemaId,
    SchemaRef,
)
from parley.serdes.schemas import RegisteredSchema, Schema, SchemaRegistry
from parley.serdes.single_object import SingleObject
from parley.serdes.writers import framing_for, parsed

if TYPE_CHECKING:
    import pyarrow

WITHOUT_REGISTRY = (Bare, SingleObject)
"""The framings that name no schema of a registry."""


@dataclass(frozen=True, slots=True)
class Written:
    """A schema that messages are written with."""

    format: ValueFormat
    schema: Schema
    ref: SchemaRef | None
    framing: Framing

    def frame(self, payload: bytes, *, is_key: bool) -> Frame:
        """Return the message of data, with the headers to send with it."""
        indexes = self.format.message_indexes if getattr(self.framing, "protobuf", False) else None
        return self.framing.write(payload, self.ref, is_key=is_key, message_indexes=indexes)


class WriterSchema:
    """How a caller chose the schema of what is written."""

    def __init__(
        self,
        registry: SchemaRegistry | None,
        subject: str | None,
        schema: Schema | str | None,
        *,
        value_format: str = "avro",
        framing: str | Framing = "confluent-prefix",
        auto_register_schemas: bool = False,
        normalize_schemas: bool = False,
        message: str | None = None,
        ref: SchemaRef | None = None,
    ) -> None:
        self._registry = registry
        self._subject = subject
        self._schema = schema
        self._format = format_class(value_format)
        self.framing = framing_for(framing, value_format)
        self._register = auto_register_schemas
        self._normalize = normalize_schemas
        self._message = message
        self._ref = ref
        if schema is not None and not isinstance(schema, Schema | str):
            raise ConfigError(f"schema is a Schema or a text, not {type(schema).__name__}")
        if registry is None and isinstance(schema, str):
            raise ConfigError(f'schema="{schema}" needs a registry to ask; or give a Schema')
        if registry is None and ref is None and not isinstance(self.framing, WITHOUT_REGISTRY):
            raise ConfigError(
                f'the framing "{self.framing.name}" names a schema of a registry: give one, or '
                'framing="none" or "single-object"'
            )

    def resolve(self, kind: pyarrow.DataType | None = None) -> Written:
        """Return the schema, asked for now; `kind` is what it is derived from where none is given.

        Raises SchemaNotFoundError where the registry does not have it, and may not register it.
        """
        chosen: Schema | RegisteredSchema
        if self._schema is None:
            if kind is None:
                raise ConfigError("schema is missing: which schema are values written with?")
            chosen = self._derived(kind)
        elif isinstance(self._schema, str):
            assert self._registry is not None
            chosen = self._registry.choose_schema(self._schema, self._subject)
        else:
            chosen = self._schema
        schema = chosen.schema if isinstance(chosen, RegisteredSchema) else chosen
        found = parsed(self._format, schema, self._registry, self._message)
        return Written(found, schema, self._reference(chosen, found), self.framing)

    def _derived(self, kind: pyarrow.DataType) -> Schema:
        from parley.serdes.avro.derive import record_name

        return self._format.derived(kind, record_name(self._subject or "value"))

    def _reference(self, chosen: Schema | RegisteredSchema, found: ValueFormat) -> SchemaRef | None:
        """Return what names the schema in a message."""
        if self._ref is not None:
            return self._ref
        if isinstance(self.framing, Bare):
            return None
        if isinstance(self.framing, SingleObject):
            mark = getattr(found, "fingerprint", None)
            if not isinstance(mark, Fingerprint):
                raise ConfigError('framing="single-object" is Avro\'s alone')
            return mark
        registered = self._registered(chosen)
        if isinstance(self.framing, ConfluentHeader):
            if registered.guid is None:
                raise ConfigError(
                    "the registry gives no GUID of the schema; use the framing "
                    '"confluent-prefix", or register the schema again'
                )
            return registered.guid
        if isinstance(self.framing, Confluent | ConfluentPrefix):
            return SchemaId(registered.id)
        if isinstance(self.framing, ApicurioHeaders) or (
            isinstance(self.framing, ApicurioPrefix) and self.framing.content_ids
        ):
            return ContentId(registered.id)
        raise ConfigError(
            f'the framing "{self.framing.name}" names a schema as this registry does not: give ref'
        )

    def _registered(self, chosen: Schema | RegisteredSchema) -> RegisteredSchema:
        needs_guid = isinstance(self.framing, ConfluentHeader)
        if isinstance(chosen, RegisteredSchema) and not (needs_guid and chosen.guid is None):
            return chosen
        schema = chosen.schema if isinstance(chosen, RegisteredSchema) else chosen
        assert self._registry is not None  # the constructor wants one for these framings
        if self._subject is None:
            raise ConfigError("subject is missing: under which is the schema registered?")
        if self._register:
            return self._registry.register_schema(self._subject, schema, normalize=self._normalize)
        try:
            return self._registry.lookup_schema(self._subject, schema, normalize=self._normalize)
        except SchemaNotFoundError as error:
            raise SchemaError(
                f"the schema is not registered under {self._subject} ({error}); register it, or "
                "set auto_register_schemas=True"
            ) from error
