"""Input files: what is read, which types are found, and complaints that name the line."""

from __future__ import annotations

import csv
import io
import json
import math
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from parley.errors import ConfigError
from parley.pipelines.demo.inputs import InputError, open_input
from parley.pipelines.demo.inputs.infer import ColumnFacts, type_of_text


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(path: Path, **options: Any) -> list[dict[str, Any]]:
    return list(open_input(path, **options).rows())


# -- CSV ------------------------------------------------------------------------------------------


def test_a_csv_file_is_read_with_types_found_in_all_of_its_rows(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.csv",
        "id,price,ok,code,name\n1,2,true,007,x\n,2.5,false,12,NA\nNA,1e3,,,\n" + "9,9,true,9,y\n",
    )
    dataset = open_input(path)
    assert dict(dataset.columns) == {
        "id": "bigint", "price": "double", "ok": "boolean", "code": "string", "name": "string",
    }  # fmt: skip
    assert list(dataset.rows()) == [
        {"id": 1, "price": 2.0, "ok": True, "code": "007", "name": "x"},
        {"id": None, "price": 2.5, "ok": False, "code": "12", "name": "NA"},
        {"id": None, "price": 1000.0, "ok": None, "code": None, "name": None},
        {"id": 9, "price": 9.0, "ok": True, "code": "9", "name": "y"},
    ]
    assert dataset.row_count == 4


def test_a_type_that_changes_late_in_the_file_is_found(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "n\n" + "1\n" * 45_000 + "x\n")
    assert open_input(path).columns == {"n": "string"}


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        ("", 1, "empty"),
        ("a,b\n1,2\n1,2,3\n", 3, "3 fields, but the header has 2"),
        ('a,b\n1,"x\ny"\n1\n', 4, "1 fields, but the header has 2"),
        ('a,b\n1,"x"y\n', 2, "not CSV"),
        ('a,b\n1,"never closed\n', 2, "not CSV"),
        (b"a,b\n1,2\n\xff,2\n", 3, "not UTF-8 text (byte 0xff)"),
        ("a,,b\n1,2,3\n", 1, "a column has no name"),
        ("a,A\n1,2\n", 1, "both be columns"),
        ("a,a\n1,2\n", 1, 'two columns "a"'),
        ("row_id,b\n1,2\n", 1, "rename it"),
    ],
)
def test_a_bad_csv_file_is_refused_with_its_line(
    tmp_path: Path, content: str | bytes, line: int, problem: str
) -> None:
    path = write(tmp_path / "bad.csv", content)
    with pytest.raises(InputError) as caught:
        read(path)
    assert caught.value.line == line
    assert problem in str(caught.value)
    assert f"bad.csv, line {line}:" in str(caught.value)


def test_a_csv_file_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no rows"):
        open_input(write(tmp_path / "a.csv", "a,b\n"))


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a.csv", b"\xef\xbb\xbfa\n1\n")) == [{"a": 1}]


def test_a_csv_file_inside_an_archive_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.csv", "a\n1\n")
    dataset = open_input(path)
    assert (dataset.name, list(dataset.rows())) == ("a", [{"a": 1}])
    with pytest.raises(InputError, match="not a usable zip archive"):
        open_input(write(tmp_path / "b.csv.zip", "a\n1\n"))


@given(
    st.lists(
        st.lists(
            st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0")),
            min_size=2,
            max_size=2,
        )
    )
)
def test_fields_come_back_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]
) -> None:
    """Against the standard library's writer; a column of text keeps its text,
    an empty one is no value.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([["a", "b"], ["text", "text"], *rows])
    path = write(tmp_path_factory.mktemp("csv") / "a.csv", text.getvalue())
    assert [list(row.values()) for row in read(path)[1:]] == [
        [field or None for field in row] for row in rows
    ]


@given(st.one_of(st.integers(), st.floats(), st.text(max_size=6)))
def test_a_field_typed_as_a_number_converts_without_loss(value: float | str) -> None:
    kind, text = type_of_text(str(value)), str(value)
    if kind == "bigint":
        assert str(int(text)) in {text, text.removeprefix("-")}
        assert -(2**63) <= int(text) < 2**63
    elif kind == "double":
        assert math.isfinite(float(text))


# -- JSON lines -----------------------------------------------------------------------------------


def test_json_lines_are_read_as_they_are(tmp_path: Path) -> None:
    rows = [{"a": 1, "b": {"c": [1]}}, {"a": 2.5, "d": None}, {"a": 2**70, "d": True}]
    path = write(tmp_path / "a.jsonl", "\n\n".join(map(json.dumps, rows)))
    dataset = open_input(path)
    assert list(dataset.rows()) == rows
    assert dict(dataset.columns) == {"a": "string", "b": "string", "d": "boolean"}


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        ('{"a": 1}\n{"a": \n', 2, "not JSON"),
        ('{"a": 1}\n\n[1]\n', 3, "a JSON object is expected, not [1]"),
        ('{"a": NaN}\n', 1, "NaN is not JSON"),
        ('{"a": 1}\n{"A": 1}\n', 2, "both be columns"),
        ('{"": 1}\n', 1, "no name"),
        (b'{"a": "\xc3"}\n', 1, "not UTF-8"),
        ("\n", None, "no rows"),
    ],
)
def test_bad_json_lines_are_refused_with_their_line(
    tmp_path: Path, content: str | bytes, line: int | None, problem: str
) -> None:
    path = write(tmp_path / "bad.jsonl", content)
    with pytest.raises(InputError) as caught:
        read(path)
    assert (caught.value.line, problem in str(caught.value)) == (line, True), str(caught.value)


# -- Parquet --------------------------------------------------------------------------------------


def test_a_parquet_file_is_read_with_values_that_json_has(tmp_path: Path) -> None:
    from datetime import UTC, date, datetime
    from decimal import Decimal

    table = pa.table(
        {
            "i": pa.array([1, None], pa.int16()),
            "f": [float("nan"), 0.5],
            "b": [True, None],
            "s": ["x", "y"],
            "t": [datetime(2024, 1, 2, 3, tzinfo=UTC), None],
            "d": [date(2024, 1, 2), None],
            "n": [Decimal("1.50"), None],
            "y": [b"\x00\xff", None],
            "l": [[b"\x00"], None],
            "u": pa.array([2**64 - 1, None], pa.uint64()),
        }
    )
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    dataset = open_input(path)
    assert dict(dataset.columns) == {
        "i": "bigint", "f": "double", "b": "boolean", "s": "string", "t": "string", "d": "string",
        "n": "string", "y": "string", "l": "string", "u": "string",
    }  # fmt: skip
    first, second = dataset.rows()
    assert first == {
        "i": 1, "f": None, "b": True, "s": "x", "t": "2024-01-02T03:00:00+00:00", "d": "2024-01-02",
        "n": "1.50", "y": "AP8=", "l": ["AA=="], "u": 2**64 - 1,
    }  # fmt: skip
    assert json.loads(json.dumps(second)) == {**dict.fromkeys(first), "f": 0.5, "s": "y"}


@pytest.mark.parametrize("content", [b"", b"PAR1 is not all", b"PAR1" + bytes(40) + b"PAR1"])
def test_a_bad_parquet_file_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError, match="not a usable Parquet file"):
        read(write(tmp_path / "a.parquet", content))


# -- choosing -------------------------------------------------------------------------------------


def test_key_partitions_and_measure_are_chosen_or_taken(tmp_path: Path) -> None:
    path = write(tmp_path / "my data!.csv", "id,kind,n\n1,a,5\n2,b,6\n3,a,7\n")
    chosen = open_input(path)
    assert (chosen.name, chosen.key_columns, chosen.partition_column, chosen.measure_column) == (
        "my-data", ("id",), "kind", "n",
    )  # fmt: skip
    taken = open_input(path, key=["kind", "id"], partition_by="id")
    assert (taken.key_columns, taken.partition_column) == (("kind", "id"), "id")


def test_without_a_column_of_few_values_the_kafka_partition_is_taken(tmp_path: Path) -> None:
    rows = "".join(f"{n},v{n}\n" for n in range(60))
    assert (
        open_input(write(tmp_path / "a.csv", "n,v\n" + rows)).partition_column == "kafka_partition"
    )


def test_what_does_not_exist_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "carrier,n\nx,1\n")
    with pytest.raises(ConfigError, match=r'no column "carier".*Did you mean "carrier"'):
        open_input(path, key=["carier"])
    with pytest.raises(ConfigError, match="no input file"):
        open_input(tmp_path / "gone.csv")
    with pytest.raises(ConfigError, match=r"inputs are \.csv"):
        open_input(write(tmp_path / "a.xlsx", "x"))


def test_the_flights_are_all_there() -> None:
    dataset = open_input(None)
    assert (dataset.name, dataset.row_count, dataset.partition_column) == (
        "flights",
        336_776,
        "origin",
    )
    first = next(dataset.rows())
    assert (first["carrier"], first["flight"], first["dep_time"], first["tailnum"]) == (
        "UA",
        1545,
        517,
        "N14228",
    )
    assert dataset.columns["arr_delay"] == "bigint"


def test_distinct_values_are_not_collected_without_end() -> None:
    facts = ColumnFacts()
    for start in range(0, 10_000, 10):
        facts.see(set(range(start, start + 10)), ())
    assert len(facts.distinct) <= 60
