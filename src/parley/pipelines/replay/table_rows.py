"""Rows of a table become the records that are produced, with what they are sorted by. Blocking: the
registry is asked.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from parley.arrow import HEADERS_TYPE
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
from parley.pipelines.replay.table_parts import KEY, VALUE, TableColumns, TablePart, is_key
from parley.pipelines.replication.options import DROP
from parley.pipelines.replication.rows import marked
from parley.spark.lakes.snapshots import Snapshot

TIMESTAMP, HEADERS = "timestamp", "headers"
ORIGIN = ("topic", "partition", "offset")
"""Columns of a table that say where each of its rows was in Kafka."""
_MILLISECONDS = pa.timestamp("ms", tz="UTC")
SCHEMAS = ("schema", "key_schema")
"""Names in `settled` for which a registry may be asked."""
SORTED_BY, COLUMNS = "sorted_by", "columns"
"""What says that a replay's rows stand in the order of the table's own columns. One that does not
say it was begun by a release that took the records' times for the column `timestamp`.
"""
_SORTED = "_by_"
"""Before the number of a column that rows are sorted by."""


class TableRecords:
    """What becomes of a table's rows, checked against its columns. A `dry` one is only looked at:
    no schema is registered. `begun` is what was settled by a replay that goes on.

    Raises ConfigError for columns that the table does not have or that cannot be used, SchemaError
    for values that do not fit their schema.
    """

    def __init__(
        self,
        options: ReplayOptions,
        snapshot: Snapshot,
        *,
        dry: bool = False,
        begun: Mapping[str, object] | None = None,
    ) -> None:
        assert options.table is not None
        assert options.to is not None
        self._table, self._snapshot = options.table, snapshot
        self._columns = TableColumns(options.table.name, snapshot.schema)
        self._keeps_partition = options.partition_by == SOURCE_PARTITION
        self._is_origin_known = all(self._columns.has(name) for name in ORIGIN)
        self._keeps_headers = options.headers != DROP
        self._by_record_times = begun is not None and SORTED_BY not in begun
        self.timestamp = self._time_column()
        self._has_headers = (
            self._keeps_headers
            and self._columns.has(HEADERS)
            and _is_headers(snapshot.schema.field(HEADERS).type)
        )
        if self.timestamp is None and options.speed is not None:
            raise self._columns.wrong("speed needs times: name a column in timestamp")
        self.order = self._ordered()
        if self._keeps_partition and not self._columns.has("partition"):
            raise self._columns.wrong('partition_by="source" needs a column "partition"')
        self._parts = {
            part: TablePart(part, options.table, options.to, self._columns, dry=dry)
            for part in (KEY, VALUE)
        }
        for name, part in self._parts.items():
            if part.has_headers and not self._keeps_headers:
                raise self._columns.wrong(
                    f'{name}_framing names the schema in headers: not with headers="drop"'
                )
        used = [name for part in self._parts.values() for name in part.columns]
        used += [*self.order, *([self.timestamp] if self.timestamp else [])]
        used += ORIGIN if self._is_origin_known else ["partition"] * self._keeps_partition
        used += [HEADERS] * self._has_headers
        self.reads = tuple(dict.fromkeys(used))
        """The columns to read."""
        self._keys, self._ties = self._sort_keys()
        self.sorted_by = tuple(f"{_SORTED}{at}" for at in range(len(self._keys) + len(self._ties)))
        """The columns of what `of` returns that say which row comes first."""

    def settled(self) -> dict[str, object]:
        """Return what has to be the same when the replay goes on: rows are counted in their order,
        which hangs on all of it.
        """
        key, value = self._parts[KEY], self._parts[VALUE]
        found: dict[str, object] = {
            "lake": self._snapshot.place.lake.value,
            "id": self._snapshot.table_id,
            "version": self._snapshot.version,
            "where": self._table.where,
            "order": list(self.order),
            "key": key.whole,
            "timestamp": self.timestamp,
            "value": list(value.columns),
            SCHEMAS[0]: value.schema_digest,
            # replays that were begun before keys had schemas have neither
            "key_columns": None if key.schema_digest is None else list(key.columns),
            SCHEMAS[1]: key.schema_digest,
        }
        return found if self._by_record_times else found | {SORTED_BY: COLUMNS}

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows as records with what they are sorted by, in no order yet."""
        rows = batch.num_rows
        columns: dict[str, pa.Array] = {}
        headers = batch.column(HEADERS).cast(HEADERS_TYPE) if self._has_headers else None
        for part, made in self._parts.items():
            encoded = made.of(batch)
            columns[part] = encoded.array
            for name, value in encoded.headers:
                given = pa.repeat(pa.scalar(value, pa.binary()), rows)
                headers = marked(_no_headers(rows) if headers is None else headers, name, given)
        if self.timestamp is not None:
            columns[TIMESTAMP] = milliseconds(batch.column(self.timestamp))
        if headers is not None:
            columns[HEADERS] = headers
        if self._keeps_partition:
            columns["partition"] = batch.column("partition").cast(pa.int32())
        of_table = _named(batch)
        if self._by_record_times and TIMESTAMP in columns:
            of_table[TIMESTAMP] = columns[TIMESTAMP]
        keys = [of_table[name] for name in self._keys] + [columns[name] for name in self._ties]
        columns |= {
            by: _comparable(column) for by, column in zip(self.sorted_by, keys, strict=True)
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

    def _time_column(self) -> str | None:
        usual = TIMESTAMP if self._columns.has(TIMESTAMP) else None
        name = self._table.timestamp or usual
        if name is None:
            return None
        kind = self._columns.field("timestamp", name).type
        if _is_time(kind):
            return name
        raise self._columns.wrong(
            f"timestamp={name!r} is a column of the type {kind}, which cannot be one: name another"
        )

    def _ordered(self) -> tuple[str, ...]:
        names = self._table.order or ((self.timestamp,) if self.timestamp else ())
        if not names:
            raise self._columns.wrong(
                "nothing says in which order its rows are: name columns in order, or a timestamp"
            )
        for name in names:
            kind = self._columns.field("order", name).type
            if not _is_ordered(kind):
                raise self._columns.wrong(
                    f"order names {name}, of the type {kind}, which cannot order rows (those of "
                    "floating point may be no number at all): integers, decimals, texts, bytes, "
                    "booleans, dates and timestamps can. Name one, or cast it in the table"
                )
        return tuple(names)

    def _sort_keys(self) -> tuple[list[str], list[str]]:
        """Return the columns of the table that rows are sorted by, and those of the records behind
        them: rows that are equal in all of them are the same record.
        """
        names = list(self.order)
        if self._is_origin_known:
            return names + [name for name in ORIGIN if name not in names], []
        times, headers = [TIMESTAMP] * (self.timestamp is not None), [HEADERS] * self._has_headers
        return names, [KEY, VALUE, *times, *headers]


def _is_headers(kind: pa.DataType) -> bool:
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        return False
    return [(one.name, one.type) for one in kind.value_type] == [
        (one.name, one.type) for one in HEADERS_TYPE.value_type
    ]


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_int64(kind))


def _is_ordered(kind: pa.DataType) -> bool:
    return bool(is_key(kind) or pa.types.is_timestamp(kind) or pa.types.is_decimal(kind))


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
