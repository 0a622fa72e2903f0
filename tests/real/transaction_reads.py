"""Rows for transactions on real brokers, and what read_committed readers see of
them: parley, and librdkafka.
"""

from __future__ import annotations

import gc
import time

import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition as ForeignPartition

from parley.client import (
    EARLIEST,
    LATEST,
    Client,
    FetchOptions,
    TopicPartition,
)
from parley.testing.realbroker import RealCluster

from ..support import GENEROUS_MS, GENEROUS_S
from .conftest import WITH_TRANSACTIONS

PARTITIONS = 3
in_each_generation = pytest.mark.parametrize(
    ("transactional_release", "generation"),
    [*((release, 1) for release in WITH_TRANSACTIONS), ("4.3.0", 2)],
)
"""Runs a test with transactions of the first generation, and of the second
(KIP-890) where a release has it.
"""


def rows(start: int, count: int = 30) -> pa.Table:
    return pa.table(
        {
            "key": [str(i) for i in range(start, start + count)],
            "value": [str(i) for i in range(start, start + count)],
        }
    )


def seen_by_parley(client: Client, topic: str) -> list[int]:
    """Every value that a read_committed reader gets, once no transaction is open any more."""
    committed = FetchOptions(isolation_level="read_committed")
    found = []
    for partition in range(PARTITIONS):
        tp = TopicPartition(topic, partition)
        settle(client, tp)
        for batch in client.fetch(tp, EARLIEST, LATEST, committed):
            found += [int(value) for value in batch.column("value").to_pylist()]
    return sorted(found)


def settle(client: Client, tp: TopicPartition, timeout_ms: int = GENEROUS_MS) -> None:
    """Return when the markers are in the log: EndTxn is answered before."""
    deadline = time.monotonic() + timeout_ms / 1000
    while time.monotonic() < deadline:
        stable = client.list_offsets({tp: LATEST}, isolation_level="read_committed")[tp].offset
        if stable == client.list_offsets({tp: LATEST})[tp].offset:
            return
    raise AssertionError(f"the last stable offset of {tp} stays behind")


def seen_by_librdkafka(broker: RealCluster, topic: str, count: int) -> list[int]:
    """What confluent-kafka reads with read_committed, until `count` values came
    and the partitions ended.
    """
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
        consumer.assign(
            [
                ForeignPartition(topic, partition, OFFSET_BEGINNING)
                for partition in range(PARTITIONS)
            ]
        )
        ended: set[int] = set()
        deadline = time.monotonic() + GENEROUS_S
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
