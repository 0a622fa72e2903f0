"""One Spark session and one embedded cluster of mixed releases for all Spark tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from parley.client import BlockingClient
from parley.devcluster import LocalCluster
from parley.host import spark_environment

RELEASES = {1: "2.4", 2: "3.9", 3: "4.3"}
"""A cluster in the middle of a rolling upgrade: the oldest knows no topic ids, the newest no old requests."""

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
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """Three brokers of three releases."""
    with LocalCluster(brokers=3, releases=RELEASES) as running:
        yield running


@pytest.fixture(scope="session")
def client(cluster: LocalCluster) -> Iterator[BlockingClient]:
    """A client for putting records in and looking at them."""
    with BlockingClient(bootstrap_servers=cluster.bootstrap_servers) as found:
        yield found


@pytest.fixture
def topic(request: pytest.FixtureRequest, cluster: LocalCluster) -> Callable[..., str]:
    """Make topics named after the test: `topic(partitions=2)`; `topic("b")` for a second one."""

    def make(suffix: str = "", partitions: int = 2) -> str:
        name = f"{request.node.originalname}{suffix and '.' + suffix}"[:200]
        cluster.create_topic(name, partitions=partitions, replication_factor=3)
        return name

    return make
