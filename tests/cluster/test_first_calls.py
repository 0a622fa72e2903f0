"""The first calls of a client share its start: none takes it along when it is cancelled or late."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from parley import AsyncProducer
from parley.client import AsyncClient
from parley.devcluster.faults.faults import EVERY_TIME
from parley.errors import BrokersUnreachable, LocalProtocolError, RequestTimedOut

from .members_in_time import World

SLOW_MS = 500


@pytest.fixture
def world() -> Iterator[World]:
    made = World("4.1")
    made.cluster.create_topic("t", partitions=1)
    made.cluster.faults.delay("ApiVersions", SLOW_MS, times=EVERY_TIME)
    yield made
    made.cluster.faults.clear()
    made.close()


async def begun(world: World, *timeouts_ms: int) -> tuple[AsyncClient, list[asyncio.Task[object]]]:
    """Return a client, and its first calls: each has begun."""
    client = world.client()
    calls = [asyncio.ensure_future(client.list_groups(timeout_ms=ms)) for ms in timeouts_ms]
    await world.time.clock.sleep_ms(SLOW_MS // 5)
    return client, list(calls)


def test_a_call_that_is_cancelled_leaves_the_start_to_the_others(world: World) -> None:
    async def work() -> None:
        client, (first, second) = await begun(world, 60_000, 60_000)
        first.cancel()
        assert await second == []
        assert first.cancelled()
        await client.close()

    world.time.run(work())


@pytest.mark.parametrize("timeouts_ms", [(200, 60_000), (60_000, 200)])
def test_each_call_waits_for_the_start_as_long_as_it_may(
    world: World, timeouts_ms: tuple[int, int]
) -> None:
    async def work() -> None:
        began_ms = world.time.clock.now_ms()
        client, calls = await begun(world, *timeouts_ms)
        brief, patient = sorted(calls, key=lambda call: timeouts_ms[calls.index(call)])
        with pytest.raises(RequestTimedOut):
            await brief
        assert world.time.clock.now_ms() - began_ms <= 250
        assert await patient == []
        await client.close()

    world.time.run(work())


def test_what_fails_for_the_first_call_fails_for_those_who_wait_with_it(world: World) -> None:
    async def work() -> None:
        world.cluster.faults.clear()
        world.cluster.faults.cut("ApiVersions", times=EVERY_TIME)
        client = world.client()
        calls = [client.list_groups() for _ in range(3)]
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(one) for one in found} == {BrokersUnreachable}
        assert len({id(one) for one in found}) == 3
        assert len(world.cluster.requests("ApiVersions")) <= 4  # two brokers, each twice
        await client.close()

    world.time.run(work())


def test_where_all_are_cancelled_nothing_is_left_and_the_next_begins_again(world: World) -> None:
    async def work() -> None:
        client, calls = await begun(world, 60_000, 60_000)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await world.time.clock.sleep_ms(2 * SLOW_MS)
        assert not world.cluster.requests("Metadata")
        assert await client.list_groups() == []
        await client.close()

    world.time.run(work())


def test_a_client_that_is_closed_while_it_starts_says_so_to_those_who_wait(world: World) -> None:
    async def work() -> None:
        client, calls = await begun(world, 60_000, 60_000)
        await client.close()
        for call in calls:
            with pytest.raises(LocalProtocolError, match="closed"):
                await call

    world.time.run(work())


def test_several_tasks_start_a_producer_once(world: World) -> None:
    async def work() -> None:
        async with world.client() as client:
            rows, records = (
                client.transactions.producer("rows"),
                AsyncProducer(client, transactional_id="records"),
            )
            for producer in (rows, records):
                world.cluster.clear_requests()
                await asyncio.gather(*(producer.start() for _ in range(5)))
                assert len(world.cluster.requests("InitProducerId")) == 1
            async with records.transaction():
                await records.send_and_wait("t", b"v")
            await records.close()

    world.time.run(work())


def test_a_producer_that_is_closed_while_it_starts_stays_closed(world: World) -> None:
    async def work() -> None:
        async with world.client() as client:
            producer = AsyncProducer(client, transactional_id="tx")
            world.cluster.faults.delay("InitProducerId", SLOW_MS)
            starting = asyncio.ensure_future(producer.start())
            while not world.cluster.requests("InitProducerId"):
                await world.time.clock.sleep_ms(10)
            await producer.close()
            with pytest.raises(LocalProtocolError, match="closed"):
                await starting
            with pytest.raises(LocalProtocolError, match="closed"):
                await producer.send("t", b"v")

    world.time.run(work())
