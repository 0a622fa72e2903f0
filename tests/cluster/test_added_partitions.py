"""Partitions added to a topic that a process knows already: written, read and asked
about at once, as Java does it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from parley.client import (
    EARLIEST,
    LATEST,
    AsyncClient,
    AsyncProducer,
    Client,
    Consumer,
    FetchOptions,
    TopicPartition,
)
from parley.client.cluster.wanted_topics import UNKNOWN_TOPIC_GRACE_MS
from parley.devcluster import LocalCluster
from parley.errors import BrokerError, UnknownTopicOrPartitionError

from .members_in_time import World

NAMES = (f"grown{number}" for number in itertools.count())
ONE = pa.table({"value": ["old"]})
TO_THE_NEW_ONE = pa.table({"value": ["new"], "partition": pa.array([2], pa.int32())})
SEVEN = pa.array([7], pa.int32())
FRESH_METADATA = {"metadata_max_age_ms": 3_600_000, "retry_backoff_ms": 5}
"""Nothing but the call itself lets this client ask for metadata."""


@pytest.fixture(scope="module", params=["0.9.0.1", "2.4", "4.3"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, release=request.param, seed=5) as running:
        yield running


@pytest.fixture
def topic(cluster: LocalCluster) -> str:
    name = next(NAMES)
    cluster.create_topic(name, partitions=1)
    return name


@pytest.fixture
def client(cluster: LocalCluster, topic: str) -> Iterator[Client]:
    """A client that has written to the topic while it had one partition, and then got two more."""
    with Client(bootstrap_servers=cluster.bootstrap_servers, **FRESH_METADATA) as made:
        made.produce(topic, ONE)
        cluster.add_partitions(topic, 3)
        yield made


def values(client: Client, topic: str, partition: int) -> list[str]:
    batches = client.fetch(TopicPartition(topic, partition), EARLIEST, LATEST)
    return [value.decode() for batch in batches for value in batch.column("value").to_pylist()]


@pytest.mark.parametrize("how", ["argument", "column", "large column"])
def test_a_partition_added_since_is_written(client: Client, topic: str, how: str) -> None:
    if how == "argument":
        client.produce(topic, ONE, partition=2)
        assert values(client, topic, 2) == ["old"]
        return
    rows = TO_THE_NEW_ONE
    if how == "large column":
        rows = rows.set_column(1, "partition", pa.array([2], pa.int64()))
    result = client.produce(topic, rows)
    assert list(result.partitions) == [TopicPartition(topic, 2)]
    assert values(client, topic, 2) == ["new"]


async def test_the_asynchronous_client_writes_it_too(cluster: LocalCluster, topic: str) -> None:
    async with AsyncClient(bootstrap_servers=cluster.bootstrap_servers, **FRESH_METADATA) as client:
        await client.produce(topic, ONE)
        await asyncio.to_thread(cluster.add_partitions, topic, 3)
        assert (await client.produce(topic, ONE, partition=2)).records == 1


def test_a_transaction_writes_it_too(cluster: LocalCluster, client: Client, topic: str) -> None:
    if cluster.broker(1).release.startswith("0.9"):
        return  # no transactions there
    with client.transactions.producer(f"writer-of-{topic}") as producer:
        with producer.transaction():
            producer.produce(topic, ONE, partition=0)
        cluster.add_partitions(topic, 5)
        with producer.transaction():
            producer.produce(topic, ONE, partition=4)
    read = FetchOptions(isolation_level="read_committed")
    assert [b.num_rows for b in client.fetch(TopicPartition(topic, 4), 0, LATEST, read)] == [1]


def test_a_partition_added_while_a_call_waits_for_it_is_written(
    cluster: LocalCluster, topic: str
) -> None:
    """The broker that is asked hears of the partition later."""
    tp = TopicPartition(topic, 2)
    with Client(bootstrap_servers=cluster.bootstrap_servers, **FRESH_METADATA) as client:
        client.produce(topic, ONE)
        cluster.add_partitions(topic, 3, unaware=[1, 2, 3])
        cluster.clear_requests()
        with ThreadPoolExecutor(2) as threads:
            calls = [
                threads.submit(client.produce, topic, TO_THE_NEW_ONE),
                threads.submit(client.list_offsets, {tp: EARLIEST}),
            ]
            while len(cluster.requests("Metadata")) < 3:
                pass
            cluster.scenes.release_metadata()
            written, asked = (call.result() for call in calls)
        assert (written.records, asked[tp].offset) == (1, 0)


@pytest.mark.parametrize("release", ["0.9.0.1", "4.3"])
def test_rows_and_records_for_a_partition_that_is_never_added_wait_for_a_moment(
    release: str,
) -> None:
    world, errors = World(release), list[BrokerError]()
    world.cluster.create_topic("t", partitions=3)

    async def work() -> None:
        async with world.client() as client, AsyncProducer(client) as sending:
            for call in (
                lambda: client.produce("t", ONE, partition=7),
                lambda: client.produce("t", TO_THE_NEW_ONE.set_column(1, "partition", SEVEN)),
                lambda: sending.send("t", b"new", partition=7),
            ):
                began_ms = world.time.clock.now_ms()
                with pytest.raises(UnknownTopicOrPartitionError) as refused:
                    await call()
                took_ms = world.time.clock.now_ms() - began_ms
                assert UNKNOWN_TOPIC_GRACE_MS <= took_ms <= 3 * UNKNOWN_TOPIC_GRACE_MS
                errors.append(refused.value)
            assert (await client.produce("t", ONE, partition=2)).records == 1

    try:
        world.time.run(work())
    finally:
        world.close()
    (text,) = {str(error) for error in errors}
    assert 'topic "t" has 3 partitions, numbered from 0: there is no 7' in text
    assert [(error.partition, error.retriable) for error in errors] == [(7, False)] * 3


def test_a_partition_added_since_is_read_and_asked_about(cluster: LocalCluster, topic: str) -> None:
    tp = TopicPartition(topic, 2)
    servers = cluster.bootstrap_servers
    with Client(bootstrap_servers=servers, **FRESH_METADATA) as client:
        client.produce(topic, ONE)
        assert values(client, topic, 0) == ["old"]
        with Consumer(
            bootstrap_servers=servers, auto_offset_reset="earliest", **FRESH_METADATA
        ) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            assert consumer.getone().value == b"old"
            cluster.add_partitions(topic, 3)
            with Client(bootstrap_servers=servers) as other:
                other.produce(topic, TO_THE_NEW_ONE)
            assert client.list_offsets({tp: LATEST})[tp].offset == 1
            assert values(client, topic, 2) == ["new"]
            consumer.assign([TopicPartition(topic, 0), tp])
            assert consumer.getone(tp).value == b"new"
            assert consumer.end_offsets([tp]) == {tp: 1}
