"""Several ranges in a task: which, and that each is read to its end whatever happens to others."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from parley.arrow import spark_schema
from parley.client import Client, TopicPartition
from parley.devcluster import LocalCluster
from parley.errors import ConfigError, DataLossError
from parley.spark.options.source import SourceOptions, read_source_options
from parley.spark.options.texts import Use
from parley.spark.read.packing import FIXED, GUESSED_RECORD, Task, pack
from parley.spark.read.plan import plan_batch
from parley.spark.read.planner import Planner
from parley.spark.read.ranges import OffsetRange
from parley.spark.read.task import read_task

PARTITIONS, RECORDS = 12, 5


def tp(index: int) -> TopicPartition:
    return TopicPartition("t", index)


def place(one: OffsetRange) -> tuple[TopicPartition, int]:
    return one.tp, one.start


def cost(task: Task) -> int:
    return sum(FIXED + one.size * GUESSED_RECORD for one in task)


@given(
    st.lists(st.integers(1, 10_000), min_size=1, max_size=60),
    st.integers(1, 70),
    st.lists(st.integers(-1, 4), min_size=60, max_size=60),
)
def test_tasks_have_all_ranges_once_evenly_and_of_one_leader_where_there_are_enough(
    sizes: list[int], most: int, led_by: list[int]
) -> None:
    ranges = [OffsetRange(tp(index), 7, 7 + size) for index, size in enumerate(sizes)]
    leaders = {one.tp: leader for one, leader in zip(ranges, led_by, strict=False)}
    tasks = pack(ranges, most, leaders, {})
    assert sorted((one for task in tasks for one in task), key=place) == ranges
    assert len(tasks) == min(most, len(ranges))
    assert all(list(task) == sorted(task, key=place) for task in tasks)
    if len(ranges) <= most:
        return
    by_leader = Counter(leaders[one.tp] for one in ranges)
    if len(by_leader) > most:
        return
    for task in tasks:
        assert len({leaders[one.tp] for one in task}) == 1
    largest = max(cost((one,)) for one in ranges)
    for leader in by_leader:
        costs = [cost(task) for task in tasks if leaders[task[0].tp] == leader]
        assert max(costs) - min(costs) <= largest


def test_bytes_count_where_they_are_known() -> None:
    ranges = [OffsetRange(tp(index), 0, 100) for index in range(4)]
    densities = {tp(0): (40_000.0, 20_000.0), tp(1): (10.0,), tp(2): (10.0,), tp(3): (10.0,)}
    assert [[one.tp.partition for one in task] for task in pack(ranges, 2, {}, densities)] == [
        [0],
        [1, 2, 3],
    ]


def test_a_hundred_thousand_ranges_are_packed_for_the_brokers_that_have_them() -> None:
    ranges = [OffsetRange(tp(index), 0, 1 + index // 100) for index in range(100_000)]
    leaders = {one.tp: one.tp.partition % 100 for one in ranges}
    tasks = pack(ranges, 400, leaders, {})
    assert Counter(leaders[task[0].tp] for task in tasks) == dict.fromkeys(range(100), 4)
    assert math.isclose(max(map(cost, tasks)), min(map(cost, tasks)), rel_tol=0.02)


# -- reading ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, releases={1: "2.4", 2: "3.9", 3: "4.3"}) as running:
        running.create_topic("t", partitions=PARTITIONS)
        with Client(bootstrap_servers=running.bootstrap_servers) as client:
            for index in range(PARTITIONS):
                values = [f"{index}-{n}" for n in range(RECORDS)]
                client.produce("t", pa.table({"value": values}), partition=index)
        yield running


def options(cluster: LocalCluster, **more: str) -> SourceOptions:
    given = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": "t",
        "startingOffsets": "earliest",
        "kafkaConsumer.pollTimeoutMs": "2500",
        "kafka.fetch.max.wait.ms": "20",
    }
    return read_source_options(given | more, Use.BATCH_READ)


def values(task: Task, found: SourceOptions) -> list[str]:
    batches = read_task(task, found, spark_schema())
    return [value.decode() for batch in batches for value in batch.column("value").to_pylist()]


def expected(*indices: int) -> list[str]:
    return sorted(f"{index}-{n}" for index in indices for n in range(RECORDS))


def test_tasks_read_what_one_broker_leads_with_few_requests(cluster: LocalCluster) -> None:
    found = options(cluster, maxPartitions="3")
    tasks = plan_batch(Planner(found))
    leaders = cluster.leaders("t")
    led = [{leaders[one.tp.partition][0] for one in task} for task in tasks]
    assert sorted(led, key=str) == [{1}, {2}, {3}]
    cluster.clear_requests()
    read = [values(task, found) for task in tasks]
    assert sorted(value for one in read for value in one) == expected(*range(PARTITIONS))
    assert len(cluster.requests("Fetch")) == len(tasks)


def test_parts_of_one_partition_may_be_in_one_task(cluster: LocalCluster) -> None:
    found = options(cluster, maxPartitions="1", maxRecordsPerPartition="2")
    (task,) = plan_batch(Planner(found))
    assert len(task) == 3 * PARTITIONS
    assert sorted(values(task, found)) == expected(*range(PARTITIONS))


def test_what_one_range_has_lost_keeps_no_other_from_being_read(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    task = tuple(
        OffsetRange(tp(index), 0, RECORDS + (4 if index in (3, 7) else 0))
        for index in range(PARTITIONS)
    )
    with pytest.raises(DataLossError, match=r"log of t-[37] ends at 5, before offset 9"):
        values(task, options(cluster))
    with caplog.at_level(logging.WARNING, "parley.spark"):
        read = values(task, options(cluster, failOnDataLoss="false"))
    assert sorted(read) == expected(*range(PARTITIONS))
    said = " ".join(record.getMessage() for record in caplog.records)
    assert all(f"log of t-{index} ends at 5, before offset 9" in said for index in (3, 7))


def test_a_topic_that_is_gone_keeps_no_other_from_being_read(cluster: LocalCluster) -> None:
    task = (OffsetRange(TopicPartition("gone", 0), 0, 5), OffsetRange(tp(1), 0, RECORDS))
    assert values(task, options(cluster, failOnDataLoss="false")) == expected(1)
    with pytest.raises(DataLossError, match="gone-0 from offset 0 to 4"):
        values(task, options(cluster))


def test_fewer_tasks_than_are_wanted_at_least_are_refused(cluster: LocalCluster) -> None:
    with pytest.raises(ConfigError, match="minPartitions=5 is higher than maxPartitions=4"):
        options(cluster, minPartitions="5", maxPartitions="4")
