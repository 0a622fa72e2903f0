"""Offsets of a group in a transaction whose call is cancelled, or that ends meanwhile, in virtual
time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pyarrow as pa
import pytest

from parley.client import AsyncClient, AsyncTransactionProducer, TopicPartition
from parley.client.transactions.state import State
from parley.messages import FindCoordinatorRequest
from parley.versions import VersionRange

from .members_in_time import World

TOPIC, NAME = "t", "tx"
FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
ROWS = pa.table({"value": ["x"]})
LATE_MS = 2_000


@pytest.fixture(params=["2.4", "3.9", "4.1"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Two brokers, so that a group may have another coordinator than the transaction."""
    made = World(request.param)
    made.cluster.create_topic(TOPIC, 2)
    yield made
    made.close()


async def coordinator(client: AsyncClient, key: str, kind: int) -> int:
    asked = FindCoordinatorRequest(key=key, key_type=kind)
    return int((await client.request(None, asked, allowed=VersionRange(1, 3))).node_id)


@asynccontextmanager
async def writing(
    world: World,
) -> AsyncIterator[tuple[AsyncClient, AsyncTransactionProducer, str]]:
    """Yield a producer that has committed offset 5 of a group, whose coordinator is another."""
    async with world.client() as client, client.transactions.producer(NAME) as producer:
        async with producer.transaction():
            await producer.produce(TOPIC, ROWS)
        mine = await coordinator(client, NAME, 1)
        group = "g"
        while await coordinator(client, group, 0) == mine:
            group += "g"
        async with producer.transaction():
            await producer.send_offsets_to_transaction({FIRST: 5}, group)
        await world.time.clock.sleep_ms(1_000)
        yield client, producer, group


async def committed(client: AsyncClient, group: str) -> list[int]:
    found = await client.committed_offsets(group, [FIRST, SECOND])
    return [-1 if at is None else at.offset for at in found.values()]


def test_offsets_of_a_call_that_was_cancelled_are_not_of_the_next_transaction(
    world: World,
) -> None:
    async def work() -> None:
        async with writing(world) as (client, producer, group):
            world.cluster.faults.delay("TxnOffsetCommit", LATE_MS, times=1)

            async def cancelled() -> None:
                async with producer.transaction():
                    await producer.send_offsets_to_transaction({FIRST: 77}, group)

            task = asyncio.ensure_future(cancelled())
            await world.time.clock.sleep_ms(300)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert producer.state is State.READY
            async with producer.transaction():
                await producer.send_offsets_to_transaction({SECOND: 10}, group)
                await world.time.clock.sleep_ms(2 * LATE_MS)
            await world.time.clock.sleep_ms(1_000)
            assert await committed(client, group) == [5, 10]

    world.time.run(work())


@pytest.mark.parametrize("fails", [False, True])
def test_a_commit_waits_for_offsets_that_another_task_sends(world: World, *, fails: bool) -> None:
    async def work() -> None:
        async with writing(world) as (client, producer, group):
            await producer.begin_transaction()
            world.cluster.faults.delay("TxnOffsetCommit", LATE_MS, times=1)
            if fails:
                world.cluster.faults.fail("TxnOffsetCommit", "GROUP_AUTHORIZATION_FAILED")
            sending = asyncio.ensure_future(
                producer.send_offsets_to_transaction({FIRST: 77}, group)
            )
            await world.time.clock.sleep_ms(300)
            ending = asyncio.ensure_future(producer.commit_transaction())
            found = await asyncio.gather(sending, ending, return_exceptions=True)
            assert [type(one).__name__ for one in found] == (
                ["GroupAuthorizationFailedError", "TransactionAbortableError"]
                if fails
                else ["NoneType", "NoneType"]
            )
            if fails:
                await producer.abort_transaction()
            await world.time.clock.sleep_ms(1_000)
            assert await committed(client, group) == [5 if fails else 77, -1]

    world.time.run(work())


def test_an_abort_waits_for_no_coordinator_that_cannot_be_reached(world: World) -> None:
    async def work() -> None:
        async with writing(world) as (_, producer, group):
            world.cluster.faults.fail("TxnOffsetCommit", "NOT_COORDINATOR", times=-1)
            await producer.begin_transaction()
            sending = asyncio.ensure_future(
                producer.send_offsets_to_transaction({FIRST: 77}, group)
            )
            await world.time.clock.sleep_ms(5_000)
            began_ms = world.time.clock.now_ms()
            sending.cancel()
            await producer.abort_transaction()
            assert world.time.clock.now_ms() - began_ms <= 1_000

    world.time.run(work())
