"""Two embedded clusters, what goes into one, and what a reader of its own finds in the other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from parley.arrow import HEADERS_TYPE
from parley.client import (
    EARLIEST,
    LATEST,
    Client,
    ClientOptions,
    FetchOptions,
    TopicPartition,
)
from parley.devcluster import LocalCluster
from parley.pipelines.replication import ReplicationOptions

from ..support import GENEROUS_MS

TOPIC = "flights"
NAME = "to-new"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
KEPT = ("key", "value", "headers", "timestamp")


def client(cluster: LocalCluster) -> Client:
    return Client(connection(cluster))


def connection(cluster: LocalCluster) -> ClientOptions:
    return ClientOptions(
        bootstrap_servers=cluster.bootstrap_servers, default_api_timeout_ms=GENEROUS_MS
    )


def options(**given: Any) -> ReplicationOptions:
    named = {"name": NAME, "topics": [TOPIC], "commit_interval_ms": 50, **given}
    return ReplicationOptions(**named)


def records(numbers: Iterable[int], *, headers: bool = True) -> pa.Table:
    """Return records of every kind, by number: without key, without value, with null headers."""
    numbers = list(numbers)
    columns: dict[str, Any] = {
        "key": pa.array([None if n % 7 == 0 else str(n % 11).encode() for n in numbers]),
        "value": pa.array([None if n % 13 == 5 else str(n).encode() for n in numbers], pa.binary()),
        "timestamp": pa.array(
            [BEGIN + timedelta(milliseconds=n) for n in numbers], pa.timestamp("ms", tz="UTC")
        ),
    }
    if headers:
        kinds: list[list[dict[str, object]]] = [
            [],
            [{"key": "b", "value": None}, {"key": "a", "value": b""}],
            [{"key": "b", "value": b"1"}, {"key": "b", "value": b"2"}],
        ]
        columns["headers"] = pa.array([kinds[n % 3] for n in numbers], HEADERS_TYPE)
    return pa.table(columns)


def write(
    cluster: LocalCluster, numbers: Iterable[int], *, topic: str = TOPIC, headers: bool = True
) -> None:
    with client(cluster) as writing:
        writing.produce(topic, records(numbers, headers=headers))


def read(
    cluster: LocalCluster,
    partitions: int,
    *,
    topic: str = TOPIC,
    isolation_level: str = "read_committed",
) -> list[list[dict[str, Any]]]:
    """Return all records, partition by partition."""
    found = []
    with client(cluster) as reading:
        for index in range(partitions):
            at = TopicPartition(topic, index)
            fetching = FetchOptions(isolation_level=isolation_level)
            batches = reading.fetch(at, EARLIEST, LATEST, fetching)
            found.append([row for batch in batches for row in batch.to_pylist()])
    return found


def kept(
    partitions: Sequence[Sequence[dict[str, Any]]], names: Sequence[str] = KEPT
) -> list[list[tuple[Any, ...]]]:
    """Return what a replication keeps of records."""
    return [[tuple(str(row[name]) for name in names) for row in rows] for rows in partitions]


def start(source: LocalCluster, target: LocalCluster, *more: str) -> subprocess.Popen[str]:
    """Return a replication in a process of its own."""
    return subprocess.Popen(
        [
            sys.executable, str(Path(__file__).with_name("process.py")),
            source.bootstrap_servers, target.bootstrap_servers, *more,
        ],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
