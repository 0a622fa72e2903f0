"""parley's consumers as members of groups that real brokers coordinate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa
import pytest

from parley.client import AsyncConsumer, Client, NewTopic, ProduceOptions, TopicPartition
from parley.testing.realbroker import RealCluster

from ..support import Polling, evenly_shared, eventually_async, health_of

RELEASES = ("0.11.0.3", "2.1.1", "2.4.1", "3.9.1", "4.3.0")
OLD = ("0.9.0.1", "0.10.0.1")
"""Without CreateTopics: topics of one partition, made by asking for them."""
PARTITIONS = 3  # of each topic that these tests are given


@pytest.fixture(params=RELEASES)
def broker(
    request: pytest.FixtureRequest, real_cluster: Callable[[str], RealCluster]
) -> RealCluster:
    return real_cluster(request.param)


@pytest.fixture(params=OLD)
def old_broker(
    request: pytest.FixtureRequest, real_cluster: Callable[[str], RealCluster]
) -> RealCluster:
    return real_cluster(request.param)


def write(client: Client, topic: str, each: int) -> None:
    partitions = pa.array([at % PARTITIONS for at in range(each * PARTITIONS)], pa.int32())
    client.produce(topic, pa.table({"value": [b"x"] * len(partitions), "partition": partitions}))


@asynccontextmanager
async def member(broker: RealCluster, topic: str, **options: Any) -> AsyncIterator[Polling]:
    """A member of the topic's group."""
    classic = {"heartbeat_interval_ms": 100, "session_timeout_ms": 10_000}
    async with AsyncConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        group_id=f"{topic}-members",
        auto_offset_reset="earliest",
        **(options if options.get("group_protocol") == "consumer" else {**classic, **options}),
    ) as consumer:
        consumer.subscribe([topic])
        polling = Polling(consumer)
        try:
            yield polling
        finally:
            await polling.stop()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
async def test_members_share_and_read_each_record_once(
    broker: RealCluster, client: Client, topic: str, strategy: str
) -> None:
    how = {"partition_assignment_strategy": strategy}
    await asyncio.to_thread(write, client, topic, 10)
    async with member(broker, topic, **how) as first:
        await eventually_async(lambda: first.read.total() == 10 * PARTITIONS)
        async with member(broker, topic, **how) as second, member(broker, topic, **how) as third:
            await evenly_shared(PARTITIONS, first, second, third)
            every = (first, second, third)
            await asyncio.to_thread(write, client, topic, 10)
            await eventually_async(
                lambda: sum(one.read.total() for one in every) == 20 * PARTITIONS
            )
        await evenly_shared(PARTITIONS, first)
        await first.consumer.commit()
        found = await asyncio.to_thread(
            client.committed_offsets,
            f"{topic}-members",
            [TopicPartition(topic, at) for at in range(PARTITIONS)],
        )
    assert {at.offset for at in found.values() if at is not None} == {20}
    assert set((first.read + second.read + third.read).values()) == {1}


@pytest.mark.parametrize("modern", [pytest.param("4.0.0", marks=pytest.mark.matrix), "4.3.0"])
async def test_members_of_the_consumer_protocol_share_and_read_each_record_once(
    modern: str, real_cluster: Callable[[str], RealCluster], topic_name: str
) -> None:
    broker = real_cluster(modern)
    how = {"group_protocol": "auto"}
    with Client(bootstrap_servers=broker.bootstrap_servers) as client:
        await asyncio.to_thread(
            client.create_topics, [NewTopic(topic_name, num_partitions=PARTITIONS)]
        )
        await asyncio.to_thread(write, client, topic_name, 10)
        async with member(broker, topic_name, **how) as first:
            await eventually_async(lambda: first.read.total() == 10 * PARTITIONS)
            async with member(broker, topic_name, **how) as second:
                await eventually_async(
                    lambda: sorted([len(first.owned), len(second.owned)]) == [1, 2]
                )
                await asyncio.to_thread(write, client, topic_name, 10)
                await eventually_async(
                    lambda: first.read.total() + second.read.total() == 20 * PARTITIONS
                )
            await evenly_shared(PARTITIONS, first)
            await first.consumer.commit()
            (described,) = (
                await asyncio.to_thread(client.describe_groups, [f"{topic_name}-members"])
            ).values()
    assert described.type == "consumer"
    assert set((first.read + second.read).values()) == {1}


async def test_on_old_brokers_the_second_takes_over_from_the_first(
    old_broker: RealCluster, topic_name: str
) -> None:
    rows = pa.table({"value": [b"x"] * 10})
    with Client(bootstrap_servers=old_broker.bootstrap_servers) as client:
        await asyncio.to_thread(
            client.produce, topic_name, rows, options=ProduceOptions(allow_auto_create_topics=True)
        )
        async with member(old_broker, topic_name) as first:
            await eventually_async(lambda: first.read.total() == 10)
            async with member(old_broker, topic_name) as second:
                await eventually_async(lambda: health_of(second.consumer).state == "stable")
                await evenly_shared(1, first, second)
                leaving, staying = (first, second) if first.owned else (second, first)
                await leaving.stop()
                await leaving.consumer.close()
                await evenly_shared(1, staying)
                await asyncio.to_thread(client.produce, topic_name, rows)
                await eventually_async(lambda: first.read.total() + second.read.total() == 20)
    assert set((first.read + second.read).values()) == {1}
