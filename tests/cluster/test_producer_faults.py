"""Records sent while leaders move, connections are cut and tasks are cancelled: the account."""

from __future__ import annotations

import asyncio
import random

import pytest

from parley import AsyncClient, AsyncProducer, Client, TopicPartition
from parley.client import EARLIEST, LATEST
from parley.client.produce.producer import Producer as Writer
from parley.devcluster import LocalCluster
from parley.devcluster.faults.faults import EVERY_TIME
from parley.errors import KafkaError
from parley.testing.delivery import Delivery, settle_account

from ..support import GENEROUS_MS, GENEROUS_S, eventually_async

PARTITIONS = 3


def read(cluster: LocalCluster, topic: str) -> list[list[int]]:
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        return [
            [
                int(value)
                for batch in client.fetch(TopicPartition(topic, index), EARLIEST, LATEST)
                for value in batch.column("value").to_pylist()
            ]
            for index in range(PARTITIONS)
        ]


async def write(
    cluster: LocalCluster, topic: str, seed: int, *, steps: int, cancel: bool
) -> tuple[set[int], set[int], set[int]]:
    """Send numbers while there is trouble; return those acknowledged, failed, and in doubt."""
    rng = random.Random(seed)
    sent: dict[int, object] = {}
    cancelled: set[int] = set()
    number = 0
    options = {"linger_ms": 2, "batch_size": 2_000, "delivery_timeout_ms": 4 * GENEROUS_MS}
    async with AsyncProducer(bootstrap_servers=cluster.bootstrap_servers, **options) as sending:
        for step in range(steps):
            trouble = rng.randrange(4)
            if trouble == 0:
                partition = TopicPartition(topic, rng.randrange(PARTITIONS))
                await asyncio.to_thread(cluster.move_leader, *partition, rng.choice((1, 2, 3)))
            elif trouble == 1:
                cluster.faults.cut("Produce", executed=rng.random() < 0.5, times=rng.randrange(3))
            elif trouble == 2:
                cluster.faults.cut("Produce", after_bytes=rng.randrange(40), executed=True)
            for _ in range(rng.randrange(1, 120)):
                mine = number
                number += 1
                value, key = b"%d" % mine, b"%d" % (mine % 50)
                if cancel and rng.random() < 0.3:
                    task = asyncio.ensure_future(sending.send_and_wait(topic, value, key))
                    for _ in range(rng.randrange(6)):
                        await asyncio.sleep(0)
                    task.cancel()
                    try:
                        await task
                        sent[mine] = None
                    except asyncio.CancelledError:
                        cancelled.add(mine)
                else:
                    sent[mine] = await sending.send(topic, value, key)
            if step % 5 == 0:
                await asyncio.sleep(0.005)
        await asyncio.wait_for(sending.flush(), 2 * GENEROUS_S)
    acknowledged, failed, doubt = set(), set(), set(cancelled)
    for mine, acknowledgement in sent.items():
        if acknowledgement is None:
            acknowledged.add(mine)
            continue
        assert acknowledgement.done()
        try:
            await acknowledgement
            acknowledged.add(mine)
        except KafkaError:
            (doubt if acknowledgement.in_doubt else failed).add(mine)
    return acknowledged, failed, doubt


def account(cluster: LocalCluster, topic: str, acknowledged: set[int]) -> Delivery:
    cluster.faults.clear()
    return settle_account(acknowledged, read(cluster, topic))


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.matrix)])
@pytest.mark.parametrize("cancel", [False, True])
def test_each_record_is_acknowledged_once_and_in_order_or_its_failure_is_known(
    cluster: LocalCluster, seed: int, cancel: bool
) -> None:
    topic = f"faults-{seed}-{cancel}"
    cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
    acknowledged, failed, doubt = asyncio.run(write(cluster, topic, seed, steps=12, cancel=cancel))
    delivery = account(cluster, topic, acknowledged)
    assert delivery.perfect, str(delivery)
    written = {value for partition in read(cluster, topic) for value in partition}
    assert not written & failed  # what is said not to be written is not
    assert written <= acknowledged | doubt
    if not cancel:
        assert not failed
        assert not doubt


def test_a_leader_that_moved_after_it_wrote_leaves_a_record_in_doubt(cluster: LocalCluster) -> None:
    """Kafka answers so where leadership moves between the append and the last replica's fetch. The
    next record has another sequence: else the broker would take it for the one that it has.
    """
    cluster.create_topic("moved", partitions=1, replication_factor=3)

    async def work() -> None:
        options = {"delivery_timeout_ms": 2_000, "linger_ms": 0}
        async with AsyncProducer(bootstrap_servers=cluster.bootstrap_servers, **options) as hasty:
            await hasty.send_and_wait("moved", b"0")
            cluster.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", executed=True)
            cluster.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=EVERY_TIME)
            first = await hasty.send("moved", b"1")
            with pytest.raises(KafkaError):
                await first
            assert first.in_doubt
            cluster.faults.clear()
            metadata = await hasty.send_and_wait("moved", b"2")
            assert metadata.offset == 2

    asyncio.run(work())
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        (batch, *more) = client.fetch(TopicPartition("moved", 0), EARLIEST, LATEST)
        values = [v for one in (batch, *more) for v in one.column("value").to_pylist()]
    assert values == [b"0", b"1", b"2"]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_ten_thousand_cancellations_lose_no_account(cluster: LocalCluster, seed: int) -> None:
    topic = f"cancelled-{seed}"
    cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
    acknowledged, failed, doubt = asyncio.run(write(cluster, topic, seed, steps=300, cancel=True))
    delivery = account(cluster, topic, acknowledged)
    assert delivery.perfect, str(delivery)
    assert len(doubt) > 1_000
    written = {value for partition in read(cluster, topic) for value in partition}
    assert not written & failed


@pytest.mark.parametrize("why", ["closed", "overdue"])
async def test_records_that_another_producer_of_the_client_gives_up_take_none_along(
    why: str,
) -> None:
    with LocalCluster(brokers=1) as cluster:
        cluster.create_topic("t")
        quick = {"delivery_timeout_ms": 1_000} if why == "overdue" else {}
        async with (
            AsyncClient(bootstrap_servers=cluster.bootstrap_servers) as client,
            AsyncProducer(client, **quick) as ending,
            AsyncProducer(client) as other,
        ):
            await ending.send_and_wait("t", b"first")
            await other.send_and_wait("t", b"first")
            cluster.faults.fail("Produce", "NOT_ENOUGH_REPLICAS", times=EVERY_TIME)
            given_up, kept = [], []
            for number in range(20):
                for sending, sent in ((ending, given_up), (other, kept)):
                    sent.append(await sending.send("t", b"%d" % number))
                    sending._core.writer.hand_over_all()
            log = client._producing().sender.log(TopicPartition("t", 0))
            await eventually_async(  # all that were sent were refused, and wait to go again
                lambda: log.queue and log.queue[0].attempted and not log.in_flight
            )
            if why == "closed":
                await ending.close(timeout_ms=0)
            await eventually_async(lambda: all(one.done() for one in given_up))
            assert not any(one.done() for one in kept)
            cluster.faults.clear()
            await asyncio.wait_for(other.flush(), 2 * GENEROUS_S)
            assert [one.exception() for one in kept] == [None] * 20


@pytest.mark.parametrize("step", ["prepare", "hand_over_now", "hand_over_in_turn"])
async def test_a_defect_on_the_way_to_the_sender_reaches_who_waits_for_the_records(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a defect")

    cluster.create_topic(step)
    heard: list[KafkaError] = []
    async with AsyncProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        linger_ms=0,
        on_error=lambda error, records: heard.append(error),
    ) as sending:
        if step != "prepare":
            await sending.send_and_wait(step, b"first")
        with monkeypatch.context() as patch:
            patch.setattr(Writer, step, broken)
            async with sending._core.writer._producer.sender.lock:
                if step == "hand_over_now":
                    patch.setattr(Writer, "hand_over_in_turn", broken)
                sending.send_nowait(step, b"lost")
                sending._core.writer.hand_over_all()
            await asyncio.wait_for(sending.flush(), GENEROUS_S)
        (error,) = heard
        assert "a defect" in str(error)
        await sending.send_and_wait(step, b"next")
