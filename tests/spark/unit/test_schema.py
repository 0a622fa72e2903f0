"""Columns: Spark's own conversion is the oracle of what a batch must look like."""

from __future__ import annotations

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    _parse_datatype_json_string,
)  # fmt: skip

from parley.errors import ConfigError
from parley.spark.values.schema import (
    READ_TYPES,
    arrow_read_schema,
    check_write_schema,
    left_out,
    read_schema_ddl,
)

HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
TYPES = {
    "binary": BinaryType(), "string": StringType(), "int": IntegerType(), "bigint": LongType(),
    "timestamp": TimestampType(), "timestamp_ntz": TimestampNTZType(),
}  # fmt: skip


def schema(**columns: str) -> StructType:
    return StructType(
        [StructField(name, TYPES.get(kind, HEADERS)) for name, kind in columns.items()]
    )


FULL = schema(**{name: kinds[0] for name, kinds in READ_TYPES.items()})


@pytest.mark.parametrize(
    "wanted",
    [
        FULL,
        schema(value="string"),
        schema(value="binary", key="string", offset="bigint"),
        schema(headers="headers", timestamp="timestamp"),
        StructType(
            [
                StructField("value", StringType(), nullable=False),
                StructField("offset", LongType(), False),
            ]
        ),
    ],
)
def test_batches_look_exactly_as_spark_wants_them(wanted: StructType) -> None:
    through_json = _parse_datatype_json_string(wanted.json())
    assert arrow_read_schema(through_json).equals(to_arrow_schema(through_json, timezone="UTC"))


def test_the_default_columns_are_those_of_sparks_own_source() -> None:
    assert read_schema_ddl(False) == (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp "
        "timestamp, timestampType int"
    )
    assert (
        read_schema_ddl(True)
        == read_schema_ddl(False) + ", headers array<struct<key:string,value:binary>>"
    )


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        (schema(vaule="binary"), 'no column "vaule".* Did you mean "value"'),
        (schema(offset="int"), 'column "offset" cannot be read as int: bigint is expected'),
        (schema(topic="binary"), 'column "topic" cannot be read as binary: string is expected'),
        (
            schema(value="timestamp"),
            'column "value" cannot be read as timestamp: binary or string or ',
        ),
        (schema(timestamp="timestamp_ntz"), "timestamp_ntz: timestamp is expected"),
        (StructType([StructField("value", BinaryType())] * 2), "names a column twice"),
    ],
)
def test_columns_that_cannot_be_read_are_refused(wanted: StructType, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        arrow_read_schema(wanted)


def test_what_a_writer_takes() -> None:
    rows = schema(
        partition="int", headers="headers", value="string", key="binary", topic="string",
        timestamp="timestamp", offset="bigint",
    )  # fmt: skip
    columns = ("topic", "key", "value", "headers", "partition", "timestamp")
    assert check_write_schema(rows, has_topic_option=False) == columns
    assert check_write_schema(rows, has_topic_option=True) == columns[1:]
    assert left_out(rows) == ["offset"]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (schema(key="string", topic="string"), 'no column "value"'),
        (schema(Value="string", topic="string"), 'There is "Value"; rename it'),
        (schema(vlue="string", topic="string"), 'Did you mean "vlue"'),
        (schema(value="string"), "no topic: set the option"),
        (
            schema(value="int", topic="string"),
            'column "value" has type int.*string or binary is expected.*Cast',
        ),
        (schema(value="string", topic="binary"), 'column "topic" has type binary'),
        (
            schema(value="string", topic="string", partition="bigint"),
            'column "partition" has type bigint.*int is exp',
        ),
        (
            schema(value="string", topic="string", headers="string"),
            'column "headers" has type string',
        ),
        (
            schema(value="string", topic="string", timestamp="bigint"),
            'column "timestamp" has type bigint.*or drop it',
        ),
    ],
)
def test_rows_that_cannot_be_written_are_refused(rows: StructType, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        check_write_schema(rows, has_topic_option=False)
