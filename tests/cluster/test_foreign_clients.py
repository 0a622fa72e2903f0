"""confluent-kafka, aiokafka and kafka-python against
the embedded cluster, at the releases they support.

The embedded cluster and parley's client share their codecs, so that a bug in these would be
invisible between the two; these clients share nothing with either.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from parley.devcluster import LocalCluster

from ..support import GENEROUS_MS, GENEROUS_S

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of what they use of Python's
    import aiokafka
    import kafka

pytestmark = [
    pytest.mark.foreign,
    # Their sockets and event loops are theirs to close.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
]

TOPIC = "foreign"
PARTITIONS = 3
SECONDS = GENEROUS_S
BASE_MS = 1_600_000_000_000


class Record(NamedTuple):
    """A record to produce, and as a client sees it."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True)
class Client:
    """One foreign client: how it produces, how it consumes, and the oldest
    release that it speaks to.
    """

    produce: Callable[[str, Sequence[Record], str], None]
    consume: Callable[[str, int], list[Record]]
    oldest: str


# ── confluent-kafka ─────────────────────────────────────────────────────────────


def confluent_produce(bootstrap: str, records: Sequence[Record], codec: str) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20}
    )
    failures: list[object] = []
    for record in records:
        producer.produce(
            TOPIC, record.value, record.key, record.partition, timestamp=record.timestamp_ms,
            headers=list(record.headers), on_delivery=lambda error,
            _: failures.append(error) if error else None,
        )  # fmt: skip
    assert producer.flush(SECONDS) == 0
    assert failures == []


def confluent_consume(bootstrap: str, count: int) -> list[Record]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "foreign",
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, p, 0) for p in range(PARTITIONS)])
    found: list[Record] = []
    while len(found) < count:
        messages: list[Any] = consumer.consume(count, timeout=SECONDS)
        assert messages, f"{len(found)} of {count} records came"
        for m in messages:
            assert m.error() is None, m.error()
            kind, timestamp = m.timestamp()
            headers = tuple(m.headers() or ())
            timestamp = timestamp if kind != confluent_kafka.TIMESTAMP_NOT_AVAILABLE else -1
            found.append(Record(m.partition(), m.offset(), timestamp, m.key(), m.value(), headers))
    consumer.close()
    return found


# ── aiokafka ────────────────────────────────────────────────────────────────────


def aiokafka_produce(bootstrap: str, records: Sequence[Record], codec: str) -> None:
    async def produce() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            linger_ms=20,
        )
        await producer.start()
        try:
            sent = [
                await producer.send(
                    TOPIC,
                    r.value,
                    key=r.key,
                    partition=r.partition,
                    timestamp_ms=r.timestamp_ms,
                    headers=list(r.headers),
                )
                for r in records
            ]
            await asyncio.gather(*sent)
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(produce(), SECONDS))


def aiokafka_consume(bootstrap: str, count: int) -> list[Record]:
    async def consume() -> list[Record]:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
        await consumer.start()
        try:
            partitions = [aiokafka.TopicPartition(TOPIC, p) for p in range(PARTITIONS)]
            consumer.assign(partitions)
            await consumer.seek_to_beginning(*partitions)
            found: list[Record] = []
            while len(found) < count:
                for messages in (await consumer.getmany(timeout_ms=1000)).values():
                    found += [
                        Record(m.partition, m.offset, m.timestamp, m.key, m.value, tuple(m.headers))
                        for m in messages
                    ]
            return found
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(consume(), SECONDS))


# ── kafka-python ────────────────────────────────────────────────────────────────


def kafka_python_produce(bootstrap: str, records: Sequence[Record], codec: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        linger_ms=20,
    )
    sent = [
        producer.send(
            TOPIC,
            r.value,
            key=r.key,
            partition=r.partition,
            timestamp_ms=r.timestamp_ms,
            headers=list(r.headers),
        )
        for r in records
    ]
    for future in sent:
        future.get(timeout=SECONDS)
    producer.close()


def kafka_python_consume(bootstrap: str, count: int, **settings: Any) -> list[Record]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        consumer_timeout_ms=GENEROUS_MS,
        **settings,
    )
    partitions = [kafka.TopicPartition(TOPIC, p) for p in range(PARTITIONS)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    found = []
    for m in itertools.islice(consumer, count):
        timestamp = -1 if m.timestamp is None else m.timestamp
        found.append(Record(m.partition, m.offset, timestamp, m.key, m.value, tuple(m.headers)))
    consumer.close()
    return found


@pytest.fixture(autouse=True)
def _collect_their_sockets() -> Iterator[None]:
    """Collect the sockets that they leave unclosed here, where the warning is
    ignored, and not in a later test.
    """
    yield
    gc.collect()


CLIENTS = {
    "confluent-kafka": Client(confluent_produce, confluent_consume, "0.10.0"),
    "kafka-python": Client(kafka_python_produce, kafka_python_consume, "0.10.0"),
    # it writes magic 2 to any broker
    "aiokafka": Client(aiokafka_produce, aiokafka_consume, "0.11.0"),
}
RELEASES = ("0.10.0", "0.10.2", "0.11.0", "1.0", "2.1", "2.4", "3.9", "4.3")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def pairs() -> list[Any]:
    return [
        pytest.param(name, release, id=f"{name}-{release}")
        for name, client in CLIENTS.items()
        for release in RELEASES
        if number(release) >= number(client.oldest)
    ]


def drafts(release: str, count: int = 60) -> list[Record]:
    """Return records of all kinds, evenly over the partitions; without headers
    where the release has none.
    """
    made = []
    for i in range(count):
        key = None if i % 7 == 0 else b"" if i % 7 == 1 else b"key %d" % i
        value = None if i % 11 == 0 and key is not None else b"value %d " % i * (i % 5)
        headers = (
            (("a", b"%d" % i), ("a", b""), ("\u00fc", b"x"))
            if i % 3 == 0 and number(release) >= (0, 11)
            else ()
        )
        made.append(
            Record(
                i % PARTITIONS,
                i // PARTITIONS,
                BASE_MS + i * 1000 - (i % 4) * 5000,
                key,
                value,
                headers,
            )
        )
    return made


def codecs_of(release: str) -> list[str]:
    return [codec for codec in CODECS if codec != "zstd" or number(release) >= (2, 1)]


@pytest.mark.parametrize(("name", "release"), pairs())
def test_each_codec_goes_there_and_back(name: str, release: str) -> None:
    client = CLIENTS[name]
    for codec in codecs_of(release):
        with LocalCluster(brokers=2, release=release) as cluster:
            cluster.create_topic(TOPIC, partitions=PARTITIONS)
            records = drafts(release)
            client.produce(cluster.bootstrap_servers, records, codec)
            found = client.consume(cluster.bootstrap_servers, len(records))
        assert sorted(found) == sorted(records), codec


@pytest.mark.parametrize("release", ["0.11.0", "2.4", "4.3"])
@pytest.mark.parametrize(("writer", "reader"), list(itertools.permutations(CLIENTS, 2)))
def test_one_reads_what_another_wrote(writer: str, reader: str, release: str) -> None:
    with LocalCluster(brokers=1, release=release) as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS)
        records = drafts(release)
        CLIENTS[writer].produce(cluster.bootstrap_servers, records, "lz4")
        assert sorted(CLIENTS[reader].consume(cluster.bootstrap_servers, len(records))) == sorted(
            records
        )


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize(
    "releases",
    [{1: "2.4", 2: "3.9", 3: "4.3"}, {1: "0.11.0", 2: "1.0", 3: "2.4"}],
    ids=["new", "old"],
)
def test_brokers_of_different_releases(name: str, releases: dict[int, str]) -> None:
    with LocalCluster(brokers=3, releases=releases) as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS)
        assert {leader for leader, _ in cluster.leaders(TOPIC).values()} == {1, 2, 3}
        records = drafts("0.11.0")
        CLIENTS[name].produce(cluster.bootstrap_servers, records, "gzip")
        assert sorted(CLIENTS[name].consume(cluster.bootstrap_servers, len(records))) == sorted(
            records
        )


@pytest.mark.parametrize("name", CLIENTS)
def test_leaders_that_moved_are_found(name: str) -> None:
    client = CLIENTS[name]
    with LocalCluster(brokers=3, release="3.9") as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        records = drafts("3.9")
        half = len(records) // 2
        client.produce(cluster.bootstrap_servers, records[:half], "none")
        for partition, (leader, _) in cluster.leaders(TOPIC).items():
            cluster.move_leader(TOPIC, partition, leader % 3 + 1)
        cluster.kill_broker(1)
        client.produce(cluster.bootstrap_servers, records[half:], "none")
        assert sorted(client.consume(cluster.bootstrap_servers, len(records))) == sorted(records)


@pytest.mark.parametrize("old", [(0, 10, 0), (0, 9)], ids=["magic 1", "magic 0"])
@pytest.mark.parametrize("codec", CODECS[:4])
def test_old_consumers_get_old_formats(old: tuple[int, ...], codec: str) -> None:
    """What a new producer wrote is converted for a consumer that reads Fetch v1 or v2
    only (KIP-97's other half).
    """
    with LocalCluster(brokers=1, release="2.4") as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS)
        records = drafts("0.10.0")
        confluent_produce(cluster.bootstrap_servers, records, codec)
        found = kafka_python_consume(cluster.bootstrap_servers, len(records), api_version=old)
        expected = [r if old >= (0, 10) else r._replace(timestamp_ms=-1) for r in records]
        assert sorted(found) == sorted(expected)
        used = {entry.version for entry in cluster.requests("Fetch")}
        assert max(used) <= 3


def test_a_pinned_client_speaks_to_a_0_9_broker() -> None:
    with LocalCluster(brokers=1, release="0.9") as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS)
        producer = kafka.KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, api_version=(0, 9)
        )
        for i in range(30):
            producer.send(TOPIC, b"value %d" % i, partition=i % PARTITIONS).get(timeout=SECONDS)
        producer.close()
        found = kafka_python_consume(cluster.bootstrap_servers, 30, api_version=(0, 9))
        assert sorted(r.value or b"" for r in found) == sorted(b"value %d" % i for i in range(30))
        assert {r.timestamp_ms for r in found} == {-1}


def test_idempotent_producer_survives_a_lost_answer() -> None:
    """The first Produce is done, its answer lost: the retry carries the same
    sequence and is not stored twice.
    """
    with LocalCluster(brokers=1, release="3.9") as cluster:
        cluster.create_topic(TOPIC, partitions=1)
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 0,
            }
        )
        producer.produce(TOPIC, b"first", partition=0)
        assert producer.flush(SECONDS) == 0
        cluster.faults.cut("Produce", times=1)
        for i in range(20):
            producer.produce(TOPIC, b"%d" % i, partition=0)
        assert producer.flush(SECONDS) == 0
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"}
        )
        low, high = consumer.get_watermark_offsets(
            confluent_kafka.TopicPartition(TOPIC, 0), timeout=SECONDS
        )
        assert (low, high) == (0, 21)
        consumer.close()


@pytest.mark.parametrize("release", ["0.10.2", "2.4", "4.3"])
def test_offsets_of_a_group_are_kept(release: str) -> None:
    with LocalCluster(brokers=2, release=release) as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS)
        confluent_produce(cluster.bootstrap_servers, drafts("0.10.2"), "none")
        partition = confluent_kafka.TopicPartition(TOPIC, 1, 7)
        settings = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "g",
            "enable.auto.commit": False,
        }
        first = confluent_kafka.Consumer(settings)
        first.assign([partition])
        first.commit(offsets=[partition], asynchronous=False)
        first.close()
        second = confluent_kafka.Consumer(settings)
        asked = [confluent_kafka.TopicPartition(TOPIC, p) for p in (0, 1)]
        found = {p.partition: p.offset for p in second.committed(asked, timeout=SECONDS)}
        assert found == {0: confluent_kafka.OFFSET_INVALID, 1: 7}
        times = [confluent_kafka.TopicPartition(TOPIC, 0, BASE_MS + 30_000)]
        (by_time,) = second.offsets_for_times(times, timeout=SECONDS)
        late = [
            r for r in drafts(release) if r.partition == 0 and r.timestamp_ms >= BASE_MS + 30_000
        ]
        assert by_time.offset == min(r.offset for r in late)
        second.close()


@pytest.mark.parametrize("release", ["0.10.2", "1.0", "2.4", "3.9", "4.3"])
def test_topics_are_made_listed_and_deleted(release: str) -> None:
    with LocalCluster(brokers=3, release=release) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        new = NewTopic("made", num_partitions=4, replication_factor=2)
        admin.create_topics([new])["made"].result(SECONDS)
        metadata = admin.list_topics(timeout=SECONDS)
        assert sorted(metadata.brokers) == [1, 2, 3]
        assert {
            p: len(m.replicas) for p, m in metadata.topics["made"].partitions.items()
        } == dict.fromkeys(range(4), 2)
        admin.delete_topics(["made"])["made"].result(SECONDS)
        assert "made" not in admin.list_topics(timeout=SECONDS).topics
