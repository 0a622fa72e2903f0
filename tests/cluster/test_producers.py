"""Producers of records against embedded brokers: what each record's acknowledgement says, and what
confluent-kafka reads.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import confluent_kafka
import pyarrow as pa
import pytest

from parley import AsyncClient, AsyncProducer, TopicPartition
from parley.client import EARLIEST, LATEST, Client, RecordMetadata
from parley.devcluster import LocalCluster
from parley.errors import (
    BufferExhaustedError,
    ConfigError,
    LocalProtocolError,
    MessageTooLargeError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)

from ..support import GENEROUS_MS, GENEROUS_S, eventually_async
from .members_in_time import World

RELEASES = ("0.9.0.1", "1.1", "2.4", "3.9", "4.3")
WITHOUT_HEADERS = ("0.9.0.1",)
WITHOUT_TIMES = ("0.9.0.1",)
WITHOUT_PROBE = ("0.9.0.1",)
"""Releases that a foreign client does not find out by itself."""
PARTITIONS = 3


@pytest.fixture(scope="module", params=RELEASES)
def old_or_new(request: pytest.FixtureRequest) -> Iterator[tuple[LocalCluster, str]]:
    with LocalCluster(brokers=3, release=request.param, seed=1) as running:
        yield running, request.param


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"t{abs(hash(request.node.nodeid)) % 10**9}"


def made(cluster: LocalCluster, topic: str) -> str:
    cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=2)
    return topic


def producer(cluster: LocalCluster, **options: object) -> AsyncProducer:
    return AsyncProducer(bootstrap_servers=cluster.bootstrap_servers, **options)


def foreign_read(
    cluster: LocalCluster, release: str, topic: str, count: int
) -> list[confluent_kafka.Message]:
    """Return what confluent-kafka reads of a topic."""
    options = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"}
    if release in WITHOUT_PROBE:
        options |= {"api.version.request": "false", "broker.version.fallback": release}
    reader = confluent_kafka.Consumer({**options, "auto.offset.reset": "earliest"})
    try:
        reader.assign([confluent_kafka.TopicPartition(topic, i, 0) for i in range(PARTITIONS)])
        found: list[confluent_kafka.Message] = []
        while len(found) < count:
            batch = reader.consume(count - len(found), timeout=GENEROUS_S)
            assert batch, f"{len(found)} of {count} records"
            found += batch
        return found
    finally:
        reader.close()


def own_read(cluster: LocalCluster, topic: str) -> list[list[bytes]]:
    """Return the values of each partition."""
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        return [
            [
                value
                for batch in client.fetch(TopicPartition(topic, index), EARLIEST, LATEST)
                for value in batch.column("value").to_pylist()
            ]
            for index in range(PARTITIONS)
        ]


# ── every release ────────────────────────────────────────────────────────────


def test_each_record_is_where_its_acknowledgement_says(
    old_or_new: tuple[LocalCluster, str], topic: str
) -> None:
    cluster, release = old_or_new
    made(cluster, topic)
    time_ms = 1_600_000_000_000
    headers = None if release in WITHOUT_HEADERS else [("a", b"1"), ("a", None), ("ü", b"")]

    async def work() -> list[RecordMetadata]:
        async with producer(cluster) as sending:
            sent = [
                await sending.send(topic, b"keyed %d" % number, key=b"k%d" % (number % 7))
                for number in range(200)
            ]
            sent += [await sending.send(topic, b"spread %d" % number) for number in range(50)]
            sent += [
                await sending.send(topic, b"placed %d" % number, partition=number % PARTITIONS)
                for number in range(30)
            ]
            sent.append(await sending.send(topic, None, b"tombstone"))
            sent.append(await sending.send(topic, b"", b""))
            sent.append(await sending.send(topic, b"whole", b"k", headers, 1, time_ms))
            return [await one for one in sent]

    metadata = asyncio.run(work())
    read = {
        (message.partition(), message.offset()): message
        for message in foreign_read(cluster, release, topic, len(metadata))
    }
    values = [
        *(b"keyed %d" % number for number in range(200)),
        *(b"spread %d" % number for number in range(50)),
        *(b"placed %d" % number for number in range(30)),
        None, b"", b"whole",
    ]  # fmt: skip
    assert [read[found.partition, found.offset].value() for found in metadata] == values
    assert [found.partition for found in metadata[250:280]] == [n % PARTITIONS for n in range(30)]
    whole = read[metadata[-1].partition, metadata[-1].offset]
    assert (metadata[-1].partition, whole.key()) == (1, b"k")
    assert list(whole.headers() or ()) == (headers or [])
    if release not in WITHOUT_TIMES:
        assert whole.timestamp()[1] == metadata[-1].timestamp_ms == time_ms
        for found in metadata:
            message = read[found.partition, found.offset]
            assert message.timestamp()[1] == found.timestamp_ms
    by_key: dict[bytes, set[int]] = {}
    for message in read.values():
        if message.value() and message.value().startswith(b"keyed"):
            by_key.setdefault(message.key(), set()).add(message.partition())
    assert all(len(partitions) == 1 for partitions in by_key.values())


def test_records_and_arrow_rows_keep_one_order(
    old_or_new: tuple[LocalCluster, str], topic: str
) -> None:
    cluster, _ = old_or_new
    made(cluster, topic)

    async def work() -> None:
        client = AsyncClient(bootstrap_servers=cluster.bootstrap_servers)
        async with client, AsyncProducer(client, linger_ms=GENEROUS_MS) as sending:
            number = 0
            for turn in range(6):
                for _ in range(20):
                    await sending.send(topic, b"%d" % number, partition=0)
                    number += 1
                rows = pa.table({"value": [b"%d" % (number + n) for n in range(20)]})
                number += 20
                if turn % 2:
                    await sending.send_batch(topic, rows, 0)
                else:
                    await client.produce(topic, rows, 0)

    asyncio.run(work())
    assert own_read(cluster, topic)[0] == [b"%d" % number for number in range(240)]


def test_headers_are_refused_before_anything_is_sent_where_brokers_have_none(topic: str) -> None:
    with LocalCluster(brokers=1, release="0.10.2") as cluster:
        cluster.create_topic(topic, partitions=1)

        async def work() -> None:
            async with producer(cluster) as sending:
                with pytest.raises(UnsupportedVersionError, match="record-headers"):
                    await sending.send(topic, b"v", headers=[("a", b"b")])
                assert (await sending.send_and_wait(topic, b"v")).offset == 0

        asyncio.run(work())


# ── one release ──────────────────────────────────────────────────────────────


def test_what_cannot_be_sent_is_refused_at_the_call(cluster: LocalCluster, topic: str) -> None:
    made(cluster, topic)

    async def work() -> None:
        async with producer(cluster) as sending:
            wrong: list[tuple[dict[str, object], type[Exception], str]] = [
                ({"value": "text"}, ConfigError, r"value='text' .*\.encode\(\)"),
                ({"value": 7}, ConfigError, "value=7 .*value_serializer"),
                ({"value": b"", "key": 1.5}, ConfigError, "key=1.5"),
                ({"value": b"", "headers": {"a": b""}}, ConfigError, "headers="),
                (
                    {"value": b"", "headers": [("a", "b")]},
                    ConfigError,
                    r'header "a".*\.encode\(\)$',
                ),
                ({"value": b"", "headers": [(b"a", b"b")]}, ConfigError, "header "),
                ({"value": b"", "partition": -1}, ConfigError, "partition=-1"),
                ({"value": b"", "partition": True}, ConfigError, "partition=True"),
                ({"value": b"", "timestamp_ms": -5}, ConfigError, "timestamp_ms=-5"),
                ({"value": bytes(2**20)}, MessageTooLargeError, "1048576 bytes.*max_request_size"),
                ({"value": b"", "partition": 3}, UnknownTopicOrPartitionError, "3 partitions"),
            ]
            for _ in range(2):  # before the topic is known, and afterwards
                for named, kind, text in wrong:
                    with pytest.raises(kind, match=text):
                        await sending.send(topic, **named)
                await sending.send_and_wait(topic, b"right")
            with pytest.raises(ConfigError, match="no name"):
                await sending.send(["t"], b"")
        with pytest.raises(LocalProtocolError, match="closed"):
            await sending.send(topic, b"late")
        with pytest.raises(LocalProtocolError, match="closed"):
            sending.send_nowait(topic, b"late")

    asyncio.run(work())
    assert [*itertools.chain(*own_read(cluster, topic))] == [b"right", b"right"]


def test_a_full_buffer_makes_send_wait_and_then_raise(cluster: LocalCluster, topic: str) -> None:
    made(cluster, topic)
    value = bytes(10_000)

    async def work() -> None:
        limits = {"buffer_memory": 100_000, "max_block_ms": 200, "batch_size": 20_000}
        limits |= {"request_timeout_ms": 1_000}
        async with producer(cluster, **limits) as sending:
            await sending.send_and_wait(topic, b"first")
            cluster.faults.delay("Produce", 3_600_000, times=1)
            sent = []

            async def endlessly() -> None:
                while True:
                    sent.append(await sending.send(topic, value, partition=0))

            with pytest.raises(BufferExhaustedError, match=r"of buffer_memory=100000") as full:
                await endlessly()
            assert 6 <= len(sent) <= 10
            assert full.value.waited_ms >= 200
            with pytest.raises(BufferExhaustedError):
                sending.send_nowait(topic, value, partition=0)
            waiting = asyncio.ensure_future(sending.send(topic, value, partition=0))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await asyncio.wait_for(sending.flush(), GENEROUS_S)
            assert [(await one).offset >= 0 for one in sent] == [True] * len(sent)
            assert sending._core.writer._memory.used_bytes == 0

    asyncio.run(work())
    assert own_read(cluster, topic)[0].count(value) >= 6


def test_closing_says_of_each_record_whether_it_may_have_been_written(
    cluster: LocalCluster, topic: str
) -> None:
    made(cluster, topic)

    async def work() -> None:
        sending = await producer(cluster, max_in_flight_requests_per_connection=1).start()
        await sending.send_and_wait(topic, b"first", partition=0)
        cluster.faults.drop("Produce")
        on_its_way = await sending.send(topic, b"on its way", partition=0)
        in_flight = sending._core.writer._producer.sender.requests._in_flight
        await eventually_async(lambda: any(in_flight.values()))
        kept = await sending.send(topic, b"kept", partition=0)
        assert not on_its_way.done()
        with pytest.raises(LocalProtocolError, match="not known yet"):
            on_its_way.result()
        await sending.close(timeout_ms=50)
        assert (on_its_way.in_doubt, kept.in_doubt) == (True, False)
        with pytest.raises(Exception, match="closed before") as raised:
            await on_its_way
        assert "may be in the log" in raised.value.__notes__[0]
        assert "not written" in kept.exception().__notes__[0]

    asyncio.run(work())


def test_what_waits_for_its_turn_while_the_producer_is_closed_is_refused(
    cluster: LocalCluster, topic: str
) -> None:
    made(cluster, topic)

    async def work() -> None:
        sending = await producer(cluster).start()
        await sending.send_and_wait(topic, b"first", partition=0)
        sending._core.writer.owes_turn = True  # as under load
        late = asyncio.ensure_future(sending.send(topic, b"late", partition=0))
        await asyncio.sleep(0)  # it begins, and gives others their turn
        await sending.close()
        with pytest.raises(LocalProtocolError, match="is closed"):
            await late

    asyncio.run(work())
    assert own_read(cluster, topic)[0] == [b"first"]


def test_linger_gathers_and_flush_does_not_wait_for_it(cluster: LocalCluster, topic: str) -> None:
    made(cluster, topic)

    async def work() -> None:
        async with producer(cluster, linger_ms=GENEROUS_MS, partitioner="consistent") as sending:
            acknowledgements = [await sending.send(topic, b"v%d" % n, b"k") for n in range(100)]
            assert not acknowledgements[0].done()
            await sending.flush()
            assert all(one.done() for one in acknowledgements)
            offsets = [one.result().offset for one in acknowledgements]
            assert offsets == list(range(100))  # one partition, in order

    asyncio.run(work())


def test_what_is_sent_without_waiting_is_sent_and_errors_reach_the_hook(
    cluster: LocalCluster, topic: str
) -> None:
    made(cluster, topic)
    failed: list[object] = []

    async def work() -> None:
        options = {"allow_auto_create_topics": False, "max_block_ms": 500}
        options["on_error"] = lambda error, records: failed.append((error, records))
        async with producer(cluster, **options) as sending:
            for number in range(50):
                sending.send_nowait(topic, b"%d" % number, key=b"k")
            sending.send_nowait("missing", b"1")
            sending.send_nowait("missing", b"2")
            await sending.flush()

    asyncio.run(work())
    assert max(own_read(cluster, topic), key=len) == [b"%d" % number for number in range(50)]
    ((error, records),) = failed
    assert isinstance(error, UnknownTopicOrPartitionError)
    assert records == ("missing", -1, 2, False)


def test_thousands_of_topics_share_one_producer_id_and_their_records_gather_into_few_batches() -> (
    None
):
    topics, rounds = [f"many-{number}" for number in range(150)], 40
    memory = len(topics) * rounds * (100 + 16) // 4  # a quarter of all records
    world = World("3.9")  # else it depends on the machine how many wait for others
    for topic in topics:
        world.cluster.create_topic(topic, partitions=1)
    world.cluster.faults.delay("Produce", 150)

    async def work() -> list[list[RecordMetadata]]:
        async with (
            world.client() as client,
            AsyncProducer(client, linger_ms=0, buffer_memory=memory) as sending,
        ):
            await asyncio.gather(*(sending.send_and_wait(topic, b"first") for topic in topics))
            sent = [
                [await sending.send(topic, b"%0100d" % number) for topic in topics]
                for number in range(rounds)
            ]
            return [[await one for one in each] for each in sent]

    try:
        found = world.time.run(work())
        produced, ids = (world.cluster.requests(api) for api in ("Produce", "InitProducerId"))
    finally:
        world.close()
    # every topic has its records in the order in which they were sent
    for number, each in enumerate(found, 1):
        assert [(one.topic, one.offset) for one in each] == [(topic, number) for topic in topics]
    assert len(ids) == 1
    batches = sum(
        len(entry.partition_data) for request in produced for entry in request.message.topic_data
    )
    assert batches <= len(topics) * (1 + rounds // 3)
