"""A task's process has written to a topic; then the topic gets partitions, and
later tasks write to those too.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from parley.client import EARLIEST, LATEST, Client, TopicPartition
from parley.devcluster import LocalCluster
from parley.spark import clients
from parley.spark.write.kafka import TransactionWriting
from parley.spark.write.options import Use, read_sink_options
from parley.spark.write.rows import TaskRows
from parley.spark.write.writer import write_rows

COLUMNS = ("value", "partition")


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, release="3.9") as running:
        running.create_topic("sink", partitions=1)
        yield running


@pytest.fixture(autouse=True)
def own_clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clients of this test's own, and closed after it."""
    mine = type(clients._clients)()
    monkeypatch.setattr(clients, "_clients", mine)
    yield
    for client in mine.values():
        client.close()


def batch(value: str, partition: int) -> pa.RecordBatch:
    return pa.record_batch(
        {"value": pa.array([value.encode()]), "partition": pa.array([partition], pa.int32())}
    )


def values(cluster: LocalCluster, partition: int) -> list[bytes]:
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        read = client.fetch(TopicPartition("sink", partition), EARLIEST, LATEST)
        return [value for found in read for value in found.column("value").to_pylist()]


def test_rows_at_least_once_go_to_the_new_partitions(cluster: LocalCluster) -> None:
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": "sink"}
    options = read_sink_options(given, Use.BATCH_WRITE)
    assert write_rows(TaskRows(iter([batch("old", 0)]), COLUMNS), options).rows == 1
    cluster.add_partitions("sink", 3)
    assert write_rows(TaskRows(iter([batch("new", 2)]), COLUMNS), options).rows == 1
    assert values(cluster, 2) == [b"new"]


def test_rows_exactly_once_go_to_the_new_partitions(cluster: LocalCluster) -> None:
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": "sink"}
    options = read_sink_options(given, Use.BATCH_WRITE)
    client = clients.client_for(options.client)
    write = TransactionWriting(client, 60_000, "sink", options.produce)
    assert write("task-0", iter([batch("old", 0)]))[1] == 1
    cluster.add_partitions("sink", 3)
    assert write("task-1", iter([batch("new", 2)]))[1] == 1
    assert values(cluster, 2) == [b"new"]  # read_uncommitted: the transactions are still open
