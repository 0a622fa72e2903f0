"""Writes through Spark, read back with parley's client and with another one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parley.client import EARLIEST, LATEST, Client, TopicPartition
from parley.devcluster import LocalCluster

from ..support import GENEROUS_S, sparks

HEADERS = (
    "array(struct('a' as key, cast('1' as binary) as value), struct('b' as key, cast(null as "
    "binary) as value))"
)


@pytest.fixture
def write(cluster: LocalCluster) -> Any:
    """Write a DataFrame: `write(frame, topic=…)`."""

    def save(frame: Any, mode: str = "append", **options: Any) -> None:
        writer = (
            frame.write.format("parley")
            .mode(mode)
            .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        )
        for name, value in options.items():
            writer = writer.option(name.replace("_", "."), value)
        writer.save()

    return save


def stored(client: Client, topic: str) -> list[tuple[int, Any, Any, Any]]:
    """Return (partition, key, value, headers) of every record of a topic, in order."""
    found = []
    for partition in client.metadata([topic]).topics[topic].partitions:
        for batch in client.fetch(TopicPartition(topic, partition), EARLIEST, LATEST):
            found += [
                (partition, row["key"], row["value"], row["headers"]) for row in batch.to_pylist()
            ]
    return found


def test_all_columns(spark: Any, write: Any, client: Client, topic: Any) -> None:
    name = topic(partitions=3)
    frame = spark.range(1).selectExpr(
        f"'{name}' as topic",
        "2 as partition",
        "'k' as key",
        "cast('v' as binary) as value",
        f"{HEADERS} as headers",
    )
    write(frame)
    assert stored(client, name) == [
        (2, b"k", b"v", [{"key": "a", "value": b"1"}, {"key": "b", "value": None}])
    ]


def test_the_topic_option_goes_before_the_column(
    spark: Any, write: Any, client: Client, topic: Any
) -> None:
    name, other = topic("a"), topic("b")
    write(spark.sql(f"select '{other}' as topic, 'x' as value"), topic=name)
    assert [value for _, _, value, _ in stored(client, name)] == [b"x"]
    assert stored(client, other) == []


def test_rows_go_to_the_topics_they_name(
    spark: Any, write: Any, client: Client, topic: Any
) -> None:
    names = [topic("a", partitions=1), topic("b", partitions=1)]
    rows = (
        spark.range(100)
        .repartition(2)
        .selectExpr(f"if(id % 2 = 0, '{names[0]}', '{names[1]}') as topic", "string(id) as value")
    )
    write(rows)
    assert sorted(int(value) for _, _, value, _ in stored(client, names[0])) == list(
        range(0, 100, 2)
    )
    assert sorted(int(value) for _, _, value, _ in stored(client, names[1])) == list(
        range(1, 100, 2)
    )


def test_keys_are_spread_as_javas_producer_does(
    spark: Any, write: Any, cluster: LocalCluster, client: Client, topic: Any
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its compression libraries
        from kafka.partitioner.default import murmur2

    name = topic(partitions=3)
    write(spark.range(50).selectExpr("string(id) as key", "string(id) as value"), topic=name)
    assert len(stored(client, name)) == 50
    for partition, key, value, _ in stored(client, name):
        assert key == value
        assert partition == (murmur2(key) & 0x7FFFFFFF) % 3


def test_nulls_are_kept(spark: Any, write: Any, client: Client, topic: Any) -> None:
    name = topic(partitions=1)
    write(
        spark.sql(
            "select cast(null as string) as key, cast(null as binary) as value union all "
            "select '', ''"
        ),
        topic=name,
    )
    assert sorted((key, value) for _, key, value, _ in stored(client, name) if key is not None) == [
        (b"", b"")
    ]
    assert [(key, value) for _, key, value, _ in stored(client, name) if key is None] == [
        (None, None)
    ]


@pytest.mark.parametrize("codec", ["lz4", pytest.param("gzip", marks=pytest.mark.matrix)])
def test_producer_options_by_their_java_names(
    spark: Any, write: Any, client: Client, topic: Any, codec: str
) -> None:
    name = topic(codec, partitions=1)
    write(
        spark.range(1000).selectExpr("string(id) as value"),
        topic=name,
        kafka_compression_type=codec,
    )
    assert len(stored(client, name)) == 1000


def test_a_frame_without_rows_writes_nothing(
    spark: Any, write: Any, client: Client, topic: Any
) -> None:
    name = topic()
    write(spark.range(0).selectExpr("string(id) as value"), topic=name)
    assert stored(client, name) == []


def test_columns_that_kafka_has_no_place_for_are_left_out(
    spark: Any, write: Any, client: Client, topic: Any
) -> None:
    name = topic(partitions=1)
    write(spark.sql("select 'v' as value, 5 as offset, 7 as extra"), topic=name)
    assert [value for _, _, value, _ in stored(client, name)] == [b"v"]


@pytest.mark.parametrize(
    ("rows", "options", "problem"),
    [
        ("select 'v' as value", {}, "no topic: set the option"),
        ("select 'k' as key", {"topic": "t"}, 'no column "value"'),
        (
            "select 1 as value",
            {"topic": "t"},
            'column "value" has type int, which cannot be written',
        ),
        (
            "select 'v' as value, 'p' as partition",
            {"topic": "t"},
            'column "partition" has type string',
        ),
        (
            "select 'v' as value, cast(null as string) as topic",
            {},
            "row 0 of this task has no topic",
        ),
        ("select 'v' as value", {"topic": "t", "kafka.acks": "2"}, "option kafka.acks"),
        (
            "select 'v' as value",
            {"topic": "t", "kafka.value.serializer": "x"},
            "kafka.value.serializer cannot be used",
        ),
    ],
)
def test_rows_that_cannot_be_written_are_refused(
    spark: Any, write: Any, rows: str, options: dict[str, str], problem: str
) -> None:
    with pytest.raises(Exception, match=problem):
        write(spark.sql(rows), **options)


def test_a_partition_that_does_not_exist_is_named(spark: Any, write: Any, topic: Any) -> None:
    name = topic(partitions=2)
    with pytest.raises(Exception, match=f"{name}.*5"):
        write(
            spark.sql("select 'v' as value, 5 as partition"), topic=name, kafka_max_block_ms="2000"
        )


def test_overwriting_is_refused(spark: Any, write: Any) -> None:
    with pytest.raises(Exception, match='mode "overwrite" cannot be used: rows can only be added'):
        write(spark.sql("select 'v' as value"), mode="overwrite", topic="t")


@pytest.fixture
def pipe(spark: Any, cluster: LocalCluster, tmp_path: Path) -> Iterator[Any]:
    """Start a stream from one topic to another."""

    def start(source: str, sink: str | None, *columns: str, **trigger: Any) -> Any:
        frame = spark.readStream.format("parley").option(
            "kafka.bootstrap.servers", cluster.bootstrap_servers
        )
        frame = (
            frame.option("subscribe", source)
            .option("startingOffsets", "earliest")
            .load()
            .selectExpr(*columns)
        )
        writer = frame.writeStream.format("parley").option(
            "kafka.bootstrap.servers", cluster.bootstrap_servers
        )
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
            **trigger
        )
        return sparks.started((writer.option("topic", sink) if sink else writer).start)

    yield start
    for query in spark.streams.active:
        query.stop()


def test_a_stream_from_topic_to_topic(
    spark: Any, pipe: Any, write: Any, client: Client, cluster: LocalCluster, topic: Any
) -> None:
    source, sink = topic("in", partitions=2), topic("out", partitions=2)
    columns = (
        "key",
        "concat('seen ', cast(value as string)) as value",
        "partition",
        f"'{sink}' as topic",
    )
    write(spark.range(20).selectExpr("string(id) as key", "string(id) as value"), topic=source)
    assert pipe(source, None, *columns, availableNow=True).awaitTermination(GENEROUS_S)
    before = sorted((key, value) for _, key, value, _ in stored(client, sink))
    assert before == sorted((b"%d" % n, b"seen %d" % n) for n in range(20))
    assert [row[0] for row in stored(client, sink)] == [row[0] for row in stored(client, source)]

    running = pipe(source, sink, *columns, processingTime="100 milliseconds")
    for step in range(2):  # micro-batches go on while the sink's leaders move
        write(
            spark.range(20 + 5 * step, 25 + 5 * step).selectExpr(
                "string(id) as key", "string(id) as value"
            ),
            topic=source,
        )
        cluster.move_leader(sink, step, to=cluster.leaders(sink)[step][0] % 3 + 1)
        running.processAllAvailable()
    running.stop()
    assert sorted(int(key) for _, key, _, _ in stored(client, sink)) == list(range(30))
