"""OFFSET_OUT_OF_RANGE on every release: what is there is read, and what is gone is reported."""

from __future__ import annotations

import pyarrow as pa
import pytest

from parley.client import Client, Consumer, ProduceOptions, TopicPartition
from parley.devcluster import LocalCluster
from parley.versions import releases

TP = TopicPartition("t", 0)
QUICK = {
    "retry_backoff_ms": 10,
    "retry_backoff_max_ms": 50,
    "fetch_max_wait_ms": 50,
    "auto_offset_reset": "earliest",
}


def take(consumer: Consumer, count: int) -> list[tuple[int, str]]:
    """Return offsets and values of exactly so many records."""
    found: list[tuple[int, str]] = []
    while len(found) < count:
        got = consumer.getmany(timeout_ms=60_000, max_records=count - len(found))
        assert got, f"{len(found)} of {count} records came"
        found += [
            (one.offset, (one.value or b"").decode()) for records in got.values() for one in records
        ]
    return found


@pytest.mark.parametrize("release", list(releases()))
def test_p15_a_topic_created_again_with_older_records_is_read_whole(release: str) -> None:
    """Below 2.8 it looks like a log that became shorter, and its records' times show nothing."""
    with LocalCluster(brokers=1, release=release) as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=1)
        timed(cluster, "old", 100, 1_700_000_000_000)
        with Consumer(bootstrap_servers=cluster.bootstrap_servers, **QUICK) as consumer:
            consumer.assign([TP])
            assert len(take(consumer, 100)) == 100
            cluster.scenes.recreate_topic("t")
            timed(cluster, "new", 60, 1_500_000_000_000)
            assert take(consumer, 60) == [(i, f"new {i}") for i in range(60)]
            losses = consumer.data_losses  # with epochs and ids it may look like a truncation first
            assert (losses[0].position.offset, losses[-1].resumed_at) == (100, 0)


def timed(cluster: LocalCluster, word: str, count: int, timestamp_ms: int) -> None:
    """Write records that all have one timestamp, where the release has timestamps, in one batch."""
    times = pa.array([timestamp_ms] * count, pa.timestamp("ms", "UTC"))
    rows = pa.table({"value": [f"{word} {i}" for i in range(count)], "timestamp": times})
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        client.produce("t", rows, options=ProduceOptions(enable_idempotence=False))
