"""Exactly once through Spark: batches, streams, and batches that Spark runs again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from parley.client import Client
from parley.devcluster import LocalCluster
from parley.spark.write.prefix import checkpoint_prefix

from ...support import GENEROUS_S, sparks
from .sinks import Sink

pytestmark = pytest.mark.timeout(600)  # several micro-batches each, on a machine that may be busy


@pytest.fixture
def once(spark: Any, cluster: LocalCluster, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Run a query from topic to topic exactly once to its end: `once(source, sink, **options)`."""

    def run(source: str, sink: str, *columns: str, mode: str = "append", **options: str) -> Any:
        frame = spark.readStream.format("parley").option(
            "kafka.bootstrap.servers", cluster.bootstrap_servers
        )
        frame = frame.option("subscribe", source).option("startingOffsets", "earliest")
        frame = (
            frame.option("maxOffsetsPerTrigger", "10")
            .load()
            .selectExpr(*(columns or ("key", "value")))
        )
        writer = frame.writeStream.format("parley").option(
            "kafka.bootstrap.servers", cluster.bootstrap_servers
        )
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).option(
            "topic", sink
        )
        writer = (
            writer.option("delivery", "exactly-once").outputMode(mode).trigger(availableNow=True)
        )
        for name, value in options.items():
            writer = writer.option(name.replace("__", "."), value)
        query = sparks.started(writer.start)
        assert query.awaitTermination(2 * GENEROUS_S)
        return query

    yield run
    for query in spark.streams.active:
        query.stop()


def fill(client: Client, topic: str, start: int, count: int) -> list[str]:
    values = [f"{number:04}" for number in range(start, start + count)]
    client.produce(topic, pa.table({"key": values, "value": values}))
    return values


def test_s01_a_stream_writes_every_row_once_although_its_last_batch_runs_twice(
    once: Any, client: Client, topic: Any, tmp_path: Path
) -> None:
    source, name = topic("in", partitions=2), topic("out", partitions=3)
    values = fill(client, source, 0, 35)
    once(source, name)
    sink = Sink(client, name, prefix=name)
    assert sink.committed() == values
    assert sparks.forget_commit(tmp_path / "checkpoint") >= 3
    values += fill(client, source, 35, 5)
    once(source, name)
    assert sink.committed() == values


def test_s01_a_batch_that_fails_at_its_commit_is_written_once_after_the_restart(
    once: Any, client: Client, cluster: LocalCluster, topic: Any
) -> None:
    source, name = topic("in", partitions=2), topic("out", partitions=3)
    values = fill(client, source, 0, 20)
    prefix = name
    # TRANSACTIONAL_ID_AUTHORIZATION_FAILED: final
    cluster.faults.fail("END_TXN", 53, times=1, client_id="the sink")
    options = {"transactionalIdPrefix": prefix, "kafka__client__id": "the sink"}
    with pytest.raises(Exception, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        once(source, name, **options)
    once(source, name, **options)
    assert Sink(client, name, prefix).committed() == values


def test_a_transaction_time_out_beyond_the_brokers_is_refused_when_the_query_starts(
    once: Any, client: Client, topic: Any
) -> None:
    source, name = topic("in"), topic("out")
    fill(client, source, 0, 3)
    with pytest.raises(Exception, match="time-out of 3600000 ms is longer than the broker allows"):
        once(source, name, kafka__transaction__timeout__ms="3600000")
    assert Sink(client, name, name).committed() == []


def test_the_row_header_reports_every_row_apart(once: Any, client: Client, topic: Any) -> None:
    source, name = topic("in", partitions=1), topic("out", partitions=1)
    fill(client, source, 0, 25)
    query = once(source, name, rowHeader="at")
    rows = Sink(client, name, name).rows()
    marks = [
        [header["value"].decode() for header in row["headers"] if header["key"] == "at"]
        for row in rows
    ]
    assert sorted(mark for (mark,) in marks) == sorted(
        f"{query.id}/{batch}/0/{n}"
        for batch, count in ((0, 10), (1, 10), (2, 5))
        for n in range(count)
    )


def test_a_data_frame_is_visible_when_it_is_written_and_then_once(
    spark: Any, client: Client, cluster: LocalCluster, topic: Any
) -> None:
    name = topic(partitions=3)
    frame = spark.range(0, 100, 1, 4).selectExpr(
        "string(id) as key", "lpad(string(id), 4, '0') as value"
    )
    writer = (
        frame.write.format("parley")
        .mode("append")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    )
    writer.option("topic", name).option("delivery", "exactly-once").save()
    assert Sink(client, name, name).committed() == [f"{n:04}" for n in range(100)]


def test_s02_of_a_data_frame_whose_task_fails_nothing_is_visible(
    spark: Any, client: Client, cluster: LocalCluster, topic: Any
) -> None:
    name = topic(partitions=3)
    frame = spark.range(0, 40, 1, 4).selectExpr("string(id) as key", "string(id) as value")
    broken = frame.selectExpr("key", "if(key = '39', raise_error('the last row'), value) as value")
    writer = (
        broken.write.format("parley")
        .mode("append")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    )
    # A task that Spark kills after the driver has aborted
    # may leave a transaction open: the broker ends it.
    writer = writer.option("kafka.transaction.timeout.ms", "10000")
    with pytest.raises(Exception, match="the last row"):
        writer.option("topic", name).option("delivery", "exactly-once").save()
    assert Sink(client, name, name).committed() == []


def test_rows_over_the_brokers_limit_are_named(
    spark: Any, client: Client, cluster: LocalCluster, topic: Any
) -> None:
    name = topic(partitions=1)
    frame = spark.range(0, 10, 1, 1).selectExpr(
        "if(id = 7, repeat('x', 2000000), 'small') as value"
    )
    writer = (
        frame.write.format("parley")
        .mode("append")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    )
    for delivery in ("at-least-once", "exactly-once"):
        with pytest.raises(
            Exception, match=r"(?s)MESSAGE_TOO_LARGE.*row 7 of this task with 2000000 bytes"
        ):
            writer.option("topic", name).option("delivery", delivery).save()


def test_s14_a_password_is_in_no_plan_error_or_checkpoint(
    once: Any, client: Client, topic: Any, tmp_path: Path
) -> None:
    source, name = topic("in"), topic("out")
    fill(client, source, 0, 3)
    secret = "a-canary-that-sings"
    with pytest.raises(Exception, match=r"kafka\.acks") as caught:
        once(source, name, kafka__sasl__password=secret, kafka__acks="2")
    assert secret not in str(caught.value)
    once(source, name, kafka__sasl__password=secret)
    for path in (tmp_path / "checkpoint").rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes()
    journal = f"{checkpoint_prefix(str(tmp_path / 'checkpoint'))}-journal"
    entries = [row["value"] for row in Sink(client, journal, name).rows()]
    assert entries
    assert not any(secret.encode() in entry for entry in entries)
