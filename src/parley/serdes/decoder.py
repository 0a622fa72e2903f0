"""Messages of many writers' schemas to columns of one reader's schema.

The reader's schema is given and does not change: it decides the columns. Writers' schemas are found
by what each message names, and asked for once, where the format needs them.
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
from parley.serdes.formats import CompiledColumns, GroupDecoder
from parley.serdes.frames import Framing, Headers, Prefixed, SchemaRef, view_of
from parley.serdes.native import scan
from parley.serdes.scanned import Scanned
from parley.serdes.schemas import Schema, SchemaSource
from parley.serdes.writers import Writers, framing_for
from parley.types import Names, Several

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


class ColumnDecoder:
    """Decodes keys or values into columns, by the schemas that they name.

    `source` knows writers' schemas: a `SchemaRegistryClient`, or anything with its `get_schema_for`
    and `get_references`. `schema` is the reader's; with `columns` only those of its fields are
    decoded. `value_format` is avro, json or protobuf. `framing` is a name of
    `parley.serdes.FRAMINGS`, or a framing; with "none" messages were written with `schema` itself,
    and with "single-object" (Avro) with it or one of `known`. `message` is the Protobuf message, by
    its full name; without it the schema's first. `on_schema_error` is "fail" (raise at the first
    message that cannot be decoded) or "null" (null, and the reason in a column `_error`). Raises
    SchemaError for schemas that no columns can hold.

    Not for several threads at a time.
    """

    def __init__(
        self,
        source: SchemaSource | None,
        schema: Schema,
        *,
        value_format: str = "avro",
        columns: Names | None = None,
        framing: str | Framing = "confluent",
        on_schema_error: str = FAIL,
        known: Several[Schema] = (),
        message: str | None = None,
    ) -> None:
        if on_schema_error not in (FAIL, NULL):
            hint = nearest_hint(str(on_schema_error), (FAIL, NULL))
            raise ConfigError(
                f'on_schema_error="{on_schema_error}" is neither fail nor null.{hint}'
            )
        self._framing = framing_for(framing, value_format)
        self._on_error = on_schema_error
        self._writers = Writers(source, value_format, schema, known, message)
        self._reader = self._writers.reader.columns(columns)
        self._decoders: dict[object, GroupDecoder | SchemaError] = {}
        self.data_type: pa.DataType = self._reader.data_type
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

        With on_schema_error="null" a column `_error` follows (`_key_error` for keys). Raises
        SchemaDecodeError with the offset (and topic and partition if given) for a message that
        cannot be decoded, RegistryUnreachable where a schema cannot be asked for.
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
            named = "_key_error" if column == "key" else "_error"
            made = made.append_column(named, _errors(messages, found.faults))
        return made

    def decode_values(
        self, messages: pa.Array, headers: pa.Array | None = None, *, is_key: bool = False
    ) -> DecodedValues:
        """Return the columns of messages, and the faults of those that cannot be decoded."""
        compiled: CompiledColumns | None = getattr(self._reader, "compiled", None)
        if compiled is not None and isinstance(self._framing, Prefixed):
            prefix = self._framing.prefix(_header_names(headers), is_key=is_key)
            scanned = None if prefix is None else scan(messages, prefix)
            if scanned is not None:
                return self._decode_scanned(scanned, compiled, is_key)
        return self._decode_each(messages, headers, is_key)

    def _decode_scanned(
        self, scanned: Scanned, compiled: CompiledColumns, is_key: bool
    ) -> DecodedValues:
        """Decode without a step of Python for each message that is as it should be."""
        faults: dict[int, Fault] = {}
        for row in scanned.bad:
            try:
                self._framing.read(view_of(memoryview(scanned.messages[row].as_buffer())))
            except FramingError as error:
                faults[row] = Fault("framing", str(error))
        refs, needs_writer = scanned.refs(), self._reader.needs_writer
        decoders = [self._decoder((ref, None), ref, None) for ref in refs]
        usable = [None if isinstance(one, SchemaError) else one for one in decoders]
        groups = memoryview(scanned.groups).cast("i")
        if None in usable:
            for row, group in enumerate(groups):
                if group >= 0 and usable[group] is None:
                    faults[row] = Fault("schema", str(decoders[group]), refs[group])
        found = compiled.decode(scanned, usable)
        for row, why in found.faults.items():
            faults[row] = Fault("datum", why, refs[groups[row]] if needs_writer else None)
        return DecodedValues(found.array, faults)

    def _decode_each(
        self, messages: pa.Array, headers: pa.Array | None, is_key: bool
    ) -> DecodedValues:
        """Decode with Python's framing of each message, and writer by writer."""
        groups: dict[object, list[tuple[int, memoryview]]] = {}
        refs: dict[object, tuple[SchemaRef | None, tuple[int, ...] | None]] = {}
        faults: dict[int, Fault] = {}
        for row, data, listed in _messages(messages, headers):
            try:
                framed = self._framing.read(data, listed, is_key=is_key)
            except FramingError as error:
                faults[row] = Fault("framing", str(error))
                continue
            # where data say themselves what they are, all are one group
            written = (framed.schema, framed.message_indexes)
            key: object = written if self._reader.needs_writer else None
            refs.setdefault(key, written)
            groups.setdefault(key, []).append((row, framed.payload))
        rows: list[int] = []
        arrays: list[pa.Array] = []
        for key, members in groups.items():
            ref, indexes = refs[key]
            decoder = self._decoder(key, ref, indexes)
            if isinstance(decoder, SchemaError):
                faults |= {row: Fault("schema", str(decoder), ref) for row, _ in members}
                continue
            decoded = decoder.decode([datum for _, datum in members])
            rows += [row for row, _ in members]
            arrays.append(decoded.array)
            named = ref if self._reader.needs_writer else None
            faults |= {
                members[index][0]: Fault("datum", why, named)
                for index, why in decoded.faults.items()
            }
        return DecodedValues(_in_order(rows, arrays, len(messages), self.data_type), faults)

    def _decoder(
        self, key: object, ref: SchemaRef | None, indexes: tuple[int, ...] | None
    ) -> GroupDecoder | SchemaError:
        """Return what decodes a writer's messages, or why nothing can."""
        if key not in self._decoders:
            try:
                writer = self._writers.of(ref) if self._reader.needs_writer else None
                self._decoders[key] = self._reader.group(writer, indexes)
            except SchemaNotFoundError as error:
                # not remembered: it may be there next time
                return SchemaError(str(error))
            except SchemaError as error:
                self._decoders[key] = SchemaError(f"what {ref} wrote cannot be read: {error}")
        return self._decoders[key]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._framing.name!r}, {self.data_type})"


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


def _header_names(headers: pa.Array | None) -> list[str]:
    """Return the names of all headers of a batch, each once."""
    if headers is None or headers.null_count == len(headers):
        return []
    names: list[str] = headers.flatten().field("key").unique().to_pylist()
    return names


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
