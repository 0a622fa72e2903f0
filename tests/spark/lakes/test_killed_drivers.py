"""kill -9 of a Spark driver, with all that it started, while it writes into a Delta table."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from parley.client import Client
from parley.devcluster import LocalCluster

from ..drivers import Driver
from .readers import files_of, rows_of, versions_of

PROGRAM = """
servers, topic, most, batches = given
rows = (
    spark.readStream.format("parley").option("kafka.bootstrap.servers", servers)
    .option("subscribe", topic).option("columns", "partition,offset,value")
    .option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", most)
    .option("arrowBatches", batches).load()
)
query = (
    rows.writeStream.format("parley-delta").option("path", folder + "/table")
    .option("compactEvery", "5")
    .option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start()
)
"""
RECORDS, MOST = 4000, 20


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "kills", [pytest.param(5, marks=pytest.mark.kills), pytest.param(20, marks=pytest.mark.long)]
)
def test_records_are_in_the_table_once_however_often_the_driver_is_killed(
    cluster: LocalCluster,
    client: Client,
    topic: Callable[..., str],
    tmp_path: Path,
    kills: int,
) -> None:
    """Every other driver writes Arrow batches, the others Spark's rows."""
    rng = random.Random(kills)
    name = topic(partitions=2)
    for partition in (0, 1):
        values = [f"{partition}-{n}" for n in range(RECORDS // 2)]
        client.produce(name, pa.table({"value": values}), partition=partition)
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    watched = {
        "a batch is planned": (checkpoint / "offsets", "[0-9]*"),
        "files are written": (table, "*.parquet"),
        "a commit is begun": (table / "_delta_log", "*"),
        "a batch is committed": (table / "_delta_log", "[0-9]*.json"),
        "Spark has committed": (checkpoint / "commits", "[0-9]*"),
    }
    killed: Counter[str] = Counter()

    def start(number: int, most: int) -> Driver:
        batches = "true" if number % 2 else "false"
        return Driver(PROGRAM, tmp_path, cluster.bootstrap_servers, name, str(most), batches)

    for number in range(kills):
        moment = rng.choice(list(watched))
        reached = _reached(*watched[moment], rng.randint(1, 3))
        driver = start(number, MOST)
        try:
            driver.wait_for(reached, 0.002)
            driver.wait(rng.choice((0.0, rng.uniform(0, 0.1))))
            assert driver.process.poll() is None
        finally:
            driver.kill()
        killed[moment] += 1
    before = max(versions_of(table).values(), default=-1)
    start(kills, RECORDS).finish()
    found: list[dict[str, Any]] = rows_of(table)
    placed = sorted((row["partition"], row["offset"], row["value"].decode()) for row in found)
    assert placed == [(p, n, f"{p}-{n}") for p in (0, 1) for n in range(RECORDS // 2)]
    print(
        f"{dict(killed)}, {before + 1} batches before the last driver, {len(files_of(table))} "
        f"files, {len(found)} rows"
    )


def _reached(place: Path, pattern: str, wanted: int) -> Callable[[], bool]:
    """Return what says whether there are so many files that are not there now."""
    seen = {path.name for path in place.glob(pattern)}
    return lambda: sum(path.name not in seen for path in place.glob(pattern)) >= wanted
