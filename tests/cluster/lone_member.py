"""One member of a group in virtual time, on brokers of one release; others may join it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa

from parley.client import AsyncClient, AsyncConsumer, ConsumerRebalanceListener, TopicPartition
from parley.devcluster import AsyncLocalCluster, ClusterSettings
from parley.messages import ConsumerGroupHeartbeatRequest
from parley_laboratory.virtual import VirtualTime

GROUP, TOPIC, PARTITIONS = "readers", "shared", 2
TP = TopicPartition(TOPIC, 0)
EVERYTHING = [f"{TOPIC}-{at}" for at in range(PARTITIONS)]
CLASSIC = {
    "session_timeout_ms": 6_000, "heartbeat_interval_ms": 1_000,
    "partition_assignment_strategy": "cooperative-sticky"
}  # fmt: skip
MODERN = {"group_protocol": "consumer"}
SETTINGS = ClusterSettings(start_time_ms=1_700_000_000_000, auto_create_topics=False)


class After(NamedTuple):
    """What became of a member."""

    id_kept: bool = True
    lost: bool = False
    joined: bool = False
    found: bool = False
    """Whether the coordinator was looked up again."""


class Seen(ConsumerRebalanceListener):
    """Keeps what it was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[str]]] = []

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self.calls.append(("assigned", [str(tp) for tp in assigned]))

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self.calls.append(("revoked", [str(tp) for tp in revoked]))

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self.calls.append(("lost", [str(tp) for tp in lost]))


class Slow(ConsumerRebalanceListener):
    """Keeps what it was called with, and returns when `open` lets it."""

    def __init__(self, *held: str) -> None:
        self.calls: list[tuple[str, list[str]]] = []
        self._held = held
        self._gate = asyncio.Event()

    def open(self) -> None:
        """Let calls return, from now on."""
        self._gate.set()

    async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        await self._called("assigned", assigned)

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        await self._called("revoked", revoked)

    async def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        await self._called("lost", lost)

    async def _called(self, what: str, partitions: list[TopicPartition]) -> None:
        self.calls.append((what, [str(tp) for tp in partitions]))
        if what in self._held:
            await self._gate.wait()


class Lone:
    """A group of one member that is stable, unless it is to join later."""

    def __init__(
        self,
        release: str,
        *,
        joins: bool = True,
        settings: ClusterSettings = SETTINGS,
        **how: object,
    ) -> None:
        self.time, self.seen = VirtualTime(1), Seen()
        self.cluster = AsyncLocalCluster(
            2, release, clock=self.time.clock, seed=1, backend=self.time.network, settings=settings
        )
        self.time.run(self.cluster.start())
        self.cluster.create_topic(TOPIC, PARTITIONS)
        self.consumers: list[AsyncConsumer] = []
        self.clients: list[AsyncClient] = []
        if joins:
            self.consumer = self.join(**how)
            self.go_on(4_000)
            assert self.state == "stable"
            self.before = self.consumer.group_metadata()
            self.cluster.clear_requests()

    def client(self, **options: object) -> AsyncClient:
        """Return a client of this world."""
        time = self.time
        made = AsyncClient(
            bootstrap_servers=self.cluster.bootstrap_servers,
            backend=time.network,
            clock=time.clock,
            rng=time.rng,
            **{"client_id": f"c{len(self.clients)}", **options},  # type: ignore[arg-type]
        )
        self.clients.append(made)
        return made

    def join(
        self,
        listener: ConsumerRebalanceListener | None = None,
        client: AsyncClient | None = None,
        **how: object,
    ) -> AsyncConsumer:
        """Start a member that subscribes to the topic."""
        protocol = {} if "group_protocol" in how else CLASSIC
        options = {"group_id": GROUP, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        consumer = AsyncConsumer(
            client or self.client(),
            **{**options, "max_poll_interval_ms": 20_000, **protocol, **how},  # type: ignore[arg-type]
        )
        self.consumers.append(consumer)
        self.time.run(consumer.start())
        self.subscribe(consumer, listener or self.seen)
        return consumer

    def subscribe(
        self,
        consumer: AsyncConsumer,
        listener: ConsumerRebalanceListener,
        topics: tuple[str, ...] = (TOPIC,),
    ) -> None:
        """Let a consumer subscribe."""

        async def subscribing() -> None:
            consumer.subscribe(topics, listener=listener)

        self.time.run(subscribing())

    def stop(self, consumer: AsyncConsumer) -> None:
        """Close a consumer in order."""
        self.consumers.remove(consumer)
        self.time.run(consumer.stop())

    def produce(self, count: int, partition: int = 0, *, at_ms: int | None = None) -> None:
        """Write records, with a time of their own if one is given."""
        columns: dict[str, object] = {"value": ["x"] * count}
        if at_ms is not None:
            columns["timestamp"] = pa.array([at_ms] * count, pa.timestamp("ms"))
        client = self.client()
        self.time.run(client.produce(TOPIC, pa.table(columns), partition))

    @property
    def state(self) -> str:
        """The member's state by its health."""
        health = self.consumer.health()
        return "" if health is None else health.state

    def go_on(self, duration_ms: int) -> int:
        """Let everybody poll for so long; return how many records there were."""
        count = 0
        for _ in range(max(1, duration_ms // 250)):
            for consumer in self.consumers:
                found = self.time.run(consumer.getmany(timeout_ms=0))
                count += sum(map(len, found.values()))
            self.time.advance(250)
        return count

    def polling(self, consumer: AsyncConsumer) -> asyncio.Task[None]:
        """Begin to poll in a task of its own, which a listener may hold up."""

        async def polls() -> None:
            while True:
                await consumer.getmany(timeout_ms=200)

        self.consumers.remove(consumer)
        return self.time.start(polls())

    def after(self) -> After:
        """Say what became of the member, which is stable again."""
        assert self.state == "stable"
        assert len(self.consumer.assignment()) == PARTITIONS
        now, asked = self.consumer.group_metadata(), self.cluster.requests
        lost = any(what == "lost" for what, _ in self.seen.calls)
        kept = now.member_id == self.before.member_id
        return After(kept, lost, bool(asked("JoinGroup")), bool(asked("FindCoordinator")))

    def close(self) -> None:
        """End everything."""
        for client in self.clients:
            self.time.run(client.close())
        self.time.run(self.cluster.close())
        self.time.close()


def beats(one: Lone, client: str = "c0") -> list[ConsumerGroupHeartbeatRequest]:
    """Return the heartbeats of the consumer protocol that a client sent."""
    sent = one.cluster.requests("ConsumerGroupHeartbeat", client_id=client)
    return [
        entry.message for entry in sent if isinstance(entry.message, ConsumerGroupHeartbeatRequest)
    ]


@contextmanager
def lone(
    release: str, *, joins: bool = True, settings: ClusterSettings = SETTINGS, **how: object
) -> Iterator[Lone]:
    """Make a `Lone` and close it."""
    one = Lone(release, joins=joins, settings=settings, **how)
    try:
        yield one
    finally:
        one.close()
