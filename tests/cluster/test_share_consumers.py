"""parley's share consumers on the embedded cluster: what is delivered, and what becomes
of errors and lost brokers.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa
import pytest

from parley.client import (
    AcknowledgeType,
    AsyncShareConsumer,
    Client,
    ConsumerRecord,
    ShareConsumer,
    TopicPartition,
)
from parley.devcluster import ClusterSettings, LocalCluster
from parley.errors import (
    CommitFailedError,
    GroupAuthorizationFailedError,
    GroupMaxSizeReachedError,
    InvalidRecordStateError,
    LocalProtocolError,
    UnsupportedVersionError,
)
from parley_laboratory.shares import set_group

from ..support import GENEROUS_MS, eventually_async

GROUP, TOPIC, TP = "workers", "jobs", TopicPartition("jobs", 0)
LOCK_MS = 20_000
"""Longer than any pause of a busy machine, shorter than a member's session: it ends by the
cluster's clock.
"""
EXPLICIT = {"share_acknowledgement_mode": "explicit"}
SETTINGS = ClusterSettings(
    group_share_heartbeat_interval_ms=50,
    group_share_assignment_interval_ms=10,
    group_share_record_lock_duration_ms=LOCK_MS,
)


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """Two brokers, a topic of one partition with ten records, a group that begins at the first."""
    with LocalCluster(brokers=2, release="4.3", settings=SETTINGS) as running:
        running.create_topic(TOPIC, 1)
        set_group(running.broker(1).address, GROUP, {"share.auto.offset.reset": "earliest"})
        write(running, 10)
        yield running


def write(cluster: LocalCluster, count: int) -> None:
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        client.produce(TOPIC, pa.table({"value": [b"%d" % at for at in range(count)]}))


@asynccontextmanager
async def member(cluster: LocalCluster, **options: Any) -> AsyncIterator[AsyncShareConsumer]:
    made = AsyncShareConsumer(
        bootstrap_servers=cluster.bootstrap_servers, group_id=GROUP, **options
    )
    async with made as consumer:
        consumer.subscribe([TOPIC])
        yield consumer


async def some(consumer: AsyncShareConsumer, most: int | None = None) -> list[ConsumerRecord]:
    found = await consumer.getmany(timeout_ms=GENEROUS_MS, max_records=most)
    assert found
    return [record for records in found.values() for record in records]


def seen(records: list[ConsumerRecord]) -> list[tuple[int, int | None]]:
    return [(record.offset, record.delivery_count) for record in records]


async def test_each_record_becomes_what_was_said_of_it(cluster: LocalCluster) -> None:
    async with member(cluster, **EXPLICIT) as consumer:
        records = await some(consumer)
        assert seen(records) == [(at, 1) for at in range(10)]
        with pytest.raises(LocalProtocolError, match="not acknowledged"):
            await consumer.getmany()
        said = {2: AcknowledgeType.RELEASE, 4: AcknowledgeType.REJECT, 6: AcknowledgeType.RENEW}
        for record in records:
            consumer.acknowledge(record, said.get(record.offset, AcknowledgeType.ACCEPT))
        again = await some(consumer)
        if len(again) == 1:  # the renewed one comes first
            consumer.acknowledge(again[0])
            again += await some(consumer)
        assert sorted(seen(again)) == [(2, 2), (6, 1)]
        for record in again[-1:]:
            consumer.acknowledge(record)
        await consumer.commit()
        assert consumer.health().unacknowledged == 0
        assert await consumer.getmany(timeout_ms=100) == {}


async def test_the_next_poll_accepts_and_the_end_releases(cluster: LocalCluster) -> None:
    async with member(cluster) as consumer:
        assert [(await consumer.getone()).offset for _ in range(4)] == [0, 1, 2, 3]
    async with member(cluster) as consumer:
        records = await some(consumer)
        assert seen(records) == [(at, 2) for at in range(3, 10)]
        await consumer.commit()
        await consumer.unsubscribe()
        with pytest.raises(LocalProtocolError, match="not subscribed"):
            await consumer.getmany()
        consumer.subscribe([TOPIC])
        assert await consumer.getmany(timeout_ms=100) == {}


async def test_a_lock_that_is_over_is_reported_and_the_record_is_anothers(
    cluster: LocalCluster,
) -> None:
    async with member(cluster, **EXPLICIT) as consumer:
        records = await some(consumer)
        assert consumer.acquisition_lock_timeout_ms == LOCK_MS
        await asyncio.to_thread(cluster.advance, LOCK_MS)
        async with member(cluster, **EXPLICIT) as other:
            again = await some(other)
            assert [record.offset for record in again] == [record.offset for record in records]
            for record in records:
                consumer.acknowledge(record)
            with pytest.raises(CommitFailedError) as failed:
                await consumer.commit()
            assert isinstance(failed.value.failures[TP], InvalidRecordStateError)


@pytest.mark.parametrize("error", ["SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH",
                                   "SHARE_SESSION_LIMIT_REACHED", "UNKNOWN_MEMBER_ID"])  # fmt: skip
async def test_g64_a_new_session_follows_the_one_that_is_lost(
    cluster: LocalCluster, error: str
) -> None:
    async with member(cluster, **EXPLICIT) as consumer:
        cluster.faults.fail("ShareFetch", error)
        for record in await some(consumer):
            consumer.acknowledge(record)
        await consumer.commit()
        cluster.faults.fail("ShareFetch", error)
        await asyncio.to_thread(write, cluster, 1)
        (record,) = await some(consumer)
        assert record.offset == 10
        cluster.faults.fail("ShareAcknowledge", error)
        consumer.acknowledge(record)
        with pytest.raises(CommitFailedError, match=error):
            await consumer.commit()


async def test_an_error_that_does_not_pass_is_raised_by_polls(cluster: LocalCluster) -> None:
    async with member(cluster) as consumer:
        cluster.faults.fail("ShareFetch", "GROUP_AUTHORIZATION_FAILED")
        with pytest.raises(GroupAuthorizationFailedError, match="SHARE_FETCH"):
            await some(consumer)
        assert len(await some(consumer)) == 10
    cluster.faults.fail("ShareGroupHeartbeat", "GROUP_AUTHORIZATION_FAILED")
    async with member(cluster) as consumer:
        with pytest.raises(GroupAuthorizationFailedError, match="SHARE_GROUP_HEARTBEAT"):
            await some(consumer)
        assert len(await some(consumer)) == 10
    cluster.faults.fail("ShareGroupHeartbeat", "GROUP_MAX_SIZE_REACHED")
    async with member(cluster) as consumer:
        for _ in range(2):
            with pytest.raises(GroupMaxSizeReachedError, match="SHARE_GROUP_HEARTBEAT"):
                await some(consumer)
        assert consumer.health().state == "fatal"


async def test_a_leader_that_moves_is_followed_and_what_it_gave_is_delivered_again(
    cluster: LocalCluster,
) -> None:
    async with member(cluster, **EXPLICIT) as consumer:
        records = await some(consumer)
        leader = cluster.leaders(TOPIC)[0][0]
        await asyncio.to_thread(cluster.move_leader, TOPIC, 0, 3 - leader)
        for record in records:
            consumer.acknowledge(record)
        with pytest.raises(CommitFailedError) as failed:
            await consumer.commit()
        assert failed.value.failures.keys() == {TP}
        again = await some(consumer)
        assert [record.offset for record in again] == list(range(10))
        for record in again:
            consumer.acknowledge(record)
        await consumer.commit()


async def test_a_connection_that_is_lost_loses_what_it_gave(cluster: LocalCluster) -> None:
    async with member(cluster, **EXPLICIT) as consumer:
        for record in await some(consumer):
            consumer.acknowledge(record)
        cluster.faults.cut("ShareAcknowledge")
        with pytest.raises(CommitFailedError):
            await consumer.commit()
        again = await some(consumer)
        assert [record.offset for record in again] == list(range(10))
        for record in again:
            consumer.acknowledge(record)
        await consumer.commit()


async def test_members_share_one_partition_and_survive_the_end_of_one(
    cluster: LocalCluster,
) -> None:
    limited = {"share_acquire_mode": "record_limit", "max_poll_records": 3}
    read: Counter[int] = Counter()

    async def poll(consumer: AsyncShareConsumer) -> None:
        while True:
            for records in (await consumer.getmany(timeout_ms=50)).values():
                read.update(record.offset for record in records)

    async with member(cluster, **limited) as one:
        polling = asyncio.create_task(poll(one))
        async with member(cluster, **limited) as two:
            other = asyncio.create_task(poll(two))
            await eventually_async(lambda: one.health().assigned == two.health().assigned == (TP,))
            await asyncio.to_thread(write, cluster, 40)
            await eventually_async(lambda: len(read) == 50)
            other.cancel()
            await asyncio.wait([other])
        await asyncio.to_thread(write, cluster, 10)
        await eventually_async(lambda: len(read) == 60)
        polling.cancel()
        await asyncio.wait([polling])


async def test_a_callback_hears_of_each_acknowledgement_in_calls_of_the_application(
    cluster: LocalCluster,
) -> None:
    heard: list[tuple[int, str]] = []

    async def callback(
        offsets: dict[TopicPartition, tuple[int, ...]], error: Exception | None
    ) -> None:
        heard.append((len(offsets[TP]), type(error).__name__))
        raise ValueError("the application's own")

    async with member(cluster) as consumer:
        consumer.set_acknowledgement_commit_callback(callback)
        assert len(await some(consumer)) == 10
        consumer.commit_async()
        with pytest.raises(ValueError, match="the application's own"):
            await consumer.getmany(timeout_ms=GENEROUS_MS)
        assert heard == [(10, "NoneType")]
        consumer.set_acknowledgement_commit_callback(None)


def test_the_blocking_callback_is_called_in_the_thread_that_polls(cluster: LocalCluster) -> None:
    heard: list[tuple[int, threading.Thread]] = []
    with ShareConsumer(
        bootstrap_servers=cluster.bootstrap_servers, group_id=GROUP, **EXPLICIT
    ) as consumer:

        def callback(offsets: dict[TopicPartition, tuple[int, ...]], error: object) -> None:
            consumer.commit()  # waits for no callback: this is one
            heard.append((len(offsets[TP]), threading.current_thread()))

        consumer.set_acknowledgement_commit_callback(callback)
        consumer.subscribe([TOPIC])
        (records,) = consumer.getmany(timeout_ms=GENEROUS_MS).values()
        for record in records:
            consumer.acknowledge(record)
        consumer.commit()
    assert heard == [(10, threading.current_thread())]


@pytest.mark.parametrize("mode", [{}, EXPLICIT], ids=["implicit", "explicit"])
def test_what_an_interrupted_poll_was_given_comes_again_and_is_not_accepted(
    cluster: LocalCluster, mode: dict[str, str]
) -> None:
    with ShareConsumer(
        bootstrap_servers=cluster.bootstrap_servers, group_id=GROUP, **mode
    ) as consumer:
        consumer.subscribe([TOPIC])
        (first,) = consumer.getmany(timeout_ms=GENEROUS_MS, max_records=3).values()
        for record in first if mode else ():
            consumer.acknowledge(record)
        wait_for = consumer._caller.wait_for

        def interrupted(*arguments: Any) -> None:
            consumer._caller.wait_for = wait_for  # type: ignore[method-assign]
            wait_for(*arguments)
            raise KeyboardInterrupt

        def interrupt(poll: Callable[[], object]) -> None:
            consumer._caller.wait_for = interrupted  # type: ignore[method-assign]
            with pytest.raises(KeyboardInterrupt):
                poll()

        interrupt(lambda: consumer.getmany(timeout_ms=GENEROUS_MS, max_records=2))
        interrupt(consumer.getone)
        interrupt(consumer.health)  # no poll: nothing comes again
        (again,) = consumer.getmany(timeout_ms=GENEROUS_MS, max_records=4).values()
        assert seen(again) == [(at, 1) for at in range(3, 7)]
        for record in again if mode else ():
            consumer.acknowledge(record)
        interrupt(lambda: next(consumer.batches()))
        found = next(consumer.batches())
        assert found.batch.column("offset").to_pylist() == [7, 8, 9]
        assert consumer.health().unacknowledged == 3
    write(cluster, 1)
    with ShareConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id=GROUP) as consumer:
        consumer.subscribe([TOPIC])
        (rest,) = consumer.getmany(timeout_ms=GENEROUS_MS).values()
        assert seen(rest) == [(7, 2), (8, 2), (9, 2), (10, 1)]


@pytest.mark.parametrize("begun", [True, False])
async def test_a_cancelled_poll_drops_nothing_that_the_callback_is_to_hear(
    cluster: LocalCluster, *, begun: bool
) -> None:
    heard: list[tuple[int, ...]] = []
    entered, go = asyncio.Event(), asyncio.Event()

    async def callback(offsets: dict[TopicPartition, tuple[int, ...]], error: object) -> None:
        entered.set()
        await go.wait()
        await consumer.commit()  # waits for no callback: this is one
        heard.append(offsets[TP])

    async with member(cluster, **EXPLICIT) as consumer:
        consumer.set_acknowledgement_commit_callback(callback)
        exchange = consumer._core._exchange
        for record in await some(consumer):
            consumer.acknowledge(record)
            consumer.commit_async()
            await eventually_async(lambda: not exchange.acknowledging)
        assert len(exchange.outcomes) == 10
        polling = asyncio.ensure_future(consumer.getmany(timeout_ms=GENEROUS_MS))
        if begun:
            await entered.wait()
        else:
            await asyncio.sleep(0)
        polling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await polling
        go.set()
        assert await consumer.getmany() == {}
    assert heard == [(at,) for at in range(10)]


@pytest.mark.parametrize("release", ["0.9", "2.4", "4.0"])
async def test_brokers_without_share_groups_hear_nothing_of_them(release: str) -> None:
    with LocalCluster(brokers=1, release=release) as old:
        consumer = AsyncShareConsumer(bootstrap_servers=old.bootstrap_servers, group_id=GROUP)
        with pytest.raises(UnsupportedVersionError, match="share-groups"):
            await consumer.start()
        await consumer.close()
        assert not any("Share" in one.api or one.api == "FindCoordinator" for one in old.requests())
