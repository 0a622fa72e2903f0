"""Stream reading, as Spark calls it.

1. One process per query run asks for offsets and partitions: what is learned there stays there, in
   `_Driver`, and is never pickled.
2. Tasks get a second instance of the reader, made from options and schema alone.
3. `stop` may never be called, and `commit` misses the last batch: neither does anything here.
4. Offsets are compared as text: when nothing moved, the very offset that came in goes out again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from parley.spark.offsets import Offsets, advance
from parley.spark.planner import Planner
from parley.spark.reader import RangePartition
from parley.spark.reading import read_range
from parley.spark.source_options import SourceOptions
from parley.spark.stream_plan import capped, initial_offsets, limited, newest_offsets, plan_stream, report_losses

if TYPE_CHECKING:
    import pyarrow


class _Driver:
    """What the driver's process of one query run remembers."""

    def __init__(self, options: SourceOptions) -> None:
        self.planner = Planner(options)
        self.initial: Offsets | None = None
        self.target: Offsets | None = None
        self.newest: Offsets | None = None


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # pyspark comes without types
    """Reads micro-batches with admission control (`maxOffsetsPerTrigger`) and Trigger.AvailableNow."""

    def __init__(self, options: SourceOptions, schema: pyarrow.Schema) -> None:
        self._options = options
        self._schema = schema
        self._state: _Driver | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._options, self._schema)

    @property
    def _driver(self) -> _Driver:
        if self._state is None:
            self._state = _Driver(self._options)
        return self._state

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query starts. Spark asks twice: both get the same answer."""
        if self._driver.initial is None:
            self._driver.initial = initial_offsets(self._driver.planner)
        return self._driver.initial.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of a micro-batch, as `maxOffsetsPerTrigger` says."""
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Take note of what is there now: this run reads no further."""
        planner = self._driver.planner
        self._driver.target = planner.latest(planner.assignment(fresh=True))

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return where the next micro-batch ends; `start` itself when there is nothing to read.

        Raises DataLossError when something between `start` and there is gone and failOnDataLoss is true.
        """
        planner, begun = self._driver.planner, Offsets.from_json(start)
        newest = newest_offsets(planner, begun)
        self._driver.newest = newest
        report_losses(planner, begun, newest)
        end = newest if self._driver.target is None else capped(begun, newest, self._driver.target)
        if isinstance(limit, ReadMaxRows):
            end = limited(planner, begun, end, limit.max_rows)
        moved = advance(begun, end)
        return dict(start) if moved is begun else moved.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the end of the logs as `latestOffset` just saw it, without asking again."""
        return None if self._driver.newest is None else self._driver.newest.to_json()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Return the ranges of the tasks of a micro-batch."""
        planned = plan_stream(self._driver.planner, Offsets.from_json(start), Offsets.from_json(end))
        return [RangePartition(found) for found in planned]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows of a range."""
        return read_range(partition.value, self._options, self._schema)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Do nothing: Spark keeps the offsets."""

    def stop(self) -> None:
        """Do nothing: Spark ends the process."""
