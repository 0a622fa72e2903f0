"""Which ranges one task reads, where there are more of them than tasks are wanted. Pure.

1. A task reads ranges of one leader where it can: one request of it asks for all of them, and it
   needs one connection. Each leader gets tasks by its share of what is to be read.
2. The ranges of a leader are shared out by size, the largest first, always to the task with the
   least.
3. A range costs something even where it is nearly empty: as much as `FIXED` bytes of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heapreplace
from typing import TypeVar

from parley.client import TopicPartition
from parley.spark.read.ranges import OffsetRange

T = TypeVar("T")
Task = tuple[OffsetRange, ...]
"""What one task reads, by topic, partition and offset."""
FIXED, GUESSED_RECORD = 16 * 1024, 256
"""Bytes: what a range costs beside its records, and a record of which nothing is known."""


def pack(
    ranges: Sequence[OffsetRange],
    most: int | None,
    leaders: Mapping[TopicPartition, int],
    densities: Mapping[TopicPartition, Sequence[float]],
) -> list[Task]:
    """Return the tasks, at most `most` of them (None: each range is a task of its own).

    `leaders` has broker ids, as far as they are known; `densities` the bytes per offset of equal
    parts of a partition's range, as far as they were sampled.
    """
    if most is None or len(ranges) <= most:
        return [(one,) for one in ranges]

    def cost(one: OffsetRange) -> float:
        found = densities.get(one.tp)
        return FIXED + one.size * (sum(found) / len(found) if found else GUESSED_RECORD)

    by_leader: dict[int, list[OffsetRange]] = defaultdict(list)
    for one in ranges:
        by_leader[leaders.get(one.tp, -1)].append(one)
    if len(by_leader) > most:
        groups = list(by_leader.values())
        shared = _share_out(groups, most, lambda group: sum(map(cost, group)))
        return _ordered([one for group in share for one in group] for share in shared)
    costs = {leader: sum(map(cost, group)) for leader, group in by_leader.items()}
    counts = _tasks_each(costs, {leader: len(group) for leader, group in by_leader.items()}, most)
    return _ordered(
        share
        for leader, group in by_leader.items()
        for share in _share_out(group, counts[leader], cost)
    )


def _tasks_each(costs: Mapping[int, float], sizes: Mapping[int, int], most: int) -> dict[int, int]:
    """Return how many tasks each leader gets: one, and then always the one whose tasks have most to
    read.
    """
    counts = dict.fromkeys(costs, 1)
    waiting = [(-costs[leader], leader) for leader in costs if sizes[leader] > 1]
    heapify(waiting)
    for _ in range(most - len(counts)):  # there are more ranges than tasks: `waiting` is not empty
        leader = waiting[0][1]
        counts[leader] += 1
        each = costs[leader] / counts[leader] if counts[leader] < sizes[leader] else 0.0
        heapreplace(waiting, (-each, leader))
    return counts


def _share_out(items: Iterable[T], tasks: int, cost: Callable[[T], float]) -> list[list[T]]:
    found: list[list[T]] = [[] for _ in range(tasks)]
    filled = [(0.0, number) for number in range(tasks)]
    for item in sorted(items, key=cost, reverse=True):
        so_far, number = filled[0]
        found[number].append(item)
        heapreplace(filled, (so_far + cost(item), number))
    return found


def _ordered(tasks: Iterable[Iterable[OffsetRange]]) -> list[Task]:
    """Return tasks whose ranges, and which themselves, are in the order of the partitions."""
    placed = (tuple(sorted(task, key=lambda one: (one.tp, one.start))) for task in tasks)
    return sorted((task for task in placed if task), key=lambda task: (task[0].tp, task[0].start))
