"""Transactions of confluent-kafka and aiokafka at the embedded cluster: each writes, the other
reads what is committed.

They share no code with the cluster, so that a mistake in parley's own messages or markers shows
here.
"""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import confluent_kafka
import pytest

from parley.devcluster import LocalCluster

from ..support import GENEROUS_S

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of what it uses of Python's
    import aiokafka
    import aiokafka.errors

pytestmark = [
    pytest.mark.foreign,
    # Their sockets and event loops are theirs to close.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
]

TOPIC, GROUP, NAME = "foreign", "readers", "pay"
SECONDS = GENEROUS_S
RELEASES = ("0.11.0", "1.1", "2.4", "3.6", "3.9", "4.3")
Found = list[tuple[int, bytes]]
"""Partition and value of each record."""
ENDS = (True, False, True, True, False)
"""The transactions that every test writes: committed or not, one record per partition in each."""
EXPECTED = sorted(
    (partition, b"%d" % number)
    for number, commit in enumerate(ENDS)
    if commit
    for partition in (0, 1)
)


# -- confluent-kafka -------------------------------------------------------------------------------


def confluent_producer(bootstrap: str) -> confluent_kafka.Producer:
    made = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": NAME, "linger.ms": 0}
    )
    made.init_transactions(SECONDS)
    return made


def confluent_consumer(bootstrap: str) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False,
            "isolation.level": "read_committed", "enable.partition.eof": True,
        }
    )  # fmt: skip


def confluent_write(bootstrap: str, offsets: bool) -> None:
    producer, consumer = confluent_producer(bootstrap), confluent_consumer(bootstrap)
    for number, commit in enumerate(ENDS):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(TOPIC, b"%d" % number, partition=partition)
        assert producer.flush(SECONDS) == 0, "an abort would drop what is still queued"
        if offsets:
            position = confluent_kafka.TopicPartition(TOPIC, 0, 10 + number)
            producer.send_offsets_to_transaction(
                [position], consumer.consumer_group_metadata(), SECONDS
            )
        (producer.commit_transaction if commit else producer.abort_transaction)(SECONDS)
    consumer.close()


def confluent_read(bootstrap: str) -> Found:
    consumer = confluent_consumer(bootstrap)
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, partition, 0) for partition in (0, 1)])
    found, ends = [], set()
    while ends != {0, 1}:
        message = consumer.poll(SECONDS)
        assert message is not None, f"nothing more came after {found}"
        error = message.error()
        if error is None:
            found.append((message.partition(), message.value()))
        else:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            ends.add(message.partition())
    consumer.close()
    return found


# -- aiokafka --------------------------------------------------------------------------------------


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    return asyncio.run(asyncio.wait_for(work(), SECONDS))  # type: ignore[arg-type]


def aiokafka_write(bootstrap: str, offsets: bool) -> None:
    async def write() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=NAME)
        await producer.start()
        try:
            for number, commit in enumerate(ENDS):
                await producer.begin_transaction()
                for partition in (0, 1):
                    await producer.send_and_wait(TOPIC, b"%d" % number, partition=partition)
                if offsets:
                    await producer.send_offsets_to_transaction(
                        {aiokafka.TopicPartition(TOPIC, 0): 10 + number}, GROUP
                    )
                await (producer.commit_transaction() if commit else producer.abort_transaction())
        finally:
            await producer.stop()

    run(write)


def aiokafka_read(bootstrap: str) -> Found:
    async def read() -> Found:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, enable_auto_commit=False, isolation_level="read_committed"
        )
        await consumer.start()
        try:
            partitions = [aiokafka.TopicPartition(TOPIC, partition) for partition in (0, 1)]
            consumer.assign(partitions)
            await consumer.seek_to_beginning(*partitions)
            found: Found = []
            while len(found) < len(EXPECTED):
                for messages in (await consumer.getmany(timeout_ms=1000)).values():
                    found += [(message.partition, message.value) for message in messages]
            return found
        finally:
            await consumer.stop()

    return list(run(read))


WRITERS = {"confluent-kafka": confluent_write, "aiokafka": aiokafka_write}
READERS = {"confluent-kafka": confluent_read, "aiokafka": aiokafka_read}


@pytest.fixture(autouse=True)
def _collect_their_sockets() -> Iterator[None]:
    """Collect the sockets that they leave unclosed here, where the warning is
    ignored, and not in a later test.
    """
    yield
    gc.collect()


def made(release: str, brokers: int = 3) -> LocalCluster:
    cluster = LocalCluster(brokers=brokers, release=release).start()
    cluster.create_topic(TOPIC, 2)
    return cluster


def values(found: Sequence[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    assert [value for partition, value in found if partition == 0] == sorted(
        v for p, v in found if p == 0
    ), "in order"
    return sorted(found)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("writer", list(WRITERS))
def test_what_one_commits_the_other_reads_and_nothing_else(writer: str, release: str) -> None:
    with made(release) as cluster:
        WRITERS[writer](cluster.bootstrap_servers, False)
        for reader in READERS.values():
            assert values(reader(cluster.bootstrap_servers)) == EXPECTED
        assert cluster.transactions()[NAME].state.value == "CompleteAbort"


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("writer", list(WRITERS))
def test_offsets_are_committed_with_the_records(writer: str, release: str) -> None:
    with made(release) as cluster:
        WRITERS[writer](cluster.bootstrap_servers, True)
        consumer = confluent_consumer(cluster.bootstrap_servers)
        (position,) = consumer.committed([confluent_kafka.TopicPartition(TOPIC, 0)], SECONDS)
        consumer.close()
        assert position.offset == 10 + max(number for number, commit in enumerate(ENDS) if commit)


@pytest.mark.parametrize("release", RELEASES)
def test_confluent_kafka_is_fenced_by_its_successor(release: str) -> None:
    with made(release) as cluster:
        old = confluent_producer(cluster.bootstrap_servers)
        old.begin_transaction()
        old.produce(TOPIC, b"lost", partition=0)
        assert old.flush(SECONDS) == 0
        new = confluent_producer(cluster.bootstrap_servers)
        with pytest.raises(confluent_kafka.KafkaException) as caught:
            old.commit_transaction(SECONDS)
        assert caught.value.args[0].code() == confluent_kafka.KafkaError._FENCED
        new.begin_transaction()
        for value in EXPECTED:
            new.produce(TOPIC, value[1], partition=value[0])
        new.commit_transaction(SECONDS)
        for reader in READERS.values():
            assert values(reader(cluster.bootstrap_servers)) == EXPECTED


@pytest.mark.parametrize("release", RELEASES)
def test_aiokafka_is_fenced_by_its_successor(release: str) -> None:
    async def scene(bootstrap: str) -> None:
        old = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=NAME)
        new = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=NAME)
        await old.start()
        try:
            await old.begin_transaction()
            await old.send_and_wait(TOPIC, b"lost", partition=0)
            await new.start()
            with pytest.raises(aiokafka.errors.ProducerFenced):
                await old.commit_transaction()
        finally:
            await old.stop()
            await new.stop()

    with made(release) as cluster:
        run(lambda: scene(cluster.bootstrap_servers))
        assert cluster.transactions()[NAME].state.value == "Empty"


@pytest.mark.parametrize("writer", list(WRITERS))
def test_leaders_and_coordinators_that_die_lose_nothing(writer: str) -> None:
    with made("3.9") as cluster:
        WRITERS[writer](cluster.bootstrap_servers, True)
        for broker in (1, 2):
            cluster.kill_broker(broker)
        for reader in READERS.values():
            assert values(reader(cluster.bootstrap_servers)) == EXPECTED


@pytest.mark.parametrize("writer", list(WRITERS))
@pytest.mark.parametrize("api", ["AddPartitionsToTxn", "EndTxn", "InitProducerId"])
def test_a_lost_answer_is_asked_for_again(writer: str, api: str) -> None:
    with made("3.9", brokers=1) as cluster:
        cluster.faults.cut(api, times=1, executed=True)
        cluster.faults.fail(api, "CONCURRENT_TRANSACTIONS", times=1)
        WRITERS[writer](cluster.bootstrap_servers, False)
        for reader in READERS.values():
            assert values(reader(cluster.bootstrap_servers)) == EXPECTED
