"""What docs/guide/spark.md says, under "What differs", of parley's source beside
Spark's own: each shown as it is.
"""

from __future__ import annotations

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

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def reader(spark: Any, cluster: LocalCluster) -> Callable[[str], Any]:
    def make(topic: str) -> Any:
        found = spark.read.format("parley").option(
            "kafka.bootstrap.servers", cluster.bootstrap_servers
        )
        return found.option("subscribe", topic)

    return make


@pytest.fixture
def rows_in(spark: Any, cluster: LocalCluster) -> Callable[[str], Any]:
    """Return a streaming DataFrame of a topic."""

    def make(topic: str) -> Any:
        found = spark.readStream.format("parley").option(
            "kafka.bootstrap.servers", cluster.bootstrap_servers
        )
        return found.option("subscribe", topic).option("startingOffsets", "earliest").load()

    return make


def put(client: Client, topic: str, *values: str) -> None:
    client.produce(topic, pa.table({"value": list(values)}), partition=0)


def test_a_dataframe_keeps_the_records_of_its_first_use(
    reader: Any, cluster: LocalCluster, client: Client, topic: Any
) -> None:
    name = topic(partitions=2)
    put(client, name, "a", "b", "c")
    rows = reader(name).load()
    assert rows.count() == 3
    put(client, name, "d")
    assert (rows.selectExpr("*").count(), reader(name).load().count()) == (3, 4)
    cluster.delete_records(name, 0, 2)
    with pytest.raises(
        Exception, match=rf"offsets 0 to 1 of {name}-0 are lost.*keeps the offsets of its first use"
    ):
        rows.collect()


def test_in_sql_a_table_is_planned_for_every_query_and_a_view_once(
    spark: Any, cluster: LocalCluster, client: Client, topic: Any
) -> None:
    name = topic(partitions=1)
    put(client, name, "a")
    options = f"(`kafka.bootstrap.servers` '{cluster.bootstrap_servers}', subscribe '{name}')"
    spark.sql(f"CREATE TABLE kept USING parley OPTIONS {options}")
    spark.sql(f"CREATE TEMPORARY VIEW seen USING parley OPTIONS {options}")
    try:
        counts = [spark.table(one).count() for one in ("kept", "seen")]
        put(client, name, "b")
        counts += [spark.sql(f"SELECT * FROM {one}").count() for one in ("kept", "seen")]
        assert counts == [1, 1, 2, 1]
    finally:
        spark.sql("DROP VIEW seen")
        spark.sql("DROP TABLE kept")


def test_real_time_mode_is_refused(
    rows_in: Any, client: Client, topic: Any, tmp_path: Path
) -> None:
    name = topic(partitions=1)
    put(client, name, "a")
    writer = (
        rows_in(name)
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path))
    )
    with pytest.raises(Exception, match="REAL_TIME_MODE"):
        writer.trigger(realTime="5 minutes").start().awaitTermination(120)


def test_asynchronous_progress_is_refused_for_the_sink(
    rows_in: Any, cluster: LocalCluster, client: Client, topic: Any, tmp_path: Path
) -> None:
    name = topic(partitions=1)
    writer = (
        rows_in(name)
        .select("value")
        .writeStream.format("parley")
        .option("topic", topic("out", partitions=1))
    )
    writer = writer.option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    writer = writer.option("checkpointLocation", str(tmp_path)).option(
        "asyncProgressTrackingEnabled", "true"
    )
    with pytest.raises(Exception, match=r"(?i)async progress tracking"):
        writer.start().awaitTermination(120)


STREAM = """
    import sys
    from pathlib import Path
    from pyspark.sql import SparkSession

    servers, topic, folder, gate = sys.argv[1:]
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.getOrCreate()
    rows = spark.readStream.format("parley").option("kafka.bootstrap.servers", servers)
    rows = rows.option("subscribe", topic).option("startingOffsets", "earliest").load()

    def run():
        writer = rows.writeStream.format("parquet").option("path", folder + "/out")
        writer = writer.option("checkpointLocation", folder + "/checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()
        return spark.read.parquet(folder + "/out").count()

    def started_again(most=3):  # the machine may be busy too
        try:
            return run()
        except Exception as error:
            if "failed to connect back" not in str(error) or most == 1:
                raise
            return started_again(most - 1)

    print("first", started_again())
    Path(gate).unlink()
    try:
        run()
    except Exception as error:
        print("failed to connect back" in str(error))
    Path(gate).touch()
    print("again", started_again())
    spark.stop()
"""


@pytest.mark.matrix
def test_a_planner_that_starts_late_ends_a_stream_which_can_be_started_again(
    cluster: LocalCluster, client: Client, topic: Any, tmp_path: Path
) -> None:
    """Spark waits ten seconds for it. Here it starts when there is a file,
    which the program takes away.
    """
    name, gate, python = topic(partitions=1), tmp_path / "gate", tmp_path / "python"
    put(client, name, "a", "b")
    gate.touch()
    python.write_text(
        f"""#!/bin/sh
case "$*" in
  *source_runner*) until [ -e '{gate}' ] || [ ! -e '{tmp_path}' ]; do sleep 0.1; done ;;
esac
exec '{sys.executable}' "$@"
"""
    )
    python.chmod(0o755)
    arguments = [cluster.bootstrap_servers, name, str(tmp_path / "query"), str(gate)]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(STREAM), *arguments],
        env={**os.environ, **spark_environment(), "PYSPARK_PYTHON": str(python),
            "PYSPARK_DRIVER_PYTHON": str(python)},
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["first 2", "True", "again 2"], done.stderr[-3000:]
