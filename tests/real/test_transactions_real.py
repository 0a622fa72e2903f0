"""Transactions on real brokers: commit, abort, fencing, offsets, both generations,
and ending them elsewhere.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from parley.client import (
    Client,
    NewTopic,
    OffsetAndMetadata,
    ProduceOptions,
    TopicPartition,
    TransactionFilter,
    TransactionProducer,
)
from parley.client.transactions.state import State
from parley.errors import (
    BrokerError,
    ConfigError,
    KafkaError,
    ProducerFencedError,
    TransactionAbortableError,
    UnsupportedVersionError,
    broker_error,
)
from parley.schema import ApiKey
from parley.testing.realbroker import RealCluster
from parley.versions import Feature

from ..support import GENEROUS_S
from .transaction_reads import (
    PARTITIONS,
    in_each_generation,
    rows,
    seen_by_librdkafka,
    seen_by_parley,
)


@pytest.fixture
def producer(generation: int, client: Client, topic: str) -> Iterator[TransactionProducer]:
    with client.transactions.producer(f"{topic}-id", max_generation=generation) as made:
        yield made


@in_each_generation
def test_committed_rows_are_seen_and_aborted_ones_are_not(
    transactional_release: str,
    broker: RealCluster,
    client: Client,
    topic: str,
    producer: TransactionProducer,
) -> None:
    expected: list[int] = []
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, rows(number * 100), options=ProduceOptions(batch_size=200))
        producer.produce(
            topic, rows(number * 100 + 50), options=ProduceOptions(compression_type="gzip")
        )
        if number % 3 == 1:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
            expected += [
                *range(number * 100, number * 100 + 30),
                *range(number * 100 + 50, number * 100 + 80),
            ]
    with contextlib.suppress(ZeroDivisionError), producer.transaction():
        producer.produce(topic, rows(9000))
        raise ZeroDivisionError
    with producer.transaction():
        pass
    assert seen_by_parley(client, topic) == expected
    assert seen_by_librdkafka(broker, topic, len(expected)) == expected
    used = client.versions_in_use()
    spoken = {api: version for versions in used.values() for api, version in versions.items()}
    if transactional_release == "4.3.0" and producer.generation == 2:
        assert spoken[ApiKey.PRODUCE] >= 12
        assert spoken[ApiKey.END_TXN] == 5
        assert ApiKey.ADD_PARTITIONS_TO_TXN not in spoken
    else:
        assert producer.generation == 1
        assert spoken[ApiKey.PRODUCE] <= 11
        assert spoken[ApiKey.ADD_PARTITIONS_TO_TXN] <= 3
        assert spoken[ApiKey.END_TXN] <= 4


# Again, since these brokers take the offsets of an aborted transaction back some time after its end
# is known. On a busy machine that can take the offsets of the next one with it
# (scheduleHandleTxnCompletion; seen once, on 0.11.0.3).
@pytest.mark.flaky(reruns=2)
@in_each_generation
def test_offsets_commit_with_the_transaction_or_not_at_all(
    client: Client, topic: str, producer: TransactionProducer
) -> None:
    tp, group = TopicPartition(topic, 0), f"{topic}-group"
    with producer.transaction():
        producer.produce(topic, rows(0))
        producer.send_offsets_to_transaction({tp: OffsetAndMetadata(7, "seven")}, group)
    wait_for_offset(client, group, tp, OffsetAndMetadata(7, "seven"), before=None)
    with contextlib.suppress(ZeroDivisionError), producer.transaction():
        producer.send_offsets_to_transaction({tp: OffsetAndMetadata(20)}, group)
        raise ZeroDivisionError
    with producer.transaction():  # offsets alone are a transaction too
        producer.send_offsets_to_transaction({tp: OffsetAndMetadata(8)}, group)
    wait_for_offset(client, group, tp, OffsetAndMetadata(8), before=OffsetAndMetadata(7, "seven"))


def wait_for_offset(
    client: Client,
    group: str,
    tp: TopicPartition,
    wanted: OffsetAndMetadata,
    before: OffsetAndMetadata | None,
) -> None:
    """Ask until the group's offset is the wanted one: a
    commit is answered before its markers are written.

    From 2.5 on the client itself waits for them (KIP-447), so the first answer is the wanted one.
    Before, the offset of the transaction before may be reported, and no other one ever.
    """
    waits = client.supports(Feature.REQUIRE_STABLE_OFFSETS)
    deadline = time.monotonic() + GENEROUS_S
    while (found := client.committed_offsets(group, [tp])[tp]) != wanted:
        assert found == before
        assert not waits
        assert time.monotonic() < deadline


@in_each_generation
def test_a_producer_that_begins_again_fences_the_one_before(
    client: Client, topic: str, producer: TransactionProducer
) -> None:
    producer.begin_transaction()
    producer.produce(topic, rows(0))
    with client.transactions.producer(producer.transactional_id) as successor:
        with successor.transaction():
            successor.produce(topic, rows(100))
        with pytest.raises(ProducerFencedError, match="another producer has begun") as caught:
            producer.commit_transaction()
        assert caught.value.transactional_id == producer.transactional_id
        for call in (
            producer.commit_transaction,
            producer.abort_transaction,
            producer.begin_transaction,
        ):
            with pytest.raises(ProducerFencedError):
                call()
        with successor.transaction():
            successor.produce(topic, rows(200))
    assert seen_by_parley(client, topic) == [*range(100, 130), *range(200, 230)]


@in_each_generation
def test_a_zombie_that_writes_is_fenced_too(
    client: Client, topic: str, producer: TransactionProducer
) -> None:
    producer.begin_transaction()
    producer.produce(topic, rows(0))
    client.transactions.fence([producer.transactional_id])
    with pytest.raises((BrokerError, ProducerFencedError)) as caught:  # the latter before Kafka 2.5
        producer.produce(topic, rows(50))
    assert caught.value.code in (47, 48, 90, 120)  # which one depends on the release
    with pytest.raises((TransactionAbortableError, ProducerFencedError)):
        producer.commit_transaction()
    with pytest.raises(ProducerFencedError):
        producer.abort_transaction()
    assert seen_by_parley(client, topic) == []


@in_each_generation
def test_a_row_that_is_refused_leaves_an_abort_and_then_a_working_producer(
    client: Client, topic: str, producer: TransactionProducer
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


@pytest.mark.parametrize("old", ["0.9.0.1", "0.10.0.1"])
def test_brokers_before_0_11_are_refused_before_a_byte(
    old: str, real_cluster: Callable[[str], RealCluster]
) -> None:
    with Client(bootstrap_servers=real_cluster(old).bootstrap_servers) as client:
        producer = client.transactions.producer("never")
        with pytest.raises(
            UnsupportedVersionError, match=r"Kafka 0\.11\.0 is the first release"
        ) as caught:
            producer.start()
        assert (caught.value.local, caught.value.feature) == (True, "exactly-once")
        with pytest.raises(UnsupportedVersionError):
            client.transactions.fence(["never"])
        spoken = {api for versions in client.versions_in_use().values() for api in versions}
        assert spoken == {ApiKey.METADATA}


@pytest.mark.parametrize("new", ["3.9.1", "4.3.0"])
def test_open_transactions_are_listed_and_described(
    new: str, real_cluster: Callable[[str], RealCluster], topic_name: str
) -> None:
    with Client(bootstrap_servers=real_cluster(new).bootstrap_servers) as client:
        client.create_topics([NewTopic(topic_name)])
        name = f"{topic_name}-1"
        with client.transactions.producer(name, transaction_timeout_ms=50_000) as producer:
            producer.begin_transaction()
            producer.produce(topic_name, rows(0))
            listed = client.transactions.list(TransactionFilter(states=("Ongoing",)))
            assert (name, producer.producer_id) in [(found[0], found[1]) for found in listed]
            found = client.transactions.describe([name, f"{topic_name}-never"])
            described = found[name]
            assert described is not None
            assert (described.state, described.partitions) == (
                "Ongoing",
                (TopicPartition(topic_name, 0),),
            )
            assert (described.producer_id, described.timeout_ms) == (producer.producer_id, 50_000)
            assert described.producer_epoch == producer.producer_epoch
            assert found[f"{topic_name}-never"] is None
            mine = TransactionFilter(states=("Ongoing",), producer_ids=(producer.producer_id,))
            assert [found.transactional_id for found in client.transactions.list(mine)] == [name]
            assert client.transactions.list(replace(mine, duration_ms=3_600_000)) == []
            producer.abort_transaction()
        with pytest.raises(ConfigError, match="Nonsense"):
            client.transactions.list(TransactionFilter(states=("Nonsense",)))


def test_transactions_are_not_listed_before_3_0(real_cluster: Callable[[str], RealCluster]) -> None:
    with Client(bootstrap_servers=real_cluster("2.4.1").bootstrap_servers) as client:
        for call in (client.transactions.list, lambda: client.transactions.describe(["x"])):
            with pytest.raises(UnsupportedVersionError, match=r"Kafka 3\.0") as caught:
                call()
            assert (caught.value.local, caught.value.feature) == (True, "describe-transactions")


def recreate(client: Client, topic: str) -> None:
    """Delete a topic and create it again, as soon as the broker has forgotten the former one."""
    client.delete_topics([topic])
    deadline = time.monotonic() + GENEROUS_S
    already_there: type[KafkaError] = type(broker_error(36))
    while time.monotonic() < deadline:
        with contextlib.suppress(already_there):
            client.create_topics([NewTopic(topic, num_partitions=PARTITIONS)])
            return
    raise AssertionError("the deletion takes forever")


@in_each_generation
def test_a_topic_created_again_in_a_transaction_fails_loudly_and_then_works_again(
    transactional_release: str, client: Client, topic: str, producer: TransactionProducer
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
        assert transactional_release == "0.11.0.3"
        with (
            client.transactions.producer(producer.transactional_id) as successor,
            successor.transaction(),
        ):
            successor.produce(topic, rows(300))
        assert seen_by_parley(client, topic) == list(range(300, 330))


def write_and_commit(producer: TransactionProducer, topic: str) -> None:
    producer.produce(topic, rows(200))
    producer.commit_transaction()
