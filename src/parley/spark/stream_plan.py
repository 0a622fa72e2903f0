"""How a stream goes on: from one offset to the next, and from two offsets to ranges.

Pure but for the planner it asks. What is lost is reported to the planner's policy, which raises or warns;
after a warning the stream goes on as the table in `loss.py` says.
"""

from __future__ import annotations

import time

from parley.client import TopicPartition
from parley.spark.limits import limit_offsets
from parley.spark.offsets import Offsets, advance, show
from parley.spark.planner import Planner
from parley.spark.ranges import OffsetRange, split_ranges


def initial_offsets(planner: Planner) -> Offsets:
    """Return where a new query starts. Raises as `plan_batch`; a pattern may match nothing yet."""
    assignment = planner.assignment(fresh=True, must_exist=True)
    found = planner.resolve(planner.options.start, assignment)
    return planner.inside(found, planner.options.start.explicit(assignment.partitions))


def newest_offsets(planner: Planner, start: Offsets) -> Offsets:
    """Return where the logs end now, as far as `start` has not seen it to be otherwise.

    An end before a position that was already read is asked for again, with new metadata: a leader that
    was just elected may not know yet how far the log goes (KIP-207).
    """
    for attempt in range(planner.options.offset_retries + 1):
        assignment = planner.assignment(fresh=attempt > 0)
        found = planner.latest(assignment)
        if not attempt and advance(start, found) is not start:
            # Something moved: make sure that it moved in the topic that we think it is.
            assignment = planner.assignment(fresh=True)
            found = planner.latest(assignment)
        if not shrunk(start, found):
            break
        time.sleep(planner.options.offset_retry_interval_ms / 1000)
    return found


def shrunk(start: Offsets, end: Offsets) -> list[TopicPartition]:
    """Return the partitions whose log ends before a position already known, in the same topic."""
    gone_back = (tp for tp, offset in end.positions.items() if offset < start.positions.get(tp, 0))
    return sorted(tp for tp in gone_back if not is_new(start, end, tp))


def is_new(start: Offsets, end: Offsets, tp: TopicPartition) -> bool:
    """Return whether a partition has no position yet: it was added, or its topic is another one now."""
    if tp not in start.positions:
        return True
    old, new = start.ids.get(tp.topic), end.ids.get(tp.topic)
    return old is not None and new is not None and old != new


def report_losses(planner: Planner, start: Offsets, end: Offsets) -> None:
    """Report what a stream can no longer read: what is gone, what is another topic now, what ends early."""
    recreated = {topic for topic, old in start.ids.items() if end.ids.get(topic, old) != old}
    for topic in sorted(recreated):
        planner.policy.recreated(topic, start.ids[topic], end.ids[topic])
    gone = [tp for tp in start.positions if tp not in end.positions and tp.topic not in recreated]
    if gone:
        planner.policy.deleted(show(gone))
    for tp in shrunk(start, end):
        planner.policy.shrunk(tp, start.positions[tp], end.positions[tp])


def starts_of(planner: Planner, start: Offsets, end: Offsets) -> dict[TopicPartition, int]:
    """Return where reading begins in each partition of `end`: new ones are read from their beginning."""
    new = [tp for tp in end.positions if is_new(start, end, tp)]
    return {tp: start.positions[tp] for tp in end.positions if tp in start.positions} | planner.earliest(new)


def limited(planner: Planner, start: Offsets, end: Offsets, max_rows: int) -> Offsets:
    """Return an end that takes at most `max_rows` offsets of what is there."""
    positions = limit_offsets(starts_of(planner, start, end), end.positions, max_rows)
    for tp in shrunk(start, end):
        positions[tp] = end.positions[tp]  # to go on at the log's end is no reading
    return Offsets(positions, end.ids, end.epochs)


def capped(start: Offsets, end: Offsets, target: Offsets) -> Offsets:
    """Return `end` held back to `target`, the end of what Trigger.AvailableNow reads.

    Partitions that came after the target was taken are left for the next run.
    """
    positions: dict[TopicPartition, int] = {}
    for tp, offset in end.positions.items():
        if tp in target.positions or tp in start.positions:
            highest = max(target.positions.get(tp, 0), start.positions.get(tp, 0))
            positions[tp] = min(offset, highest)
    return Offsets(positions, end.ids, end.epochs)


def plan_stream(planner: Planner, start: Offsets, end: Offsets) -> list[OffsetRange]:
    """Return what the tasks of a micro-batch read."""
    report_losses(planner, start, end)
    starts = starts_of(planner, start, end)
    whole = []
    for tp, first in starts.items():
        if is_new(start, end, tp) and 0 < first < end.positions[tp] and start.positions:
            planner.policy.aged_out(tp, 0, first)
        whole.append(OffsetRange(tp, first, end.positions[tp], end.ids.get(tp.topic, ""), end.epoch(tp)))
    options = planner.options
    return split_ranges(whole, min_partitions=options.min_partitions, max_records=options.max_records_per_partition)
