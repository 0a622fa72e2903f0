"""Keys and values of a table's rows: as they are, or encoded with a schema. Blocking: the registry
is asked.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import pyarrow as pa

from parley.client import ColumnEncoder, EncodedValues, schema_to_write
from parley.errors import ConfigError, SchemaEncodeError, SchemaError, nearest_hint
from parley.pipelines.replay.table_options import FIELDS_OF, ReplayedTable
from parley.spark.clients import registry_for
from parley.types import Names

KEY, VALUE = "key", "value"


class TableColumns(NamedTuple):
    """The columns of a table that is replayed, and its name for errors."""

    table: str
    schema: pa.Schema

    def has(self, name: str) -> bool:
        """Return whether there is such a column."""
        return name in self.schema.names

    def field(self, option: str, name: str) -> pa.Field:
        """Return a column that an option names. Raises ConfigError where there is none."""
        if not self.has(name):
            known = ", ".join(self.schema.names)
            hint = nearest_hint(name, self.schema.names)
            raise self.wrong(f'it has no column "{name}", which {option} names: {known}.{hint}')
        return self.schema.field(name)

    def wrong(self, text: str) -> ConfigError:
        """Return the error that says what is wrong with the table."""
        return ConfigError(f"the table {self.table}: {text}")


class TablePart:
    """The keys or the values of records, of a table's rows. A `dry` one is only looked at: no
    schema is registered.

    Raises ConfigError for columns that the table does not have or that cannot be used, SchemaError
    for those that do not fit their schema.
    """

    def __init__(
        self, part: str, table: ReplayedTable, to: str, among: TableColumns, *, dry: bool
    ) -> None:
        self._part, self._among = part, among
        self._derives = table.encoding(part).schema is None
        self._encoder = _encoder(part, table, to, dry=dry)
        fields: Names = getattr(table, FIELDS_OF[part])
        self.whole = None if fields else self._whole_column(table)
        """The column that it is; None where it is a struct of some, or null."""
        self.columns = (self.whole,) if self.whole is not None else self._struct(fields)
        """The columns that it is made of, none where it is null."""
        self._kind = self._kind_of_values()
        self.has_headers = self._encoder is not None and self._tried(self._encoder)
        """Whether headers name the schema."""

    @property
    def schema_digest(self) -> str | None:
        """What another schema would have another of, None where nothing is encoded."""
        if self._encoder is None:
            return None
        text, ref = self._encoder.written
        return hashlib.sha256(f"{text.text}\n{ref!r}".encode()).hexdigest()[:32]

    def of(self, batch: pa.RecordBatch) -> EncodedValues:
        """Return the bytes of rows, and the headers that go with each.

        Raises SchemaEncodeError for a value that does not fit the schema.
        """
        if not self.columns:
            return EncodedValues(pa.nulls(batch.num_rows, pa.binary()))
        if self.whole is not None:
            found = batch.column(self.whole)
        else:
            arrays = [batch.column(name) for name in self.columns]
            found = pa.StructArray.from_arrays(arrays, fields=list(self._kind))
        if self._encoder is None:
            return EncodedValues(_plain(found))
        try:
            return self._encoder.encode_values(found, is_key=self._part == KEY)
        except SchemaEncodeError as error:
            raise SchemaEncodeError(
                f"{error.reason} (the table {self._among.table}; choose other rows with where, or "
                "other columns)",
                path=self._path(error.path),
                row=None,
            ) from error

    def _whole_column(self, table: ReplayedTable) -> str | None:
        named = table.key if self._part == KEY else None
        name = named or (self._part if self._among.has(self._part) else None)
        if name is None:
            return None
        kind = self._among.field(self._part, name).type
        if self._encoder is not None or (is_key if self._part == KEY else _is_bytes)(kind):
            return name
        raise self._among.wrong(
            f"key={name!r} is a column of the type {kind}, which cannot be one as it is: give "
            "key_format, or name another"
            if self._part == KEY
            else f"its column {name} is of the type {kind}: give value_format"
        )

    def _struct(self, names: Names) -> tuple[str, ...]:
        for name in names:
            self._among.field(FIELDS_OF[self._part], name)
        if names or (self._encoder is None and self._part == KEY):
            return tuple(names)
        if self._part == KEY:
            raise self._among.wrong(
                "it has no column key: key_format needs one in key, or some in key_columns"
            )
        if self._encoder is None:
            raise self._among.wrong("it has no column value: give value_format, and maybe columns")
        if self._derives:
            return tuple(self._among.schema.names)
        return tuple(name for name in self._encoder.fields if self._among.has(name))

    def _kind_of_values(self) -> pa.DataType:
        if self.whole is not None:
            return self._among.schema.field(self.whole).type
        return pa.struct([self._among.schema.field(name) for name in self.columns])

    def _tried(self, encoder: ColumnEncoder) -> bool:
        """Encode no rows, which shows whether the schema has room for the columns' types; return
        whether headers would name it.
        """
        try:
            encoder.prepare(self._kind)
            empty = pa.array([], self._kind)
            return bool(encoder.encode_values(empty, is_key=self._part == KEY).headers)
        except SchemaError as error:
            raise SchemaError(error.problem, path=self._path(error.path)) from error

    def _path(self, inner: str) -> str:
        return f"{self._part}.{inner}" if inner else self._part


def _encoder(part: str, table: ReplayedTable, to: str, *, dry: bool) -> ColumnEncoder | None:
    how = table.encoding(part)
    if how.format is None:
        return None
    registry = None if table.registry is None else registry_for(table.registry)
    assert how.framing is not None  # the options settle it
    encoder = ColumnEncoder(
        registry,
        how.subject or f"{to}-{part}",
        schema_to_write(part, how.format, how.schema, table.registry),
        value_format=how.format,
        # what bare messages are written with, no registry has to know
        framing="none" if dry and table.register_schemas else how.framing,
        message=how.message,
        auto_register_schemas=table.register_schemas,
    )
    if how.schema is not None:
        encoder.prepare()
    return encoder


def _plain(column: pa.Array) -> pa.Array:
    """Return bytes or text as bytes, all else as text."""
    return (column if _is_bytes(column.type) else column.cast(pa.string())).cast(pa.binary())


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_string(kind))


def is_key(kind: pa.DataType) -> bool:
    """Return whether a column of a type can be keys as it is."""
    whole = pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind)
    return bool(_is_bytes(kind) or whole)
