"""Filters that a batch does itself: what they leave to read, and what
Spark still has to look at.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from parley.client import TopicPartition
from parley.spark.read.pushdown import Pushed, push

TOPIC, PARTITION, OFFSET, TIME = ("topic",), ("partition",), ("offset",), ("timestamp",)
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678_900, UTC)


@pytest.mark.parametrize(
    ("filters", "pushed"),
    [
        ([EqualTo(TOPIC, "a")], Pushed(topics=frozenset({"a"}))),
        ([In(TOPIC, ("a", "b")), EqualTo(TOPIC, "b")], Pushed(topics=frozenset({"b"}))),
        (
            [In(PARTITION, (0, 2)), GreaterThan(PARTITION, 0)],
            Pushed(partitions=frozenset({0, 2}), first_partition=1),
        ),
        (
            [GreaterThanOrEqual(OFFSET, 5), LessThan(OFFSET, 9)],
            Pushed(first_offset=5, last_offset=8),
        ),
        (
            [GreaterThan(OFFSET, 5), LessThanOrEqual(OFFSET, 9)],
            Pushed(first_offset=6, last_offset=9),
        ),
        ([EqualTo(OFFSET, 7)], Pushed(first_offset=7, last_offset=7)),
        ([IsNotNull(TOPIC), IsNotNull(OFFSET), IsNotNull(TIME)], Pushed()),
    ],
)
def test_exact_filters_are_all_done_here(filters: list[Filter], pushed: Pushed) -> None:
    assert push(filters) == (pushed, [])


@pytest.mark.parametrize(
    "one",
    [
        EqualTo(("value",), b"x"), EqualTo(("headers", "key"), "x"), IsNull(TOPIC),
        IsNotNull(("key",)), Not(EqualTo(TOPIC, "a")), StringStartsWith(TOPIC, "a"),
        LessThan(TIME, MOMENT), EqualTo(PARTITION, "1"),
        GreaterThan(TIME, MOMENT.replace(tzinfo=None)),
    ],
)  # fmt: skip
def test_other_filters_are_sparks(one: Any) -> None:
    assert push([one]) == (Pushed(), [one])


@pytest.mark.parametrize("kind", [EqualTo, GreaterThan, GreaterThanOrEqual])
def test_a_time_moves_the_start_and_is_looked_at_again(kind: Any) -> None:
    one = kind(TIME, MOMENT)
    pushed, rest = push([one])
    assert rest == [one]
    assert pushed.since_ms is not None
    assert 0 <= int(MOMENT.timestamp() * 1000) - pushed.since_ms <= 1


def test_what_is_left_of_partitions_and_ranges() -> None:
    pushed = Pushed(topics=frozenset({"a"}), first_partition=1, first_offset=5, last_offset=8)
    assert [pushed.keeps(TopicPartition(*tp)) for tp in (("a", 0), ("a", 1), ("b", 1))] == [
        False,
        True,
        False,
    ]
    assert (pushed.clip(0, 20), pushed.clip(6, 7)) == ((5, 9), (6, 7))
    first, last = pushed.clip(10, 20)
    assert first >= last
    assert not Pushed(first_offset=9, last_offset=8).keeps(TopicPartition("a", 0))
