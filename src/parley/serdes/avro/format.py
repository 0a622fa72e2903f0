"""Avro as a format of values: `reading` and `writing` behind one interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from parley.errors import ConfigError, nearest_hint
from parley.serdes.avro.canonical import fingerprint
from parley.serdes.avro.column_values import Values, compile_column
from parley.serdes.avro.columns import arrow_type
from parley.serdes.avro.derive import avro_schema
from parley.serdes.avro.model import AvroType, Record
from parley.serdes.avro.native import AvroPlans
from parley.serdes.avro.native_writing import writing_of
from parley.serdes.avro.parse import parse_schema
from parley.serdes.avro.reading import Read, compile_reader, read_datum
from parley.serdes.avro.writing import compile_writer, write_datum
from parley.serdes.faults import RowFault, ValueFault, each_row
from parley.serdes.formats import CompiledColumns, GroupDecoder, ValueFormat
from parley.serdes.frames import Buffer, Fingerprint
from parley.serdes.native import NativeWriting
from parley.serdes.schemas import NamedSchema, Schema
from parley.types import Names, texts


class AvroFormat:
    """An Avro schema. Raises SchemaError for a text that is none."""

    name: ClassVar[str] = "avro"
    schema_type: ClassVar[str] = "AVRO"
    message_indexes: tuple[int, ...] | None = None

    def __init__(
        self, schema: Schema, references: Sequence[NamedSchema] = (), message: str | None = None
    ) -> None:
        self.parsed = parse_schema(schema.text, [one.schema.text for one in references])
        self._write = compile_writer(self.parsed)
        self._columns: dict[pa.DataType, Values] = {}
        self._writings: dict[pa.DataType, NativeWriting | None] = {}
        self._reads: dict[int, tuple[AvroFormat, Read]] = {}

    @classmethod
    def derived(cls, kind: pa.DataType, name: str) -> Schema:
        """Return the schema of a column's type."""
        return avro_schema(kind, name)

    @property
    def fingerprint(self) -> Fingerprint:
        """The name of the schema in single-object encoding."""
        return Fingerprint(fingerprint(self.parsed))

    def encode(self, value: object) -> bytes:
        """Return the datum of a value."""
        return write_datum(self._write, value)

    def encode_messages(self, array: pa.Array, prefix: bytes) -> pa.Array | None:
        """Return messages of a prefix and the datum of each row; None where only Python can."""
        self._compiled(array.type)
        if array.type not in self._writings:
            self._writings[array.type] = writing_of(array.type, self.parsed)
        writing = self._writings[array.type]
        return None if writing is None else writing.encode(array, prefix)

    def _compiled(self, kind: pa.DataType) -> Values:
        values = self._columns.get(kind)
        if values is None:
            values = self._columns[kind] = compile_column(kind, self.parsed)
        return values

    def encode_column(self, array: pa.Array) -> list[bytes | None]:
        """Return the datum of each row, None for null."""
        values = self._compiled(array.type)
        try:
            rows = values(array)
        except ValueFault as fault:
            raise RowFault(fault, None) from fault
        return each_row(rows, self.encode)

    def decode(
        self,
        data: Buffer,
        writer: ValueFormat | None,
        message_indexes: tuple[int, ...] | None = None,
    ) -> object:
        """Return the value of a datum that `writer` wrote, as this schema wants it."""
        written = self if writer is None else writer
        assert isinstance(written, AvroFormat)
        known = self._reads.get(id(written))
        if known is None:
            read = compile_reader(written.parsed, self.parsed, plain=True)
            known = self._reads[id(written)] = (written, read)
        return read_datum(known[1], data)

    def columns(self, chosen: Names | None = None) -> AvroColumns:
        """Return the schema as columns, or some fields of it in the order they are wanted in."""
        return AvroColumns(self, _projected(self.parsed, chosen))


class AvroColumns:
    """An Avro schema as columns."""

    needs_writer: ClassVar[bool] = True

    def __init__(self, whole: AvroFormat, reader: AvroType) -> None:
        self._whole = whole
        self.data_type: pa.DataType = arrow_type(reader)
        self._plans = AvroPlans(reader, self.data_type)
        self.compiled: CompiledColumns | None = self._plans.compiled

    def group(
        self, writer: ValueFormat | None, message_indexes: tuple[int, ...] | None = None
    ) -> GroupDecoder:
        """Return what decodes the data of a writer, the schema itself where it is None."""
        written = self._whole if writer is None else writer
        assert isinstance(written, AvroFormat)
        return self._plans.decoder_for(written.parsed)


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
