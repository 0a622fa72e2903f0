"""Writing, batch and stream, as Spark calls it: at least once.

A task returns when all of its rows are acknowledged, and Spark counts it as done only then. Within a
task retries make no duplicates (idempotent producer, where the brokers have it); a task or micro-batch
that Spark runs again writes its rows again. There is nothing to do at commit or abort.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from parley.errors import ConfigError
from parley.spark.clients import client_for
from parley.spark.schema import check_write_schema, left_out
from parley.spark.source_options import SinkOptions, say_once

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType


@dataclass
class WrittenRows(WriterCommitMessage):  # type: ignore[misc]  # pyspark comes without types
    """What a task tells the driver: how many rows were acknowledged."""

    rows: int


def columns_to_write(schema: StructType, options: SinkOptions) -> tuple[str, ...]:
    """Return the columns that go to Kafka. Raises ConfigError as `check_write_schema`; mentions the others once."""
    others = [f'"{name}"' for name in left_out(schema)]
    if others:
        say_once([f"not written, for a Kafka record has no place for it: column {', '.join(others)}"])
    return check_write_schema(schema, has_topic_option=options.topic is not None)


def write_rows(batches: Iterator[pyarrow.RecordBatch], options: SinkOptions, columns: tuple[str, ...]) -> WrittenRows:
    """Write rows and return when all are acknowledged.

    Raises ConfigError naming the row that has no topic, the broker's error, or RequestTimedOut.
    """
    first = next(batches, None)
    if first is None:  # an empty task reaches for no broker
        return WrittenRows(0)
    rows = _chosen(itertools.chain((first,), batches), columns)
    result = client_for(options.client).produce(options.topic, rows, options=options.produce)
    return WrittenRows(result.records)


def _chosen(batches: Iterator[pyarrow.RecordBatch], columns: tuple[str, ...]) -> Iterator[pyarrow.RecordBatch]:
    """Yield the batches with the columns that are written, each row's topic checked."""
    done = 0
    for batch in batches:
        if "topic" in columns:
            _check_topics(batch.column("topic"), done)
        done += batch.num_rows
        yield batch.select(list(columns))


def _check_topics(topics: pyarrow.Array, done: int) -> None:
    if topics.null_count:
        row = done + pc.index(topics.is_null(), True).as_py()
        raise ConfigError(
            f'row {row} of this task has no topic (column "topic" is null). Fill the column, or set the option '
            f'"topic" for all rows. The rows before it may have been written.'
        )


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]  # pyspark comes without types
    """Writes a DataFrame."""

    def __init__(self, options: SinkOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WrittenRows:
        """Write the rows of one task."""
        return write_rows(iterator, self._options, self._columns)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: every row is acknowledged."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: what was written stays (at least once)."""


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]  # pyspark comes without types
    """Writes micro-batches."""

    def __init__(self, options: SinkOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WrittenRows:
        """Write the rows of one task."""
        return write_rows(iterator, self._options, self._columns)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: every row is acknowledged."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: what was written stays (at least once)."""
