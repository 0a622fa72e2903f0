"""Rows on their way to the client: checked, counted, and given the header
that distinguishes them.
"""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from parley.client.produce.rows import SLICE_ROWS
from parley.errors import ConfigError, broker_error
from parley.spark.write.rows import (
    HEADER_TYPE,
    PIECE_BYTES,
    RowHeader,
    TaskRows,
    in_pieces,
    with_header,
)

headers = st.none() | st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=3), "value": st.none() | st.binary(max_size=3)}),
    max_size=3,
)


@given(st.lists(headers, min_size=1, max_size=20), st.integers(0, 10**12), st.data())
def test_every_row_gets_one_header_more_and_keeps_its_own(
    given_headers: list[list[dict[str, object]] | None], first: int, data: st.DataObject
) -> None:
    batch = pa.record_batch(
        {
            "value": pa.array(["v"] * len(given_headers)),
            "headers": pa.array(given_headers, pa.list_(HEADER_TYPE)),
        }
    )
    start = data.draw(st.integers(0, len(given_headers) - 1))
    batch, expected = batch.slice(start), given_headers[start:]
    made = with_header(batch, RowHeader("at", "q/7/0"), first).column("headers").to_pylist()
    assert made == [
        [*(old or []), {"key": "at", "value": f"q/7/0/{first + row}".encode()}]
        for row, old in enumerate(expected)
    ]


def test_rows_without_a_column_of_headers_get_one() -> None:
    made = with_header(pa.record_batch({"value": ["a", "b"]}), RowHeader("at", "q/7/0"), 5)
    assert made.column("headers").to_pylist() == [
        [{"key": "at", "value": b"q/7/0/5"}], [{"key": "at", "value": b"q/7/0/6"}]
    ]  # fmt: skip


def rows(
    *batches: dict[str, list[object]], columns: tuple[str, ...] = ("key", "value")
) -> TaskRows:
    return TaskRows(iter([pa.record_batch(batch) for batch in batches]), columns)


@given(
    st.lists(st.sampled_from([0, 1, 9_000, 10_000, 30_000, 70_000]), max_size=12),
    st.sampled_from([1, 1000]),
)
def test_rows_come_in_larger_pieces_and_in_their_order(counts: list[int], row_bytes: int) -> None:
    starts = [sum(counts[:index]) for index in range(len(counts))]
    pad = b"x" * row_bytes if sum(counts) < 60_000 else b"x"
    batches = [
        pa.record_batch(
            {
                "value": pa.repeat(pad, count),
                "row": pa.array(range(start, start + count), pa.int64()),
            }
        )
        for start, count in zip(starts, counts, strict=True)
    ]
    pieces = list(in_pieces(batches))
    assert [row for piece in pieces for row in piece["row"].to_pylist()] == [*range(sum(counts))]
    assert all(piece.num_rows for piece in pieces)
    for piece, following in itertools.pairwise(pieces):
        rows, size = piece.num_rows + following.num_rows, piece.nbytes + following.nbytes
        assert piece.num_rows <= SLICE_ROWS or piece.num_rows in counts
        assert rows > SLICE_ROWS or size > PIECE_BYTES - 1024, "these might have gone together"


def test_a_row_without_a_topic_is_named_by_its_number_in_the_task() -> None:
    task = rows(
        {"topic": ["a", "b"], "value": ["1", "2"]},
        {"topic": pa.array(["a", None], pa.string()), "value": ["3", "4"]},  # type: ignore[dict-item]
        columns=("topic", "value"),
    )
    with pytest.raises(ConfigError, match="row 3 of this task has no topic"):
        list(task)


def test_the_row_that_is_too_large_is_named() -> None:
    task = rows(
        {"key": ["k", "k"], "value": ["a", "bb"]}, {"key": ["k", None], "value": ["c" * 500, "d"]}
    )
    assert sum(batch.num_rows for batch in task) == task.count == 4
    error = broker_error(10, topic="t", partition=0)
    task.explain(error)
    assert error.__notes__[0].startswith(
        "The largest row is row 2 of this task with 501 bytes of key and value."
    )


def test_the_row_without_a_key_is_named_where_the_broker_refuses_it() -> None:
    task = rows({"key": ["k", "k"], "value": ["a", "b"]}, {"key": ["k", None], "value": ["c", "d"]})
    list(task)
    error = broker_error(87, topic="t", partition=0)
    task.explain(error)
    assert "Row 3 of this task has no key" in error.__notes__[0]


TIMES = pa.timestamp("us", "UTC")


def timed(*micros: int | None) -> dict[str, list[object]]:
    return {"value": ["v"] * len(micros), "timestamp": pa.array(micros, pa.int64()).cast(TIMES)}  # type: ignore[dict-item]


def test_a_time_before_1970_is_named_by_its_row_unless_it_says_that_there_is_none() -> None:
    task = rows(timed(0, None), timed(-1000, 5, -2000), columns=("value", "timestamp"))
    with pytest.raises(
        ConfigError, match=r"row 4 of this task has the timestamp 1969-12-31 23:59:59\.998"
    ):
        list(task)
    assert (
        sum(
            batch.num_rows
            for batch in rows(timed(None), timed(-1000), columns=("value", "timestamp"))
        )
        == 2
    )


def test_times_that_the_broker_refuses_are_shown_with_its_limits() -> None:
    task = rows(timed(10**15, None), timed(2 * 10**15), columns=("value", "timestamp"))
    list(task)
    error = broker_error(32, topic="t", partition=0)
    task.explain(error)
    (note,) = error.__notes__
    assert "from 2001-09-09 01:46:40" in note
    assert "to 2033-05-18 03:33:20" in note
    assert "message.timestamp.after.max.ms" in note


def test_null_values_are_rows_like_others() -> None:
    task = rows({"key": ["k"], "value": pa.array([None], pa.binary())})  # type: ignore[dict-item]
    assert [batch.column("value").to_pylist() for batch in task] == [[None]]


def test_other_errors_are_left_alone() -> None:
    task = rows({"key": ["k"], "value": ["v"]})
    list(task)
    error = broker_error(3, topic="t", partition=0)
    task.explain(error)
    assert not hasattr(error, "__notes__")
