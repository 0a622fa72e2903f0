"""What parley's source has and Spark's own has not, through Spark: filters,
numbers, groups, relative places.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from parley.client import Client, OffsetAndMetadata, TopicPartition
from parley.devcluster import LocalCluster
from parley.spark.progress import lag

NOW_MS = time.time_ns() // 1_000_000


@pytest.fixture
def read(spark: Any, cluster: LocalCluster) -> Any:
    def load(schema_: str | None = None, **options: Any) -> Any:
        found = spark.read.format("parley").option(
            "kafka.bootstrap.servers", cluster.bootstrap_servers
        )
        for name, value in options.items():
            found = found.option(name.replace("__", "."), value)
        return (found.schema(schema_) if schema_ else found).load()

    return load


def fill(client: Client, topic: str, partition: int, count: int, start_ms: int = NOW_MS) -> None:
    """Write records one second apart."""
    times = pa.array([start_ms + 1000 * n for n in range(count)], pa.int64())
    rows = pa.table({"value": [f"{partition}:{n}" for n in range(count)], "timestamp": times})
    client.produce(topic, rows, partition=partition)


@pytest.fixture
def pushing(spark: Any) -> Iterator[None]:
    """Push-down as a user switches it on."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_filters_on_partition_offset_and_time_are_done_by_the_source(
    read: Any, client: Client, topic: Any, pushing: None
) -> None:
    name = topic(partitions=3)
    for partition in range(3):
        fill(client, name, partition, 20)

    def where(condition: Any) -> Any:
        columns = "value string, partition int, offset bigint, timestamp timestamp"
        return read(columns, subscribe=name, pushFilters="true").where(condition)

    from pyspark.sql import functions as F

    some = where("partition in (0, 2) and offset >= 5 and offset < 8")
    assert sorted(row.value for row in some.collect()) == [
        f"{p}:{n}" for p in (0, 2) for n in (5, 6, 7)
    ]
    assert some.rdd.getNumPartitions() == 2
    since = datetime.fromtimestamp((NOW_MS + 17_500) / 1000, UTC)
    late = where(F.col("timestamp") >= F.lit(since))
    assert sorted(row.value for row in late.collect()) == [
        f"{p}:{n}" for p in range(3) for n in (18, 19)
    ]
    assert where("offset > 100").collect() == []
    assert where("value = '1:3' or offset = 4").count() == 4
    assert where("partition = 7").collect() == []


def test_numbers_that_java_serializers_wrote(read: Any, client: Client, topic: Any) -> None:
    name = topic(partitions=1)
    keys = pa.array([struct.pack(">q", n) for n in (-1, 2**40)], pa.binary())
    values = pa.array([struct.pack(">d", 0.5), None], pa.binary())
    client.produce(name, pa.table({"key": keys, "value": values}), partition=0)
    rows = read("value double, key bigint", subscribe=name).collect()
    assert [(row.value, row.key) for row in rows] == [(0.5, -1), (None, 2**40)]
    with pytest.raises(
        Exception, match=f"key at offset 0 of {name}-0 has 8 bytes and cannot be read as int32"
    ):
        read("key int", subscribe=name).collect()


def test_starts_relative_to_now_and_to_the_end(read: Any, client: Client, topic: Any) -> None:
    name = topic(partitions=2)
    fill(client, name, 0, 20, start_ms=time.time_ns() // 1_000_000 - 3_600_000)
    fill(client, name, 1, 1, start_ms=time.time_ns() // 1_000_000 - 60_000)
    for option in ("startingOffsets", "startingTimestamp"):
        assert [
            row.partition for row in read(subscribe=name, **{option: "-10 minutes"}).collect()
        ] == [1]
    last = read(subscribe=name, startingOffsets="-3 offsets")
    assert sorted((row.partition, row.offset) for row in last.collect()) == [
        (0, 17),
        (0, 18),
        (0, 19),
        (1, 0),
    ]


def test_a_batch_from_where_a_group_is(read: Any, client: Client, topic: Any) -> None:
    name = topic(partitions=2)
    fill(client, name, 0, 5)
    fill(client, name, 1, 5)
    group = f"{name}-group"
    client.commit_offsets(group, {TopicPartition(name, 0): OffsetAndMetadata(3)})
    options = {"subscribe": name, "kafka__group__id": group}
    some = read(**options, startingOffsets="committed-or-earliest").collect()
    assert sorted((row.partition, row.offset) for row in some) == [
        (0, 3),
        (0, 4),
        *((1, n) for n in range(5)),
    ]
    with pytest.raises(Exception, match=f'group "{group}" has committed nothing for {name}-1'):
        read(**options, startingOffsets="committed").collect()


def test_one_hot_partition_of_large_records_is_split_by_bytes(
    read: Any, client: Client, topic: Any
) -> None:
    name = topic(partitions=2)
    client.produce(name, pa.table({"value": [bytes(100)] * 200}), partition=0)
    client.produce(name, pa.table({"value": [bytes(10_000)] * 200}), partition=1)
    frame = read("partition int, offset bigint", subscribe=name, maxBytesPerPartition="500k")
    assert frame.rdd.getNumPartitions() >= 4
    rows = sorted((row.partition, row.offset) for row in frame.collect())
    assert rows == [(partition, offset) for partition in (0, 1) for offset in range(200)]


def test_a_stream_with_an_end_bytes_per_batch_a_group_and_its_lag(
    stream: Any, client: Client, topic: Any
) -> None:
    name = topic(partitions=1)
    client.produce(name, pa.table({"value": [f"{n:01000d}" for n in range(40)]}), partition=0)
    group = f"{name}-watchers"
    query = stream(
        subscribe=name,
        endingOffsets=json.dumps({name: {"0": 30}}),
        maxBytesPerTrigger="11k",
        commitToGroup=group,
        reportLag="true",
    )
    ran = query.run()
    sizes = [
        progress["numInputRows"] for progress in ran.recentProgress if progress["numInputRows"]
    ]
    assert sum(sizes) == 30
    assert 3 <= len(sizes) <= 4
    first = next(progress for progress in ran.recentProgress if progress["numInputRows"])
    (behind,) = lag(first)
    assert behind.records == 40 - sizes[0]
    assert behind.bytes is not None
    assert 35_000 <= behind.bytes <= 48_000
    assert behind.ms is not None
    assert behind.ms >= 0
    tp = TopicPartition(name, 0)
    committed = client.committed_offsets(group, [tp])[tp]
    assert committed is not None
    assert committed.offset == 30
    assert query.run().recentProgress[-1]["numInputRows"] == 0


def test_a_table_made_in_sql(spark: Any, cluster: LocalCluster, client: Client, topic: Any) -> None:
    name = topic(partitions=1)
    fill(client, name, 0, 4)
    spark.sql(
        "CREATE TABLE from_kafka USING parley OPTIONS ('kafka.bootstrap.servers' "
        f"'{cluster.bootstrap_servers}', subscribe '{name}', startingOffsets 'earliest')"
    )
    try:
        assert spark.sql("SELECT count(*) AS n FROM from_kafka WHERE offset >= 1").first().n == 3
        assert spark.table("from_kafka").columns[:2] == ["key", "value"]
        later = spark.read.option("startingOffsets", json.dumps({name: {"0": 3}})).table(
            "from_kafka"
        )
        assert later.count() == 1
    finally:
        spark.sql("DROP TABLE from_kafka")


def test_rows_are_inserted_into_a_table_made_in_sql(
    spark: Any, cluster: LocalCluster, topic: Any
) -> None:
    name = topic(partitions=1)
    spark.sql(
        "CREATE TABLE into_kafka USING parley OPTIONS ('kafka.bootstrap.servers' "
        f"'{cluster.bootstrap_servers}', subscribe '{name}', topic '{name}')"
    )
    try:
        spark.sql("INSERT INTO into_kafka (value) VALUES (cast('a' as binary))")
        found = spark.sql("SELECT string(value) AS value FROM into_kafka").collect()
        assert [row.value for row in found] == ["a"]
    finally:
        spark.sql("DROP TABLE into_kafka")
