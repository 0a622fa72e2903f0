"""A cluster and members of a group that poll, in virtual time: nobody is late on a busy machine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Concatenate, ParamSpec

import pyarrow as pa

from parley.client import AsyncClient, AsyncConsumer, ConsumerRebalanceListener
from parley.devcluster import AsyncLocalCluster
from parley_laboratory.virtual import VirtualTime

from ..support import Polling, evenly_shared

GROUP, TOPIC, PARTITIONS = "readers", "shared", 4
LOOK_AGAIN_MS, POLL_MS = 50, 100
GIVE_UP_MS = 120_000
OPTIONS: dict[str, object] = {
    "group_id": GROUP,
    "auto_offset_reset": "earliest",
    "heartbeat_interval_ms": 250,
    "session_timeout_ms": 6_000,
}

P = ParamSpec("P")


class World:
    """Two brokers of a release, and the time of their world."""

    def __init__(self, release: str) -> None:
        self.time = VirtualTime(1)
        self.cluster = AsyncLocalCluster(
            2, release, clock=self.time.clock, seed=1, backend=self.time.network
        )
        self.time.run(self.cluster.start())
        self._writer: AsyncClient | None = None

    def client(self) -> AsyncClient:
        """Return a client of this world."""
        time = self.time
        return AsyncClient(
            bootstrap_servers=self.cluster.bootstrap_servers,
            backend=time.network,
            clock=time.clock,
            rng=time.rng,
            metadata_max_age_ms=1_000,
        )

    async def fill(self, each: int, topic: str = TOPIC) -> None:
        """Make the topic where it is not there, and put so many records into each partition."""
        if topic not in self.cluster.state.image.topics:
            self.cluster.create_topic(topic, PARTITIONS)
        if self._writer is None:
            self._writer = await self.client().start()
        partitions = pa.array([at % PARTITIONS for at in range(each * PARTITIONS)], pa.int32())
        table = pa.table({"value": [b"x"] * len(partitions), "partition": partitions})
        await self._writer.produce(topic, table)

    @asynccontextmanager
    async def consumer(
        self, listener: ConsumerRebalanceListener | None = None, **more: object
    ) -> AsyncIterator[AsyncConsumer]:
        """A consumer that has subscribed; the test polls."""
        async with (
            self.client() as client,
            AsyncConsumer(client, **{**OPTIONS, **more}) as consumer,  # type: ignore[arg-type]
        ):
            consumer.subscribe([TOPIC], listener=listener)
            yield consumer

    @asynccontextmanager
    async def member(
        self, listener: ConsumerRebalanceListener | None = None, **more: object
    ) -> AsyncIterator[Polling]:
        """A member of the group that polls."""
        async with self.consumer(listener, **more) as consumer:
            polling = Polling(consumer, POLL_MS)
            try:
                yield polling
            finally:
                await polling.stop()

    async def eventually(self, found: Callable[[], object], what: str = "") -> None:
        """Let time pass until a condition holds."""
        until_ms = self.time.clock.now_ms() + GIVE_UP_MS
        while not found():
            assert self.time.clock.now_ms() < until_ms, f"{what or 'it'} does not come"
            await self.time.clock.sleep_ms(LOOK_AGAIN_MS)

    async def evenly_shared(self, *among: Polling) -> None:
        """Let time pass until each partition is one member's, and shares are even."""
        await evenly_shared(PARTITIONS, *among, eventually=self.eventually)

    def close(self) -> None:
        """End everything."""
        if self._writer is not None:
            self.time.run(self._writer.close())
        self.time.run(self.cluster.close())
        self.time.close()


def in_virtual_time(
    test: Callable[Concatenate[World, P], Coroutine[object, object, None]],
) -> Callable[Concatenate[World, P], None]:
    """Run a test's coroutine in the time of its first argument, a world."""

    @wraps(test)
    def run(world: World, *args: P.args, **named: P.kwargs) -> None:
        world.time.run(test(world, *args, **named))

    return run
