"""S1 and S2 through Spark: what a query reads when its driver or its workers are killed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from parley.client import Client
from parley.devcluster import LocalCluster
from parley.host import spark_environment

from ..support import GENEROUS_S

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

PROGRAM = """
    import json, sys
    from pyspark.sql import SparkSession

    servers, topic, folder, most, config = sys.argv[1:]
    builder = SparkSession.builder.master("local[2,4]")
    for name, value in json.loads(config).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
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
    print("STARTED", flush=True)
    query.awaitTermination()
    print("DONE", flush=True)
"""
CONFIG = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


class Driver:
    """A Spark driver in a process group of its own, to be killed as a machine dies."""

    def __init__(self, servers: str, topic: str, folder: Path, most: int) -> None:
        environment = {**os.environ, **spark_environment()}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        arguments = [servers, topic, str(folder), str(most), json.dumps(CONFIG)]
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(PROGRAM), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
            start_new_session=True,
        )  # fmt: skip

    def batches(self, kind: str = "offsets") -> int:
        """Return how many files of a kind the checkpoint has had."""
        found = (self.folder / "checkpoint" / kind).glob("[0-9]*")
        return max((int(file.name) + 1 for file in found if file.name.isdigit()), default=0)

    def wait_for_batches(self, count: int) -> None:
        """Return when so many batches were planned, or the query is done."""
        deadline = time.monotonic() + GENEROUS_S
        while self.batches() < count and self.process.poll() is None:
            assert time.monotonic() < deadline, "no progress"
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)

    def kill(self) -> None:
        """Kill the driver with everything that it started."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()

    def finish(self) -> None:
        """Let it run to its end."""
        out, _ = self.process.communicate(timeout=2 * GENEROUS_S)
        assert b"DONE" in out

    def workers(self) -> list[int]:
        """Return the process ids of the Python workers that run tasks."""
        parents: dict[int, int] = {}
        daemons = set()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    if (
                        os.getpgid(int(entry.name)) == self.process.pid
                        or os.getsid(int(entry.name)) == self.process.pid
                    ):
                        parents[int(entry.name)] = int(fields[1])
                        if b"pyspark.daemon" in (entry / "cmdline").read_bytes():
                            daemons.add(int(entry.name))
        return [pid for pid, parent in parents.items() if parent in daemons and pid in daemons]


@pytest.fixture
def drivers(cluster: LocalCluster, tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    made: list[Driver] = []

    def make(topic: str, most: int) -> Driver:
        made.append(Driver(cluster.bootstrap_servers, topic, tmp_path, most))
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
    killed.wait_for_batches(rng.randint(1, 3))
    killed.kill()
    before = ranges(tmp_path)
    for partition in (0, 1):
        # must not creep into a batch that is planned
        put(client, name, partition, [f"late{partition}"])
    drivers(name, 300).finish()
    after = ranges(tmp_path)
    assert all(after[batch] == planned for batch, planned in before.items() if batch in after)
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
        driver.wait_for_batches(1)
        deadline, killed = time.monotonic() + GENEROUS_S, 0
        while killed < 2 and driver.process.poll() is None and time.monotonic() < deadline:
            for pid in driver.workers()[:1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
            with contextlib.suppress(subprocess.TimeoutExpired):
                driver.process.wait(0.3)
        assert killed
    finally:
        cluster.faults.clear()
    driver.finish()
    assert [row[:2] for row in rows_of(spark, tmp_path)] == [
        (p, offset) for p in (0, 1) for offset in range(2000)
    ]
