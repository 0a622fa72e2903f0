"""Columns and options of Iceberg tables, without a table."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DecimalType, MapType, StringType, StructType

from parley.errors import ConfigError
from parley.spark.lakes.columns import as_new_table, columns_of
from parley.spark.lakes.iceberg_columns import (
    columns_of_table,
    fields_of,
    partition_value,
    widened,
    with_ids,
)
from parley.spark.lakes.iceberg_options import CATALOG, read_iceberg_options
from parley.spark.lakes.opening import secrets_of
from parley.spark.lakes.options import Kind
from parley.spark.options.row import Use

INNER = StructType().add("city", "string").add("zip", "short", False)
WHOLE = (
    StructType()
    .add("id", "long", False)
    .add("place", INNER)
    .add("tags", ArrayType(INNER, False))
    .add("more", MapType(StringType(), ArrayType(DecimalType(10, 2))))
    .add("at", "timestamp")
    .add("there", "timestamp_ntz")
)


def test_columns_become_icebergs_and_spark_s_again() -> None:
    columns = widened(columns_of(WHOLE.json()))
    fields = fields_of(columns)
    assert columns_of_table(fields) == columns  # type: ignore[arg-type]
    assert fields[0] == {"id": 1, "name": "id", "required": True, "type": "long"}
    assert fields[3] == {
        "id": 4, "name": "more", "required": False,
        "type": {
            "type": "map", "key-id": 12, "key": "string", "value-id": 13, "value-required": False,
            "value": {
                "type": "list", "element-id": 14, "element": "decimal(10, 2)",
                "element-required": False,
            },
        },
    }  # fmt: skip
    made = fields_of(as_new_table(columns))
    assert all(not one["required"] for one in made)  # type: ignore[index, call-overload]


def test_files_have_the_tables_ids_at_every_depth() -> None:
    rows = to_arrow_schema(WHOLE, timezone="UTC")
    found = with_ids(rows, fields_of(widened(columns_of(WHOLE.json())), 50))  # type: ignore[arg-type]

    def ids(field: pa.Field) -> list[int]:
        kind = field.type
        inner: list[pa.Field] = []
        if pa.types.is_map(kind):
            inner = [kind.key_field, kind.item_field]
        elif pa.types.is_nested(kind):
            inner = [kind.field(place) for place in range(kind.num_fields)]
        own = int(field.metadata[b"PARQUET:field_id"])
        return [own, *(number for one in inner for number in ids(one))]

    assert [ids(field) for field in found] == [
        [50], [51, 56, 57], [52, 58, 59, 60], [53, 61, 62, 63], [54], [55],
    ]  # fmt: skip
    assert found.field("place").type.field("zip").type == pa.int32()  # Iceberg has no short
    assert found.field("at").type == pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        (None, "long", None), ("", "string", ""), ("-5", "integer", -5), ("true", "boolean", True),
        ("false", "boolean", False), ("1970-01-02", "date", 1), ("1969-12-31", "date", -1),
        ("0001-01-01", "date", -719162),
    ],
)  # fmt: skip
def test_values_of_partitions_are_those_of_manifests(
    text: str | None, kind: str, value: object
) -> None:
    assert partition_value(text, kind) == value


def test_options_name_a_table_in_a_catalog() -> None:
    given = {"path": "lake.flights", "checkpointLocation": "/c", "catalog": "prod"}
    options = read_iceberg_options(
        {**given, "catalog.URI": "x", "partitionBy": "a, b"}, Use.STREAM_WRITE
    )
    assert (options.kind, options.path) == (Kind.ICEBERG, "lake.flights")
    assert (options.own[CATALOG], options.storage) == ("prod", {"uri": "x"})
    assert options.partition_by == ("a", "b")
    assert read_iceberg_options({"table": "a.b.c"}, Use.BATCH_WRITE).path == "a.b.c"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "no table: name it"),
        ({"table": "flights"}, "no name of a table in a catalog"),
        ({"path": "/lake/flights.parquet"}, "no name of a table in a catalog"),
        ({"path": "a.b", "table": "a.c"}, "two tables are named"),
        ({"path": "a.b", "compactEvery": "5"}, 'no option "compactEvery"'),
        ({"path": "a.b", "txnAppId": "x"}, "txnAppId and txnVersion go together"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        read_iceberg_options(options, Use.BATCH_WRITE)


def test_secrets_of_a_catalog_show_in_no_text() -> None:
    properties = {
        "uri": "postgresql://me:p%40ss-word@host/db", "credential": "id:hush",
        "s3.secret-access-key": "deep-secret", "type": "sql", "s3.region": "eu-west-1",
    }  # fmt: skip
    assert set(secrets_of(properties)) == {"p%40ss-word", "p@ss-word", "id:hush", "deep-secret"}
    given = {"path": "a.b", **{f"catalog.{name}": text for name, text in properties.items()}}
    assert "hush" not in repr(read_iceberg_options(given, Use.BATCH_WRITE))
