"""Decoded columns as Arrow batches: equal values, valid layout, shared memory."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from parley.arrow import (
    HEADERS_TYPE,
    RECORD_SCHEMA,
    spark_schema,
    to_record_batch,
    to_spark_batch,
    valid_utf8,
    want_for,
)
from parley.records import (
    Columns,
    ReadOptions,
    Record,
    Want,
    WriteOptions,
    columns_from_records,
    decode_columns,
    encode_batches,
)

ROWS = [
    Record(7, 1_700_000_000_123, 0, b"k", b"v", (("a", b"x"), ("a", None))),
    Record(8, -1, 0, None, b"", ()),
    Record(9, -62_135_596_800_000, 0, b"", None, (("b", b""),)),
]
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def columns(**options: Any) -> Columns:
    data = encode_batches(columns_from_records(ROWS), None, WriteOptions(codec=3))[0].data
    (chunk,) = decode_columns(data, first_offset=0, options=ReadOptions(**options))
    return chunk.columns


def test_client_batch_in_full() -> None:
    batch = to_record_batch(columns())
    batch.validate(full=True)
    assert batch.schema.equals(RECORD_SCHEMA, check_metadata=True)
    rows = batch.to_pylist()
    assert [row["offset"] for row in rows] == [7, 8, 9]
    assert [(row["timestamp"] - EPOCH) / dt.timedelta(milliseconds=1) for row in rows] == [
        r.timestamp_ms for r in ROWS
    ]
    assert [(row["timestamp_type"], row["key"], row["value"]) for row in rows] == [
        (0, r.key, r.value) for r in ROWS
    ]
    assert [row["headers"] for row in rows] == [
        [{"key": k, "value": v} for k, v in r.headers] for r in ROWS
    ]
    assert batch.column("key").null_count == 1


def test_only_decoded_columns_are_there() -> None:
    batch = to_record_batch(columns(want=want_for(["offset", "value"])))
    assert batch.schema.names == ["offset", "value"]
    assert batch.num_rows == 3


@pytest.mark.parametrize("headers", [False, True])
def test_spark_batch(headers: bool) -> None:
    schema = spark_schema(headers)
    batch = to_spark_batch(
        columns(want=want_for(schema.names), timestamp_scale=1000), "events", 4, schema
    )
    batch.validate(full=True)
    assert batch.schema.equals(schema, check_metadata=True)
    first = batch.slice(0, 1).to_pylist()[0]
    assert (first["topic"], first["partition"], first["timestampType"]) == ("events", 4, 0)
    assert first["timestamp"] == EPOCH + dt.timedelta(milliseconds=ROWS[0].timestamp_ms)
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [
        row.timestamp_ms * 1000 for row in ROWS
    ]


def test_spark_has_null_for_the_headers_of_a_record_without_any() -> None:
    schema = pa.schema([("headers", HEADERS_TYPE)])
    batch = to_spark_batch(columns(want=int(Want.HEADERS)), "t", 0, schema)
    batch.validate(full=True)
    wanted = [[{"key": k, "value": v} for k, v in row.headers] or None for row in ROWS]
    assert batch.column("headers").to_pylist() == wanted
    assert batch.column("headers").null_count == 1


def test_any_columns_in_any_order_and_text_at_no_cost() -> None:
    schema = pa.schema([("topic", pa.string()), ("value", pa.string()), ("headers", HEADERS_TYPE)])
    assert want_for(schema.names) == Want.VALUES | Want.HEADERS
    source = columns(want=want_for(schema.names))
    batch = to_spark_batch(source, "t", 0, schema)
    assert batch.to_pydict()["value"] == ["v", "", None]
    assert valid_utf8(batch.column("value"))
    assert source.value is not None
    assert batch.column("value").buffers()[2].address == pa.py_buffer(source.value.data).address


def test_bytes_that_are_no_text_are_found() -> None:
    source = Columns(1, value=columns_from_records([Record(0, 0, 0, None, b"\xff")]).value)
    batch = to_spark_batch(source, "t", 0, pa.schema([("value", pa.string())]))
    assert not valid_utf8(batch.column("value"))


def test_buffers_live_as_long_as_the_batch() -> None:
    """The decoded columns, and what they were decoded from, may go first."""
    batch = to_record_batch(columns())
    again = [to_record_batch(columns()) for _ in range(50)]
    assert batch.to_pylist() == again[-1].to_pylist()


def test_batches_without_rows() -> None:
    data = encode_batches(columns_from_records(ROWS))[0].data
    schema = spark_schema(True)
    for want, scale in ((int(Want.ALL), 1), (want_for(schema.names), 1000)):
        options = ReadOptions(want=want, timestamp_scale=scale)
        (chunk,) = decode_columns(data, first_offset=0, end_offset=3, options=options)
        assert (chunk.columns.rows, chunk.next_offset) == (0, 3)
        to_record_batch(chunk.columns).validate(full=True)
        empty = to_spark_batch(chunk.columns, "t", 0, schema)
        empty.validate(full=True)
        assert empty.num_rows == 0
        assert empty.schema.equals(schema)


def test_constant_columns_are_made_once_and_grow() -> None:
    first = to_spark_batch(columns(timestamp_scale=1000), "same", 1)
    second = to_spark_batch(columns(timestamp_scale=1000), "same", 1)
    assert first.column("topic").buffers()[1].address == second.column("topic").buffers()[1].address
    big = Columns(100_000)
    schema = pa.schema([("topic", pa.string()), ("partition", pa.int32())])
    batch = to_spark_batch(big, "same", 1, schema)
    assert batch.num_rows == 100_000
    assert batch.column("topic").unique().to_pylist() == ["same"]
    assert batch.column("partition").unique().to_pylist() == [1]
