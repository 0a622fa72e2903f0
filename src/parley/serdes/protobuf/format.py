"""Protobuf as a format of values: a message of a schema, behind the interface of all formats.

Values of programs are messages of the `protobuf` package, made by the schema: they know which
fields are there, and keep those that the schema does not know. Dicts are taken as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa
from google.protobuf.descriptor import Descriptor

from parley.errors import ConfigError, SchemaError, nearest_hint
from parley.serdes.faults import each_row
from parley.serdes.formats import CompiledColumns, GroupDecoder, ValueFormat
from parley.serdes.frames import Buffer
from parley.serdes.protobuf.column_values import Values, compile_column
from parley.serdes.protobuf.columns import message_column
from parley.serdes.protobuf.derive import protobuf_schema
from parley.serdes.protobuf.files import compile_schema, indexes_of, message_named, message_of
from parley.serdes.protobuf.reading import MessageGroupDecoder, MessageReader
from parley.serdes.protobuf.writing import MessageWriter
from parley.serdes.schemas import NamedSchema, Schema
from parley.types import Names, texts


class ProtobufFormat:
    """A message of a schema, the first one without `message`. Raises SchemaError."""

    name: ClassVar[str] = "protobuf"
    schema_type: ClassVar[str] = "PROTOBUF"

    def __init__(
        self, schema: Schema, references: Sequence[NamedSchema] = (), message: str | None = None
    ) -> None:
        self.file = compile_schema(schema, references)
        self.message: Descriptor = message_named(self.file, message)
        self.message_indexes: tuple[int, ...] | None = indexes_of(self.message)
        self._is_chosen = message is not None
        self._write = MessageWriter(self.message)
        self._write_rows = MessageWriter(self.message, from_columns=True)
        self._columns: dict[pa.DataType, Values] = {}
        self._readers: dict[str, MessageReader] = {}

    @classmethod
    def derived(cls, kind: pa.DataType, name: str) -> Schema:
        """Return the schema of a column's type."""
        return protobuf_schema(kind, name)

    def encode(self, value: object) -> bytes:
        """Return the data of a dict or a message."""
        return self._write.write(value)

    def encode_column(self, array: pa.Array) -> list[bytes | None]:
        """Return the data of each row, None for null."""
        values = self._columns.get(array.type)
        if values is None:
            values = self._columns[array.type] = compile_column(array.type, self.message)
        return each_row(values(array), self._write_rows.write)

    def decode(
        self,
        data: Buffer,
        writer: ValueFormat | None,
        message_indexes: tuple[int, ...] | None = None,
    ) -> object:
        """Return the message of data, of the type that they name."""
        kind = self.type_of(writer, message_indexes, is_chosen=self._is_chosen)
        return self._reader(kind).read(data)

    def columns(self, chosen: Names | None = None) -> ProtobufColumns:
        """Return the message as columns, or some fields of it in the order they are wanted in."""
        return ProtobufColumns(self, chosen)

    def type_of(
        self,
        writer: ValueFormat | None,
        message_indexes: tuple[int, ...] | None,
        *,
        is_chosen: bool,
    ) -> Descriptor:
        """Return which of this schema's messages data are that a writer wrote; `is_chosen`: they
        must be of the one that was chosen.

        Raises SchemaError for messages of another type than the one that was asked for: fields have
        numbers alone, and data of any type could be read as any other.
        """
        if message_indexes is None:
            return self.message
        written = self if writer is None else writer
        assert isinstance(written, ProtobufFormat)
        name = message_of(written.file, message_indexes).full_name
        if name == self.message.full_name:
            return self.message
        if is_chosen:
            raise SchemaError(f"a message of {name}, where {self.message.full_name} is wanted")
        return message_named(self.file, name)

    def _reader(self, message: Descriptor) -> MessageReader:
        found = self._readers.get(message.full_name)
        if found is None:
            found = self._readers[message.full_name] = MessageReader(message)
        return found


class ProtobufColumns:
    """A message as columns."""

    needs_writer: ClassVar[bool] = True
    """Fields say what they are, a message does not: its type is found in its writer's schema."""
    compiled: CompiledColumns | None = None

    def __init__(self, whole: ProtobufFormat, chosen: Names | None) -> None:
        self._whole = whole
        self._column = message_column(whole.message, _checked(whole.message, chosen))
        self.data_type: pa.DataType = self._column.kind
        self._decoder = MessageGroupDecoder(MessageReader(whole.message), self._column)

    def group(
        self, writer: ValueFormat | None, message_indexes: tuple[int, ...] | None = None
    ) -> GroupDecoder:
        """Return what decodes a writer's data. Raises SchemaError for those of another message."""
        self._whole.type_of(writer, message_indexes, is_chosen=True)
        return self._decoder


def _checked(message: Descriptor, chosen: Names | None) -> list[str] | None:
    if chosen is None:
        return None
    wanted = list(dict.fromkeys(texts("columns", chosen)))
    for name in wanted:
        if name not in message.fields_by_name:
            hint = nearest_hint(name, message.fields_by_name)
            raise ConfigError(f"columns: {message.full_name} has no field {name}.{hint}")
    return wanted
