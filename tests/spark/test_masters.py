"""The same program under every kind of Spark: Connect, a pipeline, executors
in processes of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from parley.client import Client
from parley.devcluster import LocalCluster
from parley.host import spark_environment

from .standalone import HOME, JVM, PATIENCE_SECONDS, Standalone

pytestmark = [pytest.mark.long, pytest.mark.timeout(3 * PATIENCE_SECONDS)]

CONFIG = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": JVM,
    "spark.executor.extraJavaOptions": JVM,
}
PROGRAM = """
    import json, sys
    from pyspark.sql import SparkSession
    import parley.spark

    how, where, servers, topic, folder, config = sys.argv[1:]
    builder = getattr(SparkSession.builder, how)(where)
    for name, value in json.loads(config).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    parley.spark.register(spark)
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic}
    options["startingOffsets"] = "earliest"
    batch = spark.read.format("parley").options(**options).option("minPartitions", 4).load()
    tasks = batch.selectExpr("spark_partition_id() AS id").distinct()
    counts = {"batch": batch.count(), "tasks": tasks.count()}
    stream = spark.readStream.format("parley").options(**options)
    rows = stream.option("maxOffsetsPerTrigger", 150).load()
    query = (
        rows.writeStream.format("parquet").option("path", folder + "/out")
        .option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start()
    )
    assert query.awaitTermination(600)
    values = spark.read.parquet(folder + "/out").selectExpr("cast(value AS string) AS value")
    counts["stream"] = sorted(int(row.value) for row in values.collect()) == list(range(400))
    counts["batches"] = len([p for p in query.recentProgress if p["numInputRows"]])
    writer = batch.selectExpr("value", f"'{topic}.copy' AS topic").write.format("parley")
    writer.mode("append").option("kafka.bootstrap.servers", servers).save()
    copy = spark.read.format("parley").options(**{**options, "subscribe": topic + ".copy"}).load()
    counts["copied"] = copy.count()
    spark.stop()
    print("RESULT " + json.dumps(counts))
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    found = {
        **os.environ,
        **spark_environment(),
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_DIRS": str(tmp_path / "local"),
    }
    found |= {"SPARK_DAEMON_JAVA_OPTS": JVM, "SPARK_DAEMON_MEMORY": "256m"}
    return {**found, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@pytest.fixture
def job(
    cluster: LocalCluster, client: Client, topic: Any, tmp_path: Path, environment: dict[str, str]
) -> Callable[..., dict[str, Any]]:
    """Run the program with a topic of 400 rows: `job("master", "local[2]")`."""
    name = topic(partitions=2)
    topic("copy", partitions=2)
    client.produce(name, pa.table({"value": [str(n) for n in range(400)]}))

    def run(how: str, where: str, **more: str) -> dict[str, Any]:
        config = {} if how == "remote" else CONFIG | more
        arguments = [how, where, cluster.bootstrap_servers, name, str(tmp_path), json.dumps(config)]
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(PROGRAM), *arguments],
            capture_output=True, text=True, env=environment, timeout=PATIENCE_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        return dict(json.loads(line.removeprefix("RESULT ")))

    return run


EXPECTED = {"batch": 400, "tasks": 4, "stream": True, "batches": 3, "copied": 400}


def test_spark_connect(job: Any) -> None:
    found = job("remote", "local[2]")
    del found["batches"]  # the client of Connect forgets the progress of a query that has ended
    assert found == {name: value for name, value in EXPECTED.items() if name != "batches"}


def test_executors_in_processes_of_their_own(job: Any) -> None:
    assert job("master", "local-cluster[2,1,512]") == EXPECTED


def test_workers_that_talk_to_the_jvm_by_unix_sockets(job: Any) -> None:
    assert (
        job("master", "local[2]", **{"spark.python.unix.domain.socket.enabled": "true"}) == EXPECTED
    )


def test_a_standalone_master_with_two_workers(
    job: Any, tmp_path: Path, environment: dict[str, str]
) -> None:
    with Standalone(tmp_path / "standalone", environment) as spark:
        assert job("master", spark.address) == EXPECTED


PIPELINE = """
    from pyspark import pipelines as dp
    from pyspark.sql import SparkSession

    spark = SparkSession.active()
    OPTIONS = {{
        "kafka.bootstrap.servers": "{servers}", "subscribe": "{topic}",
        "startingOffsets": "earliest",
    }}

    @dp.table
    def streamed():
        return spark.readStream.format("parley").options(**OPTIONS).load()

    @dp.materialized_view
    def counted():
        return spark.read.format("parley").options(**OPTIONS).load().groupBy("topic").count()
"""


def run_pipeline(
    folder: Path, program: str, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a declarative pipeline of one file in a folder of its own, which gets its tables."""
    folder.mkdir()
    (folder / "rows.py").write_text(textwrap.dedent(program))
    spec = folder / "spark-pipeline.yml"
    spec.write_text(
        f"name: parley\nstorage: file://{folder}/storage\nlibraries:\n  - glob:\n      "
        "include: rows.py\n"
    )
    command = [
        str(HOME / "bin" / "spark-pipelines"), "run", "--spec", str(spec),
        "--conf", f"spark.sql.warehouse.dir={folder}/warehouse",
    ]  # fmt: skip
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def test_a_declarative_pipeline(
    cluster: LocalCluster, client: Client, topic: Any, tmp_path: Path, environment: dict[str, str]
) -> None:
    name = topic(partitions=2)
    client.produce(name, pa.table({"value": [str(n) for n in range(50)]}))
    program = PIPELINE.format(servers=cluster.bootstrap_servers, topic=name)
    for attempt in range(3):
        folder = tmp_path / f"attempt{attempt}"
        done = run_pipeline(folder, program, environment)
        if "failed to connect back" not in done.stdout + done.stderr:
            # Spark gives a Python process ten seconds to start, which a busy machine may exceed
            break
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    tables = [path for path in folder.rglob("*.parquet") if "streamed" in str(path)]
    import pyarrow.parquet as pq

    assert sum(pq.read_metadata(path).num_rows for path in tables) == 50
