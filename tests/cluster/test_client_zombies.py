"""What a producer meets whose transactional id another
one took over, or whose transaction timed out, by release.

A partition's leader cannot see which, so INVALID_PRODUCER_EPOCH of a produce is an abortable error
since Kafka 2.5, as in Java's producer since 2.7 (KIP-588), and the abort finds out which it was.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from parley.client import (
    LATEST,
    Client,
    ConsumerGroupMetadata,
    FetchOptions,
    Producer,
    TopicPartition,
    TransactionProducer,
)
from parley.client.transactions.state import State
from parley.devcluster import LocalCluster
from parley.errors import BrokerError, ProducerFencedError, UnsupportedVersionError

OLD = ("0.11.0.3", "2.4")
"""Releases whose coordinators cannot renew an epoch (before KIP-360): the
leader's answer is the end.
"""
RENEWING = ("2.8", "3.0", "3.3", "3.9", "4.0", "4.3")
ROWS = pa.table({"value": ["v"]})
TOPIC = "t"


@pytest.fixture(scope="module", params=[*OLD, *RENEWING])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, release=request.param, seed=7) as running:
        running.create_topic(TOPIC, 1, 1)
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(bootstrap_servers=cluster.bootstrap_servers) as made:
        yield made


def is_old(cluster: LocalCluster) -> bool:
    return cluster.broker(1).release.startswith(OLD)


def written(client: Client, name: str) -> TransactionProducer:
    """Return a producer in a transaction that has rows in a partition: from then on it
    is the leader that it asks.
    """
    producer = client.transactions.producer(name, transaction_timeout_ms=10_000).start()
    producer.begin_transaction()
    producer.produce(TOPIC, ROWS)
    return producer


def test_a_fenced_producer_learns_it_from_the_leader(cluster: LocalCluster, client: Client) -> None:
    zombie = written(client, "taken-over")
    with client.transactions.producer("taken-over"):
        if is_old(cluster):
            with pytest.raises(ProducerFencedError):
                zombie.produce(TOPIC, ROWS)
        else:
            with pytest.raises(BrokerError) as refused:
                zombie.produce(TOPIC, ROWS)
            assert refused.value.name == "INVALID_PRODUCER_EPOCH"
            assert any("abort_transaction finds out" in note for note in refused.value.__notes__)
            assert zombie.state is State.ABORTABLE_ERROR
        with pytest.raises(
            ProducerFencedError, match="another producer has begun with this transactional id"
        ):
            zombie.abort_transaction()
        assert zombie.state is State.FATAL
        with pytest.raises(ProducerFencedError):
            zombie.begin_transaction()
    zombie.close()


def test_records_of_a_fenced_producer_fail_as_rows_do(cluster: LocalCluster) -> None:
    servers = cluster.bootstrap_servers
    with Producer(bootstrap_servers=servers, transactional_id="of-records") as zombie:
        zombie.begin_transaction()
        zombie.produce(TOPIC, b"v").result()
        with Producer(bootstrap_servers=servers, transactional_id="of-records"):
            with pytest.raises(ProducerFencedError if is_old(cluster) else BrokerError):
                zombie.produce(TOPIC, b"v").result()
            with pytest.raises(ProducerFencedError):
                zombie.abort_transaction()


def test_a_fenced_commit_says_so_at_once(client: Client) -> None:
    zombie = written(client, "committing")
    with client.transactions.producer("committing"), pytest.raises(ProducerFencedError):
        zombie.commit_transaction()
    zombie.close()


def test_a_block_of_a_fenced_producer_raises_and_leaves_nothing(
    cluster: LocalCluster, client: Client
) -> None:
    end = client.list_offsets({TopicPartition(TOPIC, 0): LATEST})[TopicPartition(TOPIC, 0)].offset
    producer = client.transactions.producer("in-a-block").start()

    def write() -> None:
        with producer.transaction():
            producer.produce(TOPIC, ROWS)
            with client.transactions.producer("in-a-block"):
                producer.produce(TOPIC, ROWS)

    with pytest.raises(ProducerFencedError if is_old(cluster) else BrokerError):
        write()
    assert producer.state is State.FATAL
    producer.close()
    committed = FetchOptions(isolation_level="read_committed")
    tp = TopicPartition(TOPIC, 0)
    assert sum(batch.num_rows for batch in client.fetch(tp, end, LATEST, committed)) == 0


def test_a_transaction_that_timed_out_looks_the_same_to_the_leader(
    cluster: LocalCluster, client: Client
) -> None:
    """Which is why the error of produce is not ProducerFencedError: on Kafka
    4.3 the producer can go on.
    """
    producer = written(client, "slow")
    cluster.advance(30_000)
    with pytest.raises(ProducerFencedError if is_old(cluster) else BrokerError):
        producer.produce(TOPIC, ROWS)
    if cluster.broker(1).release.startswith("4.3"):
        producer.abort_transaction()
        with producer.transaction():
            assert producer.produce(TOPIC, ROWS).records == 1
    else:
        with pytest.raises(ProducerFencedError, match="aborted it after transaction_timeout_ms"):
            producer.abort_transaction()
    producer.close()


def test_offsets_of_a_member_need_a_release_that_can_refuse_it(
    cluster: LocalCluster, client: Client
) -> None:
    """Below Kafka 2.5 the error names what to give instead, and the producer goes on (KIP-447)."""
    tp, member = TopicPartition(TOPIC, 0), ConsumerGroupMetadata("zombies", 3, "gone")
    with client.transactions.producer("copier") as producer:
        producer.begin_transaction()
        wanted = UnsupportedVersionError if is_old(cluster) else BrokerError
        with pytest.raises(wanted) as raised:
            producer.send_offsets_to_transaction({tp: 1}, member)
        if is_old(cluster):
            assert 'give the id of the group, "zombies"' in raised.value.__notes__[0]
        producer.abort_transaction()
        with producer.transaction():
            producer.send_offsets_to_transaction({tp: 2}, "zombies")
    found = client.list_group_offsets("zombies", [tp])[tp]
    assert found is not None
    assert found.offset == 2
