"""Transactions on real brokers that another process began, or that nobody ends in
time: handed over, fenced, late.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable

import pytest

from parley.client import (
    EARLIEST,
    LATEST,
    Client,
    FetchOptions,
    NewTopic,
    PreparedTransaction,
    TopicPartition,
)
from parley.errors import (
    ProducerFencedError,
    TransactionAbortedError,
    TransactionCommittedError,
    TransactionForgottenError,
)
from parley.testing.realbroker import RealCluster

from ..support import GENEROUS_MS, GENEROUS_S
from .transaction_reads import in_each_generation, rows, seen_by_librdkafka, seen_by_parley, settle

PREPARE = """
import pickle, sys
import pyarrow as pa
from parley.client import Client
with Client(bootstrap_servers=sys.argv[1]) as client:
    producer = client.transactions.producer(sys.argv[3], max_generation=int(sys.argv[4])).start()
    producer.begin_transaction()
    values = [str(i) for i in range(int(sys.argv[5]), int(sys.argv[6]))]
    producer.produce(sys.argv[2], pa.table({"value": values}))
    sys.stdout.buffer.write(pickle.dumps(producer.prepare_transaction()))
"""


def prepared_elsewhere(
    broker: RealCluster, topic: str, name: str, generation: int, start: int
) -> PreparedTransaction:
    """A transaction of 30 rows that another process opened, and that outlives it."""
    arguments = [
        broker.bootstrap_servers,
        topic,
        name,
        str(generation),
        str(start),
        str(start + 30),
    ]
    done = subprocess.run(
        [sys.executable, "-c", PREPARE, *arguments],
        capture_output=True,
        timeout=GENEROUS_S,
        check=False,
        env={**os.environ},
    )
    assert done.returncode == 0, done.stderr.decode()
    found = pickle.loads(done.stdout)
    assert isinstance(found, PreparedTransaction)
    return found


@in_each_generation
def test_another_process_ends_a_transaction_as_often_as_it_likes(
    broker: RealCluster, client: Client, topic: str, generation: int
) -> None:
    first = prepared_elsewhere(broker, topic, f"{topic}-1", generation, 0)
    second = prepared_elsewhere(broker, topic, f"{topic}-2", generation, 100)
    for _ in range(3):
        client.transactions.end(first, committed=True)
        client.transactions.end(second, committed=False)
    with pytest.raises(TransactionCommittedError, match="committed already: its records stay"):
        client.transactions.end(first, committed=False)
    with pytest.raises(
        TransactionAbortedError, match="its records are discarded and must be written again"
    ):
        client.transactions.end(second, committed=True)
    assert seen_by_parley(client, topic) == list(range(30))
    assert seen_by_librdkafka(broker, topic, 30) == list(range(30))


def test_a_handed_over_transaction_that_was_fenced_or_is_unknown_says_so(
    broker: RealCluster, client: Client, topic: str
) -> None:
    prepared = prepared_elsewhere(broker, topic, f"{topic}-1", 1, 0)
    fenced = client.transactions.fence([prepared.transactional_id])[prepared.transactional_id]
    assert fenced.producer_id == prepared.producer_id
    assert fenced.producer_epoch > prepared.producer_epoch
    with pytest.raises(ProducerFencedError) as caught:
        client.transactions.end(prepared, committed=True)
    assert (caught.value.transactional_id, caught.value.producer_epoch) == (
        f"{topic}-1",
        prepared.producer_epoch,
    )
    with pytest.raises(TransactionForgottenError, match="does not know"):
        client.transactions.end(PreparedTransaction(f"{topic}-never", 1, 0), committed=True)
    assert seen_by_parley(client, topic) == []


def test_an_empty_transaction_is_handed_over_and_ended_without_the_coordinator(
    client: Client, topic: str
) -> None:
    producer = client.transactions.producer(f"{topic}-1").start()
    producer.begin_transaction()
    prepared = producer.prepare_transaction()
    assert prepared.is_empty
    client.transactions.end(prepared, committed=True)
    client.transactions.end(prepared, committed=False)


@pytest.mark.parametrize("late", ["2.4.1", "4.3.0"])
def test_a_transaction_that_timed_out_fails_loudly(
    late: str, real_cluster: Callable[[str], RealCluster], topic_name: str
) -> None:
    with Client(bootstrap_servers=real_cluster(late).bootstrap_servers) as client:
        client.create_topics([NewTopic(topic_name)])
        producer = client.transactions.producer(
            f"{topic_name}-1", transaction_timeout_ms=1_000
        ).start()
        producer.begin_transaction()
        producer.produce(topic_name, rows(0))
        prepared = producer.prepare_transaction()
        tp = TopicPartition(topic_name, 0)
        # the coordinator looks for them every ten seconds
        settle(client, tp, timeout_ms=GENEROUS_MS)
        with pytest.raises(ProducerFencedError, match="transaction_timeout_ms"):
            client.transactions.end(prepared, committed=True)
        assert not list(
            client.fetch(tp, EARLIEST, LATEST, FetchOptions(isolation_level="read_committed"))
        )
