"""`format("parley-iceberg")` through Spark, and what other readers find in the table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from parley.client import Client
from parley.devcluster import LocalCluster

from ...support import GENEROUS_S, sparks
from .iceberg_queries import NAME, catalog, catalog_options, load
from .iceberg_readers import metadata_of, numbers_of, parquet_of, rows_of
from .test_spark import EVERY_TYPE, fill

pytestmark = pytest.mark.timeout(600)


def stream(spark: Any, cluster: LocalCluster, source: str, root: Path) -> None:
    """Run a query from a topic into the table to its end."""
    frame = (
        spark.readStream.format("parley")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "20")
        .load()
        .selectExpr("partition", "offset", "cast(value as string) as value")
    )
    writer = frame.writeStream.format("parley-iceberg").options(**catalog_options(root))
    writer = writer.option("checkpointLocation", str(root / "checkpoint"))
    query = sparks.started(lambda: writer.trigger(availableNow=True).start(NAME))
    assert query.awaitTermination(2 * GENEROUS_S)


@pytest.mark.matrix
def test_a_stream_is_in_the_iceberg_table_once_although_its_last_batch_runs_twice(
    spark: Any, cluster: LocalCluster, client: Client, topic: Any, tmp_path: Path
) -> None:
    catalog(tmp_path)
    source = topic(partitions=2)
    values = fill(client, source, 0, 35)
    stream(spark, cluster, source, tmp_path)
    assert sorted(row["value"] for row in rows_of(tmp_path)) == values
    before = parquet_of(tmp_path)
    assert set(numbers_of(tmp_path).values()) == {sparks.forget_commit(tmp_path / "checkpoint")}
    stream(spark, cluster, source, tmp_path)
    assert parquet_of(tmp_path) == before, "the tasks of a batch that is there write no files"
    values += fill(client, source, 35, 5)
    stream(spark, cluster, source, tmp_path)
    assert sorted(row["value"] for row in rows_of(tmp_path)) == values
    assert sorted(load(tmp_path).scan().to_arrow().column("value").to_pylist()) == values


def test_data_frames_are_added_and_replaced(spark: Any, tmp_path: Path) -> None:
    catalog(tmp_path)
    frame = spark.range(0, 40, 1, 4).selectExpr("id", "id % 3 as part")
    into = {**catalog_options(tmp_path), "table": NAME}
    frame.write.format("parley-iceberg").mode("append").options(**into).save()
    assert len(rows_of(tmp_path)) == 40
    few = frame.where("id < 7").write.format("parley-iceberg").options(**into)
    few.mode("overwrite").save()
    assert sorted(row["id"] for row in rows_of(tmp_path)) == list(range(7))
    once = frame.write.format("parley-iceberg").mode("append").options(**into)
    for _ in range(2):
        once.option("txnAppId", "load").option("txnVersion", "7").save()
    assert len(rows_of(tmp_path)) == 47
    assert numbers_of(tmp_path) == {"load": 7}


@pytest.mark.matrix
def test_every_type_is_read_by_others_as_spark_has_it(spark: Any, tmp_path: Path) -> None:
    catalog(tmp_path)
    frame = spark.range(0, 10, 1, 2).selectExpr(*EVERY_TYPE)
    writer = (
        frame.write.format("parley-iceberg").mode("append").options(**catalog_options(tmp_path))
    )
    writer.option("partitionBy", "day, flag").save(NAME)
    expected = [row.asDict(recursive=True) for row in frame.orderBy("id").collect()]
    mine = load(tmp_path).scan().to_arrow().sort_by("id").to_pylist(maps_as_pydicts="strict")
    for found, wanted in zip(mine, expected, strict=True):
        found["at"] = found["at"].replace(tzinfo=None)  # pyspark gives local times, here of UTC
        found["times"][0]["x"] = found["times"][0]["x"].replace(tzinfo=None)
        wanted["bytes"] = bytes(wanted["bytes"])
        assert found == wanted
    assert len(rows_of(tmp_path)) == 10
    types = {one["name"]: one["type"] for one in metadata_of(tmp_path)["schemas"][0]["fields"]}
    assert (types["s"], types["at"], types["there"]) == ("int", "timestamptz", "timestamp")
    assert load(tmp_path).scan(row_filter="price = 7").to_arrow().num_rows == 1


@pytest.mark.matrix
def test_what_cannot_be_written_is_said_before_a_task_runs(spark: Any, tmp_path: Path) -> None:
    catalog(tmp_path)
    options = catalog_options(tmp_path)
    spark.range(3).write.format("parley-iceberg").mode("append").options(**options).save(NAME)
    before = parquet_of(tmp_path)
    for columns, more, expected in (
        (("cast(id as string) as id",), {}, r'"id" is bigint in the table .* string in the rows'),
        (("id", "interval 1 day as x"), {}, "an Iceberg table cannot hold"),
        (("id",), {"tabel": "x"}, "Did you mean"),
        (("id",), {"table": "lake.other"}, "two tables are named"),
    ):
        writer = spark.range(5).selectExpr(*columns).write.format("parley-iceberg").mode("append")
        with pytest.raises(Exception, match=expected):
            writer.options(**options, **more).save(NAME)
    assert parquet_of(tmp_path) == before
    with pytest.raises(Exception, match=r"only writes. Read the table with pyiceberg"):
        spark.read.format("parley-iceberg").load(NAME)


def test_tasks_and_planners_import_no_pyiceberg() -> None:
    program = """
import sys
import parley, parley.spark, pyspark_parley_iceberg
from parley.spark.lakes import files, folders, iceberg, writer, messages
print("pyiceberg" in sys.modules, "parley.client" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]
