"""parley's share consumers in share groups that real brokers coordinate (KIP-932)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from parley.client import (
    AcknowledgeType,
    AsyncShareConsumer,
    Client,
    ConsumerRecord,
    NewTopic,
    ShareConsumer,
    TopicPartition,
)
from parley.errors import (
    CommitFailedError,
    InvalidRecordStateError,
    KafkaError,
    LocalProtocolError,
    UnsupportedVersionError,
)
from parley.testing.realbroker import RealCluster
from parley.testing.realbroker.artifacts import class_path
from parley.testing.realbroker.java import java_command
from parley.testing.realbroker.releases import broker_artifacts, tools_artifacts
from parley_laboratory.shares import set_group

from ..support import GENEROUS_MS, GENEROUS_S, eventually, eventually_async

pytestmark = pytest.mark.matrix
RELEASES = ("4.2.0", "4.3.0")
JAVA = Path(__file__).with_name("ShareReads.java")


@pytest.fixture(params=RELEASES)
def broker(
    request: pytest.FixtureRequest, real_cluster: Callable[[str], RealCluster]
) -> RealCluster:
    return real_cluster(request.param)


@pytest.fixture
def client(broker: RealCluster) -> Iterator[Client]:
    with Client(bootstrap_servers=broker.bootstrap_servers) as made:
        yield made


@pytest.fixture
def topic(broker: RealCluster, client: Client, topic_name: str) -> str:
    """A topic of one partition, with a share group of the same name that
    begins at its beginning.
    """
    client.create_topics([NewTopic(topic_name, num_partitions=1)])
    set_group(broker.bootstrap_servers, topic_name, {"share.auto.offset.reset": "earliest"})
    return topic_name


def write(client: Client, topic: str, values: range, partitions: int = 1) -> None:
    table = {
        "value": [b"%d" % at for at in values],
        "partition": pa.array([at % partitions for at in values], pa.int32()),
    }
    client.produce(topic, pa.table(table))


@asynccontextmanager
async def member(
    broker: RealCluster, topic: str, **options: Any
) -> AsyncIterator[AsyncShareConsumer]:
    async with AsyncShareConsumer(
        bootstrap_servers=broker.bootstrap_servers, group_id=topic, **options
    ) as consumer:
        consumer.subscribe([topic])
        yield consumer


async def some(consumer: AsyncShareConsumer, most: int | None = None) -> list[ConsumerRecord]:
    """Return what the next poll that finds anything returns, of all partitions."""
    found = await consumer.getmany(timeout_ms=GENEROUS_MS, max_records=most)
    assert found
    return [record for records in found.values() for record in records]


async def test_records_are_accepted_released_and_rejected(
    broker: RealCluster, client: Client, topic: str
) -> None:
    await asyncio.to_thread(write, client, topic, range(10))
    heard: list[tuple[dict[TopicPartition, tuple[int, ...]], KafkaError | None]] = []
    async with member(broker, topic, share_acknowledgement_mode="explicit") as consumer:
        consumer.set_acknowledgement_commit_callback(
            lambda offsets, error: heard.append((offsets, error))
        )
        records = await some(consumer)
        assert [(record.value, record.delivery_count) for record in records] == [
            (b"%d" % at, 1) for at in range(10)
        ]
        with pytest.raises(
            LocalProtocolError, match="10 records of the poll before are not acknowledged"
        ):
            await consumer.getmany()
        for record in records:
            kinds = {3: AcknowledgeType.RELEASE, 5: AcknowledgeType.REJECT}
            consumer.acknowledge(record, kinds.get(record.offset, AcknowledgeType.ACCEPT))
        await consumer.commit()
        assert heard == [({TopicPartition(topic, 0): tuple(range(10))}, None)]
        assert consumer.acquisition_lock_timeout_ms == 30_000
        (again,) = await some(consumer)
        assert (again.offset, again.delivery_count) == (3, 2)
        consumer.acknowledge(TopicPartition(topic, 0), offset=3)
        await consumer.commit()
        with pytest.raises(LocalProtocolError, match="does not have the record"):
            consumer.acknowledge(again)
        await asyncio.to_thread(write, client, topic, range(10, 11))
        (last,) = await some(consumer)
        assert (last.offset, last.delivery_count) == (10, 1)
        consumer.acknowledge(last)
    # what was acknowledged before the end is accepted
    async with member(broker, topic) as consumer:
        await asyncio.to_thread(write, client, topic, range(11, 12))
        assert [record.offset for record in await some(consumer)] == [11]


async def test_polls_accept_what_the_poll_before_returned(
    broker: RealCluster, client: Client, topic: str
) -> None:
    await asyncio.to_thread(write, client, topic, range(100))
    async with member(broker, topic) as consumer:
        assert consumer.subscription() == {topic}
        with pytest.raises(LocalProtocolError, match="explicit"):
            consumer.acknowledge(TopicPartition(topic, 0), offset=0)
        read = [await consumer.getone() for _ in range(60)]
        assert [record.offset for record in read] == list(range(60))
        assert consumer.health().state == "stable"
        assert consumer.health().assigned == (TopicPartition(topic, 0),)
    async with member(broker, topic) as consumer:  # the 60th was released, all before were accepted
        records = await some(consumer)
        assert [(record.offset, record.delivery_count) for record in records[:2]] == [
            (59, 2),
            (60, 2),
        ]
        await consumer.commit()
        await asyncio.to_thread(write, client, topic, range(100, 101))
        assert [record.offset for record in await some(consumer)] == [100]
        await consumer.unsubscribe()
        assert consumer.subscription() == frozenset()


async def test_two_members_share_the_records_of_one_partition(
    broker: RealCluster, client: Client, topic: str
) -> None:
    limited = {"share_acquire_mode": "record_limit", "max_poll_records": 5}
    read: list[Counter[int]] = [Counter(), Counter()]

    async def poll(consumer: AsyncShareConsumer, into: Counter[int]) -> None:
        while True:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                assert len(records) <= 5
                into.update(record.offset for record in records)

    async with member(broker, topic, **limited) as one, member(broker, topic, **limited) as two:
        tasks = [asyncio.create_task(poll(*each)) for each in zip((one, two), read, strict=True)]
        await eventually_async(lambda: one.health().assigned and two.health().assigned)
        for at in range(10):
            await asyncio.to_thread(write, client, topic, range(at * 20, at * 20 + 20))
        await eventually_async(lambda: (read[0] + read[1]).total() >= 200)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        (described,) = (await asyncio.to_thread(client.list_groups, types=["share"]))[-1:]
        assert described.type == "share"
    assert sorted(read[0] + read[1]) == list(range(200))
    assert set((read[0] + read[1]).values()) == {1}
    assert all(read)


async def test_a_record_that_is_renewed_comes_again(
    broker: RealCluster, client: Client, topic: str
) -> None:
    await asyncio.to_thread(write, client, topic, range(3))
    async with member(broker, topic, share_acknowledgement_mode="explicit") as consumer:
        records = await some(consumer)
        for record, kind in zip(records, ("ACCEPT", "RENEW", "RENEW"), strict=True):
            consumer.acknowledge(record, AcknowledgeType[kind])
        again = await some(consumer)
        assert [(record.offset, record.delivery_count) for record in again] == [(1, 1), (2, 1)]
        consumer.acknowledge(again[0], AcknowledgeType.RENEW)
        consumer.acknowledge(again[1])
        await consumer.commit()
        consumer.acknowledge(again[0])  # it is this member's still
        await consumer.commit()
        await asyncio.to_thread(write, client, topic, range(3, 4))
        assert [record.offset for record in await some(consumer)] == [3]


async def test_a_lock_that_is_over_gives_the_record_to_another(
    broker: RealCluster, client: Client, topic: str
) -> None:
    set_group(broker.bootstrap_servers, topic, {"share.record.lock.duration.ms": "1000"})
    await asyncio.to_thread(write, client, topic, range(1))
    async with member(broker, topic, share_acknowledgement_mode="explicit") as consumer:
        (record,) = await some(consumer)
        assert consumer.acquisition_lock_timeout_ms == 1_000
        async with member(broker, topic) as other:
            (lost,) = await some(other)
            assert lost.offset == 0
            assert lost.delivery_count > record.delivery_count  # type: ignore[operator]
            consumer.acknowledge(record)
            with pytest.raises(CommitFailedError) as failed:
                await consumer.commit()
            assert isinstance(
                failed.value.failures[TopicPartition(topic, 0)], InvalidRecordStateError
            )


async def test_gaps_count_as_acknowledged(broker: RealCluster, client: Client, topic: str) -> None:
    """Markers of transactions lie among what a share group gives, and stand for no record."""

    def transactions() -> None:
        with client.transactions.producer(topic) as producer:
            for end in (
                producer.commit_transaction,
                producer.abort_transaction,
                producer.commit_transaction,
            ):
                producer.begin_transaction()
                producer.produce(topic, pa.table({"value": [b"x", b"y"]}))
                end()

    set_group(broker.bootstrap_servers, topic, {"share.isolation.level": "read_committed"})
    await asyncio.to_thread(transactions)
    await asyncio.to_thread(write, client, topic, range(1))
    async with member(broker, topic) as consumer:
        read: list[ConsumerRecord] = []
        while len(read) < 5:
            read += await some(consumer)
        await consumer.commit()
    # The last marker may be written before or behind the record that follows the transaction.
    assert [record.value for record in read] == [b"x", b"y", b"x", b"y", b"0"]
    assert [record.offset for record in read[:4]] == [0, 1, 6, 7]
    async with member(broker, topic) as consumer:
        await asyncio.to_thread(write, client, topic, range(1))
        assert [record.offset for record in await some(consumer)] == [10]


def test_the_blocking_consumer_reads_several_partitions(
    broker: RealCluster, client: Client, topic_name: str
) -> None:
    client.create_topics([NewTopic(topic_name, num_partitions=3)])
    set_group(broker.bootstrap_servers, topic_name, {"share.auto.offset.reset": "earliest"})
    write(client, topic_name, range(300), partitions=3)
    heard: Counter[int] = Counter()
    with ShareConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=topic_name) as consumer:
        consumer.set_acknowledgement_commit_callback(
            lambda offsets, error: heard.update(
                {tp.partition: len(some) for tp, some in offsets.items()}
            )
        )
        consumer.subscribe(iter([topic_name]))
        read: Counter[bytes | None] = Counter()

        def all_read() -> bool:
            for records in consumer.getmany(timeout_ms=500, max_records=70).values():
                read.update(record.value for record in records)
            return read.total() == 300

        eventually(all_read)
        consumer.commit_async()
        consumer.commit()
    assert set(read.values()) == {1}
    assert heard == {0: 100, 1: 100, 2: 100}


async def test_a_broker_that_is_gone_for_a_while(topic_name: str) -> None:
    with (
        RealCluster("4.3.0") as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        await asyncio.to_thread(client.create_topics, [NewTopic(topic_name)])
        await asyncio.to_thread(
            set_group,
            cluster.bootstrap_servers,
            topic_name,
            {"share.auto.offset.reset": "earliest"},
        )
        await asyncio.to_thread(write, client, topic_name, range(3))
        async with member(cluster, topic_name, share_acknowledgement_mode="explicit") as consumer:
            for record in await some(consumer):
                consumer.acknowledge(record)
            await asyncio.to_thread(cluster.kill, 1)
            with pytest.raises(CommitFailedError):
                await consumer.commit()
            await asyncio.to_thread(cluster.start_broker, 1)
            records = await some(consumer)
            assert [record.offset for record in records] == [0, 1, 2]


@pytest.mark.parametrize("old", ["2.4.1", "4.0.0"])
async def test_brokers_without_share_groups_are_refused(
    old: str, real_cluster: Callable[[str], RealCluster]
) -> None:
    consumer = AsyncShareConsumer(
        bootstrap_servers=real_cluster(old).bootstrap_servers, group_id="jobs"
    )
    with pytest.raises(UnsupportedVersionError, match=r"share-groups.*4\.1"):
        await consumer.start()
    await consumer.close()


async def test_java_and_parley_share_the_records_of_one_partition(
    client: Client, broker: RealCluster, topic: str, tmp_path: Path
) -> None:
    """What Java releases parley gets, and what parley releases Java gets; each record
    is accepted by one of them.
    """
    path = class_path((*broker_artifacts("4.3.0"), *tools_artifacts("4.3.0")))
    orders = [
        str(JAVA),
        broker.bootstrap_servers,
        topic,
        topic,
        "share.acknowledgement.mode=explicit",
    ]
    command = java_command(path, orders, heap_mb=256, log4j_file=tmp_path / "log4j.properties")
    await asyncio.to_thread(write, client, topic, range(10))
    java = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with member(broker, topic, share_acknowledgement_mode="explicit") as consumer:
            records = await some(consumer)
            assert len(records) == 10
            for record in records:
                kind = AcknowledgeType.ACCEPT if record.offset < 6 else AcknowledgeType.RELEASE
                consumer.acknowledge(record, kind)
            await consumer.commit()
            said = await ordered(java, "poll 4 accept accept release")
            assert said == [f"record 0 {offset} 2" for offset in range(6, 10)]
            assert await ordered(java, "commit") == ["committed 0 -"]
            again: dict[int, int | None] = {}
            while len(again) < 2:  # near the limit of deliveries they may come one by one
                for record in await some(consumer):
                    again[record.offset] = record.delivery_count
                    consumer.acknowledge(record)
                await consumer.commit()
            # Java, which fetches ahead, may have had them once more.
            assert again in ({8: 3, 9: 3}, {8: 4, 9: 3}, {8: 4, 9: 4})
            await asyncio.to_thread(write, client, topic, range(10, 11))
            found: list[str] = []
            while "record 0 10 1" not in found:
                found += await ordered(java, "poll 1 accept")
            # It may hold those still that it fetched ahead, and that are another's by now.
            assert (
                {"record 0 10 1"} <= set(found) <= {"record 0 10 1", "record 0 8 3", "record 0 9 3"}
            )
            if len(found) == 1:
                assert await ordered(java, "commit") == ["committed 0 -"]
    finally:
        java.kill()
        await java.wait()


async def ordered(java: asyncio.subprocess.Process, line: str) -> list[str]:
    """Have ShareReads.java carry a line out; return what it printed."""
    assert java.stdin is not None
    assert java.stdout is not None
    java.stdin.write(f"{line}\n".encode())
    found: list[str] = []
    async with asyncio.timeout(GENEROUS_S):
        while not (said := (await java.stdout.readline()).decode()).startswith("done "):
            assert said, found
            found.append(said.strip())
    return found
