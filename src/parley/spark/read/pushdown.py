"""Filters that a batch read does itself: on topic, partition, offset and timestamp.

1. Exact, and not evaluated again by Spark: topic and partition equal to or among values, ranges of
   offsets and partitions, "is not null" of columns that never are.
2. A timestamp at or after a moment moves the start to the first record that late (ListOffsets) and
   is still evaluated: timestamps need not rise. One before a moment says nothing about offsets.
3. Everything else is Spark's. Filters come as a list of which all must hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from parley.client import TopicPartition

V = TypeVar("V", str, int)

_HIGHEST = 2**63 - 1
_NEVER_NULL = ("topic", "partition", "offset", "timestamp", "timestampType")


@dataclass(frozen=True, slots=True)
class Pushed:
    """What is left to read: None and the widest ranges where no filter says anything."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first_partition: int = 0
    last_partition: int = _HIGHEST
    first_offset: int = 0
    last_offset: int = _HIGHEST
    """Inclusive, as the first."""
    since_ms: int | None = None

    def keeps(self, tp: TopicPartition) -> bool:
        """Return whether a partition may have rows that are wanted."""
        return (
            (self.topics is None or tp.topic in self.topics)
            and (self.partitions is None or tp.partition in self.partitions)
            and self.first_partition <= tp.partition <= self.last_partition
            and self.first_offset <= self.last_offset
        )

    def clip(self, start: int, end: int) -> tuple[int, int]:
        """Return the part of a range that is wanted; it may be empty."""
        return max(start, self.first_offset), min(end, self.last_offset + 1)


def push(filters: Iterable[Filter]) -> tuple[Pushed, list[Filter]]:
    """Return what the filters leave to read, and those that Spark has to evaluate."""
    pushed, rest = Pushed(), []
    for one in filters:
        found, exact = _take(pushed, one)
        if found is not None:
            pushed = found
        if found is None or not exact:
            rest.append(one)
    return pushed, rest


def _take(pushed: Pushed, one: Filter) -> tuple[Pushed | None, bool]:
    """Return what a filter makes of it (None: nothing), and whether that is all it says."""
    path: tuple[str, ...] = getattr(one, "attribute", ())
    if len(path) != 1:
        return None, False
    column, value = path[0], getattr(one, "value", None)
    if isinstance(one, IsNotNull):
        return (pushed, True) if column in _NEVER_NULL else (None, False)
    if column == "topic":
        wanted = _values(one, str)
        if wanted is None:
            return None, False
        return replace(
            pushed, topics=wanted if pushed.topics is None else pushed.topics & wanted
        ), True
    if column in ("partition", "offset"):
        return _take_number(pushed, one, column)
    if column == "timestamp" and isinstance(one, EqualTo | GreaterThan | GreaterThanOrEqual):
        since_ms = _milliseconds(value)
        if since_ms is not None:
            return replace(pushed, since_ms=max(since_ms, pushed.since_ms or 0)), False
    return None, False


def _take_number(pushed: Pushed, one: Filter, column: str) -> tuple[Pushed | None, bool]:
    if isinstance(one, In) and column == "partition":
        wanted = _values(one, int)
        if wanted is None:
            return None, False
        return replace(
            pushed, partitions=wanted if pushed.partitions is None else pushed.partitions & wanted
        ), True
    bounds = _BOUNDS.get(type(one))
    value = getattr(one, "value", None)
    if bounds is None or not isinstance(value, int) or isinstance(value, bool):
        return None, False
    low, high = bounds(value)
    if column == "partition":
        low, high = max(pushed.first_partition, low), min(pushed.last_partition, high)
        return replace(pushed, first_partition=low, last_partition=high), True
    low, high = max(pushed.first_offset, low), min(pushed.last_offset, high)
    return replace(pushed, first_offset=low, last_offset=high), True


_BOUNDS: dict[type, Callable[[int], tuple[int, int]]] = {
    EqualTo: lambda value: (value, value),
    GreaterThan: lambda value: (value + 1, _HIGHEST),
    GreaterThanOrEqual: lambda value: (value, _HIGHEST),
    LessThan: lambda value: (0, value - 1),
    LessThanOrEqual: lambda value: (0, value),
}


def _values(one: Filter, kind: type[V]) -> frozenset[V] | None:
    if isinstance(one, EqualTo):
        found = (one.value,)
    elif isinstance(one, In):
        found = tuple(value for value in one.value if value is not None)
    else:
        return None
    return frozenset(found) if all(isinstance(value, kind) for value in found) else None


def _milliseconds(value: object) -> int | None:
    """Return a moment as ms since 1970, rounded down; None for none, or one before."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    found = int(value.timestamp() * 1000) - 1  # a float may be off by a part of a microsecond
    return found if found >= 0 else None
