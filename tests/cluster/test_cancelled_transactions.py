"""Blocks of transactions that are cancelled anywhere, in virtual time: each is there as a whole or
not at all, with its offsets, and the producer goes on.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pyarrow as pa
import pytest

from parley import AsyncProducer, TopicPartition
from parley.client import (
    EARLIEST,
    LATEST,
    AsyncClient,
    AsyncTransactionProducer,
    FetchOptions,
)
from parley.client.transactions.state import State

from .members_in_time import World

TOPIC, GROUP = "t", "g"
TPS = [TopicPartition(TOPIC, at) for at in range(2)]
COMMITTED = FetchOptions(isolation_level="read_committed")
SLOW = ["EndTxn", "Produce", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit"]


class Blocks:
    """Blocks numbered from 1, and what is known of each."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.rng = world, random.Random(seed)
        self.ended: set[int] = set()
        self.aborted: set[int] = set()
        self.offsets: dict[int, TopicPartition] = {}

    async def run(self, client: AsyncClient, count: int) -> None:
        """Run blocks of records or of rows, of which many are cancelled."""
        by_records = self.rng.random() < 0.5
        producer = (
            AsyncProducer(client, transactional_id="tx")
            if by_records
            else client.transactions.producer("tx")
        )
        async with producer:
            state: Callable[[], State] = (
                (lambda: producer._core.transactions.state)  # type: ignore[union-attr]
                if isinstance(producer, AsyncProducer)
                else (lambda: producer.state)
            )
            for number in range(1, count + 1):
                if self.rng.random() < 0.2:
                    api, delay_ms = self.rng.choice(SLOW), self.rng.randrange(50, 400)
                    self.world.cluster.faults.delay(api, delay_ms, times=2)
                block = asyncio.ensure_future(self.block(producer, number))
                if self.rng.random() < 0.7:
                    await self.cancel(block)
                try:
                    await block
                    self.ended.add(number)
                except asyncio.CancelledError:
                    if state() is State.COMMITTING:  # it may have arrived: it is asked for again
                        await producer.commit_transaction()
                    elif state() is not State.READY:
                        self.aborted.add(number)

    async def block(self, producer: AsyncProducer | AsyncTransactionProducer, number: int) -> None:
        """Write a number some times, and a group's offsets."""
        async with producer.transaction():
            for _ in range(self.rng.randrange(1, 4)):
                if isinstance(producer, AsyncProducer):
                    await producer.send(TOPIC, b"%d" % number)
                else:
                    await producer.produce(TOPIC, pa.table({"value": [b"%d" % number] * 2}))
            if self.rng.random() < 0.4:
                tp = self.offsets[number] = self.rng.choice(TPS)
                await producer.send_offsets_to_transaction({tp: number}, GROUP)

    async def cancel(self, block: asyncio.Task[None]) -> None:
        """Cancel it somewhere, at times while it is aborted as well."""
        for _ in range(1 + (self.rng.random() < 0.3)):
            for _ in range(self.rng.randrange(60)):
                await asyncio.sleep(0)
            if self.rng.random() < 0.5:
                await self.world.time.clock.sleep_ms(self.rng.randrange(200))
            block.cancel()

    async def check(self, client: AsyncClient) -> None:
        """Hold what readers see against what is known."""
        await self.world.time.clock.sleep_ms(3_000)
        seen: set[int] = set()
        for tp in TPS:
            async for batch in client.fetch(tp, EARLIEST, LATEST, COMMITTED):
                seen |= set(map(int, batch.column("value").to_pylist()))
        assert self.ended <= seen
        assert not self.aborted & seen
        last = {tp: number for number, tp in sorted(self.offsets.items()) if number in seen}
        found = await client.committed_offsets(GROUP, TPS)
        assert {tp: at.offset for tp, at in found.items() if at is not None} == last


@pytest.mark.parametrize("release", ["2.4", "3.9", "4.1"])
@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 40))]
)
def test_a_block_that_is_cancelled_is_there_as_a_whole_or_not_at_all(
    release: str, seed: int
) -> None:
    world = World(release)
    world.cluster.create_topic(TOPIC, len(TPS))
    blocks = Blocks(world, seed)

    async def work() -> None:
        async with world.client() as client:
            await blocks.run(client, 20)
            await blocks.check(client)

    try:
        world.time.run(work())
    finally:
        world.close()
