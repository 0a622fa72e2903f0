"""A batch read's ranges: both bounds resolved, checked against each other and the logs."""

from __future__ import annotations

from dataclasses import replace

from parley.client import Timestamp
from parley.errors import UnsupportedVersionError
from parley.spark.read.packing import Task
from parley.spark.read.planner import Planner
from parley.spark.read.pushdown import Pushed
from parley.spark.read.ranges import OffsetRange


def plan_batch(planner: Planner, pushed: Pushed | None = None) -> list[Task]:
    """Return what the tasks of a batch read, less what filters leave out.

    Raises the broker's error for a topic or partition that is named and missing, ConfigError for
    bounds that do not fit, DataLossError for offsets that a user named and that are gone.
    """
    options, pushed = planner.options, pushed or Pushed()
    assert options.end is not None  # a batch has one
    assignment = planner.assignment(must_exist=True)
    for bound in (options.start, options.end):
        bound.check(assignment.partitions)
    wanted = replace(assignment, partitions=tuple(filter(pushed.keeps, assignment.partitions)))
    if not wanted.partitions:
        return []
    start = planner.resolve(options.start.only(wanted.partitions), wanted)
    end = planner.resolve(options.end.only(wanted.partitions), wanted)
    whole = []
    for tp, offset in start.positions.items():
        first, last = pushed.clip(offset, end.positions[tp])
        if first < last:
            whole.append(OffsetRange(tp, first, last, wanted.ids.get(tp.topic, ""), end.epoch(tp)))
    return planner.tasks(_since(planner, whole, pushed.since_ms))


def _since(planner: Planner, ranges: list[OffsetRange], since_ms: int | None) -> list[OffsetRange]:
    """Return the ranges without what lies before the first record that late."""
    if since_ms is None or not ranges:
        return ranges
    try:
        answers = planner.ask({found.tp: Timestamp(since_ms) for found in ranges})
    except UnsupportedVersionError:  # brokers before 0.10.1: Spark evaluates the filter anyway
        return ranges
    moved = []
    for found in ranges:
        first = answers[found.tp].offset
        if 0 <= first < found.end:
            moved.append(replace(found, start=max(found.start, first)))
    return moved
