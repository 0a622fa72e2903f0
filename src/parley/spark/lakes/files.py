"""A task's rows into Parquet files in the table's folder.

Names are new for each attempt, so that none writes into another's file. What a task that fails
leaves behind is named by no commit.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parley.errors import ConfigError
from parley.spark.lakes.folders import CountedFile, Folder
from parley.spark.lakes.messages import WrittenFile
from parley.spark.lakes.partitions import Values, folder_of, split

ROW_GROUP_BYTES = 32 * 2**20
"""Rows of one partition that are written together, at most."""
HELD_BYTES = 64 * 2**20
"""Rows of all partitions that a task holds before it writes some."""
MOST_OPEN = 64
"""Files of different partitions that a task keeps open."""


Describe: TypeAlias = Callable[[pq.FileMetaData, pa.Schema, Collection[str]], str | bytes]
"""Makes of a file's footer what a commit says of its columns. The last argument names columns of
floating point that have a NaN: their bounds are not to be trusted.
"""


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows become files: the same in all tasks of a batch."""

    rows: pa.Schema
    """Of the rows, partition columns included."""
    partition_by: tuple[str, ...]
    required: tuple[str, ...]
    """Columns that must have no null."""
    target_bytes: int
    describe: Describe
    partitions_in_files: bool = False
    """Whether files have the partition columns too, and an empty text is a value of them."""
    parquet: Mapping[str, str | bool] = field(default_factory=dict)
    """How pyarrow writes Parquet, by its own names."""

    @property
    def suffix(self) -> str:
        """The end of the files' names."""
        return f"{self.parquet.get('compression', 'snappy')}.parquet"

    @property
    def schema(self) -> pa.Schema:
        """The rows' schema, in which all that is within columns may be null, as in a new table.

        A struct that is null has fields that are null, whatever is said of them. Arrow casts such
        rows to no schema that says so.
        """
        return pa.schema([field.with_type(_nullable(field.type)) for field in self.rows])

    @property
    def file_schema(self) -> pa.Schema:
        """The schema of the files."""
        if self.partitions_in_files:
            return self.schema
        return pa.schema([field for field in self.schema if field.name not in self.partition_by])


def _nullable(kind: pa.DataType) -> pa.DataType:
    """Return a type in which everything but a map's keys may be null."""
    if pa.types.is_map(kind):
        key = kind.key_field.with_type(_nullable(kind.key_type))
        return pa.map_(key, _nullable_field(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(_nullable_field(kind.value_field))
    if pa.types.is_struct(kind):
        return pa.struct([_nullable_field(field) for field in kind])
    return kind


def _nullable_field(field: pa.Field) -> pa.Field:
    return field.with_type(_nullable(field.type)).with_nullable(True)


class _OpenFile:
    """A file that rows are added to; opened with the first row group."""

    def __init__(self, folder: Folder, layout: Layout, values: Values, name: str) -> None:
        self._folder, self._layout, self._values, self._name = folder, layout, values, name
        self._schema = layout.file_schema
        self._floats = [f.name for f in self._schema if pa.types.is_floating(f.type)]
        self._with_nan: set[str] = set()
        self._kept: list[pa.RecordBatch] = []
        self.kept_bytes = 0
        self._sink: CountedFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self._footers: list[pq.FileMetaData] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self._kept.append(batch)
        self.kept_bytes += batch.nbytes
        for name in self._floats:
            if name not in self._with_nan and pc.any(pc.is_nan(batch.column(name))).as_py():
                self._with_nan.add(name)

    def write_kept(self) -> None:
        """Write what was added as a row group."""
        if not self._kept:
            return
        if self._writer is None:
            self._sink = self._folder.create(self._name)
            self._writer = pq.ParquetWriter(
                self._sink, self._schema, metadata_collector=self._footers, **self._layout.parquet
            )
        rows = pa.Table.from_batches(self._kept, self._schema)
        self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        self._kept, self.kept_bytes = [], 0

    @property
    def written_bytes(self) -> int:
        return 0 if self._sink is None else self._sink.size

    def close(self) -> WrittenFile:
        """Finish the file and return what is in it."""
        self.write_kept()
        assert self._writer is not None  # rows were added
        assert self._sink is not None
        self._writer.close()
        self._sink.close()
        (footer,) = self._footers
        return WrittenFile(
            path=self._name,
            size=self._sink.size,
            rows=footer.num_rows,
            partition_values=tuple(zip(self._layout.partition_by, self._values, strict=True)),
            statistics=self._layout.describe(footer, self._schema, self._with_nan),
            modified_ms=time.time_ns() // 1_000_000,
        )


class TaskWriter:
    """Writes the rows of one task."""

    def __init__(self, folder: Folder, layout: Layout, slot: int) -> None:
        self._folder, self._layout, self._slot = folder, layout, slot
        self._attempt = uuid.uuid4()
        self._count = 0
        self._rows = 0
        self._open: dict[Values, _OpenFile] = {}  # the one used last is the last one
        self._done: list[WrittenFile] = []

    def write(self, batches: Iterable[pa.RecordBatch]) -> tuple[WrittenFile, ...]:
        """Write all rows and return the files. Raises ConfigError naming a row with a null where
        the table has none.
        """
        for batch in batches:
            if batch.num_rows:
                self._check_nulls(batch)
                self._add(batch.cast(self._layout.schema))
                self._rows += batch.num_rows
        for values in list(self._open):
            self._close(values)
        return tuple(self._done)

    def _add(self, batch: pa.RecordBatch) -> None:
        for values, piece in split(
            batch, self._layout.partition_by, keep=self._layout.partitions_in_files
        ):
            file = self._open.pop(values, None)
            if file is None:
                if len(self._open) >= MOST_OPEN:
                    self._close(next(iter(self._open)))
                file = self._new(values)
            self._open[values] = file
            file.add(piece)
            room = self._layout.target_bytes - file.written_bytes
            if file.kept_bytes >= min(ROW_GROUP_BYTES, room):
                file.write_kept()
                if file.written_bytes >= self._layout.target_bytes:
                    self._close(values)
        while sum(file.kept_bytes for file in self._open.values()) > HELD_BYTES:
            max(self._open.values(), key=lambda file: file.kept_bytes).write_kept()

    def _new(self, values: Values) -> _OpenFile:
        name = f"part-{self._slot:05}-{self._attempt}-c{self._count:03}.{self._layout.suffix}"
        self._count += 1
        return _OpenFile(
            self._folder, self._layout, values, folder_of(self._layout.partition_by, values) + name
        )

    def _close(self, values: Values) -> None:
        self._done.append(self._open.pop(values).close())

    def _check_nulls(self, batch: pa.RecordBatch) -> None:
        for name in self._layout.required:
            column = batch.column(name)
            if column.null_count:
                row = self._rows + pc.index(column.is_null(), True).as_py()
                raise ConfigError(
                    f'row {row} of this task has null in column "{name}", which the table wants in '
                    "every row: fill it, or filter such rows out. Nothing was written"
                )
