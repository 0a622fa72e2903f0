"""Files that tasks write: what is in them, and what their statistics promise."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st
from pyspark.sql.pandas.types import from_arrow_schema

from parley.errors import ConfigError, LakeError
from parley.spark.lakes import folders
from parley.spark.lakes.columns import columns_of
from parley.spark.lakes.delta import open_in_store
from parley.spark.lakes.files import Describe, Layout, TaskWriter
from parley.spark.lakes.folders import Folder
from parley.spark.lakes.messages import WrittenFile
from parley.spark.lakes.opening import open_delta
from parley.spark.lakes.partitions import split
from parley.spark.lakes.statistics import statistics

SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("nested", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
        ("tags", pa.map_(pa.string(), pa.int32())),
        ("text", pa.string()),
        ("float", pa.float64()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("there", pa.timestamp("us")),
        ("price", pa.decimal128(10, 2)),
        ("flag", pa.bool_()),
        ("bytes", pa.binary()),
    ]
)
UTC = dt.UTC


def describe(schema: pa.Schema) -> Describe:
    columns = columns_of(from_arrow_schema(schema).json())
    return partial(statistics, wanted=columns)


def task(folder: Path, schema: pa.Schema = SCHEMA, target: int = 2**27, **more: Any) -> TaskWriter:
    partition_by, required = more.get("partition_by", ()), more.get("required", ())
    layout = Layout(schema, partition_by, required, target, describe(schema))
    return TaskWriter(Folder(str(folder), {}, open_in_store), layout, more.get("slot", 0))


def write(folder: Path, rows: list[dict[str, Any]]) -> WrittenFile:
    (file,) = task(folder).write([pa.RecordBatch.from_pylist(rows, SCHEMA)])
    return file


def test_statistics_say_what_is_in_a_file(tmp_path: Path) -> None:
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    rows: list[dict[str, Any]] = [
        {
            "number": 3, "nested": {"a": 1, "b": ["x"]}, "tags": [("x", 1)], "text": "b",
            "float": 0.5, "day": dt.date(2026, 1, 2), "at": at, "there": at.replace(tzinfo=None),
            "price": decimal.Decimal("1.50"), "flag": True, "bytes": b"x",
        },
        {"number": -2, "text": "a"},
    ]  # fmt: skip
    file = write(tmp_path, rows)
    assert file.rows == 2
    assert file.size == (tmp_path / file.path).stat().st_size
    assert json.loads(file.statistics) == {
        "numRecords": 2,
        "minValues": {
            "number": -2, "text": "a", "float": 0.5, "day": "2026-01-02",
            "at": "2026-01-02T03:04:05.678901Z", "there": "2026-01-02T03:04:05.678901",
            "price": 1.5, "flag": True, "nested": {},
        },
        "maxValues": {
            "number": 3, "text": "b", "float": 0.5, "day": "2026-01-02",
            "at": "2026-01-02T03:04:05.678901Z", "there": "2026-01-02T03:04:05.678901",
            "price": 1.5, "flag": True, "nested": {},
        },
        "nullCount": {
            "number": 0, "text": 0, "float": 1, "day": 1, "at": 1, "there": 1, "price": 1,
            "flag": 1, "bytes": 1,
        },
    }  # fmt: skip


def test_a_task_that_writes_a_table_imports_no_pandas(tmp_path: Path) -> None:
    """Arrow would, to make one of Python's times: half a second and 45 MB in each worker."""
    program = """
import sys
import pyarrow as pa
from parley.spark.lakes.files import Layout, TaskWriter
from parley.spark.lakes.folders import Folder
from parley.spark.lakes.delta import open_in_store
from parley.spark.lakes.columns import Column
from parley.spark.lakes.statistics import statistics

one = pa.py_buffer((1).to_bytes(8, "little"))  # from one of Python's values it would, too
at = pa.Array.from_buffers(pa.timestamp("us", "UTC"), 1, [None, one])
there, day = at.cast(pa.timestamp("us")), at.cast(pa.date32())
batch = pa.record_batch({"at": at, "there": there, "day": day})
columns = [Column("at", "timestamp"), Column("there", "timestamp_ntz"), Column("day", "date")]
describe = lambda *args: statistics(*args, columns)
layout = Layout(batch.schema, (), (), 2**27, describe)
(file,) = TaskWriter(Folder(sys.argv[1], {}, open_in_store), layout, 0).write([batch])
print("pandas" in sys.modules, file.statistics)
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    imported, found = done.stdout.split(maxsplit=1)
    assert json.loads(found)["minValues"] == {
        "at": "1970-01-01T00:00:00.000001Z",
        "there": "1970-01-01T00:00:00.000001",
        "day": "1970-01-01",
    }
    assert imported == "False"


SIMPLE = pa.schema([("number", pa.int64()), ("text", pa.string()), ("float", pa.float64())])
some_rows = st.lists(
    st.fixed_dictionaries(
        {
            "number": st.none() | st.integers(-(2**63), 2**63 - 1),
            "text": st.none() | st.text(st.characters(codec="utf-8"), max_size=40),
            "float": st.none() | st.floats(),
        }
    ),
    min_size=1,
)


@settings(max_examples=60)
@given(some_rows)
def test_bounds_never_leave_a_row_out(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    batch = pa.RecordBatch.from_pylist(rows, SIMPLE)
    folder = tmp_path_factory.mktemp("file")
    (file,) = task(folder, SIMPLE).write([batch.slice(0, 1), batch.slice(1)])
    found = json.loads(file.statistics)
    assert found["numRecords"] == len(rows)
    if any(row["float"] is not None and math.isnan(row["float"]) for row in rows):
        assert found.keys() == {"numRecords"}
        return
    for name in SIMPLE.names:
        values = [row[name] for row in rows]
        assert found["nullCount"][name] == values.count(None)
        there = [value for value in values if value is not None]
        if name == "text":  # as readers compare them: by their bytes
            there = [value.encode() for value in there]
        low, high = found["minValues"].get(name), found["maxValues"].get(name)
        if not there:
            assert (low, high) == (None, None)
            continue
        if name == "text":
            low, high = low.encode(), high.encode()
        elif name == "float":  # infinity is a text
            low, high = float(low), float(high)
        assert low <= min(there)
        assert high >= max(there)


def test_a_task_begins_another_file_at_the_size_that_is_wanted(tmp_path: Path) -> None:
    batches = [
        pa.record_batch({"number": list(range(n, n + 1000))}) for n in range(0, 20_000, 1000)
    ]
    schema = pa.schema([("number", pa.int64())])
    files = task(tmp_path, schema, target=32 * 1024).write(iter(batches))
    assert 3 <= len(files) <= 10
    assert sum(file.rows for file in files) == 20_000
    assert len({file.path for file in files}) == len(files)


def test_many_partitions_need_few_open_files(tmp_path: Path) -> None:
    schema = pa.schema([("number", pa.int64()), ("key", pa.int64())])
    batches = [
        pa.record_batch({"number": list(range(500)), "key": [n % 250 for n in range(500)]})
        for _ in range(2)
    ]
    files = task(tmp_path, schema, partition_by=("key",)).write(iter(batches))
    assert sum(file.rows for file in files) == 1000
    assert {dict(file.partition_values)["key"] for file in files} == {str(n) for n in range(250)}


def test_two_attempts_of_a_task_never_write_one_file(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pylist([{"number": 1}], SIMPLE)
    first, second = (task(tmp_path, SIMPLE).write([batch]) for _ in range(2))
    assert first[0].path != second[0].path


def test_files_go_through_delta_rs_where_the_table_is_in_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "local_folder", lambda path: None)
    layout = Layout(SIMPLE, ("text",), (), 2**27, describe(SIMPLE))
    batch = pa.RecordBatch.from_pylist([{"number": 1, "text": "a"}], SIMPLE)
    (file,) = TaskWriter(Folder(tmp_path.as_uri(), {}, open_in_store), layout, 0).write([batch])
    assert file.path.startswith("text=a/part-00000-")
    assert (tmp_path / file.path).stat().st_size == file.size
    assert pq.ParquetFile(tmp_path / file.path).read().to_pylist() == [{"number": 1, "float": None}]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    table = tmp_path / "file" / "table"
    expected = rf"the folder {table} of the table did not take the file part-.*correct the path"
    with pytest.raises(LakeError, match=expected):
        write(table, [{"number": 1}])


def test_a_disk_that_fills_while_a_file_is_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def write(self, data: bytes) -> None:
            raise OSError(28, "No space left on device")

        def flush(self) -> None: ...
        def close(self) -> None: ...

    monkeypatch.setattr(Folder, "_begun", lambda self, name: Full())
    with pytest.raises(LakeError, match=r"did not take the file .*No space left on device"):
        write(tmp_path, [{"number": 1}])


def test_what_is_said_of_a_table_that_cannot_be_opened_is_shown_without_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(where: str, **given: Any) -> None:
        raise RuntimeError(f"403 for {given['storage_options']['aws_secret_access_key']}")

    monkeypatch.setattr("deltalake.DeltaTable", refused)
    with pytest.raises(LakeError, match=r"403 for \*\*\*"):
        open_delta("s3://lake/table", {"aws_secret_access_key": "hidden"})


def test_what_a_store_says_is_shown_without_secrets() -> None:
    def refused(path: str, storage: Mapping[str, str], name: str) -> Any:
        raise RuntimeError(f"403 for {storage['aws_secret_access_key']}")

    folder = Folder("s3://lake/table", {"aws_secret_access_key": "hidden"}, refused)
    with pytest.raises(
        LakeError, match=r"the store s3://lake/table .*RuntimeError: 403 for \*\*\*"
    ):
        folder.create("file")


def test_a_task_without_rows_writes_no_file(tmp_path: Path) -> None:
    assert task(tmp_path, SIMPLE).write([pa.RecordBatch.from_pylist([], SIMPLE)]) == ()
    assert list(tmp_path.iterdir()) == []


def test_a_struct_that_is_null_has_fields_that_are_null(tmp_path: Path) -> None:
    """As Spark gives it: its fields are null, too, though they are said never to be."""
    inner = pa.field("a", pa.int64(), nullable=False)
    made = pa.StructArray.from_arrays(
        [pa.array([None, 1])], fields=[inner], mask=pa.array([True, False])
    )
    schema = pa.schema(
        [
            ("struct", made.type),
            ("list", pa.list_(pa.field("element", made.type, nullable=False))),
            ("map", pa.map_(pa.string(), made.type)),
        ]
    )
    starts, keys = pa.array([0, 1, 2], pa.int32()), pa.array(["k", "k"])
    lists = pa.ListArray.from_arrays(starts, made, type=schema.field("list").type)
    maps = pa.MapArray.from_arrays(starts, keys, made, type=schema.field("map").type)
    batch = pa.RecordBatch.from_arrays([made, lists, maps], schema=schema)
    (file,) = task(tmp_path, schema).write([batch])
    assert pq.ParquetFile(tmp_path / file.path).read().to_pylist() == [
        {"struct": None, "list": [None], "map": [("k", None)]},
        {"struct": {"a": 1}, "list": [{"a": 1}], "map": [("k", {"a": 1})]},
    ]


def test_a_null_where_the_table_has_none_is_named(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"number": 1}, {"number": 2}, {"number": None}]
    batches = [
        pa.RecordBatch.from_pylist(rows[:1], SIMPLE),
        pa.RecordBatch.from_pylist(rows[1:], SIMPLE),
    ]
    with pytest.raises(ConfigError, match='row 2 of this task has null in column "number"'):
        task(tmp_path, SIMPLE, required=("number",)).write(batches)


@pytest.mark.parametrize("keep", [False, True], ids=["delta", "iceberg"])
@pytest.mark.parametrize(
    ("day", "is_taken"),
    [(-719163, False), (-719162, True), (2932896, True), (2932897, False)],
    ids=["year 0", "year 1", "year 9999", "year 10000"],
)
def test_a_date_that_no_reader_takes_is_no_partition(keep: bool, day: int, is_taken: bool) -> None:
    days = pa.array([None, day, 0], pa.int32()).cast(pa.date32())
    batch = pa.record_batch({"day": days, "n": [1, 2, 3]})
    if is_taken:
        assert len(list(split(batch, ["day"], keep=keep))) == 3
        return
    with pytest.raises(ConfigError, match=rf'"day", .* 1 to 9999, day {day} since 1970'):
        list(split(batch, ["day"], keep=keep))
