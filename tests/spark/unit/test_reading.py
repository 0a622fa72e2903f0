"""What a task does when records are missing: against an embedded broker, without Spark."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa
import pytest

from parley.arrow import spark_schema
from parley.client import Client, TopicPartition
from parley.devcluster import LocalCluster
from parley.errors import DataLossError
from parley.spark.options.source import SourceOptions, read_source_options
from parley.spark.options.texts import Use
from parley.spark.read.ranges import OffsetRange
from parley.spark.read.task import read_task
from parley.types import format_uuid

TP = TopicPartition("t", 0)


@pytest.fixture
def broker() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, release="4.3") as running:
        yield running


def make(broker: LocalCluster, values: list[str], *, again: bool = False) -> str:
    """Create the topic with these values; return its id."""
    if again:
        broker.delete_topic("t")
    broker.create_topic("t", partitions=1)
    with Client(bootstrap_servers=broker.bootstrap_servers) as client:
        client.produce("t", pa.table({"value": values}))
        return format_uuid(client.metadata(["t"]).topic_id("t"))


def options(broker: LocalCluster, fail: bool) -> SourceOptions:
    given = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": "t",
        "failOnDataLoss": str(fail),
        "kafkaConsumer.pollTimeoutMs": "2500",
        "kafka.fetch.max.wait.ms": "20",
    }
    return read_source_options(given, Use.BATCH_READ)


def read(
    broker: LocalCluster, start: int, end: int, topic_id: str = "", *, fail: bool = True
) -> list[bytes]:
    task = OffsetRange(TP, start, end, topic_id)
    batches = read_task((task,), options(broker, fail), spark_schema())
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def test_exactly_the_range_is_read(broker: LocalCluster) -> None:
    topic_id = make(broker, ["a", "b", "c", "d"])
    assert read(broker, 1, 3, topic_id) == [b"b", b"c"]
    assert read(broker, 2, 2) == []


def test_a_log_that_ends_early_fails_the_task_after_what_is_there(broker: LocalCluster) -> None:
    make(broker, ["a", "b"])
    task = OffsetRange(TP, 0, 5)
    batches = read_task((task,), options(broker, True), spark_schema())
    assert next(batches).num_rows == 2
    with pytest.raises(DataLossError, match="log of t-0 ends at 2, before offset 5") as caught:
        next(batches)
    assert (
        caught.value.partition,
        caught.value.expected_offset,
        caught.value.available_offset,
    ) == (0, 5, 2)


def test_a_log_that_ends_early_is_read_to_its_end_when_reported_so(
    broker: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    make(broker, ["a", "b"])
    with caplog.at_level(logging.WARNING, "parley.spark"):
        assert read(broker, 1, 5, fail=False) == [b"b"]
        assert read(broker, 3, 5, fail=False) == []
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "the log of t-0 ends at 2, before offset 5 that was already known"
    ] * 2


def test_a_task_never_reads_another_topic_of_the_same_name(
    broker: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    old = make(broker, ["a", "b"])
    # the client of this process knows the old one now
    assert read(broker, 0, 2, old) == [b"a", b"b"]
    new = make(broker, ["x", "y", "z"], again=True)
    with pytest.raises(
        DataLossError, match=f'"t" was deleted and created again .id {old} became {new}'
    ):
        read(broker, 0, 2, old)
    with caplog.at_level(logging.WARNING, "parley.spark"):
        assert read(broker, 0, 2, old, fail=False) == []
    assert "was deleted and created again" in caplog.text
    assert read(broker, 0, 3, new) == [b"x", b"y", b"z"]


def test_a_plan_that_is_newer_than_what_the_process_knows_is_followed(broker: LocalCluster) -> None:
    old = make(broker, ["a", "b"])
    assert read(broker, 0, 2, old) == [b"a", b"b"]
    new = make(broker, ["x", "y", "z"], again=True)
    assert read(broker, 0, 3, new) == [b"x", b"y", b"z"]


@pytest.mark.parametrize("fail", [True, False])
def test_a_topic_that_is_gone(broker: LocalCluster, fail: bool) -> None:
    topic_id = make(broker, ["a", "b"])
    assert len(read(broker, 0, 2, topic_id, fail=fail)) == 2
    broker.delete_topic("t")
    if fail:
        with pytest.raises(
            DataLossError,
            match="data of t-0 from offset 0 to 1 may be lost: topic or partition is go",
        ):
            read(broker, 0, 2, topic_id)
    else:
        assert read(broker, 0, 2, topic_id, fail=False) == []
