"""Transactions that number their rows, and an account of what read_committed makes of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from parley.client import (
    EARLIEST,
    LATEST,
    Client,
    FetchOptions,
    OffsetAndMetadata,
    ProduceOptions,
    TopicPartition,
    TransactionProducer,
)
from parley.devcluster import LocalCluster
from parley.messages import FindCoordinatorRequest
from parley.versions import VersionRange

from ..support import GENEROUS_S

TOPIC, PARTITIONS, ROWS = "t", 3, 60
PATIENT = {
    "retry_backoff_ms": 10,
    "retry_backoff_max_ms": 50,
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 20,
}
"""Client options of tests in which brokers come and go: pauses as short as the scenes."""
GROUP, TP = "g", TopicPartition(TOPIC, 0)
COMMITTED = FetchOptions(isolation_level="read_committed")
SMALL = ProduceOptions(batch_size=300)
"""Several batches per partition and transaction."""


def rows(transaction: int) -> pa.Table:
    """The rows of one transaction, spread over all partitions."""
    partitions = pa.array([index % PARTITIONS for index in range(ROWS)], pa.int32())
    return pa.table(
        {"value": [f"{transaction}:{index}" for index in range(ROWS)], "partition": partitions}
    )


def write(producer: TransactionProducer, transaction: int) -> None:
    """Write a transaction's rows, in two calls."""
    whole = rows(transaction)
    producer.produce(TOPIC, whole.slice(0, ROWS // 2), options=SMALL)
    producer.produce(TOPIC, whole.slice(ROWS // 2), options=SMALL)


def connect(cluster: LocalCluster, **options: Any) -> Client:
    return Client(bootstrap_servers=cluster.bootstrap_servers, **{**PATIENT, **options})


def transact(producer: TransactionProducer, number: int) -> None:
    """Write one transaction with its offsets."""
    with producer.transaction():
        write(producer, number)
        producer.send_offsets_to_transaction({TP: OffsetAndMetadata(number)}, GROUP)


def go_through(producer: TransactionProducer) -> None:
    """Go on with an open transaction to its end: every request is sent,
    unless one before it fails.
    """
    write(producer, 2)
    producer.send_offsets_to_transaction({TP: OffsetAndMetadata(2)}, GROUP)
    producer.commit_transaction()


def coordinator(client: Client, transactional_id: str) -> int:
    """Return the id of the broker that coordinates a transactional id now."""
    asked = FindCoordinatorRequest(key=transactional_id, key_type=1)
    return int(client.request(None, asked, allowed=VersionRange(1, 3)).node_id)


def settled(cluster: LocalCluster, *, timeout_s: float = GENEROUS_S) -> None:
    """Return when no transaction is half ended: every marker is in its log."""
    deadline = time.monotonic() + timeout_s
    while any(found.state.value.startswith("Prepare") for found in cluster.transactions().values()):
        assert time.monotonic() < deadline, "a transaction stays half ended"


def values(client: Client, options: FetchOptions = COMMITTED) -> Iterator[str]:
    """Yield what a reader sees of the topic now."""
    for partition in range(PARTITIONS):
        for batch in client.fetch(TopicPartition(TOPIC, partition), EARLIEST, LATEST, options):
            yield from batch.column("value").cast("string").to_pylist()


def account(cluster: LocalCluster) -> Counter[int]:
    """Return how often read_committed sees each transaction. Fails where it sees a part of one."""
    settled(cluster)
    with Client(bootstrap_servers=cluster.bootstrap_servers, **PATIENT) as client:
        seen = Counter(values(client))
    found: dict[int, list[int]] = {}
    for value, count in seen.items():
        found.setdefault(int(value.split(":")[0]), []).append(count)
    for transaction, counts in found.items():
        assert len(counts) == ROWS, (
            f"transaction {transaction} is torn: {len(counts)} of {ROWS} rows"
        )
        assert set(counts) == {1}, f"transaction {transaction} is there {set(counts)} times"
    return Counter(dict.fromkeys(found, 1))
