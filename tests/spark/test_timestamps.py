"""Times of records through Spark: which it can hold, and what becomes of those that it cannot."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

from parley.client import LATEST, Client, TopicPartition
from parley.devcluster import LocalCluster

BASE_MS = 1_700_000_000_123
LARGEST_MS = (2**63 - 1) // 1000
NANOSECONDS = BASE_MS * 1_000_000


@pytest.fixture
def read(spark: Any, cluster: LocalCluster) -> Any:
    def load(topic: str, schema: str | None = None) -> Any:
        found = spark.read.format("parley").option(
            "kafka.bootstrap.servers", cluster.bootstrap_servers
        )
        return (found.schema(schema) if schema else found).option("subscribe", topic).load()

    return load


ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}
"""Brokers from 4.0 on refuse, by default, what is dated more than an hour ahead."""


def at_times(client: Client, topic: str, *times: int) -> None:
    values = [str(number) for number in range(len(times))]
    client.produce(
        topic, pa.table({"value": values, "timestamp": pa.array(times, pa.int64())}), partition=0
    )


def test_a_time_beyond_sparks_names_its_record_and_its_likely_cause(
    read: Any, client: Client, topic: Any
) -> None:
    name = topic(partitions=1, configs=ANY_TIME)
    at_times(client, name, BASE_MS, BASE_MS + 1)
    at_times(client, name, BASE_MS + 2, NANOSECONDS, BASE_MS + 3)
    problem = (
        rf"KAFKA_MALFORMED_RECORD_TIMESTAMP.*{name}-0 at offset 3 .* {NANOSECONDS} "
        r"ms.*microseconds or nano"
    )
    for schema in (None, "timestamp timestamp"):
        with pytest.raises(Exception, match=problem):
            read(name, schema).collect()
    values = read(name, "value string, offset bigint").orderBy("offset").collect()
    assert [row.value for row in values] == ["0", "1", "0", "1", "2"]


def test_a_stream_ends_with_the_same_error(client: Client, topic: Any, stream: Any) -> None:
    name = topic(partitions=1, configs=ANY_TIME)
    at_times(client, name, BASE_MS, LARGEST_MS + 1)
    query = stream(subscribe=name)
    query.frame = lambda: (
        query.spark.readStream.format("parley")
        .option("kafka.bootstrap.servers", query.servers)
        .option("subscribe", name)
        .option("startingOffsets", "earliest")
        .load()
    )
    with pytest.raises(
        Exception, match=rf"KAFKA_MALFORMED_RECORD_TIMESTAMP.*{name}-0 at offset 1 "
    ):
        query.run()


def test_the_latest_time_that_spark_has_is_read(read: Any, client: Client, topic: Any) -> None:
    name = topic(partitions=1, configs=ANY_TIME)
    at_times(client, name, LARGEST_MS, BASE_MS * 1000, 0)
    rows = (
        read(name).selectExpr("offset", "unix_millis(timestamp) as ms").orderBy("offset").collect()
    )
    assert [row.ms for row in rows] == [LARGEST_MS, BASE_MS * 1000, 0]


def written(spark: Any, cluster: LocalCluster, topic: str, rows: Any) -> None:
    writer = rows.write.format("parley").option(
        "kafka.bootstrap.servers", cluster.bootstrap_servers
    )
    writer.option("topic", topic).mode("append").save()


def times_of(client: Client, topic: str) -> dict[str, int]:
    table = pa.Table.from_batches(
        client.fetch(
            TopicPartition(topic, 0),
            0,
            client.list_offsets({TopicPartition(topic, 0): LATEST})[
                TopicPartition(topic, 0)
            ].offset,
        )
    )
    times = table.column("timestamp").cast(pa.int64()).to_pylist()
    return dict(
        zip((value.decode() for value in table.column("value").to_pylist()), times, strict=True)
    )


def test_the_column_timestamp_is_the_records_time(
    spark: Any, cluster: LocalCluster, client: Client, topic: Any
) -> None:
    name = topic(partitions=1)
    before_ms = time.time_ns() // 1_000_000
    rows = spark.sql(
        f"""SELECT 'copied' AS value, timestamp_millis({BASE_MS}) AS timestamp
        UNION ALL SELECT 'finer', timestamp_micros({BASE_MS}789)
        UNION ALL SELECT 'without', CAST(NULL AS TIMESTAMP)
        UNION ALL SELECT 'of Kafka 0.9', timestamp_millis(-1)"""
    )
    written(spark, cluster, name, rows.coalesce(1))
    found = times_of(client, name)
    now = found.pop("without")
    assert found == {"copied": BASE_MS, "finer": BASE_MS, "of Kafka 0.9": -1}
    assert before_ms <= now <= time.time_ns() // 1_000_000


@pytest.mark.parametrize(
    ("kind", "timestamp", "problem"),
    [
        (
            "text",
            "'2024-01-01'",
            'column "timestamp" has type string, which cannot be written: timestamp is '
            "expected.*drop it",
        ),
        ("number", f"{BASE_MS}L", 'column "timestamp" has type bigint'),
        (
            "early",
            "timestamp_millis(-2)",
            r"row 0 of this task has the timestamp 1969-12-31 23:59:59.998.*none before 1970",
        ),
    ],
)
def test_times_that_cannot_be_written(
    spark: Any, cluster: LocalCluster, topic: Any, kind: str, timestamp: str, problem: str
) -> None:
    name = topic(kind, partitions=1)
    with pytest.raises(Exception, match=problem):
        written(spark, cluster, name, spark.sql(f"SELECT 'a' AS value, {timestamp} AS timestamp"))
