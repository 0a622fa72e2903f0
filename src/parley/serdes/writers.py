"""The schemas that messages were written with: asked for once, and parsed once."""

from __future__ import annotations

from parley.errors import ConfigError, SchemaError
from parley.serdes.confluent import Confluent, ConfluentHeader, ConfluentPrefix
from parley.serdes.formats import ValueFormat, format_class
from parley.serdes.frames import Fingerprint, Framing, SchemaRef
from parley.serdes.framing import framing as framing_of
from parley.serdes.schemas import NamedSchema, Schema, SchemaSource
from parley.types import Several, several


class Writers:
    """Writers' schemas of one format by what messages name. `reader` is the reader's schema.

    Without a reader's schema each message is read as it was written.
    """

    def __init__(
        self,
        source: SchemaSource | None,
        value_format: str,
        schema: Schema | None = None,
        known: Several[Schema] = (),
        message: str | None = None,
    ) -> None:
        self._source = source
        self._format = format_class(value_format)
        self._message = message
        self._by_ref: dict[SchemaRef, ValueFormat] = {}
        self._by_fingerprint: dict[Fingerprint, ValueFormat] = {}
        self._reader = None if schema is None else self.parsed(schema, message)
        given = several("known", known, "schemas") if known else ()
        for one in given:
            if not isinstance(one, Schema):
                raise ConfigError(f"known holds {type(one).__name__} where a Schema is wanted")
        parsed = [self.parsed(one) for one in given if isinstance(one, Schema)]
        for found in (self._reader, *parsed):
            mark = getattr(found, "fingerprint", None)
            if found is not None and isinstance(mark, Fingerprint):
                self._by_fingerprint[mark] = found

    @property
    def reader(self) -> ValueFormat:
        """The reader's schema. Raises ConfigError where none was given."""
        if self._reader is None:
            raise ConfigError("schema is missing: which schema is the reader's?")
        return self._reader

    @property
    def reader_or_none(self) -> ValueFormat | None:
        """The reader's schema, if given."""
        return self._reader

    def of(self, ref: SchemaRef | None) -> ValueFormat | None:
        """Return the schema that a message names; None for one that names none.

        Raises SchemaError where it cannot be had or parsed.
        """
        if ref is None:
            return None
        if isinstance(ref, Fingerprint):
            if ref not in self._by_fingerprint:
                raise SchemaError(f"no schema of {ref} is known; give it among known=[...]")
            return self._by_fingerprint[ref]
        if ref not in self._by_ref:
            if self._source is None:
                raise ConfigError(f"a message names {ref}, and there is no registry to ask for it")
            # which of a writer's messages is meant matters where nobody else says it
            message = self._message if self._reader is None else None
            self._by_ref[ref] = self.parsed(self._source.get_schema_for(ref), message)
        return self._by_ref[ref]

    def parsed(self, schema: Schema, message: str | None = None) -> ValueFormat:
        """Return a schema with what it refers to. Raises SchemaError for one of another type."""
        return parsed(self._format, schema, self._source, message)


def parsed(
    kind: type[ValueFormat],
    schema: Schema,
    source: SchemaSource | None,
    message: str | None = None,
) -> ValueFormat:
    """Return a schema of a format with what it refers to.

    Raises SchemaError for one of another type, or that cannot be parsed.
    """
    if schema.schema_type != kind.schema_type:
        raise SchemaError(
            f"a schema of the type {schema.schema_type}, where {kind.schema_type} is wanted"
        )
    references: tuple[NamedSchema, ...] = ()
    if schema.references:
        if source is None:
            raise ConfigError("the schema refers to others, and there is no registry to ask")
        references = tuple(source.get_references(schema))
    return kind(schema, references, message)


def framing_for(given: str | Framing, value_format: str) -> Framing:
    """Return a framing as a format needs it: Protobuf's has message indexes.

    A framing of the caller's own is taken as it is.
    """
    if not isinstance(given, str):
        return given
    found = framing_of(given)
    if value_format == "protobuf" and isinstance(
        found, Confluent | ConfluentHeader | ConfluentPrefix
    ):
        return type(found)(protobuf=True)
    return found
