"""Arrow columns to messages of one writer's schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from parley.errors import ConfigError, SchemaEncodeError
from parley.serdes.faults import RowFault
from parley.serdes.formats import format_class
from parley.serdes.frames import Framing, SchemaRef
from parley.serdes.schemas import Schema, SchemaRegistry
from parley.serdes.writer_schema import WriterSchema, Written

_PROBE = bytes(64)
"""What shows whether a framing does more to data than to put something before them."""
HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@dataclass(frozen=True, slots=True)
class EncodedValues:
    """Messages, one for each row and null for null, and the headers to send with each of them."""

    array: pa.Array
    headers: tuple[tuple[str, bytes], ...] = ()


class ColumnEncoder:
    """Makes messages of a column of values, usually a struct.

    The arguments are those of `Serializer`. With schema=None the schema is derived from the type of
    the first column that is encoded: `derived_schema` shows it. Types that the schema has no room
    for raise SchemaError, which names the field; nothing is rounded or left out.

    Not for several threads at a time.
    """

    def __init__(
        self,
        registry: SchemaRegistry | None,
        subject: str | None = None,
        schema: Schema | str | None = "latest",
        *,
        value_format: str = "avro",
        framing: str | Framing = "confluent-prefix",
        auto_register_schemas: bool = False,
        normalize_schemas: bool = False,
        message: str | None = None,
        ref: SchemaRef | None = None,
    ) -> None:
        self._derives = schema is None
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

    def prepare(self, kind: pa.DataType | None = None) -> None:
        """Ask the registry for the schema now; `kind` is the column's type, to be derived from."""
        if self._written is None:
            self._written = self._schema.resolve(kind if self._derives else None)

    @property
    def written(self) -> tuple[Schema, SchemaRef | None]:
        """What messages are written with, and what names it in them, as `prepare` found it.

        An encoder with these as `schema` and `ref` writes the same, and asks nobody.
        """
        found = self._prepared
        return found.schema, found.ref

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that values have, as `prepare` found them; none where they are no structs."""
        kind = self._prepared.format.columns().data_type
        return tuple(one.name for one in kind) if pa.types.is_struct(kind) else ()

    @property
    def _prepared(self) -> Written:
        if self._written is None:
            raise ConfigError("nothing is known of the schema before prepare() was called")
        return self._written

    def encode(
        self, rows: pa.RecordBatch | pa.Table, column: str = "value"
    ) -> pa.RecordBatch | pa.Table:
        """Return rows with `column` ("value" or "key") encoded, as `client.produce` takes them.

        A framing of headers adds its header to the rows' own. Raises SchemaEncodeError with the row
        for a value that does not fit, and what `Serializer.prepare` raises.
        """
        if isinstance(rows, pa.Table):
            batches = rows.combine_chunks().to_batches()
            if not batches:
                batches = [pa.RecordBatch.from_pylist([], rows.schema)]
            return pa.Table.from_batches([self._batch(one, column) for one in batches])
        return self._batch(rows, column)

    def _batch(self, batch: pa.RecordBatch, column: str) -> pa.RecordBatch:
        if column not in batch.schema.names:
            raise ConfigError(f"the rows have no column {column}: {', '.join(batch.schema.names)}")
        found = self.encode_values(batch.column(column), is_key=column == "key")
        at = batch.schema.get_field_index(column)
        made = batch.set_column(at, pa.field(column, pa.binary()), found.array)
        return _with_headers(made, found.headers) if found.headers else made

    def encode_values(self, array: pa.Array, *, is_key: bool = False) -> EncodedValues:
        """Return the messages of values, and the headers to send with each."""
        self.prepare(array.type)
        assert self._written is not None
        compiled = self._encode_compiled(array, self._written, is_key)
        if compiled is not None:
            return compiled
        try:
            payloads = self._written.format.encode_column(array)
        except RowFault as error:
            fault = error.fault
            raise SchemaEncodeError(fault.why, path=fault.path, row=error.row) from error
        frame = self._written.frame
        headers = frame(b"", is_key=is_key).headers
        messages = [None if one is None else frame(one, is_key=is_key).value for one in payloads]
        return EncodedValues(pa.array(messages, pa.binary()), headers)

    def _encode_compiled(
        self, array: pa.Array, written: Written, is_key: bool
    ) -> EncodedValues | None:
        """Encode without a step of Python for each row, where format and framing allow it."""
        encode = getattr(written.format, "encode_messages", None)
        frame = written.frame(b"", is_key=is_key)
        if encode is None or written.frame(_PROBE, is_key=is_key).value != frame.value + _PROBE:
            return None
        messages = encode(array, frame.value)
        return None if messages is None else EncodedValues(messages, frame.headers)


def _with_headers(batch: pa.RecordBatch, headers: Sequence[tuple[str, bytes]]) -> pa.RecordBatch:
    """Return rows with more headers behind their own."""
    added = [{"key": key, "value": value} for key, value in headers]
    if "headers" not in batch.schema.names:
        column = pa.array([added] * batch.num_rows, HEADERS_TYPE)
        return batch.append_column("headers", column)
    at = batch.schema.get_field_index("headers")
    own = batch.column("headers")
    rows = [[*(one or ()), *added] for one in own.to_pylist()]
    return batch.set_column(at, batch.schema.field(at), pa.array(rows, own.type))


def derived_schema(kind: pa.DataType, name: str = "value", *, value_format: str = "avro") -> Schema:
    """Return the schema that a column's type means; `name` is that of the outermost record.

    Raises SchemaError, which names the field, for a type that the format does not have.
    """
    return format_class(value_format).derived(kind, name)
