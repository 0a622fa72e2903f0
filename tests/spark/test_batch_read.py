"""Batch reads through Spark against brokers of three releases: columns, bounds, splitting."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from parley.arrow import HEADERS_TYPE
from parley.client import Client
from parley.devcluster import LocalCluster

BASE_MS = 1_700_000_000_123
Read = Callable[..., Any]


@pytest.fixture
def read(spark: Any, cluster: LocalCluster) -> Read:
    """Return a DataFrame: `read(subscribe=…, …)`, `read(schema_=…)` for columns of one's own."""

    def load(schema_: str | None = None, **options: Any) -> Any:
        found = spark.read.format("parley").option(
            "kafka.bootstrap.servers", cluster.bootstrap_servers
        )
        for name, value in options.items():
            found = found.option(name, value)
        return (found.schema(schema_) if schema_ else found).load()

    return load


def fill(client: Client, topic: str, counts: list[int], step_ms: int = 1000) -> None:
    """Write rows "<partition>:<offset>" with known keys and times: `counts[n]`
    of them to partition n.
    """
    for partition, count in enumerate(counts):
        rows = pa.table(
            {
                "key": [f"k{n % 3}".encode() for n in range(count)],
                "value": [f"{partition}:{n}".encode() for n in range(count)],
                "timestamp": pa.array([BASE_MS + step_ms * n for n in range(count)], pa.int64()),
            }
        )
        client.produce(topic, rows, partition=partition)


def found(frame: Any) -> list[tuple[int, int]]:
    """Return (partition, offset) of all rows, sorted, and check that the values say the same."""
    rows = frame.select("partition", "offset", "value").collect()
    assert all(bytes(row.value).decode() == f"{row.partition}:{row.offset}" for row in rows)
    return sorted((row.partition, row.offset) for row in rows)


def spans(**ranges: tuple[int, int]) -> list[tuple[int, int]]:
    return [
        (int(name[1:]), offset)
        for name, (start, end) in ranges.items()
        for offset in range(start, end)
    ]


def test_all_columns_as_sparks_own_source_has_them(read: Read, client: Client, topic: Any) -> None:
    name = topic(partitions=1)
    headers = [
        [{"key": "a", "value": b"1"}, {"key": "a", "value": None}],
        [],
        [{"key": "ü", "value": b""}],
    ]
    rows = pa.table(
        {
            "key": pa.array([b"k", None, b""], pa.binary()),
            "value": pa.array([b"v", b"", None], pa.binary()),
            "headers": pa.array(headers, HEADERS_TYPE),
            "timestamp": pa.array([BASE_MS, 0, BASE_MS + 1], pa.int64()),
        }
    )
    client.produce(name, rows, partition=0)
    frame = read(subscribe=name, includeHeaders="true")
    assert [(field.name, field.dataType.simpleString(),
        field.nullable) for field in frame.schema] == [
        ("key", "binary", True), ("value", "binary", True), ("topic", "string", True),
        ("partition", "int", True),
        ("offset", "bigint", True), ("timestamp", "timestamp", True),
        ("timestampType", "int", True),
        ("headers", "array<struct<key:string,value:binary>>", True),
    ]  # fmt: skip
    one, two, three = sorted(frame.collect(), key=lambda row: row.offset)
    when = datetime.fromtimestamp(BASE_MS // 1000, UTC).replace(microsecond=123_000, tzinfo=None)
    assert (bytes(one.key), bytes(one.value), one.topic, one.partition, one.offset) == (
        b"k",
        b"v",
        name,
        0,
        0,
    )
    assert (one.timestamp, one.timestampType) == (when, 0)
    assert [(header.key, header.value and bytes(header.value)) for header in one.headers] == [
        ("a", b"1"),
        ("a", None),
    ]
    assert (two.key, bytes(two.value), two.headers, two.timestamp) == (
        None,
        b"",
        None,
        datetime(1970, 1, 1),
    )
    # as with Spark's own source
    assert [row.offset for row in frame.where("headers IS NULL").collect()] == [1]
    assert (bytes(three.key), three.value) == (b"", None)
    assert [(header.key, bytes(header.value)) for header in three.headers] == [("ü", b"")]


def test_headers_are_there_only_when_asked_for(read: Read, client: Client, topic: Any) -> None:
    name = topic(partitions=1)
    client.produce(name, pa.table({"value": [b"0:0"]}))
    assert "headers" not in read(subscribe=name).columns
    assert read(subscribe=name).count() == 1


def test_columns_of_ones_own_in_any_order_and_as_text(
    read: Read, client: Client, topic: Any
) -> None:
    name = topic(partitions=2)
    fill(client, name, [3, 2])
    frame = read("value string, offset bigint, key string", subscribe=name)
    assert frame.columns == ["value", "offset", "key"]
    assert sorted(tuple(row) for row in frame.collect()) == [
        ("0:0", 0, "k0"), ("0:1", 1, "k1"), ("0:2", 2, "k2"), ("1:0", 0, "k0"), ("1:1", 1, "k1"),
    ]  # fmt: skip


def test_explicit_offsets_with_the_two_places(read: Read, client: Client, topic: Any) -> None:
    name = topic(partitions=3)
    fill(client, name, [10, 10, 10])
    frame = read(
        subscribe=name,
        startingOffsets=json.dumps({name: {"0": 4, "1": -2, "2": 10}}),
        endingOffsets=json.dumps({name: {"0": 7, "1": -1, "2": -1}}),
    )
    assert found(frame) == spans(p0=(4, 7), p1=(0, 10))


def test_times_as_bounds(read: Read, client: Client, topic: Any) -> None:
    name = topic(partitions=2)
    fill(client, name, [10, 5])
    everywhere = read(
        subscribe=name, startingTimestamp=BASE_MS + 1001, endingTimestamp=BASE_MS + 4000
    )
    assert found(everywhere) == spans(p0=(2, 4), p1=(2, 4))
    each = read(
        subscribe=name,
        startingOffsetsByTimestamp=json.dumps({name: {"0": BASE_MS + 8000, "1": BASE_MS}}),
        endingOffsetsByTimestamp=json.dumps({name: {"0": BASE_MS + 9999999, "1": BASE_MS + 1000}}),
    )
    assert found(each) == spans(p0=(8, 10), p1=(0, 1))


def test_a_time_after_the_last_record(read: Read, client: Client, topic: Any) -> None:
    name = topic(partitions=2)
    fill(client, name, [10, 2])
    late = {"subscribe": name, "startingTimestamp": BASE_MS + 5000}
    relaxed = read(**late, startingOffsetsByTimestampStrategy="latest")
    assert found(relaxed) == spans(p0=(5, 10))
    with pytest.raises(
        Exception, match=f"startingTimestamp: no record is as late as asked for in {name}-1"
    ):
        read(**late).collect()


def test_a_pattern_and_several_topics(read: Read, client: Client, topic: Any) -> None:
    names = [topic(suffix, partitions=1) for suffix in ("x1", "x2", "y")]
    for name in names:
        fill(client, name, [2])
    stem = names[0].removesuffix("x1").replace(".", r"\.")
    assert {
        row.topic for row in read(subscribePattern=stem + r"x\d").select("topic").collect()
    } == set(names[:2])
    assert read(subscribe=",".join(names)).groupBy("topic").count().count() == 3
    assert read(subscribePattern=stem + "nothing").collect() == []


def test_assigned_partitions(read: Read, client: Client, topic: Any) -> None:
    name = topic(partitions=3)
    fill(client, name, [3, 3, 3])
    assert found(read(assign=json.dumps({name: [0, 2]}))) == spans(p0=(0, 3), p2=(0, 3))


def test_ranges_are_split_over_tasks(read: Read, client: Client, topic: Any) -> None:
    name = topic(partitions=2)
    fill(client, name, [100, 20])
    split = read(subscribe=name, minPartitions=6)
    assert split.rdd.getNumPartitions() == 6
    assert found(split) == spans(p0=(0, 100), p1=(0, 20))
    small = read(subscribe=name, maxRecordsPerPartition=25)
    assert small.rdd.getNumPartitions() == 5
    assert found(small) == spans(p0=(0, 100), p1=(0, 20))


def test_an_empty_topic_has_no_rows(read: Read, topic: Any) -> None:
    assert read(subscribe=topic(partitions=2)).collect() == []


def test_leaders_that_move_between_two_reads_are_followed(
    read: Read, client: Client, cluster: LocalCluster, topic: Any
) -> None:
    name = topic(partitions=2)
    fill(client, name, [5, 5])
    frame = read(subscribe=name)
    assert found(frame) == spans(p0=(0, 5), p1=(0, 5))
    for partition in (0, 1):
        leader, _ = cluster.leaders(name)[partition]
        cluster.move_leader(name, partition, to=leader % 3 + 1)
    assert found(frame) == spans(p0=(0, 5), p1=(0, 5))


def test_sql_tables_and_views(
    spark: Any, cluster: LocalCluster, client: Client, topic: Any
) -> None:
    name = topic(partitions=1)
    fill(client, name, [4])
    spark.sql(
        "CREATE TEMPORARY VIEW kafka_view USING parley OPTIONS "
        f"('kafka.bootstrap.servers' '{cluster.bootstrap_servers}', subscribe '{name}')"
    )
    try:
        assert spark.sql("SELECT count(*) AS n FROM kafka_view WHERE offset >= 1").first().n == 3
    finally:
        spark.catalog.dropTempView("kafka_view")


def test_many_rows_arrive_once_each(read: Read, client: Client, topic: Any) -> None:
    from pyspark.sql import functions as F

    name = topic(partitions=2)
    count = 150_000
    rows = pa.table({"value": pa.array([f"{n:08d}" for n in range(count)], pa.string())})
    client.produce(name, rows)
    frame = read("value string, partition int, offset bigint", subscribe=name)
    total = frame.agg(
        F.count("*"), F.countDistinct("value"), F.min("value"), F.max("value")
    ).first()
    assert tuple(total) == (count, count, "00000000", f"{count - 1:08d}")
