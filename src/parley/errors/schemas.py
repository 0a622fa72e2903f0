"""Errors about schemas: frames that name none, registries that refuse or cannot be reached."""

from __future__ import annotations

from parley.errors.tree import ConfigError, KafkaError, NetworkError, RemoteProtocolError, printable

ADDRESSES_SHOWN = 5
"""By the text of RegistryUnreachable; its `failures` has all."""


class FramingError(RemoteProtocolError):
    """A message does not begin as its framing says. The message is damaged, or framed otherwise.

    `framing` is the name of the framing that was expected, as `parley.serdes.framing` takes it.
    """

    def __init__(self, message: str, *, framing: str) -> None:
        super().__init__(message)
        self.framing = framing

    def __reduce__(self) -> tuple[object, ...]:
        return _framing_error, (str(self), self.framing)


def _framing_error(message: str, framing: str) -> FramingError:
    return FramingError(message, framing=framing)


class RegistryError(KafkaError):
    """A schema registry refused a request. `status` is HTTP's, `error_code` the registry's own.

    `error_code` is -1 where the answer has none. `url` is what was asked, without credentials.
    """

    def __init__(
        self,
        message: str | None,
        *,
        status: int,
        error_code: int = -1,
        url: str = "",
        hint: str = "",
    ) -> None:
        said = printable(message, 2_000) if message else "no reason was given"
        code = f", error {error_code}" if error_code != -1 else ""
        super().__init__(f"the schema registry refused {url} (HTTP {status}{code}): {said}{hint}")
        self.registry_message = message
        self.status = status
        self.error_code = error_code
        self.url = url
        self.hint = hint
        self.retriable = status in (408, 429, 500, 502, 503, 504)

    def __reduce__(self) -> tuple[object, ...]:
        facts = (self.registry_message, self.status, self.error_code, self.url, self.hint)
        return _registry_error, (type(self), *facts)


def _registry_error(
    kind: type[RegistryError],
    message: str | None,
    status: int,
    error_code: int,
    url: str,
    hint: str,
) -> RegistryError:
    return kind(message, status=status, error_code=error_code, url=url, hint=hint)


class SchemaNotFoundError(RegistryError):
    """The registry has no such subject (40401), version (40402) or schema (40403)."""


class IncompatibleSchemaError(RegistryError):
    """A schema breaks the subject's compatibility level (409): it was not registered."""


class InvalidSchemaError(RegistryError):
    """The registry cannot parse a schema, or its references are not there (42201)."""


class RegistryAuthenticationError(RegistryError):
    """The registry wants other credentials (401), or these may not do it (403)."""


class RegistryUnreachable(NetworkError):
    """No URL of a schema registry answered; `failures` holds the error of each URL."""

    def __init__(self, failures: dict[str, Exception]) -> None:
        shown = list(failures.items())[:ADDRESSES_SHOWN]
        lines = [f"{url}: {str(error).removeprefix(f'{url}: ')}" for url, error in shown]
        if len(failures) > len(shown):
            lines.append(f"and {len(failures) - len(shown)} more")
        super().__init__(
            f"no schema registry could be reached ({'; '.join(lines)}). Check url, and whether it "
            "is http or https."
        )
        self.failures = failures
        self.retriable = any(getattr(error, "retriable", True) for error in failures.values())

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.failures,)


class SchemaError(ConfigError):
    """A schema cannot be parsed, or has a type that cannot be had here; the text names the field.

    `path` says where in the schema: the names of fields, joined by dots; empty for the whole.
    """

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.problem = message

    def __reduce__(self) -> tuple[object, ...]:
        return _schema_error, (self.problem, self.path)


def _schema_error(message: str, path: str) -> SchemaError:
    return SchemaError(message, path=path)


class SchemaEncodeError(ConfigError):
    """A value does not fit the schema that it is to be encoded with; nothing was encoded.

    `path` says where in the value: names of fields, joined by dots, and `[index]` of items. `row`
    is the row of a column, None for single values. Correct the value, or encode with a schema that
    has room for it.
    """

    def __init__(self, message: str, *, path: str = "", row: int | None = None) -> None:
        place = "" if row is None else f" of row {row}"
        where = f" at {path}" if path else ""
        super().__init__(f"a value{place} cannot be encoded{where}: {message}")
        self.reason = message
        self.path = path
        self.row = row

    def __reduce__(self) -> tuple[object, ...]:
        return _encode_error, (self.reason, self.path, self.row)


def _encode_error(message: str, path: str, row: int | None) -> SchemaEncodeError:
    return SchemaEncodeError(message, path=path, row=row)


class SchemaDecodeError(RemoteProtocolError):
    """A message cannot be decoded. `code` is framing, schema or datum; the position stays there.

    Decode with on_schema_error="null" to go on, or seek past `offset`.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        schema: str | None = None,
    ) -> None:
        place = "" if topic is None else f"{topic}-{partition}, "
        where = "" if offset is None else f" at {place}offset {offset}"
        written = "" if schema is None else f" (written with {schema})"
        super().__init__(f"a message{where}{written} cannot be decoded: {message}")
        self.reason = message
        self.code = code
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.schema = schema

    def __reduce__(self) -> tuple[object, ...]:
        facts = (self.code, self.topic, self.partition, self.offset, self.schema)
        return _decode_error, (self.reason, *facts)


def _decode_error(
    message: str,
    code: str,
    topic: str | None,
    partition: int | None,
    offset: int | None,
    schema: str | None,
) -> SchemaDecodeError:
    return SchemaDecodeError(
        message, code=code, topic=topic, partition=partition, offset=offset, schema=schema
    )


class RecordDeserializationError(KafkaError):
    """A deserializer of a consumer raised for a record, which was not handed out (KIP-334).

    `part` is key or value, `record` the record with its bytes (KIP-1036); the error's cause is what
    was raised. The position stays at the record, and the next poll tries it again. Seek to `offset`
    + 1 to leave it out, or pause its partition. A share consumer releases it, unless it is
    acknowledged otherwise.
    """

    def __init__(self, cause: object, *, part: str, record: object) -> None:
        self.part = part
        self.record = record
        self.topic: str = getattr(record, "topic", "")
        self.partition: int = getattr(record, "partition", -1)
        self.offset: int = getattr(record, "offset", -1)
        self.reason = cause if isinstance(cause, str) else f"{type(cause).__name__}: {cause}"
        super().__init__(
            f"the {part} of {self.topic}-{self.partition} at offset {self.offset} cannot be "
            f"deserialized: {printable(self.reason, 1_000)}"
        )
        self.retriable = bool(getattr(cause, "retriable", False))

    def __reduce__(self) -> tuple[object, ...]:
        return _deserialization_error, (self.reason, self.part, self.record, self.retriable)


def _deserialization_error(
    reason: str, part: str, record: object, retriable: bool
) -> RecordDeserializationError:
    made = RecordDeserializationError(reason, part=part, record=record)
    made.retriable = retriable
    return made
