"""Numbers of Kafka's Java serializers as columns."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from parley.errors import ConfigError
from parley.spark.values.numbers import stored_schema, to_numbers


@pytest.mark.parametrize(
    ("kind", "code", "values"),
    [
        (pa.int16(), ">h", [1, -2, 2**15 - 1]),
        (pa.int32(), ">i", [1, -2, 2**31 - 1]),
        (pa.int64(), ">q", [1, -2, -(2**63)]),
        (pa.float32(), ">f", [0.5, -2.0, float("inf")]),
        (pa.float64(), ">d", [0.1, -2.0, float("-inf")]),
    ],
)
@pytest.mark.parametrize("with_null", [True, False])
def test_numbers_as_java_wrote_them(
    kind: pa.DataType, code: str, values: list[float], with_null: bool
) -> None:
    expected = [*values, None] if with_null else values
    stored = pa.array(
        [None if value is None else struct.pack(code, value) for value in expected], pa.binary()
    )
    schema = pa.schema([("value", kind), ("partition", pa.int32())])
    assert stored_schema(schema).names == ["value", "partition", "offset"]
    rows = {"value": stored, "partition": [7] * len(expected), "offset": range(len(expected))}
    # not from the buffer's beginning
    batch = pa.RecordBatch.from_pydict(rows, schema=stored_schema(schema)).slice(1)
    found = to_numbers(batch, schema, "t-7")
    assert found.schema == schema
    assert found.column("value").to_pylist() == expected[1:]


def test_other_schemas_are_left_alone() -> None:
    schema = pa.schema([("key", pa.binary()), ("value", pa.string())])
    assert stored_schema(schema) == schema
    batch = pa.RecordBatch.from_pydict({"key": [b"k"], "value": ["v"]}, schema=schema)
    assert to_numbers(batch, schema, "t-0") is batch


def test_a_value_of_another_length_is_named() -> None:
    schema = pa.schema([("value", pa.int64())])
    rows = {"value": [bytes(8), None, b"abc"], "offset": [40, 41, 43]}
    batch = pa.RecordBatch.from_pydict(rows, schema=stored_schema(schema))
    with pytest.raises(
        ConfigError,
        match=r"value at offset 43 of t-0 has 3 bytes and cannot be read as int64.* has 8",
    ):
        to_numbers(batch, schema, "t-0")


def test_no_rows() -> None:
    schema = pa.schema([("value", pa.int64())])
    batch = pa.RecordBatch.from_pydict({"value": [], "offset": []}, schema=stored_schema(schema))
    assert to_numbers(batch, schema, "t-0").num_rows == 0
