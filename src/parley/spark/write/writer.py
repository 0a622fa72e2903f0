"""Writing, batch and stream, as Spark calls it: at least once, or exactly once.

At least once: a task returns when all of its rows are acknowledged. Within a task retries make no
duplicates (idempotent producer, where the brokers have it); a task or micro-batch that Spark runs
again writes its rows again. There is nothing to do at commit or abort.

Exactly once: tasks leave transactions open, and the driver ends them (`parley.spark.write`).

Spark makes a new process to commit a batch, and unpickles the writer there: at the top of this
module stands only what that needs. The client and pyarrow take longer to import than a small batch
to write.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from parley.errors import KafkaError
from parley.spark.edge import edge
from parley.spark.write.intent import BatchOfQuery
from parley.spark.write.messages import NothingToCommit, Plan, Prepared, WrittenRows
from parley.spark.write.sealed import Sealed
from parley.spark.write.turns import query_id_name

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

    from parley.spark.write.driver import Driver
    from parley.spark.write.encoding import Encoding
    from parley.spark.write.options import SinkOptions, TransactionSettings
    from parley.spark.write.rows import TaskRows

_drivers: dict[SinkOptions, Driver] = {}
"""The drivers of this process's queries: what they remember saves requests."""


def columns_to_write(schema: StructType, options: SinkOptions) -> tuple[str, ...]:
    """Return the columns that go to Kafka. Raises ConfigError as `check_write_schema`;
    mentions the others once.
    """
    from parley.spark.options.source import say_once
    from parley.spark.options.table import TOPIC
    from parley.spark.values.schema import check_write_schema, left_out

    others = [f'"{name}"' for name in left_out(schema)]
    if others:
        say_once(
            [f"not written, for a Kafka record has no place for it: column {', '.join(others)}"]
        )
    encoded = () if options.encoding is None else options.encoding.names
    return check_write_schema(
        schema, has_topic_option=options.own[TOPIC] is not None, encoded=encoded
    )


def write_rows(rows: TaskRows, options: SinkOptions) -> WrittenRows:
    """Write rows and return when all are acknowledged.

    Raises ConfigError naming the row that has no topic, the broker's error, or RequestTimedOut.
    """
    from parley.spark.clients import client_for
    from parley.spark.options.table import TOPIC

    batches = iter(rows)
    first = next(batches, None)
    if first is None:  # an empty task reaches for no broker
        return WrittenRows(0)
    try:
        result = client_for(options.client).produce(
            options.own[TOPIC], _with(first, batches), options=options.produce
        )
    except KafkaError as error:
        rows.explain(error)
        raise
    return WrittenRows(result.records)


def _with(
    first: pyarrow.RecordBatch, rest: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    yield first
    yield from rest


class _Writer:
    """What the writers of batches and of streams share."""

    def __init__(self, options: SinkOptions, columns: tuple[str, ...]) -> None:
        self._sealed = Sealed(options)
        self._columns = columns
        self._encoding: Sealed[Encoding | None] = Sealed(None)

    def encode_as(self, schema: StructType) -> None:
        """Settle which schemas rows of these columns are written with. Asks the registry.

        Raises as `encoding.settle`.
        """
        options = self._options.encoding
        if options is not None:
            from parley.spark.write.encoding import settle

            self._encoding = Sealed(settle(options, schema))

    @property
    def _options(self) -> SinkOptions:
        return self._sealed.value

    def _rows(
        self, iterator: Iterator[pyarrow.RecordBatch], what: BatchOfQuery, slot: int
    ) -> TaskRows:
        from parley.spark.options.table import ROW_HEADER
        from parley.spark.worker_memory import settle_memory
        from parley.spark.write.rows import RowHeader, TaskRows

        settle_memory()
        name = self._options.own[ROW_HEADER]
        header = RowHeader(name, f"{what.query}/{what.batch}/{slot}") if name is not None else None
        return TaskRows(iterator, self._columns, header, self._encoding.value)

    def _attempt(
        self, plan: Plan, what: BatchOfQuery, slot: int, iterator: Iterator[pyarrow.RecordBatch]
    ) -> Prepared | NothingToCommit:
        from parley.spark.clients import client_for
        from parley.spark.options.table import TOPIC
        from parley.spark.write.attempt import attempt
        from parley.spark.write.kafka import Coordinators, TransactionWriting

        options, rows = self._options, self._rows(iterator, what, slot)
        client, timeout_ms = client_for(options.client), _settings(options).timeout_ms
        write = TransactionWriting(client, timeout_ms, options.own[TOPIC], options.produce)
        try:
            return attempt(plan, what, slot, iter(rows), Coordinators(client, timeout_ms), write)
        except KafkaError as error:
            rows.explain(error)
            raise


class BatchWriter(_Writer, DataSourceArrowWriter):  # type: ignore[misc]  # pyspark comes without types
    """Writes a DataFrame at least once."""

    def __init__(self, options: SinkOptions, columns: tuple[str, ...]) -> None:
        super().__init__(options, columns)
        self._what = BatchOfQuery(secrets.token_hex(8), 0)

    @edge
    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return write_rows(
            self._rows(iterator, self._what, TaskContext.get().partitionId()), self._options
        )

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: every row is acknowledged."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: what was written stays (at least once)."""


class StreamWriter(_Writer, DataSourceStreamArrowWriter):  # type: ignore[misc]  # pyspark comes without types
    """Writes micro-batches at least once."""

    @edge
    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        what, slot = _task()
        return write_rows(self._rows(iterator, what, slot), self._options)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: every row is acknowledged."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: what was written stays (at least once)."""


class TransactionalBatchWriter(_Writer, DataSourceArrowWriter):  # type: ignore[misc]  # pyspark comes without types
    """Writes a DataFrame in transactions that are committed when all tasks have written."""

    def __init__(self, options: SinkOptions, columns: tuple[str, ...]) -> None:
        super().__init__(options, columns)
        self._what = BatchOfQuery(secrets.token_hex(8), 0)
        self._prefix = f"{_settings(options).prefix}-{self._what.query}"
        self._plan: Plan | None = None

    @edge
    def plan(self) -> None:
        """Ask a coordinator for an identity: it refuses here what no task could do."""
        if self._plan is None:
            (fence,) = self._driver().coordination.init([query_id_name(self._prefix)])
            self._plan = Plan(self._prefix, fence)

    def __getstate__(self) -> dict[str, object]:
        self.plan()
        return self.__dict__

    @edge
    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task into a transaction."""
        assert self._plan is not None  # it was planned before it was pickled
        return self._attempt(self._plan, self._what, TaskContext.get().partitionId(), iterator)

    @edge
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the transactions of all tasks."""
        self._driver().commit_at_once(messages)

    @edge
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Abort the transactions of the tasks that have ended."""
        self._driver().abort_at_once(messages)

    def _driver(self) -> Driver:
        return _new_driver(self._options, self._prefix)


class TransactionalStreamWriter(_Writer, DataSourceStreamArrowWriter):  # type: ignore[misc]  # pyspark comes without types
    """Writes micro-batches exactly once.

    Spark makes one to plan a micro-batch, pickles it and sends it to the tasks; and makes another
    to commit or abort, which it never pickles. Planning belongs to the first alone.
    """

    def __init__(self, options: SinkOptions, columns: tuple[str, ...]) -> None:
        super().__init__(options, columns)
        self._plan: Plan | None = None

    @edge
    def plan(self) -> None:
        """Take the query over and find out what it wrote last. Raises as `Driver.plan`."""
        if self._plan is None:
            self._plan = _driver_for(self._options).plan()

    def __getstate__(self) -> dict[str, object]:
        self.plan()
        return self.__dict__

    @edge
    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task into a transaction, unless the batch is written already."""
        assert self._plan is not None  # it was planned before it was pickled
        return self._attempt(self._plan, *_task(), iterator)

    @edge
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Decide the batch and commit its transactions."""
        _driver_for(self._options).commit(messages)

    @edge
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Abort the batch's transactions, unless it is decided."""
        _driver_for(self._options).abort(messages)


def _task() -> tuple[BatchOfQuery, int]:
    """Return which micro-batch and which task of it this is, as the task's context says."""
    context = TaskContext.get()
    query, batch = (
        context.getLocalProperty("sql.streaming.queryId"),
        context.getLocalProperty("streaming.sql.batchId"),
    )
    return BatchOfQuery(str(query), int(batch)), context.partitionId()


def _settings(options: SinkOptions) -> TransactionSettings:
    assert options.transactions is not None  # asked for only where delivery is exactly-once
    return options.transactions


def _new_driver(options: SinkOptions, prefix: str) -> Driver:
    from parley.spark.clients import client_for
    from parley.spark.write.driver import Driver
    from parley.spark.write.kafka import Coordinators, TopicJournal

    settings, client = _settings(options), client_for(options.client)
    coordination = Coordinators(client, settings.timeout_ms, frozenset([query_id_name(prefix)]))
    journal = TopicJournal(client, settings.journal, settings.timeout_ms, options.produce)
    return Driver(prefix, coordination, journal, settings.go_on_after_loss)


def _driver_for(options: SinkOptions) -> Driver:
    if options not in _drivers:
        _drivers[options] = _new_driver(options, _settings(options).prefix)
    return _drivers[options]
