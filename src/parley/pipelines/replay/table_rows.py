"""Rows of a table become the records that are produced, with what they are sorted by. Blocking: the
registry is asked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from parley.arrow import HEADERS_TYPE
from parley.client import ColumnEncoder, EncodedValues, Schema, SchemaOptions
from parley.errors import ConfigError, SchemaEncodeError, SchemaError, nearest_hint
from parley.pipelines.replay.options import SOURCE_PARTITION, ReplayOptions
from parley.pipelines.replay.rows import (
    EPOCH,
    OFFSET,
    PARTITION,
    REPLAYED_FROM,
    SIZE,
    TIME,
    lengths,
)
from parley.pipelines.replay.table_options import ReplayedTable
from parley.pipelines.replication.options import DROP
from parley.pipelines.replication.rows import marked
from parley.spark.clients import registry_for
from parley.spark.lakes.snapshots import Snapshot

KEY, VALUE, TIMESTAMP, HEADERS = "key", "value", "timestamp", "headers"
ORIGIN = ("topic", "partition", "offset")
"""Columns of a table that say where each of its rows was in Kafka."""
Fits = Callable[[pa.DataType], bool]
_MILLISECONDS = pa.timestamp("ms", tz="UTC")
_SORTED = "_by_"
"""Before the number of a column that rows are sorted by."""


class TableRecords:
    """What becomes of a table's rows, checked against its columns. A `dry` one is only looked at:
    no schema is registered.

    Raises ConfigError for columns that the table does not have or that cannot be used, SchemaError
    for values that do not fit their schema.
    """

    def __init__(self, options: ReplayOptions, snapshot: Snapshot, *, dry: bool = False) -> None:
        assert options.table is not None
        assert options.to is not None
        self._table, self._snapshot, self._schema = options.table, snapshot, snapshot.schema
        self._keeps_partition = options.partition_by == SOURCE_PARTITION
        self._is_origin_known = all(self._has(name) for name in ORIGIN)
        self._keeps_headers = options.headers != DROP
        self.key = self._column("key", self._table.key, KEY, _is_key)
        self.timestamp = self._column("timestamp", self._table.timestamp, TIMESTAMP, _is_time)
        self._has_headers = (
            self._keeps_headers
            and self._has(HEADERS)
            and _is_headers(self._schema.field(HEADERS).type)
        )
        if self.timestamp is None and options.speed is not None:
            raise self._wrong("speed needs times: name a column in timestamp")
        self.order = self._ordered()
        if self._keeps_partition and not self._has("partition"):
            raise self._wrong('partition_by="source" needs a column "partition"')
        self._encoder = self._encoding(self._table, options.to, dry=dry)
        self._is_whole = not self._table.columns and self._has(VALUE)
        """Whether the value is a column, and no struct of some."""
        self._value = self._value_columns()
        if self._encoder is not None:
            self._try_value()
        used = [*self._value, *self.order, self.key, self.timestamp]
        used += ORIGIN if self._is_origin_known else ["partition"] * self._keeps_partition
        used += [HEADERS] * self._has_headers
        self.reads = tuple(dict.fromkeys(name for name in used if name is not None))
        """The columns to read."""
        self._keys = self._sort_keys()
        self.sorted_by = tuple(f"{_SORTED}{at}" for at in range(len(self._keys)))
        """The columns of what `of` returns that say which row comes first."""

    def settled(self) -> dict[str, object]:
        """Return what has to be the same when the replay goes on: rows are counted in their order,
        which hangs on all of it.
        """
        schema = None
        if self._encoder is not None:
            text, ref = self._encoder.written
            schema = hashlib.sha256(f"{text.text}\n{ref!r}".encode()).hexdigest()[:32]
        return {
            "lake": self._snapshot.place.lake.value,
            "id": self._snapshot.table_id,
            "version": self._snapshot.version,
            "where": self._table.where,
            "order": list(self.order),
            "key": self.key,
            "timestamp": self.timestamp,
            "value": list(self._value),
            "schema": schema,
        }

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows as records with what they are sorted by, in no order yet."""
        rows = batch.num_rows
        columns: dict[str, pa.Array] = {
            KEY: pa.nulls(rows, pa.binary()) if self.key is None else _key(batch.column(self.key)),
            VALUE: self._values(batch),
        }
        headers = batch.column(HEADERS).cast(HEADERS_TYPE) if self._has_headers else None
        if self._encoder is not None:
            encoded = self._encoded(columns[VALUE])
            columns[VALUE] = encoded.array
            for name, value in encoded.headers:
                given = pa.repeat(pa.scalar(value, pa.binary()), rows)
                headers = marked(_no_headers(rows) if headers is None else headers, name, given)
        if self.timestamp is not None:
            columns[TIMESTAMP] = milliseconds(batch.column(self.timestamp))
        if headers is not None:
            columns[HEADERS] = headers
        if self._keeps_partition:
            columns["partition"] = batch.column("partition").cast(pa.int32())
        named = {**_named(batch), **columns}
        columns |= {
            by: _comparable(named[name])
            for by, name in zip(self.sorted_by, self._keys, strict=True)
        }
        if self._is_origin_known:
            columns |= {f"_{name}_was": batch.column(name) for name in ORIGIN}
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def finished(self, rows: pa.RecordBatch, first: int, last_ms: int) -> pa.RecordBatch:
        """Return sorted rows as they are produced, with the columns that say where each of them
        was; `first` is the number of the first one, `last_ms` the time of the row before.
        """
        count = rows.num_rows
        numbers = pa.array(range(first, first + count), pa.int64())
        names = [KEY, VALUE, *(n for n in (TIMESTAMP, "partition") if n in rows.schema.names)]
        columns = {name: rows.column(name) for name in names}
        if self._keeps_headers:
            has = HEADERS in rows.schema.names
            headers = rows.column(HEADERS) if has else _no_headers(count)
            columns[HEADERS] = marked(headers, REPLAYED_FROM, self._places(rows, numbers))
        times = pa.repeat(pa.scalar(0, pa.int64()), count)
        if TIMESTAMP in names:
            times = pc.fill_null(columns[TIMESTAMP].cast(pa.int64()), last_ms)
        columns[TIME] = pc.cumulative_max(times, start=last_ms)
        columns[PARTITION] = pa.repeat(pa.scalar(0, pa.int32()), count)
        columns[OFFSET] = numbers
        columns[EPOCH] = pa.repeat(pa.scalar(-1, pa.int32()), count)
        columns[SIZE] = pc.add(lengths(columns[KEY]), lengths(columns[VALUE]))
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _places(self, rows: pa.RecordBatch, numbers: pa.Array) -> pa.Array:
        if self._is_origin_known:
            parts = [rows.column(f"_{name}_was").cast(pa.string()) for name in ORIGIN]
        else:
            version = f"{self._table.name}@{self._snapshot.version}"
            parts = [pa.repeat(version, len(numbers)), numbers.cast(pa.string())]
        return pc.binary_join_element_wise(*parts, "/", null_handling="replace").cast(pa.binary())

    # -- columns -----------------------------------------------------------------------------------

    def _has(self, name: str) -> bool:
        return name in self._schema.names

    def _field(self, option: str, name: str) -> pa.Field:
        if not self._has(name):
            known = ", ".join(self._schema.names)
            hint = nearest_hint(name, self._schema.names)
            raise self._wrong(f'it has no column "{name}", which {option} names: {known}.{hint}')
        return self._schema.field(name)

    def _column(self, option: str, given: str | None, usual: str, is_fit: Fits) -> str | None:
        name = given or (usual if self._has(usual) else None)
        if name is None:
            return None
        kind = self._field(option, name).type
        if is_fit(kind):
            return name
        raise self._wrong(
            f"{option}={name!r} is a column of the type {kind}, which cannot be one: name another"
        )

    def _ordered(self) -> tuple[str, ...]:
        names = self._table.order or ((self.timestamp,) if self.timestamp else ())
        if not names:
            raise self._wrong(
                "nothing says in which order its rows are: name columns in order, or a timestamp"
            )
        for name in names:
            kind = self._field("order", name).type
            if not _is_ordered(kind):
                raise self._wrong(f"order names {name}, of the type {kind}, which has no order")
        return tuple(names)

    def _sort_keys(self) -> list[str]:
        """Return the columns that rows are sorted by: rows that are equal in all of them are the
        same record.
        """
        names = list(self.order)
        if self._is_origin_known:
            return names + [name for name in ORIGIN if name not in names]
        names += [KEY, VALUE]
        names += [TIMESTAMP] * (self.timestamp is not None)
        return names + [HEADERS] * self._has_headers

    # -- values ------------------------------------------------------------------------------------

    def _encoding(self, table: ReplayedTable, to: str, *, dry: bool) -> ColumnEncoder | None:
        if table.value_format is None:
            return None
        registry = None if table.registry is None else registry_for(table.registry)
        assert table.value_framing is not None  # the options settle it
        encoder = ColumnEncoder(
            registry,
            table.value_subject or f"{to}-value",
            _given(table),
            value_format=table.value_format,
            # what bare messages are written with, no registry has to know
            framing="none" if dry and table.register_schemas else table.value_framing,
            message=table.value_message,
            auto_register_schemas=table.register_schemas,
        )
        if table.value_schema is not None:
            encoder.prepare()
        return encoder

    def _value_columns(self) -> tuple[str, ...]:
        table = self._table
        for name in table.columns:
            self._field("columns", name)
        if table.columns or self._is_whole:
            if self._encoder is None and not _is_bytes(self._schema.field(VALUE).type):
                kind = self._schema.field(VALUE).type
                raise self._wrong(f"its column value is of the type {kind}: give value_format")
            return tuple(table.columns) or (VALUE,)
        if self._encoder is None:
            raise self._wrong("it has no column value: give value_format, and maybe columns")
        if table.value_schema is None:
            return tuple(self._schema.names)
        return tuple(name for name in self._encoder.fields if self._has(name))

    def _try_value(self) -> None:
        assert self._encoder is not None
        fields = [self._schema.field(name) for name in self._value]
        kind = fields[0].type if self._is_whole else pa.struct(fields)
        try:
            self._encoder.prepare(kind)
            in_headers = self._encoder.encode_values(pa.array([], kind)).headers
        except SchemaError as error:
            path = f"value.{error.path}" if error.path else VALUE
            raise SchemaError(error.problem, path=path) from error
        if in_headers and not self._keeps_headers:
            raise self._wrong('value_framing names the schema in headers: not with headers="drop"')

    def _values(self, batch: pa.RecordBatch) -> pa.Array:
        if self._is_whole:
            found = batch.column(VALUE)
            return found if self._encoder is not None else found.cast(pa.binary())
        fields = [self._schema.field(name) for name in self._value]
        return pa.StructArray.from_arrays([batch.column(one.name) for one in fields], fields=fields)

    def _encoded(self, values: pa.Array) -> EncodedValues:
        assert self._encoder is not None
        try:
            return self._encoder.encode_values(values)
        except SchemaEncodeError as error:
            path = f"value.{error.path}" if error.path else VALUE
            raise SchemaEncodeError(
                f"{error.reason} (the table {self._table.name}; choose other rows with where, or "
                "other columns)",
                path=path,
                row=None,
            ) from error

    def _wrong(self, text: str) -> ConfigError:
        return ConfigError(f"the table {self._table.name}: {text}")


def _given(table: ReplayedTable) -> Schema | str | None:
    if not isinstance(table.value_schema, str) or table.registry is not None:
        return table.value_schema
    named = {"value_format": table.value_format, "value_schema": table.value_schema}
    return SchemaOptions.of(named).choose("value", None, None).schema


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_string(kind))


def _is_headers(kind: pa.DataType) -> bool:
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        return False
    return [(one.name, one.type) for one in kind.value_type] == [
        (one.name, one.type) for one in HEADERS_TYPE.value_type
    ]


def _is_key(kind: pa.DataType) -> bool:
    whole = pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind)
    return bool(_is_bytes(kind) or whole)


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_int64(kind))


def _is_ordered(kind: pa.DataType) -> bool:
    return bool(_is_key(kind) or pa.types.is_timestamp(kind) or pa.types.is_decimal(kind))


def _key(column: pa.Array) -> pa.Array:
    return (column if _is_bytes(column.type) else column.cast(pa.string())).cast(pa.binary())


def milliseconds(column: pa.Array) -> pa.Array:
    """Return a column as the timestamps of records."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        # one without a zone is UTC's, as Spark and Delta have it
        return pc.floor_temporal(column, unit="millisecond").cast(_MILLISECONDS, safe=False)
    return column.cast(pa.timestamp("ms")).cast(_MILLISECONDS)


def _comparable(column: pa.Array) -> pa.Array:
    """Return a column that Arrow and Python sort alike."""
    kind = column.type
    if pa.types.is_list(kind):  # headers
        return pa.array([repr(one).encode() for one in column.to_pylist()], pa.binary())
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        return column.cast(pa.int64())
    if pa.types.is_date32(kind):
        return column.cast(pa.int32())
    return column.cast(pa.binary()) if pa.types.is_string(kind) else column


def _no_headers(rows: int) -> pa.Array:
    return pa.array([[]] * rows, HEADERS_TYPE)


def _named(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))
