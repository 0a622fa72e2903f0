"""The schemas, Spark's own conversion being the judge of Spark's."""

from __future__ import annotations

import pyarrow as pa
import pytest

from parley.arrow import RECORD_SCHEMA, SPARK_COLUMNS, spark_schema


@pytest.mark.parametrize("headers", [False, True])
def test_spark_schema_is_what_pyspark_makes_of_its_own(headers: bool) -> None:
    """Types, names, order and nullability, down to the elements of the list."""
    types = pytest.importorskip("pyspark.sql.types", reason="no pyspark")
    from pyspark.sql.pandas.types import to_arrow_schema

    struct = types.StructType()
    for name, kind in (
        ("key", types.BinaryType()),
        ("value", types.BinaryType()),
        ("topic", types.StringType()),
        ("partition", types.IntegerType()),
        ("offset", types.LongType()),
        ("timestamp", types.TimestampType()),
        ("timestampType", types.IntegerType()),
    ):
        struct.add(name, kind)
    if headers:
        header = types.StructType().add("key", types.StringType()).add("value", types.BinaryType())
        struct.add("headers", types.ArrayType(header))
    expected = to_arrow_schema(struct, timezone="UTC")
    assert expected.equals(spark_schema(headers), check_metadata=True)
    assert str(expected) == str(spark_schema(headers))
    assert tuple(struct.fieldNames()[:7]) == SPARK_COLUMNS


def test_record_schema() -> None:
    assert RECORD_SCHEMA.names == [
        "offset",
        "timestamp",
        "timestamp_type",
        "key",
        "value",
        "headers",
    ]
    assert RECORD_SCHEMA.field("timestamp").type == pa.timestamp("ms", tz="UTC")
    assert [field.nullable for field in RECORD_SCHEMA] == [False, False, False, True, True, True]
