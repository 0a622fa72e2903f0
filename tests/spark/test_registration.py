"""How Spark finds the data source: by itself in the workers' interpreter, or by registering it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
import venv
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import parley.spark
from parley.client import LATEST, Client, TopicPartition
from parley.devcluster import LocalCluster
from parley.errors import ConfigError
from parley.host import interpreter_has, spark_environment, spark_interpreter
from parley.spark.worker_python import settle_interpreter


def test_spark_finds_the_source_without_registration(spark: Any) -> None:
    interpreter = spark_interpreter()
    assert interpreter == sys.executable == os.environ["PYSPARK_PYTHON"]
    assert interpreter_has(interpreter, "pyspark_parley")
    frame = (
        spark.read.format("parley")
        .option("kafka.bootstrap.servers", "x:1")
        .option("subscribe", "t")
        .load()
    )
    assert frame.columns[:2] == ["key", "value"]


def test_registering_does_no_harm_and_may_be_repeated(spark: Any) -> None:
    parley.spark.register(spark)
    parley.spark.register(spark)
    spark.read.format("parley").option("kafka.bootstrap.servers", "x:1").option(
        "subscribe", "t"
    ).load()


@pytest.mark.matrix
def test_a_thread_needs_an_active_session_to_write(
    spark: Any, cluster: LocalCluster, client: Client, topic: Any
) -> None:
    name = topic(partitions=1)
    rows = spark.range(3).selectExpr("cast(id as string) AS value")
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": name}
    refused: list[str] = []

    def write() -> None:
        writer = rows.write.format("parley").mode("append").options(**options)
        try:
            writer.save()
        except Exception as error:
            refused.append(str(error))
        spark.createDataFrame([(1,)], "n int")
        writer.save()

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert len(refused) == 1
    assert "DATA_SOURCE_NOT_FOUND" in refused[0]
    tp = TopicPartition(name, 0)
    assert client.list_offsets({tp: LATEST})[tp].offset == 3


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of a Python environment without any package."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True, with_pip=False)
    return folder / "bin"


READ = """
    import sys
    from pyspark.sql import SparkSession
    import parley.spark

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.getOrCreate()
    parley.spark.register(spark)
    parley.spark.register(spark)
    rows = spark.read.format("parley").option("kafka.bootstrap.servers", sys.argv[1])
    rows = rows.option("subscribe", sys.argv[2])
    print("rows", rows.load().count(), "by", spark.sparkContext.pythonExec)
    spark.stop()
"""


def run_elsewhere(
    path: Path, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run READ by the path of its interpreter, as cron or an IDE do: `path` is all
    that PATH has of Python.
    """
    environ = {**os.environ, **spark_environment()}
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV"):
        environ.pop(name, None)
    environ |= {"PATH": f"{path}:/usr/bin:/bin", **variables}
    command = [sys.executable, "-c", textwrap.dedent(READ), *arguments]
    return subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.matrix
def test_an_environment_need_not_be_activated(
    bare: Path, cluster: LocalCluster, client: Client, topic: Any
) -> None:
    name = topic(partitions=1)
    client.produce(name, pa.table({"value": ["a", "b"]}))
    done = run_elsewhere(bare, cluster.bootstrap_servers, name)
    assert f"rows 2 by {sys.executable}" in done.stdout, done.stderr


@pytest.mark.matrix
def test_to_register_what_spark_has_found_itself_warns_of_nothing(
    bare: Path, cluster: LocalCluster, client: Client, topic: Any
) -> None:
    name = topic(partitions=1)
    client.produce(name, pa.table({"value": ["a"]}))
    done = run_elsewhere(bare, cluster.bootstrap_servers, name, PYSPARK_PYTHON=sys.executable)
    assert f"rows 1 by {sys.executable}" in done.stdout, done.stderr
    assert "replaced" not in done.stderr


class Context:
    """What `settle_interpreter` asks of a SparkContext."""

    def __init__(self, python: str, master: str, **conf: str) -> None:
        self.pythonExec, self.master, self.conf = python, master, conf

    def getConf(self) -> dict[str, str]:
        return {name.replace("_", "."): text for name, text in self.conf.items()}


def test_a_chosen_interpreter_without_parley_is_refused_in_one_line(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = str(bare / "python3")
    monkeypatch.setenv("PYSPARK_PYTHON", python)
    with pytest.raises(
        ConfigError, match=rf"{python} has no module .*Set PYSPARK_PYTHON={sys.executable}"
    ) as caught:
        settle_interpreter(Context(python, "local[2]"))
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match=r'no interpreter "/nowhere/python".* on every executor'):
        settle_interpreter(Context("/nowhere/python", "local[2]"))


def test_on_a_cluster_nobody_guesses_which_interpreter_it_has(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PATH", str(bare))
    context = Context("python3", "spark://elsewhere:7077")
    with pytest.raises(ConfigError, match="every executor"):
        settle_interpreter(context)
    assert context.pythonExec == "python3"
    assert not settle_interpreter(Context("python3", "yarn", spark_submit_pyFiles="parley.zip"))
    assert not settle_interpreter(Context(sys.executable, "yarn"))


def test_an_old_spark_is_refused() -> None:
    class Old:
        version = "4.1.1"

    with pytest.raises(ConfigError, match=r"needs Spark 4\.2 or later, this is 4\.1\.1"):
        parley.spark.register(Old())


def test_what_every_planner_imports_is_light() -> None:
    """Spark imports pyspark_parley in each of its planner processes,
    whatever format they are for.
    """
    program = """
        import json, sys
        import pyspark.sql.datasource
        before = set(sys.modules)
        import pyspark_parley
        print(json.dumps(sorted(set(sys.modules) - before)))
    """
    shown = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    added = json.loads(shown.stdout)
    assert {name for name in added if name.split(".")[0] not in sys.stdlib_module_names} == {
        "parley", "parley.spark", "parley.spark.edge", "parley.spark.source", "pyspark_parley",
    }  # fmt: skip


def test_continuous_trigger_and_sparks_own_name_are_not_to_be_had(
    spark: Any, tmp_path: Any
) -> None:
    stream = (
        spark.readStream.format("parley")
        .option("kafka.bootstrap.servers", "x:1")
        .option("subscribe", "t")
        .load()
    )
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    with pytest.raises(Exception, match=r"(?i)continuous"):
        writer.trigger(continuous="1 second").start()
