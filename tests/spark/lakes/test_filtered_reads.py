"""Filtered reads of what parley writes: files that statistics let readers pass over have no row
that the filter wants. The readers are those of delta-rs (pyarrow, DataFusion) and pyiceberg.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from pyiceberg.expressions import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotNull,
    StartsWith,
)
from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructType

from parley.spark.lakes import files

from .iceberg_queries import IcebergQuery, load
from .queries import Query

D = decimal.Decimal
LAST = "\U0010ffff"
AT = dt.datetime(2026, 1, 2, 3, 4, 5, 678901)
VALUES: dict[str, tuple[str, list[Any]]] = {
    "byte": ("byte", [-128, 5, 127]),
    "short": ("short", [-(2**15), 5, 2**15 - 1]),
    "integer": ("integer", [-(2**31), 5, 2**31 - 1]),
    "long": ("long", [-(2**63), 5, 2**63 - 1]),
    "float": ("float", [-1.5, 0.10000000149011612, 3.4028234663852886e38]),
    "double": ("double", [-1e300, 0.1, 5e-324]),
    "zeros": ("double", [-0.0, 0.0]),
    "minus zero": ("double", [-0.0]),
    "infinity": ("double", [1.0, math.inf]),
    "minus infinity": ("double", [-math.inf, 1.0]),
    "nan": ("double", [1.0, math.nan, 2.0]),
    "only nan": ("double", [math.nan]),
    "infinities and nan": ("double", [-math.inf, math.nan, math.inf]),
    "han": ("string", ["\U00020021", "\U00020021" * 40]),
    "text": ("string", ["", "a", "short", "ü/ =%\"\\\n"]),
    "long texts": ("string", ["a" * 40, "b" * 33, "b" * 32 + "c", "short"]),
    "last character": ("string", ["b" * 32 + LAST * 2 + "c", LAST * 3, LAST * 40]),
    "texts beyond a footer": ("string", ["short", "x" * 5000]),
    "boolean": ("boolean", [True, False]),
    "true": ("boolean", [True]),
    "binary": ("binary", [b"", b"a", b"\xff" * 5000]),
    "decimal": ("decimal(10,2)", [D("-0.50"), D("-1234.25"), D("1.50")]),
    "wide decimal": ("decimal(38,18)", [D(f"-{'9' * 20}.{'1' * 18}"), D(f"{'8' * 20}.{'1' * 18}")]),
    "small decimal": ("decimal(38,38)", [D(f"0.{'0' * 37}1"), D("0E-38")]),
    "date": ("date", [dt.date(1, 1, 1), dt.date(2026, 1, 2), dt.date(9999, 12, 31)]),
    "timestamp": ("timestamp", [AT.replace(tzinfo=dt.UTC), dt.datetime(1, 1, 1, tzinfo=dt.UTC)]),
    "timestamp_ntz": ("timestamp_ntz", [AT, dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]),
}  # fmt: skip


def schema(kind: str) -> StructType:
    return StructType().add("n", "long").add("x", kind)


def cases() -> list[Any]:
    return [
        pytest.param(kind, values + more, id=name + with_null, marks=marks)
        for name, (kind, values) in VALUES.items()
        for with_null, more, marks in (
            ("", [], [pytest.mark.matrix]),
            (" and null", [None], []),
        )
    ] + [pytest.param(kind, [None], id=f"null {kind}") for kind in ("string", "double", "boolean")]


def is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def filters(kind: pa.DataType, values: list[Any]) -> list[pc.Expression]:
    """Return what one asks of a column with these values."""
    x = pc.field("x")
    found = [pc.field("n") == 0, x.is_null(), x.is_valid()]
    with_nan = any(map(is_nan, values))
    if with_nan:
        found.append(pc.is_nan(x))
    for value in values:
        if value is not None and not is_nan(value):
            one = pa.scalar(value, kind)
            found += [x == one, x != one, x < one, x <= one, x > one, x >= one]
            if not with_nan:  # pyarrow takes a footer's bounds for those of a NaN, too
                found += [~(x == one), ~(x <= one)]
    return found


def check_pyarrow(table: Path, values: list[Any]) -> None:
    found = DeltaTable(table)
    whole, dataset = found.to_pyarrow_table(), found.to_pyarrow_dataset()
    for one in filters(whole.schema.field("x").type, values):
        wanted = sorted(whole.filter(one).column("n").to_pylist())
        assert sorted(dataset.to_table(filter=one).column("n").to_pylist()) == wanted, str(one)


def conditions(values: list[Any]) -> list[str]:
    """Return the same in SQL. DataFusion finds no NaN by comparing, whatever statistics say."""
    found = ["n = 0", "x is null", "x is not null"]
    for place, value in enumerate(values):
        if is_nan(value):
            return [*found, "isnan(x)"]
        signs = () if value is None else ("=", "!=", "<", "<=", ">", ">=")
        found += [f"x {sign} (select x from bare where n = {place} limit 1)" for sign in signs]
        if type(value) is int:  # by a literal DataFusion passes files over
            found += [f"x {sign} {value}" for sign in signs]
        elif isinstance(value, str) and value.isalnum():
            found += [f"x {sign} '{value}'" for sign in signs]
    return found


def check_datafusion(table: Path, values: list[Any]) -> None:
    """Hold DataFusion against itself: it reads a table without statistics as well."""
    bare = table.with_name("bare")
    whole = DeltaTable(table).to_pyarrow_table()
    write_deltalake(bare, whole, configuration={"delta.dataSkippingNumIndexedCols": "0"})
    reader = QueryBuilder().register("parleys", DeltaTable(table))
    reader.register("bare", DeltaTable(bare))
    for condition in conditions(values):
        counted = [
            pa.table(reader.execute(f"select n from {name} where {condition}").read_all())
            for name in ("parleys", "bare")
        ]
        found, wanted = (sorted(one.column(0).to_pylist()) for one in counted)
        assert found == wanted, condition


def run(query: Query, values: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a file of all values, one of each, and one with a row group of each."""
    rows = [{"n": n, "x": value} for n, value in enumerate(values)]
    query.run(0, [rows, *([row] for row in rows)])
    monkeypatch.setattr(files, "ROW_GROUP_BYTES", 1)
    query.row_by_row = True
    query.run(1, [rows])


@pytest.mark.parametrize(("kind", "values"), cases())
def test_a_filtered_read_of_a_delta_table_finds_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, values: list[Any]
) -> None:
    query = Query(tmp_path / "table", schema=schema(kind))
    run(query, values, monkeypatch)
    check_pyarrow(query.table, values)
    check_datafusion(query.table, values)
    DeltaTable(query.table).create_checkpoint()
    check_pyarrow(query.table, values)


def test_a_filtered_read_finds_rows_that_lack_a_column_of_the_table(tmp_path: Path) -> None:
    inner = StructType().add("a", "long")
    kinds = schema("long").add("s", inner).add("more", ArrayType(LongType()))
    query = Query(tmp_path / "table", schema=kinds)
    query.run(0, [[{"n": 0, "x": 1, "s": {"a": 1}, "more": [1]}]])
    Query(query.table, schema=StructType().add("n", "long")).run(1, [[{"n": 1}]])
    check_pyarrow(query.table, [1])
    check_datafusion(query.table, [1, None])
    dataset = DeltaTable(query.table).to_pyarrow_dataset()
    for name in ("x", "s", "more"):
        assert dataset.to_table(filter=pc.field(name).is_null()).column("n").to_pylist() == [1]


def test_a_filtered_read_finds_rows_with_values_in_values(tmp_path: Path) -> None:
    inner = StructType().add("a", "long").add("t", "string")
    kinds = StructType().add("n", "long").add("s", inner).add("more", ArrayType(LongType()))
    kinds = kinds.add("m", MapType(StringType(), LongType())).add("x", "long")
    query = Query(tmp_path / "table", schema=kinds)
    rows: list[dict[str, Any]] = [
        {"n": n, "s": {"a": n, "t": "x" * n}, "m": {"k": n}, "more": [n], "x": n} for n in (0, 99)
    ]
    rows += [{"n": 2, "s": None, "m": None, "more": None, "x": None}]
    query.run(0, [rows, *([row] for row in rows)])
    for checkpoint in (False, True):
        if checkpoint:
            DeltaTable(query.table).create_checkpoint()
        check_pyarrow(query.table, [99, None])
        found = DeltaTable(query.table)
        whole, dataset = found.to_pyarrow_table(), found.to_pyarrow_dataset()
        inside = [pc.field("s", "a") == 99, pc.field("s", "t") > "x", pc.field("s", "a").is_null()]
        for name in ("s", "m", "more"):
            inside += [pc.field(name).is_null(), pc.field(name).is_valid()]
        for one in inside:
            assert dataset.to_table(filter=one).num_rows == whole.filter(one).num_rows, str(one)


@pytest.mark.parametrize(
    "configuration",
    [
        {},
        {"delta.dataSkippingNumIndexedCols": "38"},
        {"delta.dataSkippingNumIndexedCols": "-1"},
        {"delta.dataSkippingNumIndexedCols": "0"},
        {"delta.dataSkippingStatsColumns": "`c39`, c0"},
    ],
    ids=str,
)
def test_a_filtered_read_of_a_wide_table_finds_all_rows(
    tmp_path: Path, configuration: dict[str, str | None]
) -> None:
    """The rows have their columns in another order than the table, which is what counts."""
    names = [f"c{place}" for place in range(40)]
    table = tmp_path / "table"
    empty = pa.schema([(name, pa.int64()) for name in names]).empty_table()
    write_deltalake(table, empty, configuration=configuration)
    kinds = StructType()
    for name in reversed(names):
        kinds = kinds.add(name, "long")
    Query(table, schema=kinds).run(0, [[dict.fromkeys(names, 1)], [dict.fromkeys(names, 2)]])
    dataset = DeltaTable(table).to_pyarrow_dataset()
    for name in names:
        assert dataset.to_table(filter=pc.field(name) == 1).num_rows == 1, name


def in_iceberg(kind: pa.DataType, values: list[Any]) -> list[tuple[pc.Expression, Any]]:
    """Return what one asks of a column, as pyarrow and as pyiceberg understand it."""
    x = pc.field("x")
    found: list[tuple[pc.Expression, Any]] = [
        (pc.field("n") == 0, EqualTo("n", 0)),
        (x.is_null(), IsNull("x")),
        (x.is_valid(), NotNull("x")),
    ]
    if pa.types.is_floating(kind):
        found.append((pc.is_nan(x), IsNaN("x")))
    for value in values:
        if value is None or is_nan(value):
            continue
        one = pa.scalar(value, kind)
        found += [
            (x == one, EqualTo("x", value)),
            (x < one, LessThan("x", value)),
            (x <= one, LessThanOrEqual("x", value)),
            (x > one, GreaterThan("x", value)),
            (x >= one, GreaterThanOrEqual("x", value)),
        ]
        if pa.types.is_string(kind):
            found.append((pc.starts_with(x, value[:3]), StartsWith("x", value[:3])))
    return found


@pytest.mark.parametrize(("kind", "values"), [one for one in cases() if None in one.values[1]])
def test_a_filtered_read_of_an_iceberg_table_finds_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, values: list[Any]
) -> None:
    query = IcebergQuery(tmp_path, schema=schema(kind))
    run(query, values, monkeypatch)
    table = load(tmp_path)
    whole = table.scan().to_arrow()
    for ours, theirs in in_iceberg(whole.schema.field("x").type, values):
        found = table.scan(row_filter=theirs).to_arrow()
        wanted = sorted(whole.filter(ours).column("n").to_pylist())
        assert sorted(found.column("n").to_pylist()) == wanted, str(theirs)
