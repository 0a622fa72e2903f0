"""Brokers away for seconds and minutes of a clock that is moved on: what clients, consumers and
producers outlive.

The same with Spark jobs, and in real time beside Spark's own connector: `tests/outage`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from parley.client import EARLIEST, LATEST, AsyncClient, AsyncConsumer, NewTopic, TopicPartition
from parley.devcluster.cluster import AsyncLocalCluster
from parley.errors import BrokersUnreachable, KafkaError, NetworkError, RequestTimedOut
from parley.net import AdvancingClock
from parley.net.clock import settle

from ..support import GENEROUS_S

TP = TopicPartition("t", 0)
STEP_MS = 500
BROKERS = 3
ROWS = pa.table({"value": ["a", "b"]})


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[AsyncLocalCluster]:
    async with AsyncLocalCluster(brokers=BROKERS, release="3.9", data_dir=tmp_path) as running:
        running.create_topic("t", partitions=1, replication_factor=BROKERS)
        yield running


async def down(cluster: AsyncLocalCluster, brokers: int = BROKERS) -> list[int]:
    """Kill so many brokers, the leader of the partition first; return their ids."""
    leader = cluster.leaders("t")[0][0]
    ids = sorted(range(1, BROKERS + 1), key=lambda broker_id: broker_id != leader)[:brokers]
    for broker_id in ids:
        await cluster.kill_broker(broker_id)
    return ids


async def pass_time(
    clock: AdvancingClock, seconds: float, task: asyncio.Future[Any] | None = None
) -> None:
    """Let time go by; a task that is given goes on all the while."""
    for _ in range(int(seconds * 1000 / STEP_MS)):
        await step(clock)
    if task is not None:
        assert not task.done(), "it gave up, or did not notice the outage"


async def step(clock: AdvancingClock) -> None:
    """Move the clock on, and let connections that are being opened come to their end:
    sockets have no such clock.
    """
    await clock.advance(STEP_MS)
    while opening := [
        task for task in asyncio.all_tasks() if "open_connection" in repr(task.get_coro())
    ]:
        await asyncio.wait(opening)


async def outlives(
    cluster: AsyncLocalCluster,
    clock: AdvancingClock,
    seconds: float,
    work: Callable[[], Awaitable[Any]],
) -> Any:
    """Return what `work` returns when all brokers are away for a while that begins just before."""
    ids = await down(cluster)
    task = asyncio.ensure_future(work())
    await pass_time(clock, seconds, task)
    for broker_id in ids:
        await cluster.start_broker(broker_id)
    return await ended(clock, task)


async def ended(clock: AdvancingClock, task: asyncio.Future[Any]) -> Any:
    """Return what becomes of a task, without waiting for its pauses."""
    async with asyncio.timeout(GENEROUS_S):
        while not task.done():
            await step(clock)
    return await task


async def rows(client: AsyncClient) -> int:
    return sum([batch.num_rows async for batch in client.fetch(TP, EARLIEST, LATEST)])


CALLS: dict[str, Callable[[AsyncClient], Awaitable[Any]]] = {
    "metadata": lambda client: client.metadata(["t"]),
    "metadata of all": lambda client: client.metadata(),
    "list_offsets": lambda client: client.list_offsets({TP: LATEST}),
    "offsets_for_leader_epochs": lambda client: client.offsets_for_leader_epochs({TP: 0}),
    "committed_offsets": lambda client: client.committed_offsets("g", [TP]),
    "create_topics": lambda client: client.create_topics([NewTopic("other")]),
    "produce": lambda client: client.produce("t", ROWS),
    "fetch": rows,
}


@pytest.mark.parametrize("seconds", [0.5, 5, 50])
@pytest.mark.parametrize("call", CALLS)
async def test_a_client_that_has_worked_once_outlives_all_brokers(
    cluster: AsyncLocalCluster, call: str, seconds: float
) -> None:
    clock = AdvancingClock()
    async with AsyncClient(bootstrap_servers=cluster.bootstrap_servers, clock=clock) as client:
        await client.produce("t", ROWS)
        found = await outlives(cluster, clock, seconds, lambda: CALLS[call](client))
        assert found or call == "create_topics"


@pytest.mark.parametrize("call", [name for name in CALLS if name != "produce"])
async def test_a_call_ends_at_its_deadline_with_what_stood_in_its_way(
    cluster: AsyncLocalCluster, call: str
) -> None:
    clock = AdvancingClock()
    options = {"default_api_timeout_ms": 20_000, "request_timeout_ms": 5_000}
    async with AsyncClient(
        bootstrap_servers=cluster.bootstrap_servers, clock=clock, **options
    ) as client:
        await client.produce("t", ROWS)
        await down(cluster)
        began = clock.now_ms()
        with pytest.raises(
            NetworkError, match=r"127.0.0.1:\d+: the connection was refused"
        ) as caught:
            await ended(clock, asyncio.ensure_future(CALLS[call](client)))
        assert 15_000 <= clock.now_ms() - began <= 30_000
        assert "gave up after" in "".join(caught.value.__notes__)


async def test_what_is_produced_waits_until_the_delivery_timeout(
    cluster: AsyncLocalCluster,
) -> None:
    clock = AdvancingClock()
    async with AsyncClient(bootstrap_servers=cluster.bootstrap_servers, clock=clock) as client:
        await client.produce("t", ROWS)
        result = await outlives(cluster, clock, 110, lambda: client.produce("t", ROWS))
        assert (result.records, result.partitions[TP].base_offset) == (2, 2), "once each"
        await down(cluster)
        began = clock.now_ms()
        with pytest.raises(RequestTimedOut, match="delivery_timeout_ms"):
            await ended(clock, asyncio.ensure_future(client.produce("t", ROWS)))
        assert 119_000 <= clock.now_ms() - began <= 125_000


async def test_a_topic_is_not_called_missing_while_no_broker_can_be_asked(
    cluster: AsyncLocalCluster,
) -> None:
    clock = AdvancingClock()
    cluster.create_topic("new", partitions=1)
    async with AsyncClient(bootstrap_servers=cluster.bootstrap_servers, clock=clock) as client:
        result = await outlives(cluster, clock, 50, lambda: client.produce("new", ROWS))
        assert result.records == 2


@pytest.mark.parametrize("group", [None, "g"])
async def test_a_consumer_waits_through_any_outage(
    cluster: AsyncLocalCluster, group: str | None
) -> None:
    clock = AdvancingClock()
    async with (
        AsyncClient(bootstrap_servers=cluster.bootstrap_servers, clock=clock) as client,
        AsyncConsumer(client, group_id=group, auto_offset_reset="earliest") as consumer,
    ):
        await client.produce("t", pa.table({"value": ["a"]}))
        consumer.assign([TP])  # where it begins is looked up in the outage
        assert (await outlives(cluster, clock, 300, consumer.getone)).value == b"a"
        task = asyncio.ensure_future(outlives(cluster, clock, 300, consumer.getone))
        await until(lambda: not any(broker.running for broker in cluster.brokers))
        await until(lambda: all(broker.running for broker in cluster.brokers))
        await client.produce("t", pa.table({"value": ["b"]}))
        assert (await task).value == b"b"
        assert consumer.data_losses == ()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(GENEROUS_S):
        while not condition():
            await settle(1)


async def test_a_transaction_is_committed_after_an_outage(cluster: AsyncLocalCluster) -> None:
    clock = AdvancingClock()
    async with (
        AsyncClient(bootstrap_servers=cluster.bootstrap_servers, clock=clock) as client,
        client.transactions.producer("outage") as producer,
    ):
        for _ in range(2):
            await producer.begin_transaction()
            await producer.produce("t", ROWS)
            await outlives(cluster, clock, 50, producer.commit_transaction)
        assert await rows(client) == 4


@pytest.mark.parametrize("brokers", [1, 2])
async def test_no_call_fails_while_one_broker_is_left(
    cluster: AsyncLocalCluster, brokers: int
) -> None:
    clock = AdvancingClock()
    async with AsyncClient(bootstrap_servers=cluster.bootstrap_servers, clock=clock) as client:
        await client.produce("t", ROWS)
        await down(cluster, brokers)
        for call in CALLS.values():
            await ended(clock, asyncio.ensure_future(call(client)))


async def test_a_first_connection_fails_at_once_and_says_where(cluster: AsyncLocalCluster) -> None:
    servers = cluster.bootstrap_servers
    await down(cluster)
    clock = AdvancingClock()
    with pytest.raises(BrokersUnreachable, match="refused"):
        await AsyncClient(bootstrap_servers=servers, clock=clock).start()


async def test_a_first_connection_is_tried_for_as_long_as_it_is_asked_to(
    cluster: AsyncLocalCluster,
) -> None:
    clock = AdvancingClock()
    client = AsyncClient(
        bootstrap_servers=cluster.bootstrap_servers, bootstrap_timeout_ms=60_000, clock=clock
    )
    await outlives(cluster, clock, 50, client.start)
    await client.close()
    servers = cluster.bootstrap_servers
    await down(cluster)
    client = AsyncClient(bootstrap_servers=servers, bootstrap_timeout_ms=60_000, clock=clock)
    began = clock.now_ms()
    with pytest.raises(BrokersUnreachable, match="refused"):
        await ended(clock, asyncio.ensure_future(client.start()))
    assert 55_000 <= clock.now_ms() - began <= 70_000


async def test_names_that_nobody_knows_are_reported_at_once_however_long_is_asked_for() -> None:
    client = AsyncClient(
        bootstrap_servers="no-such-host.invalid:9092", bootstrap_timeout_ms=600_000
    )
    with pytest.raises(KafkaError, match="cannot be resolved"):
        await asyncio.wait_for(client.start(), 60)
