"""S1 and S2 through Spark: what a query reads when its driver or its workers are killed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from parley.client import Client
from parley.devcluster import LocalCluster

from ..support import GENEROUS_S
from .drivers import Driver

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

PROGRAM = """
servers, topic, most = given
rows = (
    spark.readStream.format("parley").option("kafka.bootstrap.servers", servers)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", most)
    .option("kafka.max.partition.fetch.bytes", 2000).option("kafka.max.batch.rows", 50).load()
)
query = (
    rows.selectExpr("partition", "offset", "cast(value AS string) AS value")
    .writeStream.format("parquet").option("path", folder + "/out")
    .option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start()
)
"""


@pytest.fixture
def drivers(cluster: LocalCluster, tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    made: list[Driver] = []

    def make(topic: str, most: int) -> Driver:
        made.append(Driver(PROGRAM, tmp_path, cluster.bootstrap_servers, topic, str(most)))
        return made[-1]

    yield make
    for driver in made:
        driver.kill()


def rows_of(spark: Any, folder: Path) -> list[tuple[int, int, str]]:
    frame = spark.read.schema("partition int, offset bigint, value string").parquet(
        str(folder / "out")
    )
    return sorted((row.partition, row.offset, row.value) for row in frame.collect())


def put(client: Client, topic: str, partition: int, values: list[Any]) -> None:
    client.produce(
        topic, pa.table({"value": [str(value) for value in values]}), partition=partition
    )


def ranges(folder: Path) -> dict[int, dict[str, Any]]:
    """Return the planned end of each batch that is still in the offset log."""
    found = {}
    for file in (folder / "checkpoint" / "offsets").glob("[0-9]*"):
        found[int(file.name)] = json.loads(file.read_text().splitlines()[-1])
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_s01_a_driver_killed_at_any_point_reads_the_same_again(
    spark: Any, client: Client, topic: Any, drivers: Any, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    name = topic(f"seed{seed}", partitions=2)
    for partition in (0, 1):
        put(client, name, partition, list(range(partition * 1000, partition * 1000 + 600)))
    killed = drivers(name, 300)
    planned = rng.randint(1, 3)
    killed.wait_for(lambda: killed.batches() >= planned)
    killed.kill()
    before = ranges(tmp_path)
    for partition in (0, 1):
        # must not creep into a batch that is planned
        put(client, name, partition, [f"late{partition}"])
    drivers(name, 300).finish()
    after = ranges(tmp_path)
    assert all(after[batch] == ends for batch, ends in before.items() if batch in after)
    rows = rows_of(spark, tmp_path)
    assert [row[:2] for row in rows] == [
        (partition, offset) for partition in (0, 1) for offset in range(601)
    ]
    assert rows[600][2] == "late0"


def test_s02_a_worker_killed_while_it_reads_is_replaced(
    spark: Any, client: Client, topic: Any, drivers: Any, tmp_path: Path, cluster: LocalCluster
) -> None:
    name = topic(partitions=2)
    for partition in (0, 1):
        put(client, name, partition, list(range(2000)))
    cluster.faults.delay("FETCH", 40)
    try:
        driver = drivers(name, 1000)
        driver.wait_for(lambda: driver.batches() >= 1)
        deadline, killed = time.monotonic() + GENEROUS_S, 0
        while killed < 2 and driver.process.poll() is None and time.monotonic() < deadline:
            for pid in driver.workers()[:1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
            driver.wait(0.3)
        assert killed
    finally:
        cluster.faults.clear()
    driver.finish()
    assert [row[:2] for row in rows_of(spark, tmp_path)] == [
        (p, offset) for p in (0, 1) for offset in range(2000)
    ]
