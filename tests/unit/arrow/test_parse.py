"""Arrow batches as columns for producing: every type that can be produced, and
clear words for the others.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from parley.arrow import columns_from_arrow, to_record_batch
from parley.errors import ConfigError
from parley.records import Record, decode_columns, encode_batches, records

NOW = 1_700_000_000_000
TEXT = ["abc", None, "", "ключ"]
BYTES = [b"abc", None, b"", b"\xff"]


def produced(batch: pa.RecordBatch) -> list[Record]:
    """Return the rows after a trip through a batch of magic 2."""
    columns = columns_from_arrow(batch, now_ms=NOW).columns
    (made,) = encode_batches(columns)
    return [
        row for chunk in decode_columns(made.data, first_offset=0) for row in records(chunk.columns)
    ]


def column(array: pa.Array, name: str = "value") -> pa.RecordBatch:
    return pa.record_batch([array], names=[name])


@pytest.mark.parametrize(
    "array",
    [
        pa.array(TEXT, pa.string()),
        pa.array(TEXT, pa.large_string()),
        pa.array(TEXT, pa.string_view()),
        pa.array(TEXT).dictionary_encode(),
        pa.array(TEXT, pa.large_string()).dictionary_encode(),
        pa.array(BYTES, pa.binary()),
        pa.array(BYTES, pa.large_binary()),
        pa.array(BYTES, pa.binary_view()),
        pa.array([b"abcd", None, b"efgh", b"\0\0\0\0"], pa.binary(4)),
        pa.array([None] * 4, pa.string()),
        pa.array([None] * 4, pa.null()),
    ],
    ids=lambda array: f"{array.type}",
)
@pytest.mark.parametrize("name", ["key", "value"])
@pytest.mark.parametrize(("start", "length"), [(0, 4), (1, 3), (2, 1), (3, 1)])
def test_values_of_every_type_and_any_slice(
    array: pa.Array, name: str, start: int, length: int
) -> None:
    expected = [v.encode() if isinstance(v, str) else v for v in array.to_pylist()]
    for cut in (array.slice(start, length), column(array, name).slice(start, length).column(0)):
        assert [getattr(row, name) for row in produced(column(cut, name))] == expected[
            start : start + length
        ]


@given(st.lists(st.none() | st.binary(max_size=12), min_size=1, max_size=40), st.data())
def test_any_slice_of_any_column(values: list[bytes | None], data: Any) -> None:
    start = data.draw(st.integers(0, len(values) - 1))
    batch = pa.record_batch([pa.array(values, pa.binary())], names=["value"]).slice(start)
    assert [row.value for row in produced(batch)] == values[start:]


HEADERS = [[("a", b"x"), ("a", None)], [], None, [("", b"")]]


@pytest.mark.parametrize("value_type", [pa.binary(), pa.string(), pa.large_binary()])
@pytest.mark.parametrize(("start", "length"), [(0, 4), (1, 3), (3, 1), (1, 2)])
def test_headers(value_type: pa.DataType, start: int, length: int) -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", value_type)]))
    text = value_type == pa.string()
    rows = [
        None
        if row is None
        else [{"key": k, "value": v.decode() if text and v is not None else v} for k, v in row]
        for row in HEADERS
    ]
    batch = pa.record_batch({"value": pa.array(BYTES), "headers": pa.array(rows, kind)})
    expected = [tuple(row or ()) for row in HEADERS]
    assert [row.headers for row in produced(batch.slice(start, length))] == expected[
        start : start + length
    ]


def test_headers_of_a_batch_that_was_fetched() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    batch = pa.record_batch(
        {"value": pa.array(BYTES), "headers": pa.array([[("a", b"x")]] * 4, kind)}
    )
    (made,) = encode_batches(columns_from_arrow(batch, now_ms=NOW).columns)
    (chunk,) = decode_columns(made.data, first_offset=0)
    fetched = to_record_batch(chunk.columns).select(["key", "value", "headers", "timestamp"])
    assert [row.headers for row in produced(fetched.slice(2))] == [(("a", b"x"),)] * 2


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([5, None, -1], pa.int64()), [5, NOW, -1]),
        (pa.array([5, None, -1], pa.timestamp("ms")), [5, NOW, -1]),
        (pa.array([5, None, -1], pa.timestamp("s", tz="Europe/Berlin")), [5000, NOW, -1000]),
        (pa.array([5999, None, -1], pa.timestamp("us", tz="UTC")), [5, NOW, 0]),
        (pa.array([5999999, None, 0], pa.timestamp("ns")), [5, NOW, 0]),
        (pa.array([None] * 3, pa.null()), [-1] * 3),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_timestamps(array: pa.Array, expected: list[int]) -> None:
    batch = pa.record_batch([pa.array([b"v"] * 3), array], names=["value", "timestamp"])
    assert [row.timestamp_ms for row in produced(batch)] == expected
    assert [row.timestamp_ms for row in produced(batch.slice(1, 2))] == expected[1:]


def test_where_rows_go() -> None:
    batch = pa.record_batch(
        {
            "value": pa.array([b"v"] * 3),
            "topic": pa.array(["a", None, "b"]).dictionary_encode(),
            "partition": pa.array([1, None, 2], pa.int64()),
        }
    )
    parsed = columns_from_arrow(batch, now_ms=NOW)
    assert parsed.topic is not None
    assert parsed.partition is not None
    assert (parsed.topic.type, parsed.topic.to_pylist()) == (pa.string(), ["a", None, "b"])
    assert (parsed.partition.type, parsed.partition.to_pylist()) == (pa.int32(), [1, None, 2])
    alone = columns_from_arrow(column(pa.array(BYTES)), now_ms=NOW)
    assert (alone.topic, alone.partition) == (None, None)


def test_strings_and_bytes_are_not_copied() -> None:
    for array in (pa.array(TEXT), pa.array(BYTES)):
        parsed = columns_from_arrow(column(array.slice(1)), now_ms=NOW).columns.value
        assert parsed is not None
        assert pa.py_buffer(parsed.data).address == array.buffers()[2].address


def test_no_rows() -> None:
    for kind in (pa.string(), pa.binary(), pa.large_string()):
        parsed = columns_from_arrow(column(pa.array([], kind)), now_ms=NOW)
        assert encode_batches(parsed.columns) == []


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (pa.record_batch({"valeu": pa.array([b"x"])}), 'column "valeu".* Did you mean "value"'),
        (pa.record_batch({"value": pa.array([1])}), 'column "value" has type int64'),
        (pa.record_batch({"key": pa.array([1.5])}), 'column "key" has type double'),
        (pa.record_batch({"key": pa.array([[b"x"]])}), 'column "key" has type list'),
        (
            pa.record_batch({"value": pa.array([b"x"]), "timestamp": pa.array(["now"])}),
            'column "timestamp"',
        ),
        (
            pa.record_batch({"value": pa.array([b"x"]), "partition": pa.array([2**40])}),
            'column "partition"',
        ),
        (
            pa.record_batch({"value": pa.array([b"x"]), "partition": pa.array(["p"])}),
            'column "partition"',
        ),
        (
            pa.record_batch({"value": pa.array([b"x"]), "topic": pa.array([b"\xff"])}),
            'column "topic"',
        ),
        (
            pa.record_batch({"value": pa.array([b"x"]), "headers": pa.array(["h"])}),
            'column "headers"',
        ),
        (pa.record_batch([pa.array([b"x"])] * 2, names=["value", "value"]), "twice"),
        (pa.record_batch([], names=[]), "needs a column"),
    ],
)
def test_what_cannot_be_produced_is_named(batch: pa.RecordBatch, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        columns_from_arrow(batch, now_ms=NOW)


def test_headers_without_keys_are_refused_only_where_they_are() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    good = [{"key": "k", "value": b"v"}]
    for bad in ([{"key": None, "value": b"x"}], [None]):
        batch = pa.record_batch(
            {"value": pa.array([b"a", b"b"]), "headers": pa.array([bad, good], kind)}
        )
        with pytest.raises(ConfigError, match="header without a key"):
            columns_from_arrow(batch, now_ms=NOW)
        assert produced(batch.slice(1))[0].headers == (("k", b"v"),)
