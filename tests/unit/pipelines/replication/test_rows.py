"""Columns on the way, against the same done record by record."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from parley.arrow import HEADERS_TYPE, RECORD_SCHEMA
from parley.errors import ConfigError
from parley.pipelines.replication.options import ReplicationOptions
from parley.pipelines.replication.rows import ORIGIN, Rewriting, offset_runs

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
header = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["a", "b", ORIGIN]),
        "value": st.sampled_from([None, b"", b"old", b"new", b"third"]),
    }
)
row = st.fixed_dictionaries(
    {
        "timestamp": st.integers(0, 9).map(lambda ms: EPOCH + timedelta(milliseconds=ms)),
        "timestamp_type": st.sampled_from([-1, 0, 1]),
        "key": st.none() | st.binary(max_size=2),
        "value": st.none() | st.binary(max_size=2),
        "headers": st.lists(header, max_size=3),
    }
)


def fetched(rows: list[dict[str, Any]], skipped: int = 0) -> pa.RecordBatch:
    """Return rows as a fetch yields them; the first ones cut off, as a slice has them."""
    numbered = [{"offset": at + 3 * (at // 4), **one} for at, one in enumerate(rows)]
    return pa.RecordBatch.from_pylist(numbered, schema=RECORD_SCHEMA).slice(skipped)


def options(**given: Any) -> ReplicationOptions:
    return ReplicationOptions(name="to-new", topics=["flights"], **given)


@given(st.lists(row, max_size=9), st.integers(0, 2))
def test_two_ways_mark_once_and_leave_out_what_comes_from_the_target(
    rows: list[dict[str, Any]], skipped: int
) -> None:
    batch = fetched(rows, skipped)
    made, runs = Rewriting.of(options(two_way=True), "old", "new").of_fetched(batch)
    wanted, offsets = [], []
    for one in batch.to_pylist():
        origins = [found["value"] for found in one["headers"] if found["key"] == ORIGIN]
        if b"new" in origins:
            continue
        more = [] if origins else [{"key": ORIGIN, "value": b"old"}]
        wanted.append(one["headers"] + more)
        offsets.append(one["offset"])
    assert made.column("headers").to_pylist() == wanted
    assert [at + more for at, count in runs for more in range(count)] == offsets
    assert made.schema.field("headers").type == HEADERS_TYPE


@given(st.lists(row, max_size=9), st.sampled_from(["append", "zero", 7]))
def test_only_missing_timestamps_are_replaced(
    rows: list[dict[str, Any]], missing: str | int
) -> None:
    batch = fetched(rows)
    given = options(timestamp_when_missing=missing)
    made, _ = Rewriting.of(given, None, None).of_fetched(batch)
    put = {"append": None, "zero": EPOCH, 7: EPOCH + timedelta(milliseconds=7)}[missing]
    assert made.column("timestamp").to_pylist() == [
        put if one["timestamp_type"] < 0 else one["timestamp"] for one in rows
    ]
    for name in ("key", "value", "headers"):
        assert made.column(name).to_pylist() == [one[name] for one in rows]


def test_headers_are_dropped_where_that_is_asked_for() -> None:
    batch = fetched([{"timestamp": EPOCH, "timestamp_type": 0, "headers": []}])
    made, _ = Rewriting.of(options(headers="drop"), None, None).of_fetched(batch)
    assert made.schema.names == ["key", "value", "timestamp"]


@given(st.lists(st.integers(1, 3), max_size=20))
def test_runs_of_offsets_are_all_offsets(steps: list[int]) -> None:
    offsets, at = [], 0
    for step in steps:
        at += step
        offsets.append(at)
    found = offset_runs(pa.array(offsets, pa.int64()))
    assert [at + more for at, count in found for more in range(count)] == offsets
    assert len(found) == (1 + sum(step > 1 for step in steps[1:]) if steps else 0)


def test_a_pattern_leaves_out_what_belongs_to_brokers_and_to_the_replication() -> None:
    given = ReplicationOptions(name="to-new", topics_pattern=".*")
    names = ["flights", "__consumer_offsets", "to-new-offsets", "to-old-offsets"]
    assert [name for name in names if given.wants(name)] == ["flights", "to-old-offsets"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"name": "a/b"}, "name="),
        ({"topics": ()}, "give topics"),
        ({"topics": "flights"}, "topics"),
        ({"topics": ["to-new-offsets"]}, "map of offsets"),
        ({"on_data_loss": "ignore"}, "on_data_loss"),
        ({"topics_pattern": "("}, "no regular expression"),
        ({"delivery": "twice"}, "delivery"),
        ({"timestamp_when_missing": "now"}, "timestamp_when_missing"),
        ({"timestamp_when_missing": -1}, "timestamp_when_missing"),
        ({"readers": 0}, "readers"),
        ({"commit_interval_ms": 60_000}, "transaction_timeout_ms"),
    ],
)
def test_what_cannot_be_used_is_said(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ReplicationOptions(**{"name": "to-new", "topics": ["flights"], **given})
