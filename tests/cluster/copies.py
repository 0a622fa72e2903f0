"""Two clusters with a topic each that should be a copy of the other's."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count
from typing import NamedTuple

import pyarrow as pa

from parley.arrow import HEADERS_TYPE
from parley.client import Client, ProduceOptions
from parley.devcluster import LocalCluster
from parley.pipelines.verify import VerifiedPartition, VerifyOptions, verify_topics

TOPICS = (f"topic{number}" for number in count())
NOW_MS = 1_700_000_000_000


class Row(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = NOW_MS


def table(rows: list[Row], *, headers: bool = True) -> pa.Table:
    columns = {
        "key": pa.array([row.key for row in rows], pa.binary()),
        "value": pa.array([row.value for row in rows], pa.binary()),
        "timestamp": pa.array([row.timestamp_ms for row in rows], pa.timestamp("ms")),
    }
    if headers:
        columns["headers"] = pa.array(
            [[{"key": k, "value": v} for k, v in row.headers] for row in rows], HEADERS_TYPE
        )
    return pa.table(columns)


def made(number: int) -> list[Row]:
    """Return records of all kinds; no two are the same."""
    return [
        Row(
            None if at % 5 == 0 else b"k%d" % (at % 97),
            None if at % 11 == 3 else b"value %d" % at,
            (("trace", b"%d" % at), ("empty", b""), ("null", None)) if at % 3 else (),
            NOW_MS + at,
        )
        for at in range(number)
    ]


ROWS = made(3_000)


class Sides:
    """Two clusters and a client of each."""

    def __init__(self, left: LocalCluster, right: LocalCluster, stack: ExitStack) -> None:
        self.clusters = left, right
        self.left, self.right = (
            stack.enter_context(Client(bootstrap_servers=one.bootstrap_servers))
            for one in self.clusters
        )

    def topic(self, partitions: tuple[int, int] = (1, 1)) -> str:
        name = next(TOPICS)
        for cluster, number in zip(self.clusters, partitions, strict=True):
            if number:
                cluster.create_topic(name, number)
        return name

    def filled(self, left: list[Row], right: list[Row]) -> str:
        """Return a topic with these records: the sides' batches have other sizes and codecs."""
        name = self.topic()
        one = ProduceOptions(compression_type="lz4", batch_size=4_000)
        for client, rows, options in ((self.left, left, one), (self.right, right, None)):
            if rows:
                client.produce(name, table(rows), 0, options)
        return name

    def compare(self, name: str, **options: object) -> VerifiedPartition:
        chosen = VerifyOptions(**options)  # type: ignore[arg-type]  # it checks each
        (found,) = verify_topics(self.left, self.right, [name], chosen).partitions
        return found
