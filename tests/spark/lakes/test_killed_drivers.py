"""kill -9 of a Spark driver, with all that it started, while it writes into a Delta or an Iceberg
table.
"""

from __future__ import annotations

import json
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
from . import iceberg_readers
from .iceberg_queries import NAME, catalog, catalog_options
from .readers import files_of, rows_of, versions_of

READS = """
servers, topic, most, batches, options = given
rows = (
    spark.readStream.format("parley").option("kafka.bootstrap.servers", servers)
    .option("subscribe", topic).option("columns", "partition,offset,value")
    .option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", most)
    .option("arrowBatches", batches).load()
)
writer = rows.writeStream.options(**json.loads(options))
writer = writer.option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True)
"""
RECORDS, MOST = 4000, 20
Moments = dict[str, tuple[Path, str]]
"""What a driver is killed after → folder and pattern of the files that give it away."""


class Delta:
    """A Delta table in a folder."""

    writes = 'query = writer.format("parley-delta").start(folder + "/table")'

    def __init__(self, folder: Path) -> None:
        self.table = folder / "table"
        self.options = {"compactEvery": "5"}
        self.moments: Moments = {
            "files are written": (self.table, "*.parquet"),
            "a commit is begun": (self.table / "_delta_log", "*"),
            "a batch is committed": (self.table / "_delta_log", "[0-9]*.json"),
        }

    def batches(self) -> int:
        return max(versions_of(self.table).values(), default=-1) + 1

    def rows(self) -> list[dict[str, Any]]:
        return rows_of(self.table)

    def files(self) -> int:
        return len(files_of(self.table))


class Iceberg:
    """An Iceberg table and its catalog in a folder."""

    writes = f'query = writer.format("parley-iceberg").start("{NAME}")'

    def __init__(self, folder: Path) -> None:
        catalog(folder)
        self.root, self.options = folder, catalog_options(folder)
        table = folder / "warehouse" / "lake" / "flights"
        self.moments: Moments = {
            "files are written": (table / "data", "*.parquet"),
            "a commit is begun": (table / "metadata", "*.avro"),
            "metadata are written": (table / "metadata", "*.json"),
        }

    def batches(self) -> int:
        return max(iceberg_readers.numbers_of(self.root).values(), default=-1) + 1

    def rows(self) -> list[dict[str, Any]]:
        return iceberg_readers.rows_of(self.root)

    def files(self) -> int:
        return len(iceberg_readers.parquet_of(self.root))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("lake", "kills"),
    [
        pytest.param(Delta, 5, marks=pytest.mark.kills),
        pytest.param(Delta, 20, marks=pytest.mark.long),
        pytest.param(Iceberg, 20, marks=pytest.mark.long),
    ],
)
def test_records_are_in_the_table_once_however_often_the_driver_is_killed(
    cluster: LocalCluster,
    client: Client,
    topic: Callable[..., str],
    tmp_path: Path,
    lake: type[Delta | Iceberg],
    kills: int,
) -> None:
    """Every other driver writes Arrow batches, the others Spark's rows."""
    rng = random.Random(kills)
    name = topic(f"{lake.__name__}{kills}", partitions=2)
    for partition in (0, 1):
        values = [f"{partition}-{n}" for n in range(RECORDS // 2)]
        client.produce(name, pa.table({"value": values}), partition=partition)
    table, checkpoint = lake(tmp_path), tmp_path / "checkpoint"
    watched = {
        "a batch is planned": (checkpoint / "offsets", "[0-9]*"),
        **table.moments,
        "Spark has committed": (checkpoint / "commits", "[0-9]*"),
    }
    program = READS + table.writes
    options = json.dumps(table.options)
    killed: Counter[str] = Counter()

    def start(number: int, most: int) -> Driver:
        given = [name, str(most), "true" if number % 2 else "false", options]
        return Driver(program, tmp_path, cluster.bootstrap_servers, *given)

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
    before = table.batches()
    start(kills, RECORDS).finish()
    found = table.rows()
    placed = sorted((row["partition"], row["offset"], row["value"].decode()) for row in found)
    assert placed == [(p, n, f"{p}-{n}") for p in (0, 1) for n in range(RECORDS // 2)]
    print(
        f"{dict(killed)}, {before} batches before the last driver, {table.files()} files, "
        f"{len(found)} rows"
    )


def _reached(place: Path, pattern: str, wanted: int) -> Callable[[], bool]:
    """Return what says whether there are so many files that are not there now."""
    seen = {path.name for path in place.glob(pattern)}
    return lambda: sum(path.name not in seen for path in place.glob(pattern)) >= wanted
