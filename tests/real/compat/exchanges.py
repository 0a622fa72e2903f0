"""Records of parley's producers and consumers, and of the other clients, written and read one by
one: what the rows of docs/compatibility.md about applications are made of.
"""

from __future__ import annotations

import asyncio
import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import confluent_kafka

from parley import AsyncConsumer, AsyncProducer, Consumer, Producer, TopicPartition
from parley.testing.realbroker.releases import version_tuple

from ...support import GENEROUS_MS, GENEROUS_S
from .document import OTHERS as NAMES

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of what they use of Python's
    import aiokafka
    import kafka

TIME_MS = 1_700_000_000_000


class Exchanged(NamedTuple):
    """A record as every client sees it. `timestamp_ms` is -1 where the broker keeps none."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class Place(NamedTuple):
    """Where records are exchanged: partition 0 of a topic."""

    servers: str
    topic: str
    release: str

    def has(self, release: str) -> bool:
        """Whether the broker is of that release or a later one."""
        return version_tuple(self.release) >= version_tuple(release)


Write = Callable[[Place, Sequence[Exchanged]], None]
Read = Callable[[Place, int], list[Exchanged]]


def drafts(place: Place, first: int, count: int) -> list[Exchanged]:
    """Return records of all kinds; without headers and times where the release has none."""
    return [
        Exchanged(
            number,
            TIME_MS + number if place.has("0.10") else -1,
            None if number % 5 == 0 else b"key %d" % number,
            None if number % 7 == 1 and number % 5 else b"value %d" % number,
            (("a", b"%d" % number), ("b", b"")) if place.has("0.11") and number % 3 == 0 else (),
        )
        for number in range(first, first + count)
    ]


def _arguments(record: Exchanged) -> dict[str, Any]:
    """Return what parley, aiokafka and kafka-python call the parts of a record."""
    given: dict[str, Any] = {"value": record.value, "key": record.key, "partition": 0}
    if record.timestamp_ms >= 0:
        given["timestamp_ms"] = record.timestamp_ms
    if record.headers:
        given["headers"] = list(record.headers)
    return given


# -- parley ------------------------------------------------------------------------------------


def send(place: Place, records: Sequence[Exchanged]) -> None:
    """AsyncProducer, the first half; Producer, the second."""

    async def first(half: Sequence[Exchanged]) -> None:
        async with AsyncProducer(bootstrap_servers=place.servers) as producer:
            sent = [await producer.send(place.topic, **_arguments(one)) for one in half]
            found = [await one for one in sent]
        assert [one.offset for one in found] == [one.offset for one in half]

    middle = len(records) // 2
    asyncio.run(first(records[:middle]))
    with Producer(bootstrap_servers=place.servers, batch_size=200) as producer:
        held = [producer.produce(place.topic, **_arguments(one)) for one in records[middle:]]
        assert [one.result().offset for one in held] == [one.offset for one in records[middle:]]


def _seen(record: Any) -> Exchanged:
    headers = tuple((name, value) for name, value in record.headers or ())
    time_ms = -1 if record.timestamp is None else record.timestamp
    return Exchanged(record.offset, time_ms, record.key, record.value, headers)


def receive(place: Place, count: int) -> list[Exchanged]:
    """AsyncConsumer and Consumer must see the same."""
    tp, found = TopicPartition(place.topic, 0), []
    options = {"bootstrap_servers": place.servers, "auto_offset_reset": "earliest"}

    async def awaited() -> list[Exchanged]:
        async with AsyncConsumer(**options) as consumer:
            consumer.assign([tp])
            return [_seen(await consumer.getone()) for _ in range(count)]

    with Consumer(**options) as consumer:
        consumer.assign([tp])
        while len(found) < count:
            polled = consumer.getmany(timeout_ms=GENEROUS_MS, max_records=count - len(found))
            assert polled
            found += [_seen(record) for records in polled.values() for record in records]
    assert asyncio.run(awaited()) == found
    return found


# -- the others --------------------------------------------------------------------------------


def _pinned(place: Place) -> dict[str, Any]:
    """Return what kafka-python is to be given for a broker that answers no ApiVersions."""
    return {} if place.has("0.10") else {"api_version": (0, 9)}


def kafka_python_write(place: Place, records: Sequence[Exchanged]) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=place.servers, **_pinned(place))
    sent = [producer.send(place.topic, **_arguments(one)) for one in records]
    for future in sent:
        future.get(timeout=GENEROUS_S)
    producer.close()


def kafka_python_read(place: Place, count: int) -> list[Exchanged]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=place.servers, consumer_timeout_ms=GENEROUS_MS, **_pinned(place)
    )
    partition = kafka.TopicPartition(place.topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    found = [_seen(record) for record in itertools.islice(consumer, count)]
    consumer.close()
    return found


def aiokafka_write(place: Place, records: Sequence[Exchanged]) -> None:
    async def produce() -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=place.servers) as producer:
            sent = [await producer.send(place.topic, **_arguments(one)) for one in records]
            await asyncio.gather(*sent)

    asyncio.run(asyncio.wait_for(produce(), GENEROUS_S))


def aiokafka_read(place: Place, count: int) -> list[Exchanged]:
    async def consume() -> list[Exchanged]:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=place.servers)
        await consumer.start()
        try:
            partition = aiokafka.TopicPartition(place.topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            return [_seen(await consumer.getone()) for _ in range(count)]
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(consume(), GENEROUS_S))


def confluent_write(place: Place, records: Sequence[Exchanged]) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": place.servers, "linger.ms": 5})
    failures: list[object] = []
    for one in records:
        given = _arguments(one)
        if "timestamp_ms" in given:
            given["timestamp"] = given.pop("timestamp_ms")
        producer.produce(
            place.topic,
            on_delivery=lambda error, _: failures.append(error) if error else None,
            **given,
        )
    assert producer.flush(GENEROUS_S) == 0
    assert failures == []


def confluent_read(place: Place, count: int) -> list[Exchanged]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": place.servers, "group.id": "unused", "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition(place.topic, 0, 0)])
    found: list[Exchanged] = []
    while len(found) < count:
        messages: list[Any] = consumer.consume(count - len(found), timeout=GENEROUS_S)
        assert messages, f"{len(found)} of {count} records came"
        for one in messages:
            assert one.error() is None, one.error()
            kind, time_ms = one.timestamp()
            time_ms = -1 if kind == confluent_kafka.TIMESTAMP_NOT_AVAILABLE else time_ms
            headers = tuple(one.headers() or ())
            found.append(Exchanged(one.offset(), time_ms, one.key(), one.value(), headers))
    consumer.close()
    return found


class Other(NamedTuple):
    """Another client, and the first release that it is made for."""

    write: Write
    read: Read
    since: str


OTHERS = {
    "confluent-kafka": Other(confluent_write, confluent_read, "0.10"),
    "kafka-python": Other(kafka_python_write, kafka_python_read, "0.9"),
    "aiokafka": Other(aiokafka_write, aiokafka_read, "0.11"),
}
assert tuple(OTHERS) == NAMES
