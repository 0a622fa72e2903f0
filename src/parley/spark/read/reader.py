"""Batch reading, as Spark calls it: `partitions` in the planner's process, `read` in the tasks'."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from parley.spark.edge import edge
from parley.spark.options.source import SourceOptions
from parley.spark.read.packing import Task
from parley.spark.read.plan import plan_batch
from parley.spark.read.planner import Planner
from parley.spark.read.pushdown import Pushed, push
from parley.spark.read.task import read_task

if TYPE_CHECKING:
    import pyarrow

    from parley.spark.read.typed import Readers

KEPT_OFFSETS = (
    "A DataFrame keeps the offsets of its first use: if that was long ago, load() it again."
)


class RangePartition(InputPartition):  # type: ignore[misc]  # pyspark comes without types
    """What one task reads; `value` is a tuple of OffsetRange. It travels to the task pickled.

    `readers` are the schemas of a stream's keys and values, as its checkpoint has them.
    """

    def __init__(self, value: Task, readers: Readers | None = None) -> None:
        super().__init__(value)
        self.readers = readers


class BatchReader(DataSourceReader):  # type: ignore[misc]  # pyspark comes without types
    """Reads a batch. Holds options only, which are pickled: nothing is open between calls.

    `pushFilters` is not here on purpose: Spark refuses every read of a class that has it while
    spark.sql.python.filterPushdown.enabled is false, which is the default. `FilteringReader` has
    it.
    """

    def __init__(
        self, options: SourceOptions, schema: pyarrow.Schema, readers: Readers | None = None
    ) -> None:
        self._options = options
        self._schema = schema
        self._readers = readers

    @edge
    def partitions(self) -> list[InputPartition]:
        """Return the ranges of the tasks, as of now. Asks the cluster.

        Spark keeps them with the DataFrame: what is loaded once is planned once, at its first use.
        They are closed ranges, since a task may run more than once in what Spark takes for one set
        of rows (a lost shuffle, an evicted cache, two passes of one action), and has to find the
        same rows then.
        """
        return [RangePartition(found) for found in plan_batch(Planner(self._options))]

    @edge
    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows of a task. Spark stands in one partition of None for an empty list."""
        if partition.value is None:
            return iter(())
        return read_task(
            partition.value,
            self._options,
            self._schema,
            hint=KEPT_OFFSETS,
            readers=self._readers,
        )


class FilteringReader(BatchReader):
    """Reads a batch and filters some itself. Made only where Spark asks (`source.py`)."""

    def __init__(
        self, options: SourceOptions, schema: pyarrow.Schema, readers: Readers | None = None
    ) -> None:
        super().__init__(options, schema, readers)
        self._pushed = Pushed()

    @edge
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take filters on topic, partition, offset, timestamp; return those left to Spark."""
        self._pushed, rest = push(filters)
        return rest

    @edge
    def partitions(self) -> list[InputPartition]:
        """Return the ranges of the tasks that the filters leave."""
        return [RangePartition(found) for found in plan_batch(Planner(self._options), self._pushed)]
