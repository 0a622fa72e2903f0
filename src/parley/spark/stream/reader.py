"""Stream reading, as Spark calls it.

1. One process per query run asks for offsets and partitions: what is learned there stays there, in
   `StreamDriver`, and is never pickled.
2. Tasks get a second instance of the reader, made from options and schema alone.
3. `stop` may never be called, and `commit` misses the last batch: nothing depends on either.
4. Offsets are compared as text: when nothing moved, the very offset that came in goes out again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from parley.spark.edge import edge
from parley.spark.options.source import SourceOptions
from parley.spark.options.table import (
    MAX_BYTES_PER_TRIGGER,
    MAX_OFFSETS_PER_TRIGGER,
    MIN_OFFSETS_PER_TRIGGER,
)
from parley.spark.read.reader import RangePartition
from parley.spark.read.task import read_task
from parley.spark.stream.driver import StreamDriver
from parley.spark.values.offsets import Offsets

if TYPE_CHECKING:
    import pyarrow

    from parley.spark.read.typed import Readers
    from parley.spark.stream.schemas import StreamSchemas


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # pyspark comes without types
    """Reads micro-batches with admission control and Trigger.AvailableNow."""

    def __init__(
        self, options: SourceOptions, schema: pyarrow.Schema, readers: Readers | None = None
    ) -> None:
        self._options = options
        self._schema = schema
        self._readers = readers
        self._schemas: StreamSchemas | None = None
        self._state: StreamDriver | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._options, self._schema, self._readers)

    @property
    def _driver(self) -> StreamDriver:
        if self._state is None:
            self._state = StreamDriver(self._options)
        return self._state

    @edge
    def initialOffset(self) -> dict[str, object]:
        """Return where a new query starts. Spark asks twice: both get the same answer."""
        return self._noted(self._driver.first(), self._readers)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return a micro-batch's limit. Spark knows single ones: the driver looks at all."""
        own = self._options.own
        if (most_rows := own[MAX_OFFSETS_PER_TRIGGER]) is not None:
            return ReadMaxRows(most_rows)
        if (most_bytes := own[MAX_BYTES_PER_TRIGGER]) is not None:
            return ReadMaxBytes(most_bytes)
        if (least_rows := own[MIN_OFFSETS_PER_TRIGGER]) is not None:
            return ReadMinRows(least_rows)
        return ReadAllAvailable()

    @edge
    def prepareForTriggerAvailableNow(self) -> None:
        """Take note of what is there now: this run reads no further."""
        self._driver.take_target()

    @edge
    def latestOffset(self, start: Mapping[str, object], limit: ReadLimit) -> dict[str, object]:
        """Return where the next micro-batch ends; `start` itself when there is nothing to read yet.

        Raises DataLossError when something between `start` and there is gone and failOnDataLoss is
        true.
        """
        begun, readers = Offsets.from_json(start), self._readers_of(start)
        max_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = self._driver.next_end(
            begun, max_rows=max_rows, without_limits=isinstance(limit, ReadAllAvailable)
        )
        return dict(start) if end is begun else self._noted(end, readers)

    @edge
    def reportLatestOffset(self) -> dict[str, object] | None:
        """Return the logs' end as `latestOffset` just saw it, unasked, and the lag with it."""
        return self._driver.report()

    @edge
    def partitions(
        self, start: Mapping[str, object], end: Mapping[str, object]
    ) -> list[InputPartition]:
        """Return the ranges of the tasks of a micro-batch."""
        planned = self._driver.plan(Offsets.from_json(start), Offsets.from_json(end))
        readers = self._readers_of(end)
        return [RangePartition(found, readers) for found in planned]

    @edge
    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows of a task."""
        readers = getattr(partition, "readers", None)
        return read_task(partition.value, self._options, self._schema, readers=readers)

    def _readers_of(self, offset: Mapping[str, object]) -> Readers | None:
        """Return the schemas to read up to an offset with; None where values stay bytes."""
        if self._options.typed is None or not self._readers:
            return None
        if self._schemas is None:
            from parley.spark.stream.schemas import StreamSchemas

            self._schemas = StreamSchemas(self._options.typed, self._readers)
        return self._schemas.of(offset)

    def _noted(self, offsets: Offsets, readers: Readers | None) -> dict[str, object]:
        if not readers:
            return offsets.to_json()
        from parley.spark.stream.schemas import with_schemas

        return with_schemas(offsets.to_json(), readers)

    def commit(self, end: Mapping[str, object]) -> None:
        """Do nothing: `latestOffset` from there comes next, and commits what is done to the group
        of `commitToGroup`.

        Only there is it known whether the topics are still the same.
        """

    def stop(self) -> None:
        """Do nothing: Spark ends the process."""
