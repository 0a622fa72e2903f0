"""The Spark side: one session, and two streaming queries that read the topic with format("parley").

`table` parses each value, keeps it with its row number and checksum, and writes a Parquet table,
partitioned by a column. `aggregates` counts the rows by that column and writes the counts, whole
after each batch, to a second topic, again with format("parley").
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from parley.errors import DiskFullError, JobError, KafkaError
from parley.pipelines.inputs import ColumnType, Dataset
from parley.pipelines.queries.failures import (
    clearest_line,
    failure_text,
    is_disk_full,
)
from parley.pipelines.queries.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.types import StructType

_TRIGGER = "1 second"
_BATCHES, _BATCH_ROWS = 10, 5_000
"""Micro-batches are a tenth of the rows, or 5,000: no huge one after a slow start."""


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
    spark = start_session("parley demo", _configuration(warehouse), log)
    try:
        yield spark
    finally:
        spark.stop()


def _configuration(warehouse: Path) -> dict[str, str]:
    """Return a small local session's settings: loopback, no web page, few shuffle partitions."""
    return {
        "master": f"local[{min(4, os.cpu_count() or 1)}]",
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


def check_running(query: StreamingQuery, plan: JobPlan) -> None:
    """Raise JobError, or DiskFullError, when a query has ended with an error."""
    error = query.exception()
    if error is not None:
        raise explain_failure(str(query.name), failure_text(error), plan)


def explain_failure(query: str, text: str, plan: JobPlan) -> KafkaError:
    """Return the error that says what a query's exception is about."""
    if is_disk_full(text):
        return DiskFullError(
            f"the disk of {plan.output.resolve()} is full: make room there, or give another "
            "--output"
        )
    line = clearest_line(text)
    return JobError(f'the query "{query}" failed: {line} (all of it is in {plan.log})')
