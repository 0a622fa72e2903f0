"""S1–S14 through Spark: what a query reads when its driver, its workers, its topics or its brokers are disturbed."""

from __future__ import annotations

import contextlib
import itertools
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

from parley.client import BlockingClient
from parley.devcluster import LocalCluster, Security
from parley.host import spark_environment

pytestmark = pytest.mark.timeout(240)

PROGRAM = """
    import json, sys
    from pyspark.sql import SparkSession

    servers, topic, folder, most, config = sys.argv[1:]
    builder = SparkSession.builder.master("local[2,4]")
    for name, value in json.loads(config).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    rows = (
        spark.readStream.format("parley").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
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
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, start_new_session=True,
        )  # fmt: skip

    def batches(self, kind: str = "offsets") -> int:
        """Return how many files of a kind the checkpoint has had."""
        found = (self.folder / "checkpoint" / kind).glob("[0-9]*")
        return max((int(file.name) + 1 for file in found if file.name.isdigit()), default=0)

    def wait_for_batches(self, count: int) -> None:
        """Return when so many batches were planned, or the query is done."""
        deadline = time.monotonic() + 120
        while self.batches() < count and self.process.poll() is None:
            assert time.monotonic() < deadline, "no progress"
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)

    def kill(self) -> None:
        """Kill the driver with everything that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def finish(self) -> None:
        """Let it run to its end."""
        out, _ = self.process.communicate(timeout=200)
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
    frame = spark.read.schema("partition int, offset bigint, value string").parquet(str(folder / "out"))
    return sorted((row.partition, row.offset, row.value) for row in frame.collect())


def put(client: BlockingClient, topic: str, partition: int, values: list[Any]) -> None:
    client.produce(topic, pa.table({"value": [str(value) for value in values]}), partition=partition)


def ranges(folder: Path) -> dict[int, dict[str, Any]]:
    """Return the planned end of each batch that is still in the offset log."""
    found = {}
    for file in (folder / "checkpoint" / "offsets").glob("[0-9]*"):
        found[int(file.name)] = json.loads(file.read_text().splitlines()[-1])
    return found


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_s1_a_driver_killed_at_any_point_reads_the_same_again(
    spark: Any, client: BlockingClient, topic: Any, drivers: Any, tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)
    name = topic(f"seed{seed}", partitions=2)
    for partition in (0, 1):
        put(client, name, partition, list(range(partition * 1000, partition * 1000 + 600)))
    killed = drivers(name, 300)
    killed.wait_for_batches(dice.randint(1, 3))
    killed.kill()
    before = ranges(tmp_path)
    for partition in (0, 1):
        put(client, name, partition, [f"late{partition}"])  # must not creep into a batch that is planned
    drivers(name, 300).finish()
    after = ranges(tmp_path)
    assert all(after[batch] == planned for batch, planned in before.items() if batch in after)
    rows = rows_of(spark, tmp_path)
    assert [row[:2] for row in rows] == [(partition, offset) for partition in (0, 1) for offset in range(601)]
    assert rows[600][2] == "late0"


@pytest.mark.long
def test_s2_a_worker_killed_while_it_reads_is_replaced(
    spark: Any, client: BlockingClient, topic: Any, drivers: Any, tmp_path: Path, cluster: LocalCluster
) -> None:
    name = topic(partitions=2)
    for partition in (0, 1):
        put(client, name, partition, list(range(2000)))
    cluster.delay("FETCH", 40)
    try:
        driver = drivers(name, 1000)
        driver.wait_for_batches(1)
        deadline, killed = time.monotonic() + 100, 0
        while killed < 2 and driver.process.poll() is None and time.monotonic() < deadline:
            for pid in driver.workers()[:1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
            with contextlib.suppress(subprocess.TimeoutExpired):
                driver.process.wait(0.3)
        assert killed
    finally:
        cluster.clear_faults()
    driver.finish()
    assert [row[:2] for row in rows_of(spark, tmp_path)] == [(p, offset) for p in (0, 1) for offset in range(2000)]


def test_s5_truncation_while_the_query_was_stopped(spark: Any, stream: Any) -> None:
    with LocalCluster(brokers=3, release="4.3") as cluster:
        cluster.create_topic("cut", partitions=1, replication_factor=3)
        with BlockingClient(bootstrap_servers=cluster.bootstrap_servers) as client:
            put(client, "cut", 0, ["a", "b"])
            put(client, "cut", 0, ["c", "d"])
            query = stream(servers=cluster.bootstrap_servers, subscribe="cut")
            query.run()
            cluster.elect_unclean("cut", 0, lose=2)
            put(client, "cut", 0, ["x", "y", "z"])
            with pytest.raises(Exception, match=r"log of cut-0 was truncated: offset 4 .* divergent offset 2"):
                query.run()
            query.run(failOnDataLoss="false")
            put(client, "cut", 0, ["end"])
            query.run(failOnDataLoss="true")
    assert sorted(value for _, _, value in query.rows()) == ["a", "b", "c", "d", "end", "x", "y", "z"]


def test_s8_partitions_that_are_added_are_read_from_their_beginning(
    stream: Any, client: BlockingClient, cluster: LocalCluster, topic: Any
) -> None:
    name = topic(partitions=1)
    put(client, name, 0, ["a"])
    query = stream(subscribe=name, startingOffsets="latest")
    query.run()
    cluster.add_partitions(name, 3)
    for partition in range(3):
        put(client, name, partition, [f"p{partition}", f"q{partition}"])
    query.run()
    assert sorted(value for _, _, value in query.rows()) == ["p0", "p1", "p2", "q0", "q1", "q2"]


def test_s9_topics_that_come_and_go_under_a_pattern(
    stream: Any, client: BlockingClient, cluster: LocalCluster, topic: Any
) -> None:
    stem = topic("first", partitions=1).removesuffix("first")
    dice = random.Random(9)
    put(client, stem + "first", 0, ["0"])
    query = stream(subscribePattern=stem.replace(".", r"\.") + ".*", failOnDataLoss="false")
    query.run()
    written = {"0"}
    alive = {stem + "first"}
    for step in range(1, 16):
        if len(alive) > 1 and dice.random() < 0.35:
            gone = dice.choice(sorted(alive - {stem + "first"}))
            cluster.delete_topic(gone)
            alive.discard(gone)
        else:
            name = stem + f"t{dice.randint(1, 3)}"
            if name not in alive:
                cluster.create_topic(name, partitions=dice.randint(1, 3), replication_factor=3)
                alive.add(name)
            put(client, name, 0, [str(step)])
            written.add(str(step))
        put(client, stem + "first", 0, [f"f{step}"])
        written.add(f"f{step}")
        if step % 5 == 0:
            query.run()
    values = [value for _, _, value in query.rows()]
    assert len(values) == len(set(values))
    assert set(values) <= written
    assert {"0", *(f"f{step}" for step in range(1, 16))} <= set(values)


def test_s10_two_queries_and_a_group_on_one_topic_do_not_disturb_each_other(
    spark: Any, client: BlockingClient, cluster: LocalCluster, topic: Any, tmp_path: Path, stream: Any
) -> None:
    name = topic(partitions=2)
    put(client, name, 0, list(range(50)))
    one, two = stream(subscribe=name, maxOffsetsPerTrigger=20), stream(subscribe=name, maxOffsetsPerTrigger=30)
    one.folder, two.folder = tmp_path / "one", tmp_path / "two"
    one.run()
    put(client, name, 1, list(range(50, 100)))
    for found in (two, one):
        found.run()
        assert sorted(int(value) for _, _, value in found.rows()) == list(range(100))
    used = {entry.api for entry in cluster.requests() if entry.client_id == "parley"}
    assert not any("JOIN_GROUP" in str(api) for api in used)


def test_s11_other_limits_after_a_restart(stream: Any, client: BlockingClient, topic: Any) -> None:
    name = topic(partitions=2)
    put(client, name, 0, list(range(40)))
    query = stream(subscribe=name, maxOffsetsPerTrigger=15)
    query.run()
    put(client, name, 1, list(range(40, 60)))
    query.run(maxOffsetsPerTrigger=7, minPartitions=5)
    put(client, name, 0, list(range(60, 80)))
    query.options.pop("maxOffsetsPerTrigger")
    query.run(maxRecordsPerPartition=3, maxBytesPerTrigger="1m")
    assert sorted(int(value) for _, _, value in query.rows()) == list(range(80))
    ends = [found[name] for found in query.offsets()]
    assert all(before[n] <= after[n] for before, after in itertools.pairwise(ends) for n in before)


CANARY = "canary-8b1f"


def test_s14_a_password_is_nowhere_to_be_seen(spark: Any, stream: Any, tmp_path: Path, capfd: Any) -> None:
    security = Security(protocol="SASL_PLAINTEXT", mechanisms=("SCRAM-SHA-256",), users={"alice": CANARY})
    with LocalCluster(brokers=1, release="4.3", security=security) as cluster:
        cluster.create_topic("secret", partitions=1)
        login = (
            f'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="{CANARY}";'
        )
        options = {
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "SCRAM-SHA-256",
            "kafka.sasl.jaas.config": login,
        }
        properties = cluster.client_properties("alice")
        with BlockingClient(
            bootstrap_servers=cluster.bootstrap_servers, security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=properties["sasl.jaas.config"],
        ) as client:  # fmt: skip
            put(client, "secret", 0, ["a", "b"])
        query = stream(servers=cluster.bootstrap_servers, subscribe="secret", **options)
        ran = query.run()
        assert [value for _, _, value in query.rows()] == ["a", "b"]
        frame = query.frame()
        shown = [str(ran.recentProgress), frame._jdf.queryExecution().toString(), repr(frame)]
        wrong = {**options, "kafka.sasl.jaas.config": login.replace('="alice"', '="mallory"')}
        batch = spark.read.format("parley").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        with pytest.raises(Exception, match="AuthenticationError") as refused:
            batch.option("subscribe", "secret").options(**wrong).load().collect()
        shown.append(str(refused.value))
    files = [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    captured = capfd.readouterr()
    assert not [text for text in (*shown, *files, captured.out, captured.err) if CANARY in text]
