"""One Spark session and one embedded cluster of mixed releases for all Spark tests."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from parley.client import Client
from parley.devcluster import LocalCluster
from parley.host import spark_environment

from ..support import GENEROUS_S, sparks

RELEASES = {1: "2.4", 2: "3.9", 3: "4.3"}
"""A cluster in the middle of a rolling upgrade: the oldest knows no topic ids,
the newest no old requests.
"""

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.ui.retainedExecutions": "1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.session.timeZone": "UTC",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local session with two cores, `format("parley")` found by itself."""
    from pyspark.sql import SparkSession

    for name, value in spark_environment().items():
        os.environ[name] = value
    folder = tmp_path_factory.mktemp("spark")
    builder = SparkSession.builder.master("local[2]").appName("parley tests")
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    builder = builder.config("spark.local.dir", str(folder / "local"))
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    for left in reversed(range(sparks.MOST_STARTS)):
        with sparks.unpacked_home(folder / str(left)):
            session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        if not left or sparks.finds_parley(session):
            break
        sparks.end(session)
    yield session
    sparks.end(session)


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """Three brokers of three releases."""
    with LocalCluster(brokers=3, releases=RELEASES) as running:
        yield running


@pytest.fixture(scope="session")
def client(cluster: LocalCluster) -> Iterator[Client]:
    """A client for putting records in and looking at them."""
    with Client(bootstrap_servers=cluster.bootstrap_servers) as found:
        yield found


@pytest.fixture
def topic(request: pytest.FixtureRequest, cluster: LocalCluster) -> Callable[..., str]:
    """Make topics named after the test: `topic(partitions=2)`; `topic("b")` for a second one."""

    def make(suffix: str = "", partitions: int = 2, configs: dict[str, str] | None = None) -> str:
        name = f"{request.node.originalname}{suffix and '.' + suffix}"[:200]
        cluster.create_topic(name, partitions, 3, configs)
        return name

    return make


class Stream:
    """A streaming query that collects into a Parquet folder, run with
    AvailableNow as often as wanted.
    """

    def __init__(self, spark: Any, servers: str, folder: Path, options: dict[str, Any]) -> None:
        self.spark = spark
        self.servers = servers
        self.folder = folder
        self.options = options

    def frame(self) -> Any:
        found = self.spark.readStream.format("parley").option(
            "kafka.bootstrap.servers", self.servers
        )
        for name, value in {"startingOffsets": "earliest", **self.options}.items():
            found = found.option(name, value)
        return found.load().selectExpr(
            "topic", "partition", "offset", "cast(value as string) as value"
        )

    def start(self, **trigger: Any) -> Any:
        writer = self.frame().writeStream.format("parquet").option("path", str(self.folder / "out"))
        return sparks.started(
            writer.option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(**trigger)
            .start
        )

    def run(self, **options: Any) -> Any:
        """Run until everything that is there now is read; return the query for its progress."""
        self.options |= options
        query = self.start(availableNow=True)
        assert query.awaitTermination(GENEROUS_S)
        return query

    def rows(self) -> list[tuple[int, int, str]]:
        frame = self.spark.read.schema("topic string, partition int, offset bigint, value string")
        rows = frame.parquet(str(self.folder / "out")).collect()
        return sorted((row.partition, row.offset, row.value) for row in rows)

    def offsets(self) -> list[dict[str, Any]]:
        """Return the offsets of the checkpoint that are still there, in the
        order of the batches.
        """
        files = (self.folder / "checkpoint" / "offsets").glob("[0-9]*")
        return [
            json.loads(file.read_text().splitlines()[-1])
            for file in sorted(files, key=lambda file: int(file.name))
        ]


@pytest.fixture
def stream(spark: Any, cluster: LocalCluster, tmp_path: Path) -> Iterator[Callable[..., Stream]]:
    """Make streaming queries: `stream(subscribe=…)`, of another cluster with `servers=…`."""

    def make(servers: str | None = None, **options: Any) -> Stream:
        return Stream(spark, servers or cluster.bootstrap_servers, tmp_path, options)

    yield make
    for query in spark.streams.active:
        query.stop()
