"""Deserializers of consumers and serializers of producers: where they run, what errors leave."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Iterator

import pytest

from parley import AsyncConsumer, AsyncProducer, Consumer, Producer, TopicPartition
from parley.client import AcknowledgeType, AsyncShareConsumer, ConsumerRecord
from parley.devcluster import ClusterSettings, LocalCluster
from parley.errors import (
    ConfigError,
    LocalProtocolError,
    RecordDeserializationError,
    RegistryUnreachable,
)
from parley.registry import Schema, SchemaRegistryClient
from parley.serdes import Deserializer, Serializer
from parley_laboratory.shares import set_group

from ..support import GENEROUS_MS

CITY = Schema('{"type": "record", "name": "City", "fields": [{"name": "name", "type": "string"}]}')
SETTINGS = ClusterSettings(
    group_share_heartbeat_interval_ms=50, group_share_assignment_interval_ms=10
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, schema_registry=True, release="4.3", settings=SETTINGS) as running:
        yield running


@pytest.fixture
def topic(cluster: LocalCluster, request: pytest.FixtureRequest) -> str:
    """Two partitions: numbers from 0 on in both, and a text in the middle of the first."""
    name = f"t{abs(hash(request.node.nodeid)) % 10**9}"
    cluster.create_topic(name, partitions=2)
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for partition, values in enumerate(([b"0", b"1", b"two", None, b"4"], [b"0", b"1"])):
            for value in values:
                producer.produce(name, value, key=b"k", partition=partition)
    return name


def tps(topic: str, count: int = 1) -> list[TopicPartition]:
    return [TopicPartition(topic, one) for one in range(count)]


def consumer(cluster: LocalCluster, **options: object) -> Consumer:
    named: dict[str, object] = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "auto_offset_reset": "earliest",
        "value_deserializer": int,
        **options,
    }
    return Consumer(**named)  # type: ignore[arg-type]  # options by name


def record_of(error: RecordDeserializationError) -> ConsumerRecord:
    assert isinstance(error.record, ConsumerRecord)
    return error.record


def first_failure(reading: Consumer) -> RecordDeserializationError:
    """Read on to the record that cannot be deserialized."""
    try:
        while reading.getone(timeout_ms=GENEROUS_MS) is not None:
            pass
    except RecordDeserializationError as error:
        return error
    raise AssertionError("nothing came in time")


def values(found: dict[TopicPartition, list[ConsumerRecord]]) -> list[object]:
    return [record.value for records in found.values() for record in records]


def test_a_record_that_cannot_be_deserialized_is_not_passed(
    cluster: LocalCluster, topic: str
) -> None:
    (at,) = tps(topic)
    with consumer(cluster, key_deserializer=bytes.decode) as reading:
        reading.assign([at])
        first = reading.getone()
        assert (first.key, first.value, first.offset) == ("k", 0, 0)
        assert values(reading.getmany(timeout_ms=GENEROUS_MS)) == [1]
        for _ in range(3):
            with pytest.raises(RecordDeserializationError) as caught:
                reading.getmany(timeout_ms=GENEROUS_MS)
            assert reading.position(at) == 2
        error = caught.value
        assert (error.topic, error.partition, error.offset, error.part) == (topic, 0, 2, "value")
        assert isinstance(error.record, ConsumerRecord)
        assert (error.record.value, error.record.key) == (b"two", b"k")
        assert isinstance(error.__cause__, ValueError)
        assert f"the value of {topic}-0 at offset 2 cannot be deserialized: ValueError: " in str(
            error
        )
        assert not error.retriable
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.offset, again.record) == (str(error), 2, error.record)
        reading.seek(at, error.offset + 1)
        assert [reading.getone().value for _ in range(2)] == [None, 4]
        assert reading.position(at) == 5


def test_other_partitions_go_on(cluster: LocalCluster, topic: str) -> None:
    with consumer(cluster) as reading:
        reading.assign(tps(topic, 2))
        found: list[tuple[int, int]] = []
        errors = 0
        while len(found) < 4 or not errors:
            try:
                record = reading.getone(timeout_ms=GENEROUS_MS)
                assert record is not None
                found.append((record.partition, record.offset))
            except RecordDeserializationError:
                errors += 1
        assert sorted(found) == [(0, 0), (0, 1), (1, 0), (1, 1)]
        reading.pause(tps(topic)[0])
        assert reading.getone(timeout_ms=100) is None
        reading.resume(tps(topic)[0])
        with pytest.raises(RecordDeserializationError):
            reading.getone(timeout_ms=GENEROUS_MS)


def test_what_is_committed_does_not_pass_it(cluster: LocalCluster, topic: str) -> None:
    (at,) = tps(topic)
    for _ in range(2):
        with consumer(cluster, group_id=f"group-of-{topic}") as reading:
            reading.subscribe([topic])
            assert first_failure(reading).offset == 2
    with consumer(cluster, group_id=f"group-of-{topic}", value_deserializer=None) as reading:
        committed = reading.committed(at)
        assert committed is not None
        assert committed.offset == 2


async def test_deserializers_run_in_another_thread(cluster: LocalCluster, topic: str) -> None:
    threads: set[threading.Thread] = set()

    def read(data: bytes) -> str:
        threads.add(threading.current_thread())
        return data.decode()

    async with AsyncConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        value_deserializer=read,
    ) as reading:
        reading.assign(tps(topic))
        found = [(await reading.getone()).value for _ in range(5)]
        assert found == ["0", "1", "two", None, "4"]
        assert threads
        assert threading.current_thread() not in threads
        await reading.seek_to_beginning()
        async for batch in reading.batches():
            assert batch.batch.column("value")[0].as_py() == b"0"
            break
        await reading.seek_to_beginning()
        assert (await reading.getone()).value == "0"


async def test_an_asynchronous_consumer_stays_at_it(cluster: LocalCluster, topic: str) -> None:
    (at,) = tps(topic)
    async with AsyncConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        value_deserializer=int,
    ) as reading:
        reading.assign([at])
        assert [(await anext(reading)).value for _ in range(2)] == [0, 1]
        with pytest.raises(RecordDeserializationError) as caught:
            await reading.getone()
        reading.seek(at, caught.value.offset + 1)
        assert values(await reading.getmany(timeout_ms=GENEROUS_MS)) == [None, 4]


async def test_a_registry_that_is_away_is_asked_again(cluster: LocalCluster) -> None:
    url = cluster.schema_registry.url
    cluster.create_topic("towns")
    serialize = Serializer(
        SchemaRegistryClient(url), "towns-value", CITY, auto_register_schemas=True,
        framing="confluent-header",
    )  # fmt: skip
    key = Serializer(
        SchemaRegistryClient(url), "towns-key", CITY, auto_register_schemas=True,
        framing="confluent-header", is_key=True,
    )  # fmt: skip
    async with AsyncProducer(
        bootstrap_servers=cluster.bootstrap_servers, value_serializer=serialize, key_serializer=key
    ) as producer:
        for name in ("Oslo", "Bergen"):
            await producer.send_and_wait(
                "towns", {"name": name}, key={"name": "k"}, headers=[("own", b"x")]
            )
    registry = SchemaRegistryClient(url, max_retries=0)
    async with AsyncConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        value_deserializer=Deserializer(registry),
        key_deserializer=Deserializer(registry, is_key=True),
    ) as reading:
        reading.assign(tps("towns"))
        cluster.schema_registry.stop()
        with pytest.raises(RecordDeserializationError) as caught:
            await reading.getone()
        assert caught.value.retriable
        assert isinstance(caught.value.__cause__, RegistryUnreachable)
        cluster.schema_registry.start()
        cluster.schema_registry.clear_requests()
        records = [await reading.getone() for _ in range(2)]
    assert [record.value for record in records] == [{"name": "Oslo"}, {"name": "Bergen"}]
    assert [record.key for record in records] == [{"name": "k"}] * 2
    assert [name for name, _ in records[0].headers] == [
        "own", "__key_schema_id", "__value_schema_id",
    ]  # fmt: skip
    assert copy.copy(records[0]) == records[0]
    assert len(cluster.schema_registry.requests()) == 1


async def test_a_producer_asks_the_registry_when_it_starts(cluster: LocalCluster) -> None:
    registry = SchemaRegistryClient(cluster.schema_registry.url, max_retries=0)
    serialize = Serializer(registry, "not-there-value", CITY)
    made = AsyncProducer(bootstrap_servers=cluster.bootstrap_servers, value_serializer=serialize)
    with pytest.raises(ConfigError, match="not registered under not-there-value"):
        await made.start()
    await made.close()
    registry.register_schema("not-there-value", CITY)
    async with AsyncProducer(
        bootstrap_servers=cluster.bootstrap_servers, value_serializer=serialize
    ) as producer:
        cluster.schema_registry.clear_requests()
        await producer.send_and_wait("cities", {"name": "Oslo"})
    assert cluster.schema_registry.requests() == []


def test_options_that_cannot_be(cluster: LocalCluster) -> None:
    registry = SchemaRegistryClient(cluster.schema_registry.url)
    with pytest.raises(ConfigError, match=r"value_deserializer='utf-8' .*cannot be called"):
        consumer(cluster, value_deserializer="utf-8")
    with pytest.raises(
        ConfigError, match="key_deserializer: make the Deserializer with is_key=True"
    ):
        consumer(cluster, key_deserializer=Deserializer(registry))
    with pytest.raises(
        ConfigError, match=r"value_serializer: make the Serializer with is_key=False"
    ):
        Producer(
            bootstrap_servers=cluster.bootstrap_servers,
            value_serializer=Serializer(registry, "a-value", is_key=True),
        )
    with pytest.raises(ConfigError, match=r"key_deserializer=5 .*cannot be called"):
        AsyncShareConsumer(
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="g",
            key_deserializer=5,  # type: ignore[arg-type]  # the fault
        )


async def test_a_share_consumer_releases_it_unless_it_is_rejected(
    cluster: LocalCluster, topic: str
) -> None:
    group = f"group-of-{topic}"
    set_group(cluster.broker(1).address, group, {"share.auto.offset.reset": "earliest"})
    named = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": group}
    seen: list[tuple[int, int, object]] = []
    failures: list[ConsumerRecord] = []
    async with AsyncShareConsumer(**named, value_deserializer=int) as reading:  # type: ignore[arg-type]  # by name
        reading.subscribe([topic])
        while len(seen) < 6 or len(failures) < 2:
            try:
                found = await reading.getmany(timeout_ms=GENEROUS_MS)
            except RecordDeserializationError as error:
                failures.append(record_of(error))
                with pytest.raises(LocalProtocolError, match="acknowledged by polls"):
                    reading.acknowledge(failures[-1])
                continue
            seen += [
                (record.partition, record.offset, record.value)
                for records in found.values()
                for record in records
            ]
        await reading.commit()
    assert sorted(seen) == [
        (0, 0, 0), (0, 1, 1), (0, 3, None), (0, 4, 4), (1, 0, 0), (1, 1, 1),
    ]  # fmt: skip
    assert {(one.partition, one.offset, one.value) for one in failures} == {(0, 2, b"two")}
    assert [one.delivery_count for one in failures[:2]] == [1, 2]
    explicit = AsyncShareConsumer(
        **named,
        value_deserializer=int,
        share_acknowledgement_mode="explicit",  # type: ignore[arg-type]  # by name
    )
    async with explicit as reading:
        reading.subscribe([topic])
        with pytest.raises(RecordDeserializationError) as caught:
            await reading.getmany(timeout_ms=GENEROUS_MS)
        reading.acknowledge(record_of(caught.value), AcknowledgeType.REJECT)
        await reading.commit()
        assert await reading.getmany(timeout_ms=500) == {}
