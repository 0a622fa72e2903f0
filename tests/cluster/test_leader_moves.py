"""A leader move on the clock of a world without real time: which brokers are
asked, and how long it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from parley.client import AsyncClient, AsyncConsumer, ProduceOptions, TopicPartition
from parley.devcluster import AsyncLocalCluster
from parley_laboratory.virtual import VirtualTime

TOPIC = "t"
WHOLE_MOVE_MS = 500
"""librdkafka's bound for a move with KIP-951 (its test 0146), on its own clock."""


class Moving:
    """Four brokers, a topic of two partitions, a writer and a reader that know their leaders."""

    def __init__(self, release: str) -> None:
        self.time = VirtualTime(951)
        self.cluster = AsyncLocalCluster(
            4, release, clock=self.time.clock, seed=1, backend=self.time.network
        )
        self.time.run(self.cluster.start())
        self.cluster.create_topic(TOPIC, 2, 4)
        injected: dict[str, Any] = {
            "backend": self.time.network,
            "clock": self.time.clock,
            "rng": self.time.rng,
        }
        self.client = AsyncClient(bootstrap_servers=self.cluster.bootstrap_servers, **injected)
        self.consumer = AsyncConsumer(
            self.client, auto_offset_reset="earliest", fetch_max_wait_ms=100
        )
        self.time.run(self._begin())
        self.written = 0
        self.write_and_read()

    async def _begin(self) -> None:
        await self.client.start()
        await self.consumer.start()
        self.consumer.assign([TopicPartition(TOPIC, index) for index in range(2)])

    def write_and_read(self) -> None:
        """Write a value to each partition and read both."""
        rows = pa.table(
            {"value": [str(self.written)] * 2, "partition": pa.array([0, 1], pa.int32())}
        )
        self.written += 1
        self.time.run(
            self.client.produce(TOPIC, rows, options=ProduceOptions(delivery_timeout_ms=60_000))
        )
        self.time.run(self._read())

    async def _read(self) -> None:
        left = {TopicPartition(TOPIC, index) for index in range(2)}
        while left:
            left -= set(await self.consumer.getmany(timeout_ms=60_000))

    def leaders(self) -> dict[int, int]:
        """Return the leader of each partition."""
        return {index: leader for index, (leader, _) in self.cluster.leaders(TOPIC).items()}

    def move(self, *partitions: int) -> dict[int, int]:
        """Move these leaders to the next broker at once; return the new leaders."""
        for index in partitions:
            self.cluster.move_leader(TOPIC, index, self.leaders()[index] % 4 + 1)
        self.cluster.clear_requests()
        return self.leaders()

    def asked(self, api: str) -> set[int]:
        """Return the brokers that were asked since the move."""
        return {entry.broker for entry in self.cluster.requests(api)}

    def close(self) -> None:
        """End it."""
        self.time.run(self.consumer.stop())
        self.time.run(self.client.close())
        self.time.run(self.cluster.close())
        self.time.close()


@pytest.fixture
def moving() -> Iterator[Callable[[str], Moving]]:
    made: list[Moving] = []

    def begin(release: str) -> Moving:
        made.append(Moving(release))
        return made[-1]

    yield begin
    for one in made:
        one.close()


@pytest.mark.parametrize("partitions", [(0,), (0, 1)], ids=["one move", "two at once"])
def test_k11_a_move_is_followed_within_half_a_second_and_by_one_refresh(
    moving: Callable[[str], Moving], partitions: tuple[int, ...]
) -> None:
    world = moving("4.3")
    for _ in range(5):
        leaders = world.move(*partitions)
        began_ms = world.time.clock.now_ms()
        world.write_and_read()
        assert world.time.clock.now_ms() - began_ms < WHOLE_MOVE_MS
        for index in partitions:
            assert leaders[index] in world.asked("Produce")
            assert leaders[index] in world.asked("Fetch")
        assert len(world.cluster.requests("Metadata")) <= len(partitions)
        world.time.advance(1_000)
        assert len(world.cluster.requests("Metadata")) <= len(partitions)


@pytest.mark.parametrize("release", ["2.4", "2.8", "3.6"])
def test_without_hints_a_move_costs_no_more_than_one_refresh_either(
    moving: Callable[[str], Moving], release: str
) -> None:
    world = moving(release)
    for _ in range(5):
        world.move(0)
        world.write_and_read()
        assert len(world.cluster.requests("Metadata")) <= 1
        world.time.advance(5_000)
        assert len(world.cluster.requests("Metadata")) <= 1
