"""The Spark side: one session, and two streaming queries that read the topic with format("parley").

`table` parses each value, keeps it with its row number and checksum, and writes a Parquet table,
partitioned by a column. `aggregates` counts the rows by that column and writes the counts, whole
after each batch, to a second topic, again with format("parley").
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from parley.errors import KafkaError
from parley.host import spark_environment
from parley.pipelines.inputs import ColumnType, Dataset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.types import StructType

_TRIGGER = "1 second"
_BATCHES, _BATCH_ROWS = 10, 5_000
"""Micro-batches are a tenth of the rows, or 5,000: no huge one after a slow start."""


class JobError(KafkaError):
    """A streaming query ended by itself; the text holds its reason and where the whole log is."""


class DiskFullError(KafkaError):
    """The disk that the output lies on is full."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPlan:
    """What the queries read and write."""

    dataset: Dataset
    bootstrap_servers: str
    topic: str
    aggregates_topic: str
    output: Path

    @property
    def table(self) -> Path:
        """The folder of the Parquet table."""
        return self.output / self.dataset.name

    @property
    def log(self) -> Path:
        """Everything that Spark and its workers say."""
        return self.output / "spark.log"


@contextmanager
def spark_session(log: Path, warehouse: Path) -> Iterator[SparkSession]:
    """Start a local Spark session that writes all its messages to a file; stop it in the end.

    Raises ConfigError where there is no Java, JobError where Spark does not start.
    """
    os.environ.update(spark_environment())
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{min(4, os.cpu_count() or 1)}]").appName(
        "parley demo"
    )
    for name, value in _configuration(warehouse).items():
        builder = builder.config(name, value)
    with _stderr_into(log):
        try:
            spark = builder.getOrCreate()
        except Exception as error:
            raise JobError(
                f"Spark did not start: {_last_line(str(error))} (all of it is in {log})"
            ) from error
    try:
        spark.sparkContext.setLogLevel("WARN")
        yield spark
    finally:
        spark.stop()


def _configuration(warehouse: Path) -> dict[str, str]:
    """Return a small local session's settings: loopback, no web page, few shuffle partitions."""
    return {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(warehouse),
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


@contextmanager
def _stderr_into(log: Path) -> Iterator[None]:
    """Let processes that are started meanwhile inherit a file as their stderr: the JVM keeps it."""
    sys.stderr.flush()
    kept = os.dup(2)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(file, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(file)


def start_queries(spark: SparkSession, plan: JobPlan) -> tuple[StreamingQuery, StreamingQuery]:
    """Start both queries, (table, aggregates). Raises JobError or DiskFullError where one fails."""
    try:
        return _start_table(spark, plan), _start_aggregates(spark, plan)
    except Exception as error:
        raise explain_failure("table or aggregates", failure_text(error), plan) from error


def _start_table(spark: SparkSession, plan: JobPlan) -> StreamingQuery:
    return (
        _rows(_source(spark, plan), plan)
        .writeStream.queryName("table")
        .format("parquet")
        .option("path", str(plan.table))
        .option("checkpointLocation", str(plan.output / "checkpoints" / "table"))
        .partitionBy(plan.dataset.partition_column)
        .trigger(processingTime=_TRIGGER)
        .start()
    )


def _start_aggregates(spark: SparkSession, plan: JobPlan) -> StreamingQuery:
    return (
        _aggregates(_rows(_source(spark, plan), plan), plan)
        .writeStream.queryName("aggregates")
        .format("parley")
        .outputMode("complete")
        .option("kafka.bootstrap.servers", plan.bootstrap_servers)
        .option("topic", plan.aggregates_topic)
        .option("checkpointLocation", str(plan.output / "checkpoints" / "aggregates"))
        .trigger(processingTime=_TRIGGER)
        .start()
    )


def _source(spark: SparkSession, plan: JobPlan) -> DataFrame:
    return (
        spark.readStream.format("parley")
        .option("kafka.bootstrap.servers", plan.bootstrap_servers)
        .option("subscribe", plan.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(max(_BATCH_ROWS, plan.dataset.row_count // _BATCHES)))
        .load()
    )


def _rows(records: DataFrame, plan: JobPlan) -> DataFrame:
    """Return the parsed rows with where they came from and what they are checked by."""
    from pyspark.sql import functions as f

    parsed = f.from_json(f.col("value").cast("string"), _schema(plan.dataset))
    return records.select(
        parsed.alias("row"),
        f.col("partition").alias("kafka_partition"),
        f.col("offset").alias("kafka_offset"),
        f.col("timestamp").alias("kafka_timestamp"),
        f.crc32("value").alias("value_crc32"),
    ).select("row.*", "kafka_partition", "kafka_offset", "kafka_timestamp", "value_crc32")


def _aggregates(rows: DataFrame, plan: JobPlan) -> DataFrame:
    """Return one record per value of the partition column: key, and the counts as JSON."""
    from pyspark.sql import functions as f

    by = plan.dataset.partition_column
    sums = [f.count("*").alias("rows")]
    if plan.dataset.measure_column is not None:
        sums.append(f.round(f.avg(_quoted(plan.dataset.measure_column)), 3).alias("average"))
    counted = rows.groupBy(f.col(_quoted(by)).alias("group")).agg(*sums)
    fields = [f.col(name) for name in ("group", *(["average"] if len(sums) > 1 else []), "rows")]
    return counted.select(
        f.col("group").cast("string").alias("key"), f.to_json(f.struct(*fields)).alias("value")
    )


def _schema(dataset: Dataset) -> StructType:
    from pyspark.sql import types as t

    spark_types = {
        ColumnType.BIGINT: t.LongType(),
        ColumnType.DOUBLE: t.DoubleType(),
        ColumnType.BOOLEAN: t.BooleanType(),
        ColumnType.STRING: t.StringType(),
    }
    fields = [t.StructField("row_id", t.LongType())]
    fields += [t.StructField(name, spark_types[kind]) for name, kind in dataset.columns.items()]
    return t.StructType(fields)


def _quoted(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


class RowsDone:
    """Counts the rows that a query has finished with, by its progress reports."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._by_batch: dict[int, int] = {}

    def count(self) -> int:
        """Ask for the reports that are new and return the rows of all batches so far."""
        last = self._query.lastProgress
        if last is not None:
            newest = int(last["batchId"])
            if newest - 1 in self._by_batch or newest == 0:
                self._enter(last)
            elif newest not in self._by_batch:
                for progress in self._query.recentProgress:
                    self._enter(progress)
        return sum(self._by_batch.values())

    def _enter(self, progress: StreamingQueryProgress) -> None:
        # An idle query repeats its last batch id with no rows in it.
        batch, rows = int(progress["batchId"]), int(progress["numInputRows"])
        self._by_batch[batch] = max(rows, self._by_batch.get(batch, 0))


def check_running(query: StreamingQuery, plan: JobPlan) -> None:
    """Raise JobError, or DiskFullError, when a query has ended with an error."""
    error = query.exception()
    if error is not None:
        raise explain_failure(str(query.name), failure_text(error), plan)


def failure_text(error: BaseException) -> str:
    """Return all that an exception of the JVM says: text, and the traces of its causes."""
    parts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(parts) < 20:
        parts += [str(getattr(cause, name, "") or "") for name in ("_desc", "_stackTrace")]
        cause = getattr(cause, "_cause", None)
    return "\n".join(parts) if any(parts) else str(error)


def explain_failure(query: str, text: str, plan: JobPlan) -> KafkaError:
    """Return the error that says what a query's exception is about."""
    if "No space left on device" in text or "Disk quota exceeded" in text:
        return DiskFullError(
            f"the disk of {plan.output.resolve()} is full: make room there, or give another "
            "--output"
        )
    return JobError(f'the query "{query}" failed: {_last_line(text)} (all of it is in {plan.log})')


def _last_line(text: str) -> str:
    """Return the line of a long Java or Python error that says most.

    parley's own error, else the innermost one of Python, else the innermost cause in Java, else the
    first line.
    """
    lines = [
        line.strip()
        for line in text.splitlines()
        if line.strip() and not line.strip().startswith("at ")
    ]
    own = [line for line in lines if line.startswith("parley.")]
    python = [
        line for line in lines if re.match(r"[A-Za-z_.]*(Error|Exception|Interrupt)(: |$)", line)
    ]
    java = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    candidates = (
        own[-1:]
        or [line for line in python if not line.startswith(("org.", "java."))][-1:]
        or java[-1:]
    )
    found = (candidates or lines[:1] or ["no reason given"])[0]
    return found if len(found) <= 500 else found[:500] + " ..."
