"""Records that are decoded are handed out without asking: what comes after a seek, a pause, a
rebalance or the end in the midst of them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from itertools import count, islice
from typing import Any

import pyarrow as pa
import pytest

from parley.client import (
    AsyncConsumer,
    Client,
    Consumer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from parley.client.consumer.deserializing import Piece
from parley.client.consumer.records import CompletedFetch
from parley.client.consumer.stock import Stock
from parley.devcluster import LocalCluster
from parley.errors import LocalProtocolError

from ..support import GENEROUS_MS

COUNT = 5_000
"""Records of each partition: more than are decoded at a time."""
TPS = [TopicPartition("flights", 0), TopicPartition("flights", 1)]
FIRST, SECOND = TPS


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, release="3.9") as running:
        running.create_topic("flights", partitions=2, replication_factor=1)
        partitions = pa.array([at % 2 for at in range(2 * COUNT)], pa.int32())
        values = [str(at // 2) for at in range(2 * COUNT)]
        with Client(bootstrap_servers=running.bootstrap_servers) as client:
            client.produce("flights", pa.table({"value": values, "partition": partitions}))
        yield running


@pytest.fixture
async def consumer(cluster: LocalCluster) -> AsyncIterator[AsyncConsumer]:
    address = cluster.bootstrap_servers
    async with AsyncConsumer(bootstrap_servers=address, auto_offset_reset="earliest") as made:
        made.assign([FIRST])
        yield made


@pytest.fixture
def blocking(cluster: LocalCluster) -> Iterator[Consumer]:
    address = cluster.bootstrap_servers
    with Consumer(bootstrap_servers=address, auto_offset_reset="earliest") as made:
        made.assign([FIRST])
        yield made


async def next_offset(consumer: AsyncConsumer) -> int:
    return (await anext(consumer)).offset


async def test_every_record_comes_once_and_in_order_however_it_is_asked_for(
    consumer: AsyncConsumer,
) -> None:
    seen: list[int] = []
    turn = 0
    while len(seen) < COUNT:
        turn += 1
        if turn % 3 == 0:
            found = await consumer.getmany(timeout_ms=GENEROUS_MS, max_records=turn)
            seen += [record.offset for records in found.values() for record in records]
        elif turn % 3 == 1:
            seen.append((await consumer.getone()).offset)
        else:
            seen += [await next_offset(consumer) for _ in range(min(turn, COUNT - len(seen)))]
        assert await consumer.position(FIRST) == len(seen)
    assert seen == list(range(COUNT))


async def test_records_that_are_there_come_without_a_turn_of_the_loop(
    consumer: AsyncConsumer,
) -> None:
    await anext(consumer)
    turns = 0

    def turn() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(turn)

    turn()
    offsets = [await next_offset(consumer) for _ in range(1_000)]
    assert offsets == list(range(1, 1_001))
    assert turns == 1


async def test_a_call_that_is_cancelled_has_taken_no_record(consumer: AsyncConsumer) -> None:
    consumer.assign(TPS)
    seen: dict[TopicPartition, list[int]] = {tp: [] for tp in TPS}
    async with asyncio.timeout(GENEROUS_MS / 1_000):
        for turn in count():
            if sum(map(len, seen.values())) == 2 * COUNT:
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(turn % 20 / 1_000):
                    for tp, rows in (await consumer.getmany(timeout_ms=GENEROUS_MS)).items():
                        seen[tp] += [row.offset for row in rows]
            assert [await consumer.position(tp) for tp in TPS] == list(map(len, seen.values()))
    assert all(offsets == list(range(COUNT)) for offsets in seen.values())


async def test_a_seek_in_the_midst_of_decoded_records(consumer: AsyncConsumer) -> None:
    assert await next_offset(consumer) == 0
    consumer.seek(FIRST, 4_321)
    assert await next_offset(consumer) == 4_321
    consumer.seek(FIRST, 1)
    assert await consumer.position(FIRST) == 1
    assert [await next_offset(consumer) for _ in range(3)] == [1, 2, 3]


async def test_a_paused_partition_is_not_handed_out_and_goes_on_where_it_was(
    consumer: AsyncConsumer,
) -> None:
    consumer.assign(TPS)
    one = await anext(consumer)
    tp = TopicPartition(one.topic, one.partition)
    consumer.pause(tp)
    assert {(await anext(consumer)).partition for _ in range(COUNT)} == {1 - tp.partition}
    assert await consumer.getone(timeout_ms=0) is None
    assert await consumer.position(tp) == 1
    consumer.resume(tp)
    assert [await next_offset(consumer) for _ in range(3)] == [1, 2, 3]


async def test_a_partition_that_is_not_assigned_any_more_is_not_handed_out(
    consumer: AsyncConsumer,
) -> None:
    await anext(consumer)
    consumer.assign([SECOND])
    found = [await anext(consumer) for _ in range(10)]
    assert [(one.partition, one.offset) for one in found] == [(1, at) for at in range(10)]
    consumer.assign(TPS)
    again = await consumer.getone(FIRST)
    assert again.offset == 0, "its position went with it"


async def test_records_of_some_partitions_only(consumer: AsyncConsumer) -> None:
    consumer.assign(TPS)
    for at in range(5):
        for tp in TPS:
            record = await consumer.getone(tp)
            assert (record.partition, record.offset) == (tp.partition, at)


async def test_after_the_end_nothing_is_handed_out(consumer: AsyncConsumer) -> None:
    await anext(consumer)
    await consumer.close()
    with pytest.raises(LocalProtocolError):
        await anext(consumer)


async def test_records_and_batches_alternate(consumer: AsyncConsumer) -> None:
    assert [await next_offset(consumer) for _ in range(3)] == [0, 1, 2]
    batches = consumer.batches()
    found = await anext(batches)
    await batches.aclose()
    assert found.batch.column("offset")[0].as_py() == 3
    assert found.next_offset == COUNT
    assert await consumer.getone(timeout_ms=0) is None
    consumer.seek(FIRST, 7)
    assert [await next_offset(consumer) for _ in range(3)] == [7, 8, 9]


@pytest.mark.parametrize("timeout_ms", [0, 20])
async def test_a_poll_with_a_time_limit_returns_none(
    consumer: AsyncConsumer, timeout_ms: int
) -> None:
    consumer.seek(FIRST, COUNT)
    assert await consumer.getone(timeout_ms=timeout_ms) is None
    assert await consumer.poll(timeout_ms) == {}


class SeeksLate(ConsumerRebalanceListener):
    """Goes elsewhere once it has found out where to."""

    def __init__(self, consumer: AsyncConsumer) -> None:
        self._consumer = consumer
        self.asked, self.found = asyncio.Event(), asyncio.Event()

    async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self.asked.set()
        await self.found.wait()
        for tp in assigned:
            self._consumer.seek(tp, 5)


@pytest.mark.parametrize("protocol", ["classic", "auto"])
async def test_a_listener_ends_although_its_poll_is_cancelled_and_the_next_one_waits_for_it(
    cluster: LocalCluster, protocol: str
) -> None:
    async with AsyncConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=f"late-{protocol}",
        group_protocol=protocol,
        auto_offset_reset="earliest",
    ) as reader:
        listener = SeeksLate(reader)
        reader.subscribe(["flights"], listener=listener)
        for _ in range(1_000):
            with suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    assert (await reader.getone()).offset == 5
                    break
            if listener.asked.is_set():  # by a poll that is cancelled by now
                listener.found.set()
        else:
            pytest.fail("no record came")


def test_the_blocking_consumer_does_not_ask_the_loop_while_records_are_there(
    blocking: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    run = Consumer._run

    def counted(self: Consumer, work: object) -> object:
        asked.append(work)
        return run(self, work)  # type: ignore[arg-type]

    monkeypatch.setattr(Consumer, "_run", counted)
    offsets = [record.offset for record in islice(blocking, COUNT)]
    assert offsets == list(range(COUNT))
    # once for each time that records may be handed out without a look at everything else
    assert len(asked) < COUNT / 100


def test_a_blocking_consumer_after_a_seek_a_pause_and_the_end(blocking: Consumer) -> None:
    assert blocking.getone().offset == 0
    blocking.seek(FIRST, 4_000)
    assert [blocking.getone().offset for _ in range(2)] == [4_000, 4_001]
    assert blocking.position(FIRST) == 4_002
    blocking.pause(FIRST)
    assert blocking.getone(timeout_ms=0) is None
    blocking.resume(FIRST)
    found = blocking.poll(timeout_ms=GENEROUS_MS, max_records=3)
    assert [record.offset for record in found[FIRST]] == [4_002, 4_003, 4_004]
    blocking.close()
    with pytest.raises(LocalProtocolError):
        blocking.getone()


def test_a_forked_child_hands_out_nothing(blocking: Consumer) -> None:
    assert blocking.getone().offset == 0
    child = os.fork()
    if child == 0:
        code = 1
        try:
            blocking.getone()
        except LocalProtocolError:
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert blocking.getone().offset == 1


STEPS = [
    (Stock, "take"),
    (CompletedFetch, "_records"),
    (Piece, "make"),
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step[1])
def test_a_blocking_call_that_is_interrupted_has_taken_no_record(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, step: tuple[type, str]
) -> None:
    done, real = count(), getattr(*step)

    def interrupted(*args: Any) -> Any:
        found = real(*args)
        if next(done) in (1, 6):
            raise KeyboardInterrupt  # Ctrl-C in a step comes when it is done
        return found

    monkeypatch.setattr(*step, interrupted)
    seen: dict[TopicPartition, list[int]] = {tp: [] for tp in TPS}
    with Consumer(
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        value_deserializer=bytes,
    ) as reader:
        reader.assign(TPS)
        while sum(map(len, seen.values())) < 2 * COUNT:
            with suppress(KeyboardInterrupt):
                for tp, rows in reader.getmany(timeout_ms=GENEROUS_MS, max_records=2_500).items():
                    seen[tp] += [row.offset for row in rows]
            assert [reader.position(tp) for tp in TPS] == list(map(len, seen.values()))
    assert all(offsets == list(range(COUNT)) for offsets in seen.values())


def test_a_batch_that_an_interrupted_call_has_taken_comes_again(
    blocking: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Consumer._run

    def interrupted(self: Consumer, work: Any) -> Any:
        found = run(self, work)
        if isinstance(found, tuple) and found[0] is not None:
            monkeypatch.undo()
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(Consumer, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(blocking.batches())
    assert blocking.position(FIRST) == 0
    assert next(blocking.batches()).batch.column("offset")[0].as_py() == 0
