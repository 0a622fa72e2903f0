"""S7 below 2.8, where brokers report no topic ids: what of a topic created again is noticed, and
   what cannot be.

2.4 to 2.7 report leader epochs that can be trusted; before them only an end that went back shows
anything.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from parley.arrow import spark_schema
from parley.client import Client
from parley.devcluster import LocalCluster
from parley.errors import DataLossError
from parley.spark.options.source import read_source_options
from parley.spark.options.texts import Use
from parley.spark.read.ranges import OffsetRange
from parley.spark.stream.reader import StreamReader

ALL = ReadAllAvailable()
WITH_EPOCHS, WITHOUT_EPOCHS = "2.4", "1.1"


@dataclass
class Scene:
    """A topic of one partition on three brokers of one release, and a query that reads it."""

    cluster: LocalCluster
    client: Client

    def put(self, *values: str, partition: int = 0) -> None:
        self.client.produce("t", pa.table({"value": list(values)}), partition=partition)

    def age(self, moves: int) -> None:
        """Let the leader epoch rise."""
        for _ in range(moves):
            leader, _ = self.cluster.leaders("t")[0]
            self.cluster.move_leader("t", 0, to=leader % 3 + 1)

    def query(self, **options: str) -> StreamReader:
        """Return a query as after a start: in a process of its own."""
        given = {
            "kafka.bootstrap.servers": self.cluster.bootstrap_servers,
            "subscribe": "t",
            "startingOffsets": "earliest",
            "fetchOffset.retryIntervalMs": "50",
            "kafka.retry.backoff.ms": "10",
            "kafka.retry.backoff.max.ms": "50",
            "kafkaConsumer.pollTimeoutMs": "5000",
            **options,
        }
        return StreamReader(read_source_options(given, Use.STREAM_READ), spark_schema())


@pytest.fixture
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    with LocalCluster(brokers=3, release=request.param) as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=3)
        with Client(
            bootstrap_servers=cluster.bootstrap_servers,
            retry_backoff_ms=10,
            retry_backoff_max_ms=50,
        ) as client:
            yield Scene(cluster, client)


class _Part:
    def __init__(self, value: OffsetRange) -> None:
        self.value = value


def values(batches: Iterator[pa.RecordBatch]) -> list[str]:
    return [value.decode() for batch in batches for value in batch.column("value").to_pylist()]


def run(
    query: StreamReader, start: dict[str, Any], limit: Any = ALL
) -> tuple[dict[str, Any], list[str]]:
    """Plan and read one micro-batch."""
    end = query.latestOffset(start, limit)
    tasks = [part.value for part in query.partitions(start, end)]
    return end, [value for task in tasks for value in values(query.read(_Part(task)))]


with_epochs = pytest.mark.parametrize("scene", [WITH_EPOCHS], indirect=True)
without_epochs = pytest.mark.parametrize("scene", [WITHOUT_EPOCHS], indirect=True)


@with_epochs
@pytest.mark.parametrize("count", [1, 3, 5])
def test_s07_an_epoch_that_begins_again_reports_of_another_topic_whatever_its_size(
    scene: Scene, count: int
) -> None:
    scene.age(5)
    scene.put("a", "b", "c")
    end, _ = run(scene.query(), {"t": {"0": 0}})
    scene.cluster.scenes.recreate_topic("t", 2)
    new = [f"new {n}" for n in range(count)]
    scene.put(*new)
    scene.put("other", partition=1)
    with pytest.raises(
        DataLossError,
        match=r'"t" was deleted and created again .the leader epoch of t-0 fell from 5 ',
    ):
        scene.query().latestOffset(end, ALL)
    relaxed = scene.query(failOnDataLoss="false")
    after, read = run(relaxed, end)
    assert sorted(read) == sorted([*new, "other"])
    assert run(relaxed, after) == (after, [])
    scene.put("later")
    # and with failOnDataLoss=true all is well again
    assert run(scene.query(), after)[1] == ["later"]


@with_epochs
def test_s07_a_limit_reads_another_topic_in_pieces_from_its_beginning(scene: Scene) -> None:
    scene.age(5)
    scene.put("a", "b", "c")
    position, _ = run(scene.query(), {"t": {"0": 0}})
    scene.cluster.scenes.recreate_topic("t", 1)
    scene.put(*(str(n) for n in range(7)))
    query = scene.query(failOnDataLoss="false")
    seen: list[str] = []
    for _ in range(4):
        position, read = run(query, position, ReadMaxRows(2))
        seen += read
    assert seen == [str(n) for n in range(7)]


@with_epochs
def test_s07_a_log_that_ends_early_in_the_same_leader_epoch_is_another_topics(scene: Scene) -> None:
    """No election came between, and without one no log gets shorter."""
    scene.put("a", "b", "c")
    end, _ = run(scene.query(), {"t": {"0": 0}})
    scene.cluster.scenes.recreate_topic("t", 1)
    scene.put("x", "y")
    with pytest.raises(
        DataLossError,
        match=r"created again .t-0 ends at 2 in leader epoch 0, in which it ended at 3",
    ):
        scene.query().latestOffset(end, ALL)
    after, read = run(scene.query(failOnDataLoss="false"), end)
    assert read == ["x", "y"]
    scene.put("z")
    assert run(scene.query(), after)[1] == ["z"]


@with_epochs
def test_s07_an_epoch_that_fell_by_a_little_is_reported_and_reading_goes_on_at_the_position(
    scene: Scene,
) -> None:
    """It may be another topic, or an election that lost the epochs: no more can be known."""
    scene.age(2)
    scene.put("a", "b", "c")
    end, _ = run(scene.query(), {"t": {"0": 0}})
    scene.cluster.scenes.recreate_topic("t", 1)
    scene.put("x", "y", "z", "u")
    with pytest.raises(
        DataLossError, match=r"leader epoch of t-0 fell from 2 to 0 while offset 3 was known"
    ) as caught:
        scene.query().latestOffset(end, ALL)
    assert (caught.value.topic, caught.value.partition, caught.value.expected_offset) == ("t", 0, 3)
    after, read = run(scene.query(failOnDataLoss="false"), end)
    assert read == ["u"]
    assert after["@epochs"] == {"t": {"0": 0}}
    assert run(scene.query(), after) == (after, [])


@with_epochs
def test_s07_offsets_copied_from_a_checkpoint_of_another_topic_are_refused(scene: Scene) -> None:
    scene.age(4)
    scene.put("a", "b")
    scene.cluster.scenes.recreate_topic("t", 1)
    scene.put("x", "y", "z")
    copied = '{"@epochs":{"t":{"0":4}},"t":{"0":2}}'
    with pytest.raises(DataLossError, match='"t" was deleted and created again'):
        scene.query(startingOffsets=copied).initialOffset()
    first = scene.query(startingOffsets=copied, failOnDataLoss="false").initialOffset()
    assert (first["t"], first["@epochs"]) == ({"0": 0}, {"t": {"0": 0}})


@with_epochs
@pytest.mark.parametrize("count", [1, 5])
def test_s07_a_topic_created_again_between_plan_and_read_is_not_read_by_the_task(
    scene: Scene, count: int
) -> None:
    scene.age(5)
    scene.put("a", "b", "c")
    query = scene.query(failOnDataLoss="false")
    start = query.initialOffset()
    end = query.latestOffset(start, ALL)
    (part,) = query.partitions(start, end)
    scene.cluster.scenes.recreate_topic("t", 1)
    new = [f"new {n}" for n in range(count)]
    scene.put(*new)
    with pytest.raises(DataLossError):
        values(scene.query().read(part))
    assert values(query.read(part)) == []
    assert run(query, end)[1] == new


@without_epochs
def test_s07_before_epochs_only_a_shorter_log_is_noticed(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.put("a", "b", "c")
    end, _ = run(scene.query(), {"t": {"0": 0}})
    scene.cluster.scenes.recreate_topic("t", 1)
    scene.put("x", "y")
    with pytest.raises(
        DataLossError, match=r"log of t-0 ends at 2, before offset 3 .* topic was created again"
    ):
        scene.query().latestOffset(end, ALL)
    # and when it has grown past the position nothing distinguishes it from the old one
    scene.put("z", "u")
    assert run(scene.query(), end)[1] == ["u"]


@without_epochs
def test_s07_before_epochs_an_end_that_was_seen_and_is_there_no_more_is_reported(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.put(*(str(n) for n in range(10)))
    for fail in ("true", "false"):
        query = scene.query(failOnDataLoss=fail)
        position, read = run(query, {"t": {"0": 0}}, ReadMaxRows(2))
        assert len(read) == 2
        scene.cluster.scenes.recreate_topic("t", 1)
        scene.put(*(str(n) for n in range(5)))
        if fail == "true":
            with pytest.raises(DataLossError, match="log of t-0 ends at 5 and ended at 10 before"):
                query.latestOffset(position, ReadMaxRows(2))
            scene.put(*(str(n) for n in range(5, 10)))
            continue
        with caplog.at_level(logging.WARNING, "parley.spark"):
            assert run(query, position)[1] == ["2", "3", "4"]
        assert "ended at 10 before" in caplog.text
