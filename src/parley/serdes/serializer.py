"""Single values to messages and back: what `AsyncProducer(value_serializer=...)` takes.

The registry is asked at the first message, in the thread that calls; `prepare` asks it before, so
that an event loop need not wait for it.
"""

from __future__ import annotations

from parley.errors import (
    ConfigError,
    FramingError,
    SchemaDecodeError,
    SchemaEncodeError,
    SchemaError,
    SchemaNotFoundError,
)
from parley.serdes.faults import DatumFault, ValueFault
from parley.serdes.frames import Buffer, Frame, Framing, Headers, SchemaRef
from parley.serdes.schemas import Schema, SchemaRegistry, SchemaSource
from parley.serdes.writer_schema import WriterSchema, Written
from parley.serdes.writers import Writers, framing_for
from parley.types import Several


class Serializer:
    """Makes messages of values. It is a function of a value, for `value_serializer` options.

    `registry` is a `SchemaRegistryClient`. `schema` is a Schema, or a text that the registry
    understands: "latest" (of `subject`), "id:7", "subject:orders-value:3", "file:orders.avsc".
    A schema that is not registered under `subject` is registered with `auto_register_schemas`, and
    is an error without. `value_format` is avro, json or protobuf; `framing` how a message names its
    schema. Framings of headers have no function: use `frame`. `message` is the Protobuf message, by
    its full name. `ref` is what names the schema where this registry's protocol has no such name
    (AWS Glue's versions, Apicurio's global ids).
    """

    def __init__(
        self,
        registry: SchemaRegistry | None,
        subject: str | None = None,
        schema: Schema | str = "latest",
        *,
        value_format: str = "avro",
        framing: str | Framing = "confluent-prefix",
        auto_register_schemas: bool = False,
        normalize_schemas: bool = False,
        message: str | None = None,
        ref: SchemaRef | None = None,
        is_key: bool = False,
    ) -> None:
        self.is_key = is_key
        self._written: Written | None = None
        self._schema = WriterSchema(
            registry,
            subject,
            schema,
            value_format=value_format,
            framing=framing,
            auto_register_schemas=auto_register_schemas,
            normalize_schemas=normalize_schemas,
            message=message,
            ref=ref,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._schema.framing.name!r})"

    def prepare(self) -> None:
        """Ask the registry for the schema now.

        Raises SchemaNotFoundError or SchemaError where it cannot be had, RegistryUnreachable.
        """
        if self._written is None:
            self._written = self._schema.resolve()

    def __call__(self, value: object) -> bytes | None:
        """Return the message of a value; None stays None, as a tombstone does.

        Raises SchemaEncodeError for a value that does not fit, and what `prepare` raises.
        """
        if value is None:
            return None
        found = self.frame(value)
        if found.headers:
            raise ConfigError(
                f'the framing "{self._schema.framing.name}" puts the schema into a header, which '
                "a serializer cannot: send frame(value).value with frame(value).headers"
            )
        return found.value

    def frame(self, value: object) -> Frame:
        """Return the message of a value with the headers to send with it."""
        self.prepare()
        assert self._written is not None
        try:
            payload = self._written.format.encode(value)
        except ValueFault as fault:
            raise SchemaEncodeError(fault.why, path=fault.path) from fault
        return self._written.frame(payload, is_key=self.is_key)


class Deserializer:
    """Makes values of messages. It is a function of bytes, and of headers where these count.

    `source` knows writers' schemas: a `SchemaRegistryClient`. With `schema` values are as that
    reader's schema wants them, without as they were written. `framing`, `known` and `message` are
    as for `ColumnDecoder`; with framing="none" messages were written with `schema`.

    Avro's values are dicts, lists, texts, numbers, `Decimal`, dates and times of Python (numbers
    for nanoseconds), and texts for UUIDs. Protobuf's are messages of that package, of the type
    that data name. Not for several threads at a time.
    """

    def __init__(
        self,
        source: SchemaSource | None,
        schema: Schema | None = None,
        *,
        value_format: str = "avro",
        framing: str | Framing = "confluent",
        known: Several[Schema] = (),
        message: str | None = None,
        is_key: bool = False,
    ) -> None:
        self._framing = framing_for(framing, value_format)
        self._writers = Writers(source, value_format, schema, known, message)
        self.is_key = is_key

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._framing.name!r})"

    def __call__(self, data: Buffer | None, headers: Headers = ()) -> object:
        """Return the value of a message; None stays None.

        Raises SchemaDecodeError for a message that cannot be decoded, RegistryUnreachable where
        its schema cannot be asked for.
        """
        if data is None:
            return None
        ref: SchemaRef | None = None
        try:
            framed = self._framing.read(data, headers, is_key=self.is_key)
            ref = framed.schema
            writer = self._writers.of(ref)
            reader = self._writers.reader_or_none or writer
            if reader is None:
                raise ConfigError("messages name no schema, and none is given: which is theirs?")
            return reader.decode(framed.payload, writer, framed.message_indexes)
        except FramingError as error:
            raise SchemaDecodeError(str(error), code="framing") from error
        except (SchemaError, SchemaNotFoundError) as error:
            raise SchemaDecodeError(str(error), code="schema", schema=_named(ref)) from error
        except DatumFault as error:
            raise SchemaDecodeError(str(error), code="datum", schema=_named(ref)) from error


def _named(ref: SchemaRef | None) -> str | None:
    return None if ref is None else str(ref)
