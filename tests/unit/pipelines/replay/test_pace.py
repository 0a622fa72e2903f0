"""Q20's pace: a rate that is never exceeded, gaps that are kept, and rows that do get out."""

from __future__ import annotations

from itertools import accumulate

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from parley.pipelines.replay.pace import DEPTH_S, LEAST_WAIT_S, Pace


def with_times(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return times in milliseconds, which do not fall, and sizes, of gaps and sizes."""
    times = accumulate(gap for gap, _ in found)
    return [(ms, size) for ms, (_, size) in zip(times, found, strict=True)]


gaps = st.tuples(st.integers(0, 5_000), st.integers(0, 10_000))
rows = st.lists(gaps, min_size=1, max_size=60).map(with_times)


def run(pace: Pace, waiting: list[tuple[int, int]], late_s: float = 0.0) -> list[float]:
    """Return when each row went out, by a clock that moves on by each wait, or a bit more."""
    now, went = 100.0, []
    while waiting:
        times, sizes = zip(*waiting, strict=True)
        due = pace.due(now, pa.array(times, pa.int64()), pa.array(sizes, pa.int64()))
        assert due.rows or due.wait_s >= LEAST_WAIT_S
        went += [now] * due.rows
        waiting = waiting[due.rows :]
        now += due.wait_s + late_s
    return went


@given(rows, st.floats(1_000, 1e6), st.floats(0, 0.2))
def test_no_time_has_more_bytes_than_the_rate_allows(
    waiting: list[tuple[int, int]], rate: float, late_s: float
) -> None:
    went = run(Pace(rate, None), waiting, late_s)
    largest = max(size for _, size in waiting)
    for first in range(len(went)):
        for last in range(first, len(went)):
            sent = sum(size for _, size in waiting[first : last + 1])
            allowed = (went[last] - went[first] + DEPTH_S) * rate + largest
            assert sent <= allowed * (1 + 1e-9) + 1


@given(rows, st.floats(0.1, 1_000), st.floats(0, 0.2))
def test_a_row_goes_when_its_time_has_come_and_no_later_than_the_clock_allows(
    waiting: list[tuple[int, int]], speed: float, late_s: float
) -> None:
    went = run(Pace(None, speed), waiting, late_s)
    for (ms, _), at in zip(waiting, went, strict=True):
        wanted = 100.0 + (ms - waiting[0][0]) / (speed * 1000)
        assert wanted - 1e-6 <= at <= wanted + late_s + LEAST_WAIT_S + 1e-6


@given(rows, st.floats(1_000, 1e6), st.floats(0.1, 1_000))
def test_both_hold_together(waiting: list[tuple[int, int]], rate: float, speed: float) -> None:
    went = run(Pace(rate, speed), waiting)
    largest = max(size for _, size in waiting)
    sent = sum(size for _, size in waiting)
    assert sent <= (went[-1] - went[0] + DEPTH_S) * rate * (1 + 1e-9) + largest + 1
    assert went[-1] - went[0] >= (waiting[-1][0] - waiting[0][0]) / (speed * 1000) - 1e-6


def test_a_row_that_is_larger_than_a_second_allows_goes_and_is_paid_for() -> None:
    pace = Pace(1_000, None)
    times, sizes = pa.array([0, 0], pa.int64()), pa.array([5_000, 1], pa.int64())
    due = pace.due(0.0, times, sizes)
    assert due.rows == 1
    assert due.wait_s == pytest.approx(5, rel=0.02)


def test_without_a_pace_everything_is_due() -> None:
    assert Pace(None, None).is_free
    assert not Pace(1, None).is_free
    assert not Pace(None, 1).is_free
