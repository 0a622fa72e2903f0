"""JSON with a JSON Schema as a format of values.

Values of programs are JSON's: dicts, lists, texts, numbers. The schema decides the columns. It does
not validate what is read: that a number is within limits, or a property is there, is not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import pyarrow as pa

from parley.errors import ConfigError, nearest_hint
from parley.serdes.faults import each_row
from parley.serdes.formats import CompiledColumns, GroupDecoder, ValueFormat
from parley.serdes.frames import Buffer
from parley.serdes.json_schema.derive import json_schema
from parley.serdes.json_schema.native import decoder_of
from parley.serdes.json_schema.native_writing import writing_of
from parley.serdes.json_schema.reading import read_json
from parley.serdes.json_schema.shapes import Kind, Shape, arrow_type, parse_shape
from parley.serdes.json_schema.writing import (
    Convert,
    column_rows,
    column_shape,
    compile_column,
    compile_writer,
    json_text,
)
from parley.serdes.native import NativeWriting
from parley.serdes.schemas import NamedSchema, Schema
from parley.types import Names, texts


class JsonFormat:
    """A JSON Schema. Raises SchemaError for a text that is none."""

    name: ClassVar[str] = "json"
    schema_type: ClassVar[str] = "JSON"
    message_indexes: tuple[int, ...] | None = None

    def __init__(
        self, schema: Schema, references: Sequence[NamedSchema] = (), message: str | None = None
    ) -> None:
        self._shape = parse_shape(schema.text, references)
        self._write = compile_writer(self._shape)
        self._columns: dict[pa.DataType, tuple[Convert, NativeWriting | None]] = {}

    @classmethod
    def derived(cls, kind: pa.DataType, name: str) -> Schema:
        """Return the schema of a column's type."""
        return json_schema(kind, name)

    def encode(self, value: object) -> bytes:
        """Return the text of a value."""
        return json_text(self._write(value))

    def encode_messages(self, array: pa.Array, prefix: bytes) -> pa.Array | None:
        """Return messages of a prefix and the text of each row; None where only Python can."""
        _, writing = self._compiled(array.type)
        return None if writing is None else writing.encode(array, prefix)

    def _compiled(self, kind: pa.DataType) -> tuple[Convert, NativeWriting | None]:
        if kind not in self._columns:
            shape = column_shape(kind, self._shape)
            self._columns[kind] = compile_column(shape), writing_of(kind, shape)
        return self._columns[kind]

    def encode_column(self, array: pa.Array) -> list[bytes | None]:
        """Return the text of each row, None for null."""
        convert, _ = self._compiled(array.type)
        return each_row(column_rows(array), lambda value: json_text(convert(value)))

    def decode(
        self,
        data: Buffer,
        writer: ValueFormat | None,
        message_indexes: tuple[int, ...] | None = None,
    ) -> object:
        """Return the value of a text."""
        return read_json(data)

    def columns(self, chosen: Names | None = None) -> JsonColumns:
        """Return the schema as columns, or some properties of it in the order they are wanted."""
        return JsonColumns(_projected(self._shape, chosen))


class JsonColumns:
    """A JSON Schema as columns."""

    needs_writer: ClassVar[bool] = False

    def __init__(self, shape: Shape) -> None:
        self.data_type: pa.DataType = arrow_type(shape)
        self.compiled: CompiledColumns | None
        self._decoder, self.compiled = decoder_of(shape, self.data_type)

    def group(
        self, writer: ValueFormat | None, message_indexes: tuple[int, ...] | None = None
    ) -> GroupDecoder:
        """Return what decodes texts, whoever wrote them."""
        return self._decoder


def _projected(shape: Shape, columns: Names | None) -> Shape:
    if columns is None:
        return shape
    wanted = texts("columns", columns)
    if shape.kind is not Kind.OBJECT:
        raise ConfigError(f"columns are properties, and the schema is of {shape.kind.value}")
    for name in wanted:
        if name not in shape.fields:
            hint = nearest_hint(name, shape.fields)
            raise ConfigError(f"columns: the schema has no property {name}.{hint}")
    chosen = {name: shape.fields[name] for name in dict.fromkeys(wanted)}
    return replace(shape, fields=chosen, required=shape.required & chosen.keys())
