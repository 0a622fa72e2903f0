"""parley's consumers as members of KIP-848 groups of the embedded cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pyarrow as pa
import pytest

from parley.client import (
    AsyncClient,
    AsyncConsumer,
    Client,
    ConsumerRebalanceListener,
    OffsetAndMetadata,
    TopicPartition,
)
from parley.devcluster import ClusterSettings, LocalCluster
from parley.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    KafkaError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)
from parley.net import AdvancingClock

from ..support import Polling, evenly_shared, eventually_async, health_of

GROUP, TOPIC, PARTITIONS = "readers", "shared", 4
QUICK = ClusterSettings(
    group_consumer_heartbeat_interval_ms=50, group_consumer_assignment_interval_ms=0
)
EVERYTHING = list(range(PARTITIONS))


class Watching(ConsumerRebalanceListener):
    """Keeps what it was called with."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, list[int]]] = []

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self.seen.append(("assigned", [tp.partition for tp in assigned]))

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self.seen.append(("revoked", [tp.partition for tp in revoked]))

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self.seen.append(("lost", [tp.partition for tp in lost]))


@contextmanager
def running(release: str) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2, release=release, settings=QUICK) as cluster:
        fill(cluster, 5)
        yield cluster


@pytest.fixture(params=["4.0", "4.1", "4.3"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with running(request.param) as found:
        yield found


@pytest.fixture
def newest() -> Iterator[LocalCluster]:
    with running("4.3") as found:
        yield found


def fill(cluster: LocalCluster, each: int) -> None:
    """Make the topic where it is not there, and put so many records into each of its partitions."""
    if TOPIC not in cluster._cluster.state.image.topics:
        cluster.create_topic(TOPIC, PARTITIONS)
    partitions = pa.array([at % PARTITIONS for at in range(each * PARTITIONS)], pa.int32())
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        client.produce(
            TOPIC, pa.table({"value": [b"x"] * len(partitions), "partition": partitions})
        )


def options(cluster: LocalCluster) -> dict[str, Any]:
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": GROUP,
        "group_protocol": "consumer",
        "auto_offset_reset": "earliest",
        "metadata_max_age_ms": 100,
    }


@asynccontextmanager
async def member(
    cluster: LocalCluster, listener: ConsumerRebalanceListener | None = None, **more: Any
) -> AsyncIterator[Polling]:
    """A member of the group that polls."""
    async with AsyncConsumer(**{**options(cluster), **more}) as consumer:
        consumer.subscribe([TOPIC], listener=listener)
        polling = Polling(consumer)
        try:
            yield polling
        finally:
            await polling.stop()


async def polls(consumer: AsyncConsumer) -> None:
    """Poll until a poll raises."""
    while True:
        await consumer.getmany(timeout_ms=50)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
async def test_members_share_a_topic_and_read_each_record_once(
    cluster: LocalCluster, assignor: str
) -> None:
    how = {"group_remote_assignor": assignor}
    async with member(cluster, **how) as first:
        await eventually_async(lambda: first.read.total() == 5 * PARTITIONS)
        async with member(cluster, **how) as second:
            await evenly_shared(PARTITIONS, first, second)
            await asyncio.to_thread(fill, cluster, 5)
            await eventually_async(
                lambda: first.read.total() + second.read.total() == 10 * PARTITIONS
            )
        await evenly_shared(PARTITIONS, first)
        await asyncio.to_thread(fill, cluster, 5)
        await eventually_async(lambda: first.read.total() + second.read.total() == 15 * PARTITIONS)
        assert set((first.read + second.read).values()) == {1}
        health = first.consumer.health()
        assert health is not None
        assert (health.state, health.assigned) == ("stable", PARTITIONS)
        assert health.rebalances >= 3


async def test_g52_members_keep_what_they_keep(newest: LocalCluster) -> None:
    first = Watching()
    async with member(newest, first) as one:
        await evenly_shared(PARTITIONS, one)
        async with member(newest) as two:
            await evenly_shared(PARTITIONS, one, two)
            gave = sorted(two.owned)
        await evenly_shared(PARTITIONS, one)
    calls = [call for call in first.seen if call != ("assigned", [])]
    assert calls[:2] == [("assigned", EVERYTHING), ("revoked", gave)]
    assert (
        sorted(part for what, parts in calls[2:-1] for part in parts if what == "assigned") == gave
    )
    assert calls[-1] == ("revoked", EVERYTHING)


@pytest.mark.parametrize("code", [110, 25])
async def test_g54_a_fenced_member_loses_its_partitions_and_joins_again(
    newest: LocalCluster, code: int
) -> None:
    watching = Watching()
    async with member(newest, watching) as one:
        await evenly_shared(PARTITIONS, one)
        newest.faults.fail("ConsumerGroupHeartbeat", code, times=1)
        await eventually_async(lambda: ("lost", EVERYTHING) in watching.seen)
        await evenly_shared(PARTITIONS, one)
        assert watching.seen[-1][0] == "assigned"


@pytest.mark.parametrize("code", [14, 15, 16])
async def test_what_may_pass_costs_nothing(newest: LocalCluster, code: int) -> None:
    watching = Watching()
    newest.faults.fail("ConsumerGroupHeartbeat", code, times=2)
    async with member(newest, watching) as one:
        await evenly_shared(PARTITIONS, one)
        newest.faults.fail("ConsumerGroupHeartbeat", code, times=3)
        newest.clear_requests()
        await eventually_async(lambda: len(newest.requests("ConsumerGroupHeartbeat")) >= 6)
        assert watching.seen == [("assigned", EVERYTHING)]


async def test_members_outlive_the_move_of_their_coordinator(newest: LocalCluster) -> None:
    watching = Watching()
    async with member(newest, watching) as one:
        await evenly_shared(PARTITIONS, one)
        before = one.consumer.group_metadata()
        for to in (1, 2, 1):
            newest.move_group_coordinator(GROUP, to)
            newest.clear_requests()
            await eventually_async(lambda: len(newest.requests("ConsumerGroupHeartbeat")) >= 4)
        assert one.consumer.group_metadata() == before
        await one.consumer.commit()
        assert watching.seen == [("assigned", EVERYTHING)]


async def test_g55_a_poll_that_comes_too_late_finds_its_partitions_lost(
    newest: LocalCluster,
) -> None:
    clock, watching = AdvancingClock(), Watching()
    async with AsyncClient(bootstrap_servers=newest.bootstrap_servers, clock=clock) as client:
        own = {
            name: options(newest)[name]
            for name in ("group_id", "group_protocol", "auto_offset_reset")
        }
        async with AsyncConsumer(client, max_poll_interval_ms=60_000, **own) as consumer:
            consumer.subscribe([TOPIC], listener=watching)
            await consumer.getone()
            await clock.advance(61_000)
            await eventually_async(lambda: health_of(consumer).state == "stale")
            with pytest.raises(CommitFailedError, match="no member of group readers now"):
                await consumer.commit()
            await consumer.getone()
            assert watching.seen == [
                ("assigned", EVERYTHING),
                ("lost", EVERYTHING),
                ("assigned", EVERYTHING),
            ]
            await consumer.commit()


async def test_g56_a_static_member_comes_back_to_its_partitions(newest: LocalCluster) -> None:
    async with member(newest, group_instance_id="one") as first:
        async with member(newest, group_instance_id="two") as second:
            await evenly_shared(PARTITIONS, first, second)
            owned = second.owned
            async with AsyncConsumer(**options(newest), group_instance_id="two") as third:
                third.subscribe([TOPIC])
                with pytest.raises((UnreleasedInstanceIdError, FencedInstanceIdError)):
                    await polls(third)  # its owner is there
        async with member(newest, group_instance_id="two") as again:
            await evenly_shared(PARTITIONS, first, again)
            assert again.owned == owned


async def test_g57_a_commit_with_an_epoch_that_is_over_goes_again(newest: LocalCluster) -> None:
    async with member(newest) as one:
        await evenly_shared(PARTITIONS, one)
        newest.faults.fail("OffsetCommit", 113, times=2)
        await one.consumer.commit({TopicPartition(TOPIC, 0): 3})
        assert await one.consumer.committed(TopicPartition(TOPIC, 0)) == OffsetAndMetadata(3)


async def test_only_a_member_of_now_commits_in_a_transaction(newest: LocalCluster) -> None:
    tp = TopicPartition(TOPIC, 0)
    async with AsyncClient(bootstrap_servers=newest.bootstrap_servers) as client:
        producer = await client.transactions.producer("copier").start()
        async with member(newest, enable_auto_commit=False) as one:
            await evenly_shared(PARTITIONS, one)
            async with producer.transaction():
                await producer.send_offsets_to_transaction({tp: 1}, one.consumer.group_metadata())
            assert await one.consumer.committed(tp) == OffsetAndMetadata(1)
            old = one.consumer.group_metadata()
        await producer.begin_transaction()
        with pytest.raises(KafkaError):
            await producer.send_offsets_to_transaction({tp: 2}, old)
        await producer.abort_transaction()
        await producer.close()


async def test_an_assignor_that_the_coordinator_does_not_have_is_raised(
    newest: LocalCluster,
) -> None:
    async with AsyncConsumer(**options(newest), group_remote_assignor="nonsense") as consumer:
        consumer.subscribe([TOPIC])
        for _ in range(2):
            with pytest.raises(UnsupportedAssignorError):
                await polls(consumer)


async def test_topics_and_partitions_that_come_later_are_read_then(newest: LocalCluster) -> None:
    async with member(newest) as one:
        await evenly_shared(PARTITIONS, one)
        newest.add_partitions(TOPIC, PARTITIONS + 2)
        await eventually_async(lambda: len(one.owned) == PARTITIONS + 2)


async def test_a_pattern_that_matches_nothing_yet_is_read_from_when_it_does() -> None:
    with LocalCluster(brokers=2, release="4.3", settings=QUICK) as cluster:
        async with AsyncConsumer(**options(cluster)) as consumer:
            consumer.subscribe(pattern="sha.*")
            assert await consumer.getmany(timeout_ms=300) == {}
            polling = Polling(consumer)
            await asyncio.to_thread(fill, cluster, 5)
            await eventually_async(lambda: polling.read.total() == 5 * PARTITIONS)
            await polling.stop()


@pytest.mark.parametrize("release", ["2.4", "3.9"])
async def test_g60_where_brokers_do_not_have_it_auto_falls_back_and_consumer_says_so(
    release: str,
) -> None:
    with running(release) as cluster:
        async with AsyncConsumer(**options(cluster)) as consumer:
            consumer.subscribe([TOPIC])
            with pytest.raises(UnsupportedVersionError):
                await polls(consumer)
        async with member(cluster, group_protocol="auto") as one:
            await eventually_async(lambda: one.read.total() == 5 * PARTITIONS)
    with running("4.3") as cluster:
        async with member(cluster, group_protocol="auto") as one:
            await eventually_async(lambda: one.read.total() == 5 * PARTITIONS)
            assert not cluster.requests("JoinGroup")
