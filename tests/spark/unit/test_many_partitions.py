"""What 10,000 and 100,000 partitions cost: requests, and bytes that Spark keeps and sends."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from parley.arrow import spark_schema
from parley.devcluster import LocalCluster
from parley.spark.options.source import read_source_options
from parley.spark.options.texts import Use
from parley.spark.stream.reader import StreamReader

BROKERS, A_TOPIC = 3, 10_000
"""A topic has as many partitions as brokers create at once."""
OFFSET_BYTES, TASK_BYTES, PACKED_BYTES = 30, 250, 40
"""Per partition: its text in a checkpoint; what goes to a task of its own, and to one that reads
many.
"""


@pytest.fixture(
    params=[1, pytest.param(10, marks=[pytest.mark.long, pytest.mark.timeout(600)])],
    ids=["10,000", "100,000"],
)
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=BROKERS, release="3.9") as running:
        for number in range(request.param):
            running.create_topic(f"many{number}", partitions=A_TOPIC, replication_factor=1)
        yield running


@pytest.fixture
def reader(cluster: LocalCluster) -> Callable[..., StreamReader]:
    def make(**more: str) -> StreamReader:
        given = {
            "kafka.bootstrap.servers": cluster.bootstrap_servers,
            "subscribePattern": "many.",
            "startingOffsets": "earliest",
        }
        return StreamReader(read_source_options(given | more, Use.STREAM_READ), spark_schema())

    return make


def test_a_micro_batch_of_many_partitions_stays_within_its_budget(
    cluster: LocalCluster, reader: Callable[..., StreamReader]
) -> None:
    stream = reader()
    start = stream.initialOffset()
    cluster.clear_requests()
    assert stream.latestOffset(start, ReadAllAvailable()) == start
    asked = Counter(entry.api for entry in cluster.requests())
    assert asked["Metadata"] <= 1
    assert asked["ListOffsets"] == BROKERS

    end = {key: moved(found) if key.startswith("many") else found for key, found in start.items()}
    cluster.clear_requests()
    tasks = stream.partitions(start, end)
    assert not cluster.requests()
    assert len(json.dumps(end)) <= OFFSET_BYTES * len(tasks)
    assert sum(len(pickle.dumps(task)) for task in tasks) <= TASK_BYTES * len(tasks)

    packing = reader(maxPartitions="30")
    assert packing.initialOffset() == start
    packed = packing.partitions(start, end)
    assert len(packed) == 30
    assert sum(len(task.value) for task in packed) == len(tasks)
    assert sum(len(pickle.dumps(task)) for task in packed) <= PACKED_BYTES * len(tasks)


def moved(offsets: object) -> dict[str, int]:
    assert isinstance(offsets, dict)
    return dict.fromkeys(offsets, 1_000_000)
