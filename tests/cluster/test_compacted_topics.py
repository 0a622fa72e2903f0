"""Compacted topics of the embedded cluster, as applications see them: gaps, tombstones, the end."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
import pytest

from parley import Client, TopicPartition
from parley.client import Consumer, NewTopic, Producer, ShareConsumer
from parley.devcluster import AsyncLocalCluster, ClusterSettings, LocalCluster
from parley.devcluster.control.control import Control
from parley.errors import ConfigError
from parley_laboratory.shares import set_group

from ..support import GENEROUS_S

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of what it uses of Python's
    import aiokafka

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
TOPIC = "table"
END_OF_PARTITION = confluent_kafka.KafkaError._PARTITION_EOF


class Seen(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None


Read = Callable[[str, int, int], list[Seen]]
"""Reads from an offset on until it has come to another one: how it is reached is the client's."""


def read_with_parley(bootstrap: str, start: int, end: int) -> list[Seen]:
    found: list[Seen] = []
    with Consumer(
        bootstrap_servers=bootstrap, group_id=None, isolation_level="read_committed"
    ) as consumer:
        where = TopicPartition(TOPIC, 0)
        consumer.assign([where])
        consumer.seek(where, start)
        while consumer.position(where) < end:
            for rows in consumer.getmany(timeout_ms=100).values():
                found += [Seen(one.offset, one.key, one.value) for one in rows]
    return found


def read_with_confluent(bootstrap: str, start: int, end: int) -> list[Seen]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, start)])
    found: list[Seen] = []
    while True:
        message = consumer.poll(GENEROUS_S)
        assert message is not None
        if message.error() is not None:  # it says at which offset it has come to the end
            assert (message.error().code(), message.offset()) == (END_OF_PARTITION, end)
            break
        found.append(Seen(message.offset(), message.key(), message.value()))
    consumer.close()
    return found


def read_with_aiokafka(bootstrap: str, start: int, end: int) -> list[Seen]:
    async def read() -> list[Seen]:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, enable_auto_commit=False, isolation_level="read_committed"
        )
        await consumer.start()
        try:
            where = aiokafka.TopicPartition(TOPIC, 0)
            consumer.assign([where])
            consumer.seek(where, start)
            found: list[Seen] = []
            while await consumer.position(where) < end:
                for messages in (await consumer.getmany(timeout_ms=100)).values():
                    found += [Seen(one.offset, one.key, one.value) for one in messages]
            return found
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(read(), GENEROUS_S))


READERS: dict[str, Read] = {
    "parley": read_with_parley,
    "confluent-kafka": read_with_confluent,
    "aiokafka": read_with_aiokafka,
}


@pytest.fixture(autouse=True)
def _collect_their_sockets() -> Iterator[None]:
    """Collect the sockets that foreign clients leave unclosed here: the warning is ignored."""
    yield
    gc.collect()


@pytest.fixture(scope="module", params=["0.11", "4.3"])
def filled(request: pytest.FixtureRequest) -> Iterator[tuple[LocalCluster, list[Seen], int]]:
    """A compacted topic with every kind of gap: what is left in it, and where it ends."""
    with LocalCluster(brokers=2, release=request.param, seed=1) as cluster:
        cluster.create_topic(
            TOPIC, configs={"cleanup.policy": "compact", "delete.retention.ms": "0"}
        )
        bootstrap = cluster.bootstrap_servers
        for number, codec in enumerate(["none", "gzip", "snappy", "lz4"]):
            with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
                for key in range(10):
                    text = f"{number} {key}".encode()
                    producer.produce(TOPIC, text, key=f"k{key % (7 - number)}".encode())
        with Producer(bootstrap_servers=bootstrap, transactional_id="t") as producer:
            producer.begin_transaction()
            producer.produce(TOPIC, b"never there", key=b"k5").result()
            producer.abort_transaction()
            with producer.transaction():
                producer.produce(TOPIC, b"committed", key=b"k1")
        with Producer(bootstrap_servers=bootstrap) as producer:
            producer.produce(TOPIC, None, key=b"k6").result()
        for _ in range(2):  # the tombstone at the end is seen by one round, and goes with the next
            cluster.compact(TOPIC)
            cluster.advance(1)
        left = read_with_parley(bootstrap, 0, 45)
        yield cluster, left, 45


def test_of_each_key_the_newest_record_is_left(
    filled: tuple[LocalCluster, list[Seen], int],
) -> None:
    cluster, left, _ = filled
    assert {one.key: one.value for one in left} == {
        b"k0": b"3 8", b"k1": b"committed", b"k2": b"3 6", b"k3": b"3 7", b"k4": b"2 9",
        b"k5": b"1 5",
    }  # fmt: skip
    assert [one.offset for one in left] == sorted(one.offset for one in left)
    assert cluster.replicas_agree().agrees


@pytest.mark.foreign
@pytest.mark.parametrize("reader", list(READERS))
def test_consumers_read_across_the_gaps_to_the_end(
    filled: tuple[LocalCluster, list[Seen], int], reader: str
) -> None:
    cluster, left, end = filled
    read = READERS[reader]
    assert read(cluster.bootstrap_servers, 0, end) == left
    gap = left[1].offset + 1
    assert gap not in {one.offset for one in left}
    assert read(cluster.bootstrap_servers, gap, end) == left[2:]
    assert read(cluster.bootstrap_servers, left[-1].offset + 1, end) == []


def test_a_range_ends_in_a_gap(filled: tuple[LocalCluster, list[Seen], int]) -> None:
    cluster, left, end = filled
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        read = list(client.fetch(TopicPartition(TOPIC, 0), 0, end))
    offsets = [offset for batch in read for offset in batch.column("offset").to_pylist()]
    assert offsets == [one.offset for one in left]


def test_a_share_group_passes_over_the_gaps(
    filled: tuple[LocalCluster, list[Seen], int],
) -> None:
    cluster, left, _ = filled
    if cluster.brokers[0].release < "4.2":
        return
    set_group(cluster.broker(1).address, "sharing", {"share.auto.offset.reset": "earliest"})
    bootstrap = cluster.bootstrap_servers
    with ShareConsumer(bootstrap_servers=bootstrap, group_id="sharing") as consumer:
        consumer.subscribe([TOPIC])
        found = [consumer.getone() for _ in left]
    assert [(one.offset, one.key, one.value) for one in found] == left


# -- the cluster's calls ---------------------------------------------------------------------------


def test_compaction_on_command_counts_what_went() -> None:
    with LocalCluster(brokers=1, seed=1) as cluster:
        cluster.create_topic(TOPIC, partitions=2, configs={"cleanup.policy": "compact"})
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for number in range(5):
                producer.produce(TOPIC, b"%d" % number, key=b"k", partition=1).result()
        assert cluster.compact(TOPIC, roll=False) == {0: 0, 1: 0}, "it is all in the open segment"
        assert cluster.compact(TOPIC) == {0: 0, 1: 4}
        cluster.create_topic("plain")
        with pytest.raises(ConfigError, match=r"plain is not compacted; set its cleanup\.policy"):
            cluster.compact("plain")
        with pytest.raises(ConfigError, match='no topic "absent"'):
            cluster.compact("absent")


async def test_compaction_as_a_command(tmp_path: Path) -> None:
    async with AsyncLocalCluster(1, seed=1) as cluster, Control(cluster, tmp_path) as control:
        cluster.create_topic(TOPIC, configs={"cleanup.policy": "compact"})
        answer = await control.answer(b'{"command": "compact", "arguments": {"topic": "table"}}')
    assert answer == b'{"ok":true,"result":{"0":0}}'


def test_a_topic_of_a_client_is_compacted_by_itself() -> None:
    settings = ClusterSettings(log_cleaner_backoff_ms=1_000)
    with (
        LocalCluster(brokers=1, release="3.9", settings=settings, seed=1) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
        Producer(bootstrap_servers=cluster.bootstrap_servers) as producer,
    ):
        configs = {"cleanup.policy": "compact", "segment.ms": "1000"}
        client.create_topics([NewTopic(TOPIC, num_partitions=1, configs=configs)])
        for number in range(3):
            written = producer.produce(TOPIC, b"%d" % number, key=b"k").result()
        later_ms = written.timestamp_ms + 1_001
        producer.produce(TOPIC, b"3", key=b"other", timestamp_ms=later_ms).result()
        cluster.advance(1_000)
        left = read_with_parley(cluster.bootstrap_servers, 0, 4)
    assert [one.offset for one in left] == [2, 3]
