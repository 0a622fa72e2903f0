"""Where offsets go when they are reset: each place that can be named, and the ends of the log."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from parley.cli.partition_texts import read_partitions, write_partitions
from parley.cli.reset_plan import Known, Reset, plan, read_datetime, read_duration, read_offsets
from parley.errors import ConfigError
from parley.types import OffsetAndMetadata, TopicPartition

TP = TopicPartition("flights", 0)
KNOWN = Known(10, 50, OffsetAndMetadata(20), None)


def new(known: Known = KNOWN, listed: int | None = None, **where: Any) -> int:
    (move,) = plan(Reset(**where), {TP: known}, {} if listed is None else {TP: listed})
    return move.new


def test_each_place() -> None:
    assert new(to_earliest=True) == 10
    assert new(to_latest=True) == 50
    assert new(to_offset=33) == 33
    assert new(shift_by=5) == 25
    assert new(shift_by=-5) == 15
    assert new(from_file="f", listed=12) == 12
    assert new(KNOWN._replace(by_time=17), to_datetime="2026-01-01T00:00:00") == 17
    assert new(KNOWN._replace(by_time=-1), by_duration="PT1H") == 50  # no record is as late


@given(st.integers(0, 100), st.integers(0, 100), st.integers(-200, 200), st.integers(0, 100))
def test_an_offset_stays_within_the_log_and_what_was_asked_for_is_said(
    begin: int, records: int, shift: int, committed: int
) -> None:
    known = Known(begin, begin + records, OffsetAndMetadata(committed))
    (move,) = plan(Reset(shift_by=shift), {TP: known}, {})
    assert begin <= move.new <= begin + records
    assert move.current == committed
    assert (move.asked is None) == (move.new == committed + shift)


def test_nothing_committed_cannot_be_shifted_and_can_be_set() -> None:
    with pytest.raises(ConfigError, match="flights-0"):
        new(Known(0, 9, None), shift_by=1)
    assert new(Known(0, 9, None), to_latest=True) == 9


@pytest.mark.parametrize(
    "where",
    [
        {},
        {"to_earliest": True, "to_latest": True},
        {"to_offset": 0, "shift_by": 0},
        {"to_offset": -1},
    ],
)
def test_exactly_one_place_is_wanted(where: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="--to-"):
        Reset(**where)


@given(st.datetimes(datetime(1970, 1, 2), datetime(9000, 1, 1)))
def test_times_are_utc_unless_they_name_a_zone(moment: datetime) -> None:
    ms = (moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        milliseconds=1
    )
    assert read_datetime(moment.isoformat()) == ms
    assert read_datetime(f"{moment.isoformat()}Z") == ms
    assert read_datetime(f"{moment.isoformat()}+02:00") == ms - 7_200_000


@given(*[st.integers(0, 1_000)] * 5)
def test_durations_are_those_of_iso_8601(
    weeks: int, days: int, hours: int, minutes: int, seconds: int
) -> None:
    whole = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    text = f"P{weeks}W{days}DT{hours}H{minutes}M{seconds}S"
    assert read_duration(text) == read_duration(text.lower()) == whole // timedelta(milliseconds=1)


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "1h", "P1H", "PT1D", "-P1D", "P1.5D", "P99999999999D"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--by-duration"):
        read_duration(text)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00", "1969-12-31T00:00:00"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--to-datetime"):
        read_datetime(text)


def test_a_time_before_1970_is_the_earliest() -> None:
    assert Reset(by_duration="P30000D").timestamp_ms(now_ms=0) == 0


def test_a_file_of_javas_tool() -> None:
    text = 'flights,0,5\n"a,b",11,9223372036854775807\n\n'
    assert read_offsets("o.csv", io.StringIO(text)) == {TP: 5, TopicPartition("a,b", 11): 2**63 - 1}
    assert read_offsets("o.csv", io.StringIO("topic,partition,offset\r\nflights,0,5\r\n")) == {
        TP: 5
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no partition"),
        ("flights,0\n", "line 1"),
        ("flights,0,5\nflights,1,x\n", "line 2"),
        ("flights,0,-1\n", "line 1"),
        (",0,1\n", "line 1"),
        ("flights,0,5\nflights,0,6\n", "twice"),
        ("flights,0,9223372036854775808\n", "line 1"),
        ("flights,2147483648,0\n", "line 1"),
    ],
)
def test_a_wrong_line_is_named(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_offsets("o.csv", io.StringIO(text))


@given(st.sets(st.tuples(st.sampled_from(["a", "b.c"]), st.integers(0, 40)), min_size=1))
def test_partitions_are_read_as_they_are_written(given: set[tuple[str, int]]) -> None:
    parts = {TopicPartition(*one) for one in given}
    found = [read_partitions(text) for text in write_partitions(parts).split()]
    assert {
        TopicPartition(topic, index) for topic, indexes in found for index in indexes or ()
    } == parts


@pytest.mark.parametrize("text", ["", ":0", "t:", "t:x", "t:3-1", "t:-1", "t:0,,1", "t:0-99999999"])
def test_what_names_no_partitions_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="TOPIC:0"):
        read_partitions(text)
