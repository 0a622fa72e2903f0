"""Fetch sessions of embedded brokers (KIP-227) as clients meet them. Real brokers: tests/real."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from parley import Client, Consumer, TopicPartition
from parley.devcluster import LocalCluster
from parley.devcluster.faults.faults import EVERY_TIME
from parley.devcluster.state.settings import ClusterSettings

PARTS = [TopicPartition("t", index) for index in range(4)]


@pytest.fixture(params=["4.3", "2.4"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, release=request.param) as running:
        running.create_topic("t", partitions=4)
        yield running


def consumer_of(cluster: LocalCluster) -> Consumer:
    servers = cluster.bootstrap_servers
    return Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", fetch_max_wait_ms=20)


def write(client: Client, partition: int, *values: str) -> None:
    client.produce("t", pa.table({"value": list(values)}), partition)


def read(consumer: Consumer, count: int) -> list[str]:
    """Read until so many records are there; return their values."""
    found: list[str] = []
    while len(found) < count:
        for rows in consumer.getmany(timeout_ms=1_000).values():
            found += [(row.value or b"").decode() for row in rows]
    return found


def test_a_consumer_names_only_what_changed(cluster: LocalCluster) -> None:
    with (
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
        consumer_of(cluster) as consumer,
    ):
        consumer.assign(PARTS)
        for turn in range(3):
            write(client, turn, f"{turn}")
            assert read(consumer, 1) == [f"{turn}"]
    asked = [entry.message for entry in cluster.requests("Fetch")]
    whole = [one for one in asked if one.session_epoch == 0]
    assert len(whole) == 1
    assert sum(len(topic.partitions) for topic in whole[0].topics) == 4
    later = [one for one in asked if one.session_epoch > 0]
    assert max(sum(len(topic.partitions) for topic in one.topics) for one in later) == 1
    assert asked[-1].session_epoch == -1  # closing ends the session


def test_partitions_that_stand_are_read_on_after_pauses_seeks_and_new_assignments(
    cluster: LocalCluster,
) -> None:
    with (
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
        consumer_of(cluster) as consumer,
    ):
        consumer.assign(PARTS)
        write(client, 0, "a")
        assert read(consumer, 1) == ["a"]
        consumer.getmany(timeout_ms=100)  # rounds without news
        consumer.pause(PARTS[1])
        write(client, 1, "paused")
        write(client, 2, "b")
        assert read(consumer, 1) == ["b"]
        consumer.resume(PARTS[1])
        assert read(consumer, 1) == ["paused"]
        consumer.getmany(timeout_ms=100)
        consumer.seek(PARTS[0], 0)
        assert read(consumer, 1) == ["a"]
        consumer.getmany(timeout_ms=100)
        consumer.assign(PARTS[1:])
        write(client, 0, "not assigned")
        write(client, 3, "c")
        assert read(consumer, 1) == ["c"]
        assert not consumer.getmany(timeout_ms=100)
        consumer.assign(PARTS)
        assert read(consumer, 2) == ["a", "not assigned"]


def test_a_broker_that_was_restarted_knows_no_session_and_reading_goes_on(
    cluster: LocalCluster,
) -> None:
    with (
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
        consumer_of(cluster) as consumer,
    ):
        consumer.assign(PARTS)
        write(client, 0, "before")
        assert read(consumer, 1) == ["before"]
        cluster.stop_broker(1)
        cluster.start_broker(1)
        write(client, 0, "after")
        assert read(consumer, 1) == ["after"]


def test_a_fault_reaches_partitions_that_only_the_session_names(cluster: LocalCluster) -> None:
    with (
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
        consumer_of(cluster) as consumer,
    ):
        consumer.assign(PARTS)
        write(client, 0, "first")
        assert read(consumer, 1) == ["first"]
        cluster.faults.fail(
            "Fetch", "KAFKA_STORAGE_ERROR", topic="t", partition=3, times=EVERY_TIME
        )
        write(client, 1, "second")  # ends the request that was waiting already
        assert read(consumer, 1) == ["second"]
        write(client, 3, "kept back")
        write(client, 2, "third")
        assert read(consumer, 1) == ["third"]
        cluster.faults.clear()
        assert read(consumer, 1) == ["kept back"]


def test_a_reader_without_room_for_a_session_asks_in_full() -> None:
    settings = ClusterSettings(max_incremental_fetch_session_cache_slots=0)
    with LocalCluster(brokers=1, settings=settings) as cluster:
        cluster.create_topic("t", partitions=4)
        with (
            Client(bootstrap_servers=cluster.bootstrap_servers) as client,
            consumer_of(cluster) as consumer,
        ):
            consumer.assign(PARTS)
            write(client, 2, "a")
            assert read(consumer, 1) == ["a"]
            write(client, 2, "b")
            assert read(consumer, 1) == ["b"]
        asked = [entry.message for entry in cluster.requests("Fetch")]
        assert {one.session_epoch for one in asked} == {0}
