"""Messages of many writers' schemas to columns of one reader's schema.

The reader's schema is given and does not change: it decides the columns. Writers' schemas are found
by what each message names, asked for once, and resolved against it: fields that a writer lacks get
the reader's defaults, fields that the reader lacks are skipped and not built.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from parley.errors import (
    ConfigError,
    FramingError,
    SchemaDecodeError,
    SchemaError,
    SchemaNotFoundError,
    nearest_hint,
)
from parley.serdes.avro.canonical import fingerprint
from parley.serdes.avro.columns import arrow_type
from parley.serdes.avro.contract import GroupDecoder
from parley.serdes.avro.model import AvroType, Record
from parley.serdes.avro.parse import parse_schema
from parley.serdes.avro.reference import ReferenceDecoder
from parley.serdes.frames import Fingerprint, Framing, Headers, SchemaRef, view_of
from parley.serdes.framing import framing as framing_of
from parley.serdes.schemas import Schema, SchemaSource
from parley.types import Names, Several, several, texts

FAIL, NULL = "fail", "null"
ERROR_TYPE = pa.struct([("code", pa.string()), ("message", pa.string()), ("bytes", pa.binary())])
"""Of the column `_error`: `code` is framing, schema or datum."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a message could not be decoded. `code` is framing, schema or datum."""

    code: str
    why: str
    schema: SchemaRef | None = None


@dataclass(frozen=True, slots=True)
class DecodedValues:
    """Columns, one row for each message, and the faults of rows that have none."""

    array: pa.Array
    faults: dict[int, Fault] = field(default_factory=dict)


class AvroDecoder:
    """Decodes keys or values into columns, by the schemas that they name.

    `source` knows writers' schemas: a `SchemaRegistryClient`, or anything with its `get_schema_for`
    and `get_references`. `schema` is the reader's; with `columns` only those of its fields are
    decoded. `framing` is a name of `parley.serdes.FRAMINGS`, or a framing; with "none" messages
    were written with `schema` itself, and with "single-object" with it or one of `known`.
    `on_schema_error` is "fail" (raise at the first message that cannot be decoded) or "null" (null,
    and the reason in a column `_error`). Raises SchemaError for schemas that no columns can hold.

    Not for several threads at a time.
    """

    def __init__(
        self,
        source: SchemaSource,
        schema: Schema,
        *,
        columns: Names | None = None,
        framing: str | Framing = "confluent",
        on_schema_error: str = FAIL,
        known: Several[Schema] = (),
    ) -> None:
        if on_schema_error not in (FAIL, NULL):
            hint = nearest_hint(str(on_schema_error), (FAIL, NULL))
            raise ConfigError(
                f'on_schema_error="{on_schema_error}" is neither fail nor null.{hint}'
            )
        self._source = source
        self._framing = framing_of(framing) if isinstance(framing, str) else framing
        self._on_error = on_schema_error
        self._written = self._parsed(schema)
        self._reader = _projected(self._written, columns)
        self._decoders: dict[SchemaRef | None, GroupDecoder | SchemaError] = {}
        self._known = {fingerprint(self._written): self._written}
        for one in several("known", known, "schemas"):
            if not isinstance(one, Schema):
                raise ConfigError(f"known holds {type(one).__name__} where a Schema is wanted")
            parsed = self._parsed(one)
            self._known[fingerprint(parsed)] = parsed
        self.data_type: pa.DataType = arrow_type(self._reader)
        """The Arrow type of what is decoded."""

    # -- batches -------------------------------------------------------------------------------

    def decode(
        self,
        batch: pa.RecordBatch,
        column: str = "value",
        *,
        topic: str | None = None,
        partition: int | None = None,
    ) -> pa.RecordBatch:
        """Return a fetched batch with `column` ("value" or "key") decoded; tombstones stay null.

        With on_schema_error="null" a column `_error` follows. Raises SchemaDecodeError with the
        offset (and topic and partition if given) for a message that cannot be decoded,
        RegistryUnreachable where a schema cannot be asked for.
        """
        if column not in batch.schema.names:
            raise ConfigError(f"the batch has no column {column}: {', '.join(batch.schema.names)}")
        headers = batch.column("headers") if "headers" in batch.schema.names else None
        messages = batch.column(column)
        found = self.decode_values(messages, headers, is_key=column == "key")
        if found.faults and self._on_error == FAIL:
            row, fault = min(found.faults.items())
            offsets = batch.column("offset") if "offset" in batch.schema.names else None
            raise SchemaDecodeError(
                fault.why,
                code=fault.code,
                topic=topic,
                partition=partition,
                offset=None if offsets is None else offsets[row].as_py(),
                schema=None if fault.schema is None else str(fault.schema),
            )
        at = batch.schema.get_field_index(column)
        made = batch.set_column(at, pa.field(column, self.data_type), found.array)
        if self._on_error == NULL:
            made = made.append_column("_error", _errors(messages, found.faults))
        return made

    def decode_values(
        self, messages: pa.Array, headers: pa.Array | None = None, *, is_key: bool = False
    ) -> DecodedValues:
        """Return the columns of messages, and the faults of those that cannot be decoded."""
        groups: dict[SchemaRef | None, list[tuple[int, memoryview]]] = {}
        faults: dict[int, Fault] = {}
        for row, data, listed in _messages(messages, headers):
            try:
                framed = self._framing.read(data, listed, is_key=is_key)
            except FramingError as error:
                faults[row] = Fault("framing", str(error))
                continue
            groups.setdefault(framed.schema, []).append((row, framed.payload))
        rows: list[int] = []
        arrays: list[pa.Array] = []
        for ref, members in groups.items():
            decoder = self._decoder(ref)
            if isinstance(decoder, SchemaError):
                faults |= {row: Fault("schema", str(decoder), ref) for row, _ in members}
                continue
            decoded = decoder.decode([datum for _, datum in members])
            rows += [row for row, _ in members]
            arrays.append(decoded.array)
            faults |= {
                members[index][0]: Fault("datum", why, ref) for index, why in decoded.faults.items()
            }
        return DecodedValues(_in_order(rows, arrays, len(messages), self.data_type), faults)

    # -- schemas -------------------------------------------------------------------------------

    def _decoder(self, ref: SchemaRef | None) -> GroupDecoder | SchemaError:
        """Return what decodes a writer's messages, or why nothing can."""
        if ref not in self._decoders:
            try:
                self._decoders[ref] = ReferenceDecoder(self._writer(ref), self._reader)
            except SchemaNotFoundError as error:
                # not remembered: it may be there next time
                return SchemaError(str(error))
            except SchemaError as error:
                self._decoders[ref] = SchemaError(f"what {ref} wrote cannot be read: {error}")
        return self._decoders[ref]

    def _writer(self, ref: SchemaRef | None) -> AvroType:
        if ref is None:
            return self._written
        if isinstance(ref, Fingerprint):
            if ref.number not in self._known:
                raise SchemaError(f"no schema of {ref} is known; give it among known=[...]")
            return self._known[ref.number]
        return self._parsed(self._source.get_schema_for(ref))

    def _parsed(self, schema: Schema) -> AvroType:
        if schema.schema_type != "AVRO":
            raise SchemaError(f"a schema of the type {schema.schema_type}, where AVRO is wanted")
        references = self._source.get_references(schema) if schema.references else ()
        return parse_schema(schema.text, [one.schema.text for one in references])

    def __repr__(self) -> str:
        return f"AvroDecoder({self._framing.name!r}, {self.data_type})"


def _projected(schema: AvroType, columns: Names | None) -> AvroType:
    """Return a record without the fields that are not wanted, in the order they are wanted in."""
    if columns is None:
        return schema
    wanted = texts("columns", columns)
    if not isinstance(schema, Record):
        raise ConfigError(f"columns are fields of a record, and the schema is of {schema.kind}")
    fields = {one.name: one for one in schema.fields}
    for name in wanted:
        if name not in fields:
            raise ConfigError(
                f"columns: {schema.name} has no field {name}.{nearest_hint(name, fields)}"
            )
    chosen = [fields[name] for name in dict.fromkeys(wanted)]
    return Record(schema.name, schema.aliases, chosen)


def _messages(
    messages: pa.Array, headers: pa.Array | None
) -> Iterable[tuple[int, memoryview, Headers]]:
    """Yield row, bytes and headers of each message that is not null."""
    with_headers = headers is not None and headers.null_count < len(headers)
    for row, message in enumerate(messages):
        if not message.is_valid:
            continue
        listed: Headers = ()
        if with_headers and headers is not None:
            found = headers[row].as_py() or ()
            listed = [(one["key"], one["value"]) for one in found]
        yield row, view_of(memoryview(message.as_buffer())), listed


def _in_order(
    rows: Sequence[int], arrays: Sequence[pa.Array], length: int, kind: pa.DataType
) -> pa.Array:
    """Return groups' arrays as one, each row at its place, null where none has it."""
    at: list[int | None] = [None] * length
    for index, row in enumerate(rows):
        at[row] = index
    whole = pa.concat_arrays(arrays) if arrays else pa.nulls(0, kind)
    return whole.take(pa.array(at, pa.int32()))


def _errors(messages: pa.Array, faults: dict[int, Fault]) -> pa.Array:
    return pa.array(
        [
            None
            if (fault := faults.get(row)) is None
            else {"code": fault.code, "message": fault.why, "bytes": messages[row].as_py()}
            for row in range(len(messages))
        ],
        ERROR_TYPE,
    )
