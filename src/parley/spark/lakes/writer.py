"""Writing into a lake, batch and stream, as Spark calls it.

Spark makes a writer to plan, pickles it for the tasks, and commits in another process: a batch's
writer is unpickled there, a stream's made again. At the top of this module stands only what that
needs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from parley.spark.edge import edge
from parley.spark.lakes.messages import TaskFiles
from parley.spark.values.arrow_batches import batch_column, record_columns, unpacked
from parley.spark.write.intent import BatchOfQuery
from parley.spark.write.sealed import Sealed

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

    from parley.spark.lakes.delta import DeltaLake
    from parley.spark.lakes.iceberg import IcebergLake
    from parley.spark.lakes.lake import Plan
    from parley.spark.lakes.options import LakeOptions

log = logging.getLogger("parley.spark")


class _Writer:
    """What the writers of batches and of streams share."""

    _STREAM = False

    def __init__(self, options: LakeOptions, schema: StructType, overwrite: bool) -> None:
        self._sealed, self._overwrite = Sealed(options), overwrite
        self._batch_column = batch_column(schema)
        self._schema = record_columns(schema)
        self._plan: Sealed[Plan] | None = None

    @edge
    def plan(self) -> None:
        """Look at the table. Raises as `Lake.plan`."""
        if self._plan is None:
            self._plan = Sealed(self._planned())

    def __getstate__(self) -> dict[str, object]:
        self.plan()
        return self.__dict__

    def abort(self, messages: list[WriterCommitMessage | None], *batch: int) -> None:
        """Do nothing: files that no commit names are not read."""

    def _planned(self) -> Plan:
        from pyspark.sql.pandas.types import to_arrow_schema

        from parley.spark.lakes.columns import columns_of

        rows = to_arrow_schema(self._schema, timezone="UTC").remove_metadata()
        columns = columns_of(self._schema.json())
        with closing(self._lake()) as lake:
            return lake.plan(columns, rows, stream=self._STREAM, overwrite=self._overwrite)

    def _write(
        self, iterator: Iterator[pyarrow.RecordBatch], what: BatchOfQuery | None
    ) -> TaskFiles:
        from parley.spark.lakes.files import TaskWriter
        from parley.spark.worker_memory import settle_memory

        settle_memory()
        assert self._plan is not None  # it was planned before it was pickled
        plan = self._plan.value
        done = plan.written(what)
        if done is not None:
            return done
        layout, folder = plan.layout, plan.folder
        batches = iterator if self._batch_column is None else unpacked(iterator, self._batch_column)
        files = TaskWriter(folder, layout, TaskContext.get().partitionId()).write(batches)
        return TaskFiles(what, files, layout.partition_by, folder.path, plan.made_for)

    def _commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        from parley.spark.lakes.columns import columns_of
        from parley.spark.lakes.decisions import joined
        from parley.spark.lakes.lake import Batch

        found = joined(messages)
        batch = Batch(columns_of(self._schema.json()), found, overwrite=self._overwrite)
        with closing(self._lake()) as lake:
            written = lake.commit(batch)
            if found.what is not None and written:
                lake.compact_after(found.what)
        if found.what is not None and not written:
            log.info("batch %d of query %s is in the table already", *reversed(found.what))

    def _lake(self) -> DeltaLake | IcebergLake:
        from parley.spark.lakes.options import Kind

        options = self._sealed.value
        if options.kind is Kind.ICEBERG:
            from parley.spark.lakes.iceberg import IcebergLake

            return IcebergLake(options)
        from parley.spark.lakes.delta import DeltaLake

        return DeltaLake(options)


class LakeBatchWriter(_Writer, DataSourceArrowWriter):  # type: ignore[misc]  # pyspark comes without types
    """Writes a DataFrame: all of its rows become visible at once."""

    @edge
    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task into files."""
        return self._write(iterator, None)

    @edge
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the files of all tasks."""
        self._commit(messages)


class LakeStreamWriter(_Writer, DataSourceStreamArrowWriter):  # type: ignore[misc]  # pyspark comes without types
    """Writes micro-batches, each exactly once."""

    _STREAM = True

    @edge
    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task into files, unless the batch is in the table already."""
        context = TaskContext.get()
        query, batch = (
            context.getLocalProperty("sql.streaming.queryId"),
            context.getLocalProperty("streaming.sql.batchId"),
        )
        return self._write(iterator, BatchOfQuery(str(query), int(batch)))

    @edge
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the files of all tasks together with the batch's number."""
        self._commit(messages)
