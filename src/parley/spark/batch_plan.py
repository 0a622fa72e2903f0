"""The ranges of a batch read: both bounds resolved, checked against each other and against the logs."""

from __future__ import annotations

from parley.spark.planner import Planner
from parley.spark.ranges import OffsetRange


def plan_batch(planner: Planner) -> list[OffsetRange]:
    """Return what the tasks of a batch read.

    Raises the broker's error for a topic or partition that is named and missing, ConfigError for bounds
    that do not fit, DataLossError for offsets that a user named and that are gone.
    """
    options = planner.options
    assert options.end is not None  # a batch has one
    assignment = planner.assignment(must_exist=True)
    if not assignment.partitions:
        return []
    start = planner.resolve(options.start, assignment)
    end = planner.resolve(options.end, assignment)
    whole = [
        OffsetRange(tp, offset, end.positions[tp], assignment.ids.get(tp.topic, ""), end.epoch(tp))
        for tp, offset in start.positions.items()
    ]
    return planner.split(whole)
