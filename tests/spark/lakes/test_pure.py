"""Columns, features, partitions, options and decisions of lakes, without a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from pyspark.sql.types import (
    ArrayType,
    DayTimeIntervalType,
    DecimalType,
    IntegerType,
    MapType,
    StructField,
    StructType,
)

from parley.errors import ConfigError
from parley.spark.lakes.columns import Fit, as_new_table, check_new_table, columns_of, fit
from parley.spark.lakes.features import Demands, check_features
from parley.spark.lakes.options import (
    MERGE_SCHEMA,
    TARGET_FILE_SIZE,
    delta_address,
    local_folder,
    local_path,
    read_lake_options,
)
from parley.spark.lakes.partitions import folder_of, split
from parley.spark.options.row import Use

INNER = StructType().add("city", "string").add("zip", "integer")
WHOLE = (
    StructType()
    .add("id", "long", False)
    .add("at", "timestamp")
    .add("day", "date")
    .add("price", DecimalType(10, 2))
    .add("place", INNER)
    .add("tags", ArrayType(INNER))
    .add("more", MapType(INNER, INNER))
)


def columns(schema: StructType) -> Any:
    return columns_of(schema.json())


def put(schema: StructType, table: StructType, *, merge: bool = False) -> Fit:
    return fit(columns(schema), columns(table), merge=merge, where="/t")


def test_rows_with_the_tables_columns_go_in() -> None:
    check_new_table(columns(WHOLE), ["day"])
    assert put(WHOLE, WHOLE) == Fit(required=("id",))
    new = as_new_table(columns(WHOLE))
    assert fit(columns(WHOLE), new, merge=False, where="/t") == Fit()
    assert all(column.nullable for column in new)
    assert '"nullable": false' not in json.dumps([column.kind for column in new])


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (StructType().add("ID", "long"), r'has a column "id", the rows have "ID": rename it'),
        (
            StructType().add("id", "integer"),
            r'"id" is bigint in the table /t and int in the rows: c',
        ),
        (
            StructType().add("id", "long").add("new", "string").add("day", "date"),
            r'no column "new" \(string\).*"id" \(bigint\), "at".*\.drop\("new"\)',
        ),
        (StructType().add("at", "timestamp"), r'wants a value in column "id" \(bigint\)'),
        (
            StructType().add("id", "long").add("place", StructType().add("city", "string")),
            r'"place.zip" is a field in the table /t and no field in the rows',
        ),
        (
            StructType()
            .add("id", "long")
            .add("tags", ArrayType(StructType([*INNER, StructField("x", IntegerType())]))),
            r'"tags.element.x" is no field in the table /t and a field in the rows',
        ),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_column(schema: StructType, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        put(schema, WHOLE)


def test_columns_are_added_as_nullable() -> None:
    wider = StructType().add("id", "long").add("new", "string", False)
    (added,) = put(wider, WHOLE, merge=True).added
    assert (added.name, added.kind, added.nullable) == ("new", "string", True)


@pytest.mark.parametrize(
    ("schema", "partition_by", "expected"),
    [
        (StructType().add("a b", "integer"), (), 'column "a b" has a character'),
        (StructType().add("a", "integer").add("A", "integer"), (), 'two columns "A"'),
        (StructType().add("a", DayTimeIntervalType()), (), "a Delta table cannot hold"),
        (StructType().add("a", ArrayType(DayTimeIntervalType())), (), '"a.element" has type'),
        (StructType().add("a", ArrayType(StructType())), (), '"a.element" has type struct<>'),
        (StructType().add("a", "integer").add("b", "integer"), ("c",), '"c", which is no column'),
        (
            StructType().add("a", "integer").add("b", "double"),
            ("b",),
            'by "b" of type double',
        ),
        (StructType().add("a", "integer"), ("a",), "by every column that the rows"),
    ],
)
def test_columns_that_no_table_can_have_are_refused(
    schema: StructType, partition_by: tuple[str, ...], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        check_new_table(columns(schema), partition_by)


WITHIN = {
    "type": "array",
    "elementType": {
        "type": "struct",
        "fields": [{"name": "x", "type": "long", "metadata": {"delta.invariants": "{}"}}],
    },
}
"""A type with an invariant of a field in it."""


def demands(**more: Any) -> Demands:
    kind, metadata = more.pop("kind", "long"), more.pop("metadata", {})
    field = {"name": "n", "type": kind, "nullable": True, "metadata": metadata}
    schema = json.dumps({"type": "struct", "fields": [field]})
    given = {"writer_version": 7, "writer_features": ("appendOnly",), "configuration": {}, **more}
    return Demands(schema=schema, **given)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"writer_features": ("rowTracking",)}, "feature that parley-delta cannot write: rowTr"),
        ({"writer_features": ("icebergCompatV2", "clustering")}, "clustering, icebergCompatV2"),
        ({"writer_features": (), "writer_version": 8}, "writer version 8"),
        ({"configuration": {"delta.columnMapping.mode": "name"}}, "uses column mapping"),
        ({"configuration": {"delta.constraints.low": "n > 0"}}, "uses the constraint low"),
        ({"metadata": {"delta.generationExpression": "1"}}, 'the generated column "n"'),
        ({"metadata": {"delta.identity.start": 1}}, 'the identity column "n"'),
        ({"metadata": {"delta.invariants": "{}"}}, 'an invariant of column "n"'),
        ({"kind": WITHIN}, 'an invariant of column "n.element.x"'),
        (
            {"configuration": {"delta.setTransactionRetentionDuration": "interval 1 day"}},
            "forgets which batch was written last",
        ),
    ],
)
def test_what_a_table_asks_and_nobody_does_is_refused(
    more: Mapping[str, Any], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        check_features(demands(**more), "/t", stream=True, overwrite=False)


def test_what_asks_nothing_of_added_files_is_let_be() -> None:
    features = ("columnMapping", "checkConstraints", "deletionVectors", "timestampNtz")
    check_features(demands(writer_features=features), "/t", stream=True, overwrite=False)
    check_features(demands(writer_features=(), writer_version=5), "/t", stream=True, overwrite=True)
    forgets = {"delta.setTransactionRetentionDuration": "interval 1 day"}
    check_features(demands(configuration=forgets), "/t", stream=False, overwrite=False)


def test_rows_are_not_replaced_where_the_table_forbids_it() -> None:
    fixed = demands(configuration={"delta.appendOnly": "true"})
    check_features(fixed, "/t", stream=False, overwrite=False)
    with pytest.raises(ConfigError, match=r"appendOnly=true.*mode\(\"append\"\)"):
        check_features(fixed, "/t", stream=False, overwrite=True)
    with pytest.raises(ConfigError, match="deletion vectors"):
        check_features(
            demands(writer_features=("deletionVectors",)), "/t", stream=False, overwrite=True
        )


values = st.one_of(st.none(), st.sampled_from(["", "a", "b", "ü/ =%", "x" * 100]))


@given(st.lists(st.tuples(values, st.one_of(st.none(), st.integers(-2, 2)))))
def test_rows_are_split_by_their_values_and_stay_in_order(
    rows: list[tuple[str | None, int | None]],
) -> None:
    batch = pa.record_batch(
        [
            pa.array(range(len(rows)), pa.int64()),
            pa.array([text for text, _ in rows], pa.string()),
            pa.array([number for _, number in rows], pa.int16()),
        ],
        names=["n", "text", "number"],
    )
    found = {key: piece.column("n").to_pylist() for key, piece in split(batch, ["text", "number"])}
    expected: dict[tuple[str | None, ...], list[int]] = {}
    for n, (text, number) in enumerate(rows):
        key = (text or None, None if number is None else str(number))
        expected.setdefault(key, []).append(n)
    assert found == expected
    for key in found:
        folder = folder_of(["text", "number"], key)
        assert folder.count("/") == 2
        assert folder.isascii()
        assert "%" not in folder


def read(use: Use = Use.STREAM_WRITE, **options: str) -> Any:
    given = {"path": "/t", "checkpointLocation": "/c"}
    return read_lake_options(
        given | {name.replace("__", "."): text for name, text in options.items()}, use
    )


def test_options_have_defaults_and_are_read_whatever_their_case() -> None:
    options = read(partitionby="a, b", MERGESCHEMA="true", storage__aws_region="x")
    assert options.partition_by == ("a", "b")
    assert (options.own[MERGE_SCHEMA], options.own[TARGET_FILE_SIZE]) == (True, 128 * 2**20)
    assert options.storage == {"aws_region": "x"}
    assert read().app == read(Use.STREAM_WRITE, checkpointLocation="file:///c/").app
    assert read(txnAppId="q").app == "q"
    assert read(Use.BATCH_WRITE).app is None


def test_storage_options_show_in_no_text() -> None:
    assert "hush" not in repr(read(storage__aws_secret_access_key="hush"))


@pytest.mark.parametrize(
    ("use", "options", "expected"),
    [
        (Use.STREAM_WRITE, {"mergeShema": "true"}, 'no option "mergeShema".*"mergeSchema"'),
        (Use.BATCH_WRITE, {"overwriteSchema": "true"}, "columns of a table are not replaced"),
        (Use.BATCH_WRITE, {"replaceWhere": "n > 1"}, "Delete what is to be replaced first"),
        (Use.STREAM_WRITE, {"txnVersion": "3"}, "txnVersion is for batch writes only"),
        (Use.BATCH_WRITE, {"compactEvery": "3"}, "compactEvery is for streams only"),
        (Use.BATCH_WRITE, {"txnAppId": "q"}, "txnAppId and txnVersion go together"),
        (Use.STREAM_WRITE, {"compactEvery": "0"}, "an integer from 1"),
        (Use.STREAM_WRITE, {"partitionBy": "a,b,a"}, "names a column twice"),
        (Use.STREAM_WRITE, {"checkpointLocation": ""}, "checkpointLocation"),
        (Use.STREAM_WRITE, {"storage__aws_s3_allow_unsafe_rename": "true"}, "replace each other"),
    ],
)
def test_options_that_cannot_be_used_are_refused(
    use: Use, options: dict[str, str], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        read(use, **options)
    with pytest.raises(ConfigError, match="no table"):
        read_lake_options({"checkpointLocation": "/c"}, Use.STREAM_WRITE)


def test_a_path_is_a_folder_or_a_place_in_a_store() -> None:
    assert local_folder("/a/b") == "/a/b"
    assert local_folder("file:/a/b") == local_folder("file:///a/b") == "/a/b"
    assert local_folder("s3://bucket/a") is None
    assert delta_address("s3://bucket/a%20b") == "s3://bucket/a%20b"


@pytest.mark.parametrize("name", ["my table", "überall", "100%", "a%25b", "q?x#1+2", "a:b"])
def test_what_a_path_gives_as_its_address_is_that_path(name: str) -> None:
    path = Path("/lake", name)
    address = path.as_uri()
    for spelt in (
        address,
        address.replace("file:///", "file:/"),
        address.replace("file://", "FILE://localhost"),
        str(path),
    ):
        assert local_path(spelt) == str(path)


@pytest.mark.parametrize("address", ["file://there/x", "file:x", "file://x"])
def test_an_address_of_another_machine_is_no_folder(address: str) -> None:
    with pytest.raises(ConfigError, match="names no folder of this machine: give file:///PATH"):
        read(path=address)


@pytest.mark.parametrize("path", ["/lake/a%20b", "file:///lake/a%2520b", "/lake/a%20b/table"])
def test_a_folder_that_delta_rs_does_not_find_again_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match=r'folder /lake/a%20b.* has "%20".*another name'):
        read(path=path)
