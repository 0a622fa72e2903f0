"""parley's consumers as members of classic groups of the embedded cluster, on each
generation of the protocol.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager

import pyarrow as pa
import pytest

from parley.client import (
    AsyncClient,
    AsyncConsumer,
    Client,
    Consumer,
    ConsumerRebalanceListener,
    OffsetAndMetadata,
    TopicPartition,
)
from parley.devcluster import LocalCluster
from parley.errors import (
    BrokerError,
    CommitFailedError,
    ConfigError,
    FencedInstanceIdError,
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    KafkaError,
    LocalProtocolError,
    RebalanceInProgressError,
    UnsupportedVersionError,
)
from parley.net import AdvancingClock

from ..support import Polling, evenly_shared, eventually_async, health_of
from .members_in_time import GROUP, PARTITIONS, TOPIC, World, in_virtual_time

RELEASES = pytest.mark.parametrize(
    "world", ["0.9", "0.10.0", "0.11", "1.1", "2.1", "2.4", "3.1", "3.9", "4.3"], indirect=True
)
Seen = list[tuple[str, list[int]]]


class Watching(ConsumerRebalanceListener):
    """Keeps what it was called with."""

    def __init__(self) -> None:
        self.seen: Seen = []

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self.seen.append(("assigned", [tp.partition for tp in assigned]))

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self.seen.append(("revoked", [tp.partition for tp in revoked]))

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self.seen.append(("lost", [tp.partition for tp in lost]))


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = World(getattr(request, "param", "4.3"))
    yield made
    made.close()


@pytest.fixture
def newest() -> Iterator[LocalCluster]:
    with running("4.3") as found:
        yield found


def running(release: str) -> LocalCluster:
    return LocalCluster(brokers=2, release=release)


def fill(cluster: LocalCluster, each: int, topic: str = TOPIC) -> None:
    """Make the topic where it is not there, and put so many records into each of its partitions."""
    if topic not in cluster._cluster.state.image.topics:
        cluster.create_topic(topic, PARTITIONS)
    partitions = pa.array([at % PARTITIONS for at in range(each * PARTITIONS)], pa.int32())
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        client.produce(
            topic, pa.table({"value": [b"x"] * len(partitions), "partition": partitions})
        )


def options(cluster: LocalCluster) -> dict[str, object]:
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": GROUP,
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 50,
        "session_timeout_ms": 6_000,  # who is gone without a word holds the others up so long
        "metadata_max_age_ms": 100,
    }


@asynccontextmanager
async def member(
    cluster: LocalCluster, listener: ConsumerRebalanceListener | None = None, **more: object
) -> AsyncIterator[Polling]:
    """A member of the group that polls."""
    async with AsyncConsumer(**{**options(cluster), **more}) as consumer:  # type: ignore[arg-type]  # of any kind
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


# -- sharing ---------------------------------------------------------------------------------------


@RELEASES
@pytest.mark.parametrize(
    "strategy",
    [
        "range",
        "cooperative-sticky",
        pytest.param("roundrobin", marks=pytest.mark.matrix),
        pytest.param("sticky", marks=pytest.mark.matrix),
    ],
)
@in_virtual_time
async def test_members_share_a_topic_and_read_each_record_once(world: World, strategy: str) -> None:
    await world.fill(10)
    async with world.member(partition_assignment_strategy=strategy) as first:
        await world.eventually(lambda: first.read.total() == 10 * PARTITIONS)
        async with world.member(partition_assignment_strategy=strategy) as second:
            await world.evenly_shared(first, second)
            await world.fill(10)
            await world.eventually(
                lambda: first.read.total() + second.read.total() == 20 * PARTITIONS
            )
            assert second.read
        await world.evenly_shared(first)
        await world.fill(5)
        await world.eventually(lambda: first.read.total() + second.read.total() == 25 * PARTITIONS)
        # what was closed has committed what it read
        assert set((first.read + second.read).values()) == {1}


@in_virtual_time
async def test_g36_cooperative_members_keep_what_they_keep(world: World) -> None:
    await world.fill(1)
    first, second = Watching(), Watching()
    strategy = {"partition_assignment_strategy": "cooperative-sticky"}
    async with world.member(first, **strategy) as one:
        await world.eventually(lambda: one.read.total() == PARTITIONS)
        world.cluster.clear_requests()
        async with world.member(second, **strategy) as two:
            await world.evenly_shared(one, two)
            kept = one.owned
        await world.evenly_shared(one)
    gave = sorted(set(range(PARTITIONS)) - kept)
    calls = [call for call in first.seen if call != ("assigned", [])]
    everything = list(range(PARTITIONS))
    assert calls == [
        ("assigned", everything),
        ("revoked", gave),
        ("assigned", gave),
        ("revoked", everything),
    ]
    assert second.seen[0] == ("assigned", [])  # G31: they were still another's
    # nobody looked up again where a kept partition is read on
    asked = [entry.asked() for entry in world.cluster.requests("OffsetFetch")]
    assert kept.isdisjoint(
        {part for found in asked for parts in found.values() for part in parts} - set(gave)
    )
    assert set((one.read + two.read).values()) == {1}


@in_virtual_time
async def test_g35_eager_members_give_everything_up_first(world: World) -> None:
    await world.fill(1)
    watching, everything = Watching(), list(range(PARTITIONS))
    async with world.member(watching) as one:
        await world.evenly_shared(one)
        async with world.member() as two:
            await world.evenly_shared(one, two)
            half = sorted(one.owned)
        await world.evenly_shared(one)
    assert watching.seen == [
        ("assigned", everything), ("revoked", everything), ("assigned", half), ("revoked", half),
        ("assigned", everything), ("revoked", everything),
    ]  # fmt: skip


@in_virtual_time
async def test_g28_eager_sticky_members_get_back_what_they_had(world: World) -> None:
    await world.fill(1)
    how = {"partition_assignment_strategy": "sticky"}
    async with world.member(**how) as one, world.member(**how) as two:
        await world.evenly_shared(one, two)
        before = one.owned, two.owned
        for _ in range(3):
            generation = one.consumer.group_metadata().generation_id
            two.consumer.enforce_rebalance("a test")
            await world.eventually(lambda: one.consumer.group_metadata().generation_id > generation)  # noqa: B023
            await world.evenly_shared(one, two)
            assert (one.owned, two.owned) == before


async def test_batches_are_shared_in_groups_too(newest: LocalCluster) -> None:
    fill(newest, 50)
    rows = 0
    async with AsyncConsumer(**options(newest)) as consumer:  # type: ignore[arg-type]
        consumer.subscribe([TOPIC])
        async with aclosing(consumer.batches()) as batches:
            async for found in batches:
                rows += found.batch.num_rows
                if rows == 50 * PARTITIONS:
                    break
    with Client(bootstrap_servers=newest.bootstrap_servers) as client:
        wanted = [TopicPartition(TOPIC, at) for at in range(PARTITIONS)]
        committed = await asyncio.to_thread(client.committed_offsets, GROUP, wanted)
    assert {found.offset for found in committed.values() if found is not None} == {50}


# -- polls, listeners, commits ---------------------------------------------------------------------


def test_the_blocking_consumer_calls_its_listener_in_the_thread_that_polls(
    newest: LocalCluster,
) -> None:
    fill(newest, 3)
    threads: set[int] = set()

    class Committing(Watching):
        def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
            super().on_partitions_assigned(assigned)
            threads.add(threading.get_ident())
            for tp in assigned:
                consumer.seek(tp, 1)
            with pytest.raises(LocalProtocolError, match="a listener cannot poll"):
                consumer.getone()

        def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
            super().on_partitions_revoked(revoked)
            threads.add(threading.get_ident())
            consumer.commit()

    listener = Committing()
    with Consumer(**options(newest), enable_auto_commit=False) as consumer:  # type: ignore[arg-type]
        consumer.subscribe([TOPIC], listener=listener)
        found = [consumer.getone() for _ in range(2 * PARTITIONS)]
        assert {record.offset for record in found} == {1, 2}
        consumer.unsubscribe()
        assert listener.seen[-1] == ("revoked", [0, 1, 2, 3])
        committed = consumer.committed(TopicPartition(TOPIC, 0))
        assert committed is not None
        assert committed.offset == 3
    assert threads == {threading.get_ident()}
    assert len(listener.seen) == 2  # none after close


async def test_g38_what_a_listener_raises_the_poll_raises_when_all_is_in_order(
    newest: LocalCluster,
) -> None:
    fill(newest, 1)

    class Failing(Watching):
        def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
            super().on_partitions_assigned(assigned)
            raise ZeroDivisionError

    async with AsyncConsumer(**options(newest)) as consumer:  # type: ignore[arg-type]
        consumer.subscribe([TOPIC], listener=Failing())
        with pytest.raises(ZeroDivisionError):
            await consumer.getone()
        assert len(consumer.assignment()) == PARTITIONS
        assert (await consumer.getone()).offset == 0


async def test_a_listener_of_coroutines_is_awaited_and_may_commit(newest: LocalCluster) -> None:
    fill(newest, 1)

    class Slow(Watching):
        async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:  # type: ignore[override]
            await asyncio.sleep(0.2)  # four heartbeats
            Watching.on_partitions_assigned(self, assigned)

        async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:  # type: ignore[override]
            await consumer.commit({TopicPartition(TOPIC, 0): 17})

    listener = Slow()
    async with AsyncConsumer(**options(newest), enable_auto_commit=False) as consumer:  # type: ignore[arg-type]
        consumer.subscribe([TOPIC], listener=listener)
        await consumer.getone()
        assert listener.seen == [("assigned", [0, 1, 2, 3])]
        assert len(newest.requests("Heartbeat")) >= 2
        consumer.subscribe(["another"], listener=listener)
        await consumer.getmany(timeout_ms=300)
        assert await consumer.committed(TopicPartition(TOPIC, 0)) == OffsetAndMetadata(17)


async def test_g44_a_regular_commit_has_what_the_polls_before_handed_out(
    newest: LocalCluster,
) -> None:
    fill(newest, 10)
    async with AsyncConsumer(**options(newest), auto_commit_interval_ms=0) as consumer:  # type: ignore[arg-type]
        consumer.subscribe([TOPIC])
        tp = TopicPartition(TOPIC, 0)
        await consumer.getmany(timeout_ms=5_000, max_records=1)
        while consumer._core.part(tp).positions.consumed.offset < 5:
            await consumer.getone(tp)
        before = await consumer.committed(tp)
        assert before is None or before.offset < 5
        commits = consumer._core.group._commits
        assert commits is not None
        await eventually_async(lambda: commits._regular is None)
        await consumer.getmany(timeout_ms=0, max_records=1)
        await eventually_async(lambda: commits._regular is None)
        after = await consumer.committed(tp)
        assert after is not None
        assert after.offset == 5


async def test_g46_subscribing_and_assigning_exclude_each_other(newest: LocalCluster) -> None:
    fill(newest, 1)
    async with AsyncConsumer(**options(newest)) as consumer:  # type: ignore[arg-type]
        consumer.assign([TopicPartition(TOPIC, 0)])
        with pytest.raises(LocalProtocolError, match="by hand"):
            consumer.subscribe([TOPIC])
        await consumer.unsubscribe()
        consumer.subscribe([TOPIC])
        with pytest.raises(LocalProtocolError, match="its group assigns"):
            consumer.assign([TopicPartition(TOPIC, 0)])
        await consumer.getone()
        with pytest.raises(ConfigError, match="either topics or a pattern"):
            consumer.subscribe([TOPIC], pattern="s.*")
    async with AsyncConsumer(bootstrap_servers=newest.bootstrap_servers) as nobody:
        with pytest.raises(ConfigError, match="subscribe needs a group_id"):
            nobody.subscribe([TOPIC])


@in_virtual_time
async def test_g43_during_a_rebalance_a_commit_says_poll_first(world: World) -> None:
    await world.fill(1)
    async with world.consumer() as consumer:
        await consumer.getone()
        world.cluster.faults.delay("SyncGroup", 500, times=1)
        consumer.enforce_rebalance("a test")
        await consumer.getmany(timeout_ms=100)  # gives everything up, and joins again
        with pytest.raises(RebalanceInProgressError, match="poll, then commit"):
            await consumer.commit({TopicPartition(TOPIC, 0): 1})
        await consumer.getmany(timeout_ms=2_000)
        await consumer.commit({TopicPartition(TOPIC, 0): 1})


async def test_g12_a_poll_that_comes_too_late_finds_its_partitions_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, watching = AdvancingClock(), Watching()
    with running("4.3") as cluster:
        fill(cluster, 2)
        async with AsyncClient(bootstrap_servers=cluster.bootstrap_servers, clock=clock) as client:
            own = {
                name: value
                for name, value in options(cluster).items()
                if name in ("group_id", "auto_offset_reset")
            }
            consumer = AsyncConsumer(client, max_poll_interval_ms=60_000, **own)  # type: ignore[arg-type]
            async with consumer:
                consumer.subscribe([TOPIC], listener=watching)
                await consumer.getone()
                for _ in range(21):  # within the session, so that heartbeats keep it up
                    await clock.advance(3_000)
                    await asyncio.sleep(0.01)
                await eventually_async(lambda: "no poll for" in caplog.text)
                with pytest.raises(
                    CommitFailedError, match="no member of group readers now"
                ) as failed:
                    await consumer.commit()
                assert set(failed.value.failures) == consumer.assignment()
                await consumer.getone()
                everything = [0, 1, 2, 3]
                assert watching.seen == [
                    ("assigned", everything),
                    ("lost", everything),
                    ("assigned", everything),
                ]
                await consumer.commit()
    assert "longer than max_poll_interval_ms=60000" in caplog.text


# -- the coordinator, and what it answers ----------------------------------------------------------


@in_virtual_time
async def test_g4_members_outlive_the_move_of_their_coordinator(world: World) -> None:
    await world.fill(1)
    watching = Watching()
    async with world.member(watching) as one:
        await world.evenly_shared(one)
        before = one.consumer.group_metadata()
        for to in (1, 2, 1):
            world.cluster.move_group_coordinator(GROUP, to)
            world.cluster.clear_requests()
            await world.eventually(lambda: len(world.cluster.requests("Heartbeat")) >= 4)
        assert one.consumer.group_metadata() == before
        assert watching.seen == [("assigned", [0, 1, 2, 3])]
        await one.consumer.commit()


SOME = [("FindCoordinator", 15), ("JoinGroup", 16), ("SyncGroup", 27), ("Heartbeat", 22)]
OTHERS = [("FindCoordinator", 14), *((api, code) for api in ("JoinGroup", "SyncGroup", "Heartbeat")
          for code in (14, 15, 16, 22, 25, 27) if (api, code) not in SOME)]  # fmt: skip


@pytest.mark.parametrize(
    ("api", "code"), [*SOME, *(pytest.param(*pair, marks=pytest.mark.matrix) for pair in OTHERS)]
)
@in_virtual_time
async def test_what_may_pass_keeps_no_member_out(world: World, api: str, code: int) -> None:
    await world.fill(1)
    # the coordinator waits for a member it still knows
    world.cluster.faults.fail(api, code, times=1 if code == 25 else 2)
    async with world.member() as one:
        await world.eventually(lambda: one.read.total() == PARTITIONS)
        await world.eventually(lambda: len(world.cluster.requests("Heartbeat")) >= 4)
        await world.evenly_shared(one)


@pytest.mark.parametrize(
    ("api", "code", "error"),
    [
        ("JoinGroup", 23, InconsistentGroupProtocolError),
        ("JoinGroup", 81, GroupMaxSizeReachedError),
        pytest.param("SyncGroup", 82, FencedInstanceIdError, marks=pytest.mark.matrix),
        pytest.param("Heartbeat", 82, FencedInstanceIdError, marks=pytest.mark.matrix),
    ],
)
@in_virtual_time
async def test_what_does_not_pass_every_poll_raises(
    world: World, api: str, code: int, error: type[BrokerError]
) -> None:
    await world.fill(1)
    world.cluster.faults.fail(api, code, times=1)
    async with world.consumer() as consumer:
        for _ in range(2):
            with pytest.raises(error):
                await polls(consumer)
        await consumer.unsubscribe()
        consumer.subscribe([TOPIC])
        assert (await consumer.getone()).offset == 0


# -- static members --------------------------------------------------------------------------------


@in_virtual_time
async def test_g16_a_static_member_comes_back_without_a_rebalance(world: World) -> None:
    await world.fill(1)
    async with world.member(group_instance_id="one") as first:
        async with world.member(group_instance_id="two") as second:
            await world.evenly_shared(first, second)
            generation, owned = first.consumer.group_metadata().generation_id, second.owned
        async with world.member(group_instance_id="two") as again:
            await world.evenly_shared(first, again)
            assert again.owned == owned
            assert again.consumer.group_metadata().generation_id == generation


@in_virtual_time
async def test_g17_of_two_processes_with_one_instance_id_the_first_is_fenced(
    world: World,
) -> None:
    await world.fill(1)
    async with world.consumer(group_instance_id="one") as first:
        await first.getone()
        async with world.member(group_instance_id="one") as second:
            await world.evenly_shared(second)
            with pytest.raises(FencedInstanceIdError):
                await polls(first)
            assert first.assignment() == frozenset()


async def test_a_static_member_needs_brokers_that_know_of_it() -> None:
    with running("2.1") as cluster:
        fill(cluster, 1)
        async with AsyncConsumer(**options(cluster), group_instance_id="one") as consumer:  # type: ignore[arg-type]
            consumer.subscribe([TOPIC])
            with pytest.raises(UnsupportedVersionError, match="static"):
                await consumer.getone()


# -- topics that change ----------------------------------------------------------------------------


@RELEASES
@in_virtual_time
async def test_g40_the_leader_notices_partitions_that_were_added(world: World) -> None:
    await world.fill(1)
    async with world.member() as one, world.member() as two:
        await world.evenly_shared(one, two)
        world.cluster.add_partitions(TOPIC, PARTITIONS + 2)
        await world.eventually(lambda: len(one.owned | two.owned) == PARTITIONS + 2)


@in_virtual_time
async def test_g40_a_topic_that_comes_later_is_read_then(world: World) -> None:
    async with world.member() as one:
        await world.eventually(lambda: health_of(one.consumer).state == "stable")
        await world.fill(1)
        await world.eventually(lambda: one.read.total() == PARTITIONS)


async def test_g41_a_pattern_takes_the_topics_that_match_whole(newest: LocalCluster) -> None:
    fill(newest, 1, "orders-eu")
    fill(newest, 1, "orders")
    async with AsyncConsumer(**options(newest)) as consumer:  # type: ignore[arg-type]
        consumer.subscribe(pattern="orders-.*")
        polling = Polling(consumer)
        await eventually_async(lambda: polling.read.total() == PARTITIONS)
        assert consumer.subscription() == {"orders-eu"}
        await asyncio.to_thread(fill, newest, 1, "orders-us")
        await eventually_async(lambda: polling.read.total() == 2 * PARTITIONS)
        assert consumer.subscription() == {"orders-eu", "orders-us"}
        await polling.stop()


# -- transactions ----------------------------------------------------------------------------------


async def test_only_a_member_of_now_commits_in_a_transaction(newest: LocalCluster) -> None:
    fill(newest, 1)
    async with AsyncClient(bootstrap_servers=newest.bootstrap_servers) as client:
        producer = await client.transactions.producer("copier").start()
        async with member(newest, enable_auto_commit=False) as one:
            await evenly_shared(PARTITIONS, one)
            old = one.consumer.group_metadata()
            tp = TopicPartition(TOPIC, 0)
            async with producer.transaction():
                await producer.send_offsets_to_transaction({tp: 1}, old)
            assert await one.consumer.committed(tp) == OffsetAndMetadata(1)
            async with member(newest, enable_auto_commit=False) as two:
                await evenly_shared(PARTITIONS, one, two)
                await producer.begin_transaction()
                with pytest.raises(KafkaError):
                    await producer.send_offsets_to_transaction({tp: 2}, old)
                await producer.abort_transaction()
                assert await one.consumer.committed(tp) == OffsetAndMetadata(1)
        await producer.close()


async def test_health_says_how_a_member_is(newest: LocalCluster) -> None:
    fill(newest, 1)
    async with AsyncConsumer(**options(newest)) as consumer:  # type: ignore[arg-type]
        assert consumer.health() is None
        consumer.subscribe([TOPIC])
        await consumer.getone()
        health = consumer.health()
        assert health is not None
        assert (health.state, health.generation, health.assigned, health.stalled) == (
            "stable",
            1,
            PARTITIONS,
            (),
        )
        assert health.last_rebalance_reason == "subscription has changed"
        assert health.member_id == consumer.group_metadata().member_id
