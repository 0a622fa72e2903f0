"""All brokers away while a query is planned, starts, reads or writes: without Spark, in real time.

The lengths that take minutes are those of `tests/cluster/test_outages.py` (a clock that is moved
on) and of `tests/outage` (everything beside Spark's own connector).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from parley.arrow import spark_schema
from parley.client import Client, NewTopic
from parley.devcluster import LocalCluster
from parley.errors import NetworkError, RequestTimedOut
from parley.spark.clients import client_for
from parley.spark.options.source import SourceOptions, read_source_options
from parley.spark.options.texts import Use
from parley.spark.read.packing import Task
from parley.spark.read.plan import plan_batch
from parley.spark.read.planner import DISCOVERY_INTERVAL_S, Planner
from parley.spark.read.task import read_task
from parley.spark.stream.reader import StreamReader
from parley.spark.write.intent import Mark
from parley.spark.write.kafka import TopicJournal
from parley.spark.write.options import read_sink_options

ALL = ReadAllAvailable()
ROWS = pa.table({"value": ["a", "b"]})


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2, release="3.9", data_dir=tmp_path) as running:
        running.create_topic("t", partitions=1, replication_factor=2)
        with Client(bootstrap_servers=running.bootstrap_servers) as client:
            client.produce("t", ROWS)
        yield running


@contextmanager
def away(cluster: LocalCluster, seconds: float) -> Iterator[None]:
    """Let all brokers be away for so long from the beginning of the block."""
    for broker_id in (1, 2):
        cluster.kill_broker(broker_id)
    back = threading.Timer(
        seconds, lambda: [cluster.start_broker(broker_id) for broker_id in (1, 2)]
    )
    back.start()
    try:
        yield
    finally:
        back.join()


def options(servers: str, *, use: Use = Use.STREAM_READ, **more: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": servers, "subscribe": "t", "startingOffsets": "earliest"}
    return read_source_options(
        given | {name.replace("__", "."): text for name, text in more.items()}, use
    )


def values(found: SourceOptions, tasks: list[Task]) -> list[bytes]:
    schema = spark_schema()
    batches = [batch for task in tasks for batch in read_task(task, found, schema)]
    return [value for batch in batches for value in batch.column("value").to_pylist()]


@pytest.mark.parametrize("seconds", [0.5, 5])
def test_a_stream_that_runs_outlives_all_brokers(
    cluster: LocalCluster, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = options(cluster.bootstrap_servers)
    reader = StreamReader(found, spark_schema())
    start = reader.latestOffset(reader.initialOffset(), ALL)
    reader._driver.planner._asked_at -= 2 * DISCOVERY_INTERVAL_S  # metadata is older than it may be
    with away(cluster, seconds):
        assert reader.latestOffset(start, ALL) == start
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        client.produce("t", ROWS)
    end = reader.latestOffset(start, ALL)
    with away(cluster, seconds):
        planned = [part.value for part in reader.partitions(start, end)]
        assert values(found, planned) == [b"a", b"b"]


@pytest.mark.parametrize("seconds", [0.5, 5])
def test_a_query_that_starts_while_all_brokers_are_away_begins_when_they_are_back(
    cluster: LocalCluster, seconds: float
) -> None:
    found = options(
        cluster.bootstrap_servers, use=Use.BATCH_READ, kafka__client__id=f"new{seconds}"
    )
    with away(cluster, seconds):
        tasks = plan_batch(Planner(found))
    assert values(found, tasks) == [b"a", b"b"]


def test_a_task_in_a_new_process_waits_for_its_first_broker(cluster: LocalCluster) -> None:
    tasks = plan_batch(Planner(options(cluster.bootstrap_servers, use=Use.BATCH_READ)))
    new = options(
        cluster.bootstrap_servers, use=Use.BATCH_READ, kafka__client__id="another-process"
    )
    with away(cluster, 1):
        assert values(new, tasks) == [b"a", b"b"]


def test_rows_are_written_when_the_brokers_are_back(cluster: LocalCluster) -> None:
    given = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "topic": "t",
        "kafka.client.id": "new-writer",
    }
    found = read_sink_options(given, Use.BATCH_WRITE)
    for _ in range(2):  # as its first call, and as one that has worked
        with away(cluster, 2):
            assert client_for(found.client).produce("t", ROWS, options=found.produce).records == 2


def test_the_journal_of_exactly_once_waits_for_its_leader_as_long_as_rows_do(
    cluster: LocalCluster,
) -> None:
    given = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "topic": "t",
        "kafka.delivery.timeout.ms": "1500",
        "kafka.request.timeout.ms": "1000",
    }
    found = read_sink_options(given, Use.BATCH_WRITE)
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        client.create_topics([NewTopic("journal", replica_assignments={0: [2]})])
        journal = TopicJournal(client, "journal", 60_000, found.produce)
        journal.write(Mark())
        cluster.kill_broker(2)
        client.metadata(["journal"])
        with pytest.raises(
            RequestTimedOut, match=r"journal-0 .* \(no broker leads the partition\)"
        ):
            journal.write(Mark())
        cluster.start_broker(2)
        journal.write(Mark())


TIMES: list[tuple[dict[str, str], float, float]] = [
    ({"kafka__default__api__timeout__ms": "700", "fetchOffset__numRetries": "1"}, 0.6, 2.5),
    ({"kafka__default__api__timeout__ms": "700"}, 1.9, 5),
    ({"kafka__default__api__timeout__ms": "700", "fetchOffset__retryIntervalMs": "1000"}, 3.9, 8),
]


@pytest.mark.parametrize(("given", "least", "most"), TIMES)
def test_options_say_how_long_a_stream_outlives_an_outage(
    cluster: LocalCluster, given: dict[str, Any], least: float, most: float
) -> None:
    reader = StreamReader(options(cluster.bootstrap_servers, **given), spark_schema())
    start = reader.initialOffset()
    reader.latestOffset(start, ALL)
    for broker_id in (1, 2):
        cluster.kill_broker(broker_id)
    reader._driver.planner._asked_at -= 2 * DISCOVERY_INTERVAL_S
    began = time.monotonic()
    with pytest.raises(NetworkError, match="refused"):
        reader.latestOffset(start, ALL)
    assert least <= time.monotonic() - began, "not given up before"
    assert time.monotonic() - began <= 10 * most, "and not much later, on a busy machine"


def test_max_block_ms_says_how_long_a_writer_waits_for_its_first_broker(
    cluster: LocalCluster,
) -> None:
    servers = cluster.bootstrap_servers
    for broker_id in (1, 2):
        cluster.kill_broker(broker_id)
    found = read_sink_options(
        {"kafka.bootstrap.servers": servers, "topic": "t", "kafka.max.block.ms": "1500"},
        Use.BATCH_WRITE,
    )
    began = time.monotonic()
    with pytest.raises(NetworkError, match="refused"):
        client_for(found.client).produce("t", ROWS, options=found.produce)
    assert time.monotonic() - began >= 1.2


def test_a_name_that_nobody_knows_is_reported_at_once() -> None:
    found = options("no-such-host.invalid:9092", use=Use.BATCH_READ)
    began = time.monotonic()
    with pytest.raises(NetworkError, match="cannot be resolved"):
        plan_batch(Planner(found))
    assert time.monotonic() - began < 45, "far from the 180 s of an outage"
