"""Transactions on real brokers: commit, abort, fencing, offsets, both generations, and ending them elsewhere."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer
from confluent_kafka import TopicPartition as ForeignPartition

from parley.client import (
    EARLIEST,
    LATEST,
    BlockingClient,
    BlockingTransactionProducer,
    FetchOptions,
    NewTopic,
    OffsetAndMetadata,
    PreparedTransaction,
    ProduceOptions,
    TopicPartition,
    TransactionFilter,
)
from parley.client.transaction_state import State
from parley.errors import (
    BrokerError,
    ConfigError,
    KafkaError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionAbortedError,
    TransactionCommittedError,
    TransactionForgottenError,
    UnsupportedVersionError,
    broker_error,
)
from parley.schema import ApiKey
from parley.testing.realbroker import RealCluster

WITH_TRANSACTIONS = ("0.11.0.3", "2.4.1", "3.9.1", "4.3.0")
PARTITIONS = 3


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "release" in metafunc.fixturenames:
        metafunc.parametrize("release", WITH_TRANSACTIONS, scope="session")


@pytest.fixture
def broker(release: str, real_cluster: Callable[[str], RealCluster]) -> RealCluster:
    return real_cluster(release)


@pytest.fixture
def client(broker: RealCluster) -> Iterator[BlockingClient]:
    with BlockingClient(bootstrap_servers=broker.bootstrap_servers) as made:
        yield made


@pytest.fixture
def topic(client: BlockingClient, topic_name: str) -> str:
    client.create_topics([NewTopic(topic_name, num_partitions=PARTITIONS)])
    return topic_name


def rows(start: int, count: int = 30) -> pa.Table:
    return pa.table(
        {"key": [str(i) for i in range(start, start + count)], "value": [str(i) for i in range(start, start + count)]}
    )


def seen_by_parley(client: BlockingClient, topic: str) -> list[int]:
    """Every value that a read_committed reader gets, once no transaction is open any more."""
    committed = FetchOptions(isolation_level="read_committed")
    found = []
    for partition in range(PARTITIONS):
        tp = TopicPartition(topic, partition)
        settle(client, tp)
        for batch in client.fetch(tp, EARLIEST, LATEST, committed):
            found += [int(value) for value in batch.column("value").to_pylist()]
    return sorted(found)


def settle(client: BlockingClient, tp: TopicPartition, timeout_ms: int = 30_000) -> None:
    """Return when the markers are in the log: EndTxn is answered before."""
    deadline = time.monotonic() + timeout_ms / 1000
    while time.monotonic() < deadline:
        stable = client.list_offsets({tp: LATEST}, isolation_level="read_committed")[tp].offset
        if stable == client.list_offsets({tp: LATEST})[tp].offset:
            return
    raise AssertionError(f"the last stable offset of {tp} stays behind")


def seen_by_librdkafka(broker: RealCluster, topic: str, count: int) -> list[int]:
    """What confluent-kafka reads with read_committed, until `count` values came and the partitions ended."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"foreign-{topic}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "broker.version.fallback": "0.11.0",
        }
    )
    found: list[int] = []
    try:
        consumer.assign([ForeignPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
        ended: set[int] = set()
        deadline = time.monotonic() + 60
        while len(ended) < PARTITIONS and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is not None:
                ended.add(message.partition())
            else:
                found.append(int(message.value()))
        assert len(ended) == PARTITIONS, f"read {len(found)} of {count}"
    finally:
        consumer.close()
        gc.collect()
    return sorted(found)


@pytest.fixture(params=[1, 2])
def producer(
    request: pytest.FixtureRequest, client: BlockingClient, topic: str
) -> Iterator[BlockingTransactionProducer]:
    """A producer of either generation; where a broker has the first only, both are that one."""
    with client.transaction_producer(f"{topic}-id", max_generation=request.param) as made:
        yield made


def test_committed_rows_are_seen_and_aborted_ones_are_not(
    release: str, broker: RealCluster, client: BlockingClient, topic: str, producer: BlockingTransactionProducer
) -> None:
    expected: list[int] = []
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, rows(number * 100), options=ProduceOptions(batch_size=200))
        producer.produce(topic, rows(number * 100 + 50), options=ProduceOptions(compression_type="gzip"))
        if number % 3 == 1:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
            expected += [*range(number * 100, number * 100 + 30), *range(number * 100 + 50, number * 100 + 80)]
    with contextlib.suppress(ZeroDivisionError), producer.transaction():
        producer.produce(topic, rows(9000))
        raise ZeroDivisionError
    with producer.transaction():
        pass
    assert seen_by_parley(client, topic) == expected
    assert seen_by_librdkafka(broker, topic, len(expected)) == expected
    used = client.versions_in_use()
    spoken = {api: version for versions in used.values() for api, version in versions.items()}
    if release == "4.3.0" and producer.generation == 2:
        assert spoken[ApiKey.PRODUCE] >= 12
        assert spoken[ApiKey.END_TXN] == 5
        assert ApiKey.ADD_PARTITIONS_TO_TXN not in spoken
    else:
        assert producer.generation == 1
        assert spoken[ApiKey.PRODUCE] <= 11
        assert spoken[ApiKey.ADD_PARTITIONS_TO_TXN] <= 3
        assert spoken[ApiKey.END_TXN] <= 4


def test_offsets_commit_with_the_transaction_or_not_at_all(
    client: BlockingClient, topic: str, producer: BlockingTransactionProducer
) -> None:
    tp, group = TopicPartition(topic, 0), f"{topic}-group"
    with producer.transaction():
        producer.produce(topic, rows(0))
        producer.send_offsets_to_transaction({tp: OffsetAndMetadata(7, "seven")}, group)
    assert committed(client, group, tp) == OffsetAndMetadata(7, "seven")
    with contextlib.suppress(ZeroDivisionError), producer.transaction():
        producer.send_offsets_to_transaction({tp: OffsetAndMetadata(20)}, group)
        raise ZeroDivisionError
    with producer.transaction():  # offsets alone are a transaction too
        producer.send_offsets_to_transaction({tp: OffsetAndMetadata(8)}, group)
    assert committed(client, group, tp) == OffsetAndMetadata(8)


def committed(client: BlockingClient, group: str, tp: TopicPartition) -> OffsetAndMetadata | None:
    """The group's offset once its markers are written: until then the one before is told."""
    before = None
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = client.committed_offsets(group, [tp])[tp]
        if found is not None and found == before:
            return found
        before = found
    raise AssertionError(f"no steady offset of {group}")


def test_a_producer_that_begins_again_fences_the_one_before(
    client: BlockingClient, topic: str, producer: BlockingTransactionProducer
) -> None:
    producer.begin_transaction()
    producer.produce(topic, rows(0))
    with client.transaction_producer(producer.transactional_id) as successor:
        with successor.transaction():
            successor.produce(topic, rows(100))
        with pytest.raises(ProducerFencedError, match="another producer has begun") as caught:
            producer.commit_transaction()
        assert caught.value.transactional_id == producer.transactional_id
        for call in (producer.commit_transaction, producer.abort_transaction, producer.begin_transaction):
            with pytest.raises(ProducerFencedError):
                call()
        with successor.transaction():
            successor.produce(topic, rows(200))
    assert seen_by_parley(client, topic) == [*range(100, 130), *range(200, 230)]


def test_a_zombie_that_writes_is_fenced_too(
    client: BlockingClient, topic: str, producer: BlockingTransactionProducer
) -> None:
    producer.begin_transaction()
    producer.produce(topic, rows(0))
    client.fence([producer.transactional_id])
    with pytest.raises((BrokerError, ProducerFencedError)) as caught:  # the latter before Kafka 2.5
        producer.produce(topic, rows(50))
    assert caught.value.code in (47, 48, 90, 120)  # which one depends on the release
    with pytest.raises((TransactionAbortableError, ProducerFencedError)):
        producer.commit_transaction()
    with pytest.raises(ProducerFencedError):
        producer.abort_transaction()
    assert seen_by_parley(client, topic) == []


def test_a_row_that_is_refused_leaves_an_abort_and_then_a_working_producer(
    client: BlockingClient, topic: str, producer: BlockingTransactionProducer
) -> None:
    huge = pa.table({"key": ["k"], "value": ["x" * 1_500_000]})
    big = ProduceOptions(max_request_size=2_000_000, batch_size=1_900_000)
    for number in range(2):
        with producer.transaction():
            producer.produce(topic, rows(number * 1000))
        producer.begin_transaction()
        producer.produce(topic, rows(number * 1000 + 100))
        with pytest.raises(BrokerError) as caught:
            producer.produce(topic, huge, options=big)
        assert caught.value.code == 10
        with pytest.raises(TransactionAbortableError, match="call abort_transaction"):
            producer.commit_transaction()
        with pytest.raises(TransactionAbortableError):
            producer.produce(topic, rows(5))
        producer.abort_transaction()
    with producer.transaction():
        producer.produce(topic, rows(3000))
    assert seen_by_parley(client, topic) == [*range(30), *range(1000, 1030), *range(3000, 3030)]


PREPARE = """
import pickle, sys
import pyarrow as pa
from parley.client import BlockingClient
with BlockingClient(bootstrap_servers=sys.argv[1]) as client:
    producer = client.transaction_producer(sys.argv[3], max_generation=int(sys.argv[4])).start()
    producer.begin_transaction()
    producer.produce(sys.argv[2], pa.table({"value": [str(i) for i in range(int(sys.argv[5]), int(sys.argv[6]))]}))
    sys.stdout.buffer.write(pickle.dumps(producer.prepare_transaction()))
"""


def prepared_elsewhere(broker: RealCluster, topic: str, name: str, generation: int, start: int) -> PreparedTransaction:
    """A transaction of 30 rows that another process opened, and that outlives it."""
    arguments = [broker.bootstrap_servers, topic, name, str(generation), str(start), str(start + 30)]
    done = subprocess.run(
        [sys.executable, "-c", PREPARE, *arguments], capture_output=True, timeout=100, check=False, env={**os.environ}
    )
    assert done.returncode == 0, done.stderr.decode()
    found = pickle.loads(done.stdout)
    assert isinstance(found, PreparedTransaction)
    return found


@pytest.mark.parametrize("generation", [1, 2])
def test_another_process_ends_a_transaction_as_often_as_it_likes(
    broker: RealCluster, client: BlockingClient, topic: str, generation: int
) -> None:
    first = prepared_elsewhere(broker, topic, f"{topic}-1", generation, 0)
    second = prepared_elsewhere(broker, topic, f"{topic}-2", generation, 100)
    for _ in range(3):
        client.end_transaction(first, committed=True)
        client.end_transaction(second, committed=False)
    with pytest.raises(TransactionCommittedError, match="committed already: its records stay"):
        client.end_transaction(first, committed=False)
    with pytest.raises(TransactionAbortedError, match="its records are discarded and must be written again"):
        client.end_transaction(second, committed=True)
    assert seen_by_parley(client, topic) == list(range(30))
    assert seen_by_librdkafka(broker, topic, 30) == list(range(30))


def test_a_handed_over_transaction_that_was_fenced_or_is_unknown_says_so(
    broker: RealCluster, client: BlockingClient, topic: str
) -> None:
    prepared = prepared_elsewhere(broker, topic, f"{topic}-1", 1, 0)
    fenced = client.fence([prepared.transactional_id])[prepared.transactional_id]
    assert fenced.producer_id == prepared.producer_id
    assert fenced.producer_epoch > prepared.producer_epoch
    with pytest.raises(ProducerFencedError) as caught:
        client.end_transaction(prepared, committed=True)
    assert (caught.value.transactional_id, caught.value.producer_epoch) == (f"{topic}-1", prepared.producer_epoch)
    with pytest.raises(TransactionForgottenError, match="does not know"):
        client.end_transaction(PreparedTransaction(f"{topic}-never", 1, 0), committed=True)
    assert seen_by_parley(client, topic) == []


def test_an_empty_transaction_is_handed_over_and_ended_without_the_coordinator(
    client: BlockingClient, topic: str
) -> None:
    producer = client.transaction_producer(f"{topic}-1").start()
    producer.begin_transaction()
    prepared = producer.prepare_transaction()
    assert prepared.is_empty
    client.end_transaction(prepared, committed=True)
    client.end_transaction(prepared, committed=False)


@pytest.mark.parametrize("late", ["2.4.1", "4.3.0"])
def test_a_transaction_that_timed_out_fails_loudly(
    late: str, real_cluster: Callable[[str], RealCluster], topic_name: str
) -> None:
    with BlockingClient(bootstrap_servers=real_cluster(late).bootstrap_servers) as client:
        client.create_topics([NewTopic(topic_name)])
        producer = client.transaction_producer(f"{topic_name}-1", transaction_timeout_ms=1_000).start()
        producer.begin_transaction()
        producer.produce(topic_name, rows(0))
        prepared = producer.prepare_transaction()
        tp = TopicPartition(topic_name, 0)
        settle(client, tp, timeout_ms=90_000)  # the coordinator looks for them every ten seconds
        with pytest.raises(ProducerFencedError, match="transaction_timeout_ms"):
            client.end_transaction(prepared, committed=True)
        assert not list(client.fetch(tp, EARLIEST, LATEST, FetchOptions(isolation_level="read_committed")))


@pytest.mark.parametrize("old", ["0.9.0.1", "0.10.0.1"])
def test_brokers_before_0_11_are_refused_before_a_byte(old: str, real_cluster: Callable[[str], RealCluster]) -> None:
    with BlockingClient(bootstrap_servers=real_cluster(old).bootstrap_servers) as client:
        producer = client.transaction_producer("never")
        with pytest.raises(UnsupportedVersionError, match=r"Kafka 0\.11\.0 is the first release") as caught:
            producer.start()
        assert (caught.value.local, caught.value.feature) == (True, "exactly-once")
        with pytest.raises(UnsupportedVersionError):
            client.fence(["never"])
        spoken = {api for versions in client.versions_in_use().values() for api in versions}
        assert spoken == {ApiKey.METADATA}


@pytest.mark.parametrize("new", ["3.9.1", "4.3.0"])
def test_open_transactions_are_listed_and_described(
    new: str, real_cluster: Callable[[str], RealCluster], topic_name: str
) -> None:
    with BlockingClient(bootstrap_servers=real_cluster(new).bootstrap_servers) as client:
        client.create_topics([NewTopic(topic_name)])
        name = f"{topic_name}-1"
        with client.transaction_producer(name, transaction_timeout_ms=50_000) as producer:
            producer.begin_transaction()
            producer.produce(topic_name, rows(0))
            listed = client.list_transactions(TransactionFilter(states=("Ongoing",)))
            assert (name, producer.producer_id) in [(found[0], found[1]) for found in listed]
            found = client.describe_transactions([name, f"{topic_name}-never"])
            described = found[name]
            assert described is not None
            assert (described.state, described.partitions) == ("Ongoing", (TopicPartition(topic_name, 0),))
            assert (described.producer_id, described.timeout_ms) == (producer.producer_id, 50_000)
            assert described.producer_epoch == producer.producer_epoch
            assert found[f"{topic_name}-never"] is None
            mine = TransactionFilter(states=("Ongoing",), producer_ids=(producer.producer_id,))
            assert [found.transactional_id for found in client.list_transactions(mine)] == [name]
            assert client.list_transactions(replace(mine, duration_ms=3_600_000)) == []
            producer.abort_transaction()
        with pytest.raises(ConfigError, match="Nonsense"):
            client.list_transactions(TransactionFilter(states=("Nonsense",)))


def test_transactions_are_not_listed_before_3_0(real_cluster: Callable[[str], RealCluster]) -> None:
    with BlockingClient(bootstrap_servers=real_cluster("2.4.1").bootstrap_servers) as client:
        for call in (client.list_transactions, lambda: client.describe_transactions(["x"])):
            with pytest.raises(UnsupportedVersionError, match=r"Kafka 3\.0") as caught:
                call()
            assert (caught.value.local, caught.value.feature) == (True, "describe-transactions")


def recreate(client: BlockingClient, topic: str) -> None:
    """Delete a topic and create it again, as soon as the broker has forgotten the former one."""
    client.delete_topics([topic])
    deadline = time.monotonic() + 60
    already_there: type[KafkaError] = type(broker_error(36))
    while time.monotonic() < deadline:
        with contextlib.suppress(already_there):
            client.create_topics([NewTopic(topic, num_partitions=PARTITIONS)])
            return
    raise AssertionError("the deletion takes for ever")


def test_a_topic_created_anew_in_a_transaction_fails_loudly_and_then_works_again(
    release: str, client: BlockingClient, topic: str, producer: BlockingTransactionProducer
) -> None:
    with producer.transaction():
        producer.produce(topic, rows(0))
    producer.begin_transaction()
    producer.produce(topic, rows(100))
    recreate(client, topic)
    with pytest.raises(KafkaError):
        write_and_commit(producer, topic)
    if producer.state is State.ABORTABLE_ERROR:
        producer.abort_transaction()
        with producer.transaction():
            producer.produce(topic, rows(300))
        assert seen_by_parley(client, topic) == list(range(300, 330))
    else:
        assert release == "0.11.0.3"
        with client.transaction_producer(producer.transactional_id) as successor, successor.transaction():
            successor.produce(topic, rows(300))
        assert seen_by_parley(client, topic) == list(range(300, 330))


def write_and_commit(producer: BlockingTransactionProducer, topic: str) -> None:
    producer.produce(topic, rows(200))
    producer.commit_transaction()
