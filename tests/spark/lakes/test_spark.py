"""`format("parley-delta")` through Spark, and what other readers find in the table."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from parley.client import Client
from parley.devcluster import LocalCluster

from ...support import GENEROUS_S, sparks
from .readers import added, files_of, rows_of, schema_of

pytestmark = pytest.mark.timeout(600)

EVERY_TYPE = (
    "id", "cast(id as int) as i", "cast(id as short) as s", "cast(id % 100 as byte) as b",
    "id % 2 = 0 as flag", "cast(id as float) as f", "cast(id as double) as d",
    "cast(id as decimal(20, 3)) as price", "concat('text ', id) as text",
    "cast(concat('x', id) as binary) as bytes",
    "date_add(date'2026-01-01', cast(id as int)) as day",
    "timestamp_micros(id * 1000001) as at", "cast(timestamp_micros(id) as timestamp_ntz) as there",
    "named_struct('a', id, 'b', array(id, null)) as nested", "map('k', id) as tags",
    "array(named_struct('x', timestamp_micros(id))) as times", "if(id = 3, null, id) as maybe",
    "if(id = 3, null, named_struct('a', id, 'b', array(id))) as never",
    "array(if(id = 3, null, named_struct('a', id))) as structs",
    "map('k', if(id = 3, null, named_struct('a', id))) as inner",
)  # fmt: skip


@pytest.fixture
def into(spark: Any, cluster: LocalCluster, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Run a query from a topic into the table to its end: `into(topic, **options)`."""

    def run(source: str, mode: str = "append", columns: Any = None, **options: str) -> Any:
        frame = (
            spark.readStream.format("parley")
            .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "10")
            .load()
            .selectExpr(*(columns or ("partition", "offset", "cast(value as string) as value")))
        )
        writer = frame.writeStream.format("parley-delta").outputMode(mode)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = sparks.started(
            lambda: (
                writer.options(**options).trigger(availableNow=True).start(str(tmp_path / "table"))
            )
        )
        assert query.awaitTermination(2 * GENEROUS_S)
        return query

    yield run
    for query in spark.streams.active:
        query.stop()


def fill(client: Client, topic: str, start: int, count: int) -> list[str]:
    values = [f"{number:04}" for number in range(start, start + count)]
    client.produce(topic, pa.table({"key": values, "value": values}))
    return values


def values_in(table: Path) -> list[str]:
    return sorted(row["value"] for row in rows_of(table))


def test_a_stream_writes_every_row_once_although_its_last_batch_runs_twice(
    into: Any, client: Client, topic: Any, tmp_path: Path
) -> None:
    source, table = topic(partitions=2), tmp_path / "table"
    values = fill(client, source, 0, 35)
    into(source)
    assert values_in(table) == values
    before = files_of(table)
    assert sparks.forget_commit(tmp_path / "checkpoint") >= 3
    into(source)
    assert values_in(table) == values
    assert files_of(table) == before, "the tasks of a batch that is there write no files"
    values += fill(client, source, 35, 5)
    into(source)
    assert values_in(table) == values
    assert sorted(DeltaTable(table).to_pyarrow_table().column("value").to_pylist()) == values


@pytest.mark.matrix
def test_data_frames_are_added_and_replaced(spark: Any, tmp_path: Path) -> None:
    table = tmp_path / "table"
    frame = spark.range(0, 40, 1, 4).selectExpr("id", "id % 3 as part")
    for _ in range(2):
        frame.write.format("parley-delta").mode("append").save(str(table))
    assert len(rows_of(table)) == 80
    frame.where("id < 7").write.format("parley-delta").mode("overwrite").save(str(table))
    assert sorted(row["id"] for row in rows_of(table)) == list(range(7))
    once = frame.write.format("parley-delta").mode("append").option("txnAppId", "load")
    for _ in range(2):
        once.option("txnVersion", "7").save(str(table))
    assert len(rows_of(table)) == 47


@pytest.mark.matrix
def test_every_type_is_read_by_others_as_spark_has_it(spark: Any, tmp_path: Path) -> None:
    table = tmp_path / "table"
    frame = spark.range(0, 10, 1, 2).selectExpr(*EVERY_TYPE)
    writer = frame.write.format("parley-delta").mode("append").option("partitionBy", "day, flag")
    writer.save(str(table))
    expected = [row.asDict(recursive=True) for row in frame.orderBy("id").collect()]
    mine = DeltaTable(table).to_pyarrow_table().sort_by("id").to_pylist(maps_as_pydicts="strict")
    for found, wanted in zip(mine, expected, strict=True):
        found["at"] = found["at"].replace(tzinfo=None)  # pyspark gives local times, here of UTC
        found["times"][0]["x"] = found["times"][0]["x"].replace(tzinfo=None)
        wanted["bytes"] = bytes(wanted["bytes"])
        assert found == wanted
    assert {field["name"]: field["type"] for field in schema_of(table)}["at"] == "timestamp"
    files = [str(table / path) for path in added(table)]
    counted = duckdb.sql(
        "select count(*), sum(id), max(price), count(maybe), max(nested.a) "
        f"from read_parquet({files})"
    ).fetchall()
    assert counted == [(10, 45, 9, 9, 9)]


@pytest.mark.matrix
def test_filters_find_their_rows_by_the_statistics(spark: Any, tmp_path: Path) -> None:
    table = tmp_path / "table"
    frame = spark.range(0, 1000, 1, 8).selectExpr(*EVERY_TYPE)
    frame.write.format("parley-delta").mode("append").save(str(table))
    dataset = DeltaTable(table).to_pyarrow_dataset()
    import pyarrow.compute as pc

    assert dataset.filter(pc.field("id") == 500).count_rows() == 1
    assert dataset.filter(pc.field("text") == "text 77").count_rows() == 1
    assert len(list(dataset.get_fragments(filter=pc.field("id") == 500))) == 1


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("columns", "options", "expected"),
    [
        (("cast(id as string) as id",), {}, r'"id" is bigint in the table .* string in the rows'),
        (("id", "1 as more"), {}, r'has no column "more" \(int\).*mergeSchema=true'),
        (("id",), {"mergeShema": "true"}, "Did you mean"),
        (("id", "interval 1 day as x"), {}, "a Delta table cannot hold"),
    ],
)
def test_what_cannot_be_written_is_said_before_a_task_runs(
    spark: Any, tmp_path: Path, columns: tuple[str, ...], options: dict[str, str], expected: str
) -> None:
    table = tmp_path / "table"
    spark.range(3).write.format("parley-delta").mode("append").save(str(table))
    before = files_of(table)
    writer = spark.range(5).selectExpr(*columns).write.format("parley-delta").mode("append")
    with pytest.raises(Exception, match=expected):
        writer.options(**options).save(str(table))
    assert files_of(table) == before


@pytest.mark.matrix
def test_reading_is_refused_with_who_reads(spark: Any) -> None:
    with pytest.raises(Exception, match=r"only writes. Read the table with deltalake"):
        spark.read.format("parley-delta").load("/nowhere")


@pytest.mark.matrix
def test_of_a_data_frame_whose_task_fails_nothing_is_visible(spark: Any, tmp_path: Path) -> None:
    table = tmp_path / "table"
    spark.range(3).write.format("parley-delta").mode("append").save(str(table))
    broken = spark.range(0, 40, 1, 4).selectExpr("if(id = 39, raise_error('the last'), id) as id")
    with pytest.raises(Exception, match="the last"):
        broken.write.format("parley-delta").mode("append").save(str(table))
    assert len(rows_of(table)) == 3


def test_tasks_and_planners_import_no_delta_rs() -> None:
    program = """
import sys
import parley, parley.spark, pyspark_parley_delta
from parley.spark.lakes import files, folders, writer, messages
print("deltalake" in sys.modules, "parley.client" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]
