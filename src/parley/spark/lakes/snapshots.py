"""Tables as they were at one moment, for readers without Spark: Delta by delta-rs, Iceberg by
pyiceberg.

Rows come in no order. Each library reads conditions in its own SQL.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from parley.errors import ConfigError, KafkaError, LakeError
from parley.spark.lakes.opening import load_catalog, load_iceberg, open_delta, said, secrets_of
from parley.spark.lakes.options import Kind

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyiceberg.table import DataScan, Table


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table is. `settings` go to the lake's library as they are: delta-rs's storage
    options, or pyiceberg's properties of the catalog.
    """

    lake: Kind
    name: str
    """Delta's folder or address; Iceberg's name in the catalog, with its namespace."""
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    catalog: str | None = None


class Snapshot(ABC):
    """A table at one version."""

    def __init__(self, place: Place, table_id: str, version: int | None, schema: pa.Schema) -> None:
        self.place = place
        self.table_id = table_id
        """Another table under the same name has another one."""
        self.version = version
        """Delta's version, Iceberg's snapshot; None for a table that has none yet."""
        self.schema = pa.schema([pa.field(one.name, plain(one.type)) for one in schema])

    def count(self, where: str | None) -> int:
        """Return how many rows meet a condition. Raises LakeError, for a wrong condition too."""
        with self._explained(where):
            return self._count(where)

    def read(self, columns: Sequence[str], where: str | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows that meet a condition, in no order. Raises LakeError."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        with self._explained(where):
            for batch in self._read(columns, where):
                arrays = [batch.column(one.name).cast(one.type) for one in schema]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    @abstractmethod
    def _count(self, where: str | None) -> int: ...

    @abstractmethod
    def _read(self, columns: Sequence[str], where: str | None) -> Iterator[pa.RecordBatch]: ...

    @contextmanager
    def _explained(self, where: str | None) -> Iterator[None]:
        try:
            yield
        except KafkaError:
            raise
        except Exception as error:
            asked = "" if where is None else f" where {where}"
            raise LakeError(
                f"the table {self.place.name}, version {self.version}, cannot be read{asked}: "
                f"{said(error, secrets_of(self.place.settings))}. Nothing was written of what was "
                "not read"
            ) from error


def open_snapshot(place: Place, version: int | None = None) -> Snapshot:
    """Return a table as it is now, or was at a version.

    Raises ConfigError where there is no table, LakeError where it cannot be opened.
    """
    if place.lake is Kind.DELTA:
        handle = open_delta(place.name, place.settings, version)
        if handle is None:
            raise _missing(place)
        return _DeltaSnapshot(place, handle)
    catalog = load_catalog(place.name, place.catalog, place.settings)
    table = load_iceberg(place.name, catalog, secrets_of(place.settings))
    if table is None:
        raise _missing(place)
    current = table.metadata.current_snapshot_id
    chosen = current if version is None else version
    if version is not None and table.snapshot_by_id(version) is None:
        raise LakeError(
            f"the table {place.name} has no snapshot {version}: it is expired, or of another table"
        )
    return _IcebergSnapshot(place, table, chosen)


def plain(kind: pa.DataType) -> pa.DataType:
    """Return a type as parley's encoders and producers take it: no views, no 64-bit lengths.

    >>> print(plain(pa.large_list(pa.large_string())))
    list<item: string>
    """
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(kind.field(at)) for at in range(kind.num_fields)])
    if pa.types.is_map(kind):
        return pa.map_(plain(kind.key_type), _plain_field(kind.item_field))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    return kind


def _plain_field(given: pa.Field) -> pa.Field:
    return pa.field(given.name, plain(given.type), given.nullable)


class _DeltaSnapshot(Snapshot):
    def __init__(self, place: Place, table: DeltaTable) -> None:
        self._table = table
        schema = pa.schema(table.schema().to_arrow())
        super().__init__(place, str(table.metadata().id), table.version(), schema)

    def _count(self, where: str | None) -> int:
        (found,) = pa.Table.from_batches(self._asked("count(*) as rows", where)).to_pylist()
        return int(found["rows"])

    def _read(self, columns: Sequence[str], where: str | None) -> Iterator[pa.RecordBatch]:
        names = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        return self._asked(names, where)

    def _asked(self, what: str, where: str | None) -> Iterator[pa.RecordBatch]:
        from deltalake import QueryBuilder

        sql = f"select {what} from input" + ("" if where is None else f" where ({where})")
        found = QueryBuilder().register("input", self._table).execute(sql)
        return iter(pa.RecordBatchReader.from_stream(found))


class _IcebergSnapshot(Snapshot):
    def __init__(self, place: Place, table: Table, version: int | None) -> None:
        self._table = table
        schema = table.scan(snapshot_id=version).projection().as_arrow()
        super().__init__(place, str(table.metadata.table_uuid), version, schema)

    def _count(self, where: str | None) -> int:
        return 0 if self.version is None else int(self._scan(("*",), where).count())

    def _read(self, columns: Sequence[str], where: str | None) -> Iterator[pa.RecordBatch]:
        if self.version is None:
            return iter(())
        return iter(self._scan(tuple(columns), where).to_arrow_batch_reader())

    def _scan(self, columns: tuple[str, ...], where: str | None) -> DataScan:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.expressions.parser import parse

        try:
            condition = AlwaysTrue() if where is None else parse(where)
        except Exception as error:  # its text lists the whole grammar
            raise ConfigError(
                f"where {where} cannot be read: pyiceberg takes conditions such as "
                "day = '2026-01-31' and amount > 5"
            ) from error
        return self._table.scan(condition, columns, snapshot_id=self.version)


def _missing(place: Place) -> ConfigError:
    return ConfigError(f"there is no {place.lake.value} table {place.name}: look at the name")
