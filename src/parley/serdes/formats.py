"""The formats of values by their names, and what a schema of a format can do.

A `ValueFormat` is one schema, parsed: it encodes and decodes single values and columns, without a
framing. `Serializer`, `Deserializer`, `ColumnEncoder` and `ColumnDecoder` are made of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from parley.errors import ConfigError, NotInstalledError, nearest_hint
from parley.serdes.frames import Buffer
from parley.serdes.schemas import NamedSchema, Schema
from parley.types import Names

if TYPE_CHECKING:
    import pyarrow

    from parley.serdes.scanned import Scanned


class DecodedGroup(NamedTuple):
    """Columns of a group of datums, and why some of them could not be read, by their index."""

    array: pyarrow.Array
    faults: Mapping[int, str]


class GroupDecoder(Protocol):
    """Decodes datums that were written with one schema.

    Rules of the contract, which a compiled decoder fulfils beside the reference in Python:
    1. One array comes out, as long as the input, of the reader's type. A null stands where a datum
       could not be read, and for null itself where the schema allows it.
    2. A damaged datum harms no other row, and is named with the reason.
    3. Foreign bytes cost memory and time in proportion to their size.
    """

    def decode(self, datums: Sequence[Buffer]) -> DecodedGroup:
        """Return columns of all datums."""
        ...


class CompiledColumns(Protocol):
    """Decodes the messages of many writers at once, each into its row."""

    def decode(self, scanned: Scanned, decoders: Sequence[GroupDecoder | None]) -> DecodedGroup:
        """Return columns of all messages.

        `decoders` are those of the numbers that messages have; rows without one are null.
        """
        ...


class ColumnReader(Protocol):
    """A reader's schema, or some fields of it, as columns.

    One whose data a compiled decoder can read has `compiled`, too: `CompiledColumns`, or None where
    that is not installed.
    """

    data_type: pyarrow.DataType
    needs_writer: ClassVar[bool]
    """Whether data can be read only by who knows the schema that it was written with."""

    def group(
        self, writer: ValueFormat | None, message_indexes: tuple[int, ...] | None = None
    ) -> GroupDecoder:
        """Return what decodes a writer's data. Raises SchemaError where nothing can."""
        ...


class ValueFormat(Protocol):
    """One schema of a format."""

    name: ClassVar[str]
    schema_type: ClassVar[str]
    message_indexes: tuple[int, ...] | None

    def __init__(
        self, schema: Schema, references: Sequence[NamedSchema] = (), message: str | None = None
    ) -> None: ...

    @classmethod
    def derived(cls, kind: pyarrow.DataType, name: str) -> Schema:
        """Return the schema of a column's type. Raises SchemaError where there is none."""
        ...

    def encode(self, value: object) -> bytes:
        """Return the data of a value. Raises ValueFault for one that does not fit."""
        ...

    def encode_column(self, array: pyarrow.Array) -> list[bytes | None]:
        """Return the data of each row, None for null. Raises RowFault, SchemaError."""
        ...

    def decode(
        self,
        data: Buffer,
        writer: ValueFormat | None,
        message_indexes: tuple[int, ...] | None = None,
    ) -> object:
        """Return the value of data. Raises ValueError with the reason for damaged ones."""
        ...

    def columns(self, chosen: Names | None = None) -> ColumnReader:
        """Return the schema as columns. Raises SchemaError for what no column can hold."""
        ...


_HOMES = {
    "avro": ("parley.serdes.avro.format", "AvroFormat"),
    "json": ("parley.serdes.json_schema.format", "JsonFormat"),
    "protobuf": ("parley.serdes.protobuf.format", "ProtobufFormat"),
}
FORMATS = tuple(_HOMES)
"""The names that `value_format` takes."""


def format_class(name: str) -> type[ValueFormat]:
    """Return the class of a format. Raises ConfigError for others, with the nearest name, and where
    the package that it needs is not installed.
    """
    if name not in _HOMES:
        hint = nearest_hint(str(name), FORMATS)
        raise ConfigError(f'value_format="{name}" is none of {", ".join(FORMATS)}.{hint}')
    module, attribute = _HOMES[name]
    try:
        found: type[ValueFormat] = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "google":
            raise
        raise NotInstalledError("protobuf", "protobuf") from error
    return found
