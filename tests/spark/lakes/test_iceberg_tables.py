"""What is in an Iceberg table, and which tables rows go into: read by a reader that knows only the
format, and by pyiceberg.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, NestedField, StringType, UUIDType

from parley.errors import (
    ConfigError,
    LakeError,
    NotInstalledError,
)
from parley.spark.lakes import iceberg

from .iceberg_queries import NAME, IcebergQuery as Query, catalog, load
from .iceberg_readers import data_files, metadata_of, parquet_of, place, rows_of, schema_of
from .queries import SCHEMA, rows

BATCHES = {batch: [rows(batch * 10, 3), rows(batch * 10 + 5, 2)] for batch in range(4)}


def test_columns_are_added_only_where_that_is_wanted(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.run(0, BATCHES[0])
    wider = type(SCHEMA)([*SCHEMA.fields]).add("extra", "double")
    more = [[{"n": 100, "text": "new", "extra": 0.5}]]
    with pytest.raises(ConfigError, match=r'has no column "extra" \(double\).*mergeSchema=true'):
        Query(tmp_path, schema=wider).run(1, more)
    assert Query(tmp_path, schema=wider, options={"mergeSchema": "true"}).run(1, more)
    columns = schema_of(metadata_of(tmp_path))
    assert {number: one["name"] for number, one in columns.items()} == {
        1: "n", 2: "text", 3: "extra",
    }  # fmt: skip
    found = rows_of(tmp_path)
    assert {"n": 100, "text": "new", "extra": 0.5} in found
    assert {"n": 0, "text": "row 0", "extra": None} in found
    assert query.run(2, BATCHES[2])  # rows without the new column go on


@pytest.mark.parametrize("name", ["ware house", "ware%20house"])
def test_files_are_where_pyiceberg_looks_for_a_location(tmp_path: Path, name: str) -> None:
    warehouse = {"catalog.warehouse": f"file://{tmp_path}/{name}"}
    Query(tmp_path, options=warehouse).run(0, BATCHES[0])
    assert list((tmp_path / name).rglob("*.parquet"))
    assert load(tmp_path).scan().to_arrow().num_rows == sum(map(len, BATCHES[0]))


def test_partitions_are_values_of_manifests(tmp_path: Path) -> None:
    schema = type(SCHEMA)([*SCHEMA.fields]).add("day", "date").add("flag", "boolean")
    query = Query(tmp_path, schema=schema, options={"partitionBy": "text,day,flag"})
    texts = ["a", "b/ü =%", None, "", "a", "long " * 900]
    day = dt.date(1969, 12, 31)
    given = [
        {"n": n, "text": text, "day": day if n % 2 else None, "flag": [True, False, None][n % 3]}
        for n, text in enumerate(texts)
    ]
    query.run(0, [given])
    assert rows_of(tmp_path) == sorted(given, key=str)  # the reader compares file and manifest
    read = load(tmp_path).scan(row_filter="text = ''").to_arrow().to_pylist()
    assert [row["n"] for row in read] == [3]
    (planned,) = load(tmp_path).scan(row_filter=f"text = '{texts[5]}'").plan_files()
    assert planned.file.record_count == 1
    with pytest.raises(ConfigError, match=r"is partitioned by \(text, day, flag\), not by \(n\)"):
        Query(tmp_path, schema=schema, options={"partitionBy": "n"}).run(1, [given])
    assert Query(tmp_path, schema=schema).run(1, [given])  # the table knows


def test_a_partition_column_that_the_rows_lack_is_null(tmp_path: Path) -> None:
    Query(tmp_path, options={"partitionBy": "text"}).run(0, BATCHES[0])
    without = type(SCHEMA)([SCHEMA["n"]])
    assert Query(tmp_path, schema=without).run(1, [[{"n": 100}, {"n": 101}]])
    read = load(tmp_path).scan(row_filter="text is null").to_arrow().to_pylist()
    assert sorted(read, key=str) == [{"n": 100, "text": None}, {"n": 101, "text": None}]
    wrong = type(SCHEMA)().add("n", "string")
    with pytest.raises(ConfigError, match=r'"n" is bigint in the table .* and string in the rows'):
        Query(tmp_path, schema=wrong).run(2, [[{"n": "x"}]])


def test_what_manifests_say_of_columns_is_in_the_files(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.run(0, [[{"n": 5, "text": "x" * 40}, {"n": -3, "text": None}]])
    (file,) = data_files(metadata_of(tmp_path))
    shown = {
        name: {one["key"]: one["value"] for one in file[name]}
        for name in ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds")
    }
    assert shown["value_counts"] == {1: 2, 2: 2}
    assert shown["null_value_counts"] == {1: 0, 2: 1}
    assert int.from_bytes(shown["lower_bounds"][1], "little", signed=True) == -3
    assert int.from_bytes(shown["upper_bounds"][1], "little", signed=True) == 5
    assert shown["lower_bounds"][2] == b"x" * 16
    assert shown["upper_bounds"][2] == b"x" * 15 + b"y"


def test_a_time_without_a_value_in_python_is_written_without_bounds(tmp_path: Path) -> None:
    schema = type(SCHEMA)().add("n", "long").add("at", "timestamp")
    query = Query(tmp_path, schema=schema)
    plan = query.lake().plan
    far = 2**60  # microseconds: the year 38,000
    batch = pa.record_batch(
        {"n": pa.array([1]), "at": pa.array([far]).cast(pa.timestamp("us", "UTC"))}
    )
    from parley.spark.lakes.columns import columns_of
    from parley.spark.lakes.decisions import joined
    from parley.spark.lakes.files import TaskWriter
    from parley.spark.lakes.lake import Batch
    from parley.spark.lakes.messages import TaskFiles

    columns = columns_of(schema.json())
    planned = plan(columns, batch.schema, stream=False, overwrite=False)
    files = TaskWriter(planned.folder, planned.layout, 0).write([batch])
    written = TaskFiles(None, files, (), planned.folder.path, planned.made_for)
    assert query.lake().commit(Batch(columns, joined([written])))
    (file,) = data_files(metadata_of(tmp_path))
    assert file["record_count"] == 1
    assert load(tmp_path).scan().to_arrow().column("at").cast(pa.int64()).to_pylist() == [far]


def _make(root: Path, schema: Schema, spec: PartitionSpec | None = None, **properties: str) -> None:
    catalog(root).create_table(
        NAME, schema, partition_spec=spec or PartitionSpec(), properties=properties
    )


def test_tables_that_cannot_be_written_are_refused_with_what_to_do(tmp_path: Path) -> None:
    n, text = NestedField(1, "n", LongType()), NestedField(2, "text", StringType())
    bucket = PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "n_bucket"))
    for number, (schema, spec, properties, expected) in enumerate(
        [
            (Schema(n, text), bucket, {}, r"partitioned by bucket\[4\] of n: .*identity"),
            (
                Schema(n, NestedField(2, "text", UUIDType())), None, {},
                "\"text\" of the table .* has Iceberg's type uuid",
            ),
            (Schema(NestedField(1, "N", LongType()), text), None, {}, 'has a column "N"'),
            (
                Schema(n, text, NestedField(3, "must", LongType(), required=True)), None, {},
                'wants a value in column "must"',
            ),
        ]
    ):  # fmt: skip
        root = tmp_path / str(number)
        root.mkdir()
        _make(root, schema, spec, **properties)
        with pytest.raises(ConfigError, match=expected):
            Query(root).run(0, BATCHES[0])
        assert parquet_of(root) == set()


def test_no_table_is_made_that_would_be_refused(tmp_path: Path) -> None:
    dotted = type(SCHEMA)([*SCHEMA.fields]).add("a.b", "string")
    query = Query(tmp_path, schema=dotted, options={"partitionBy": "a.b"})
    with pytest.raises(ConfigError, match=r'cannot be partitioned by "a\.b".*withColumnRenamed'):
        query.run(0, [[{"n": 1, "text": "x", "a.b": "y"}]])
    assert not catalog(tmp_path).table_exists(NAME)


def test_a_table_of_a_later_format_is_refused(tmp_path: Path) -> None:
    _make(tmp_path, Schema(NestedField(1, "n", LongType()), NestedField(2, "text", StringType())))
    file = place(load(tmp_path).metadata_location)
    metadata = json.loads(file.read_text()) | {"format-version": 3, "next-row-id": 0}
    file.write_text(json.dumps(metadata))  # pyiceberg itself writes no version 3 yet
    with pytest.raises(ConfigError, match="has format version 3: parley-iceberg writes"):
        Query(tmp_path).run(0, BATCHES[0])


def test_a_table_of_somebody_else_is_written_by_its_ids(tmp_path: Path) -> None:
    fields = [
        NestedField(1, "gone", LongType()),
        NestedField(2, "text", StringType()),
        NestedField(3, "n", LongType(), required=True),
    ]
    _make(tmp_path, Schema(*fields), **{"write.parquet.compression-codec": "gzip"})
    with load(tmp_path).update_schema(allow_incompatible_changes=True) as change:
        change.delete_column("gone")
    query = Query(tmp_path)
    query.run(0, BATCHES[0])
    assert rows_of(tmp_path) == sorted(
        (
            {"text": row["text"], "n": row["n"]}
            for row in [row for task in BATCHES[0] for row in task]
        ),
        key=str,
    )
    assert all("gzip" in file for file in parquet_of(tmp_path))
    with pytest.raises(ConfigError, match='row 1 of this task has null in column "n"'):
        query.run(1, [[{"n": 1, "text": "a"}, {"n": None, "text": "b"}]])


def test_a_namespace_that_is_not_there_is_named(tmp_path: Path) -> None:
    query = Query(tmp_path)
    catalog(tmp_path).drop_namespace("lake")
    with pytest.raises(ConfigError, match='no namespace "lake"'):
        query.run(0, BATCHES[0])


def test_a_warehouse_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "warehouse").touch()
    with pytest.raises(LakeError, match=rf"table {NAME} cannot be made: .*warehouse says where"):
        Query(tmp_path).run(0, BATCHES[0])


def test_a_catalog_that_cannot_be_had_is_named_without_its_secrets(tmp_path: Path) -> None:
    query = Query(
        tmp_path, options={"catalog.type": "rest", "catalog.uri": "http://u:hush-pass@x:y"}
    )
    with pytest.raises(LakeError, match=r"lake.flights cannot be opened: .*catalog\.\*") as caught:
        query.run(0, BATCHES[0])
    assert "hush" not in str(caught.value)


def test_without_pyiceberg_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(tmp_path)
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    with pytest.raises(NotInstalledError, match=r'pip install "kafka-parley\[iceberg\]"'):
        query.run(0, BATCHES[0])


def test_files_go_through_pyiceberg_where_the_table_is_in_a_store(tmp_path: Path) -> None:
    stream = iceberg.open_in_store(f"file://{tmp_path}/data", {}, "a/file.parquet")
    stream.write(b"bytes")
    stream.close()
    assert (tmp_path / "data/a/file.parquet").read_bytes() == b"bytes"
