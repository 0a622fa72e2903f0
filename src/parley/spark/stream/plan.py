"""How a stream goes on: from one offset to the next, and from two offsets to ranges.

Pure but for the planner it asks. What is lost is reported to the planner's policy, which raises or
warns; after a warning the stream goes on as the table in `loss.py` says.

`cuts` says where the history of a position ends, for positions whose records were truncated away.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from parley.client import TopicPartition
from parley.errors import BrokerError
from parley.errors.codes import UNKNOWN_TOPIC_OR_PARTITION
from parley.spark.options.table import FETCH_OFFSET_NUM_RETRIES, FETCH_OFFSET_RETRY_INTERVAL_MS
from parley.spark.read.packing import Task
from parley.spark.read.planner import Planner
from parley.spark.read.ranges import OffsetRange
from parley.spark.stream.limits import limit_offsets
from parley.spark.stream.pace import limit_bytes
from parley.spark.values.offsets import Offsets, advance, recreated, show, stepped_back

Cuts = Mapping[TopicPartition, int]
_NONE: Cuts = {}


def initial_offsets(planner: Planner) -> Offsets:
    """Return where a new query starts. Raises as `plan_batch`; a pattern may match nothing yet."""
    assignment = planner.assignment(fresh=True, must_exist=True)
    return planner.resolve(planner.options.start, assignment)


def newest_offsets(planner: Planner, start: Offsets, seen: Offsets | None = None) -> Offsets:
    """Return where the logs end now, as far as `start` has not seen it to be otherwise.

    An end before a position that was already read, or before one that was `seen`, is asked for
    again, with new metadata: a leader that was just elected may not know yet how far the log goes
    (KIP-207). So is a leader epoch that fell, for a leader of yesterday may have answered, and a
    topic that vanished between the two questions.
    """
    for attempt in range(planner.options.own[FETCH_OFFSET_NUM_RETRIES] + 1):
        found = _look(planner, fresh=attempt > 0)
        if not attempt and advance(start, found) is not start:
            # Something moved: make sure that it moved in the topic that we think it is.
            found = _look(planner, fresh=True)
        if not shrunk(start, found) and not doubtful(start, found, seen):
            break
        time.sleep(planner.options.own[FETCH_OFFSET_RETRY_INTERVAL_MS] / 1000)
    return found


def _look(planner: Planner, *, fresh: bool) -> Offsets:
    try:
        return planner.latest(planner.assignment(fresh=fresh))
    except BrokerError as error:
        if error.code != UNKNOWN_TOPIC_OR_PARTITION:
            raise
    return planner.latest(planner.assignment(fresh=True))  # plan again, with what is there


def shrunk(start: Offsets, end: Offsets, cuts: Cuts = _NONE) -> list[TopicPartition]:
    """Return the partitions whose log ends before a position already known, in the same topic."""
    gone_back = [tp for tp, offset in end.positions.items() if offset < start.positions.get(tp, 0)]
    if not gone_back:
        return gone_back
    others = recreated(start, end)
    return sorted(tp for tp in gone_back if tp not in cuts and tp.topic not in others)


def doubtful(start: Offsets, end: Offsets, seen: Offsets | None) -> bool:
    """Return whether an answer without topic ids may come from a leader of yesterday."""
    others = recreated(start, end)
    return (
        any(topic not in end.ids for topic in others)
        or bool(stepped_back(start, end))
        or bool(ended_early(start, end, seen))
    )


def ended_early(start: Offsets, end: Offsets, seen: Offsets | None) -> list[TopicPartition]:
    """Return the partitions whose log ends before an end `seen`, not before what was read.

    Topics with ids are left out: where the same topic lost records that nobody has read, nothing is
    missed.
    """
    if seen is None:
        return []
    back = [tp for tp, offset in end.positions.items() if offset < seen.positions.get(tp, 0)]
    if not back:
        return back
    others = recreated(start, end)
    back = [tp for tp in back if tp.topic not in end.ids and tp.topic not in others]
    return sorted(tp for tp in back if end.positions[tp] >= start.positions.get(tp, 0))


def new_partitions(start: Offsets, end: Offsets) -> set[TopicPartition]:
    """Return the partitions without a position: added, or of another topic now."""
    others = recreated(start, end)
    return {tp for tp in end.positions if tp not in start.positions or tp.topic in others}


def report_losses(
    planner: Planner, start: Offsets, end: Offsets, cuts: Cuts = _NONE, seen: Offsets | None = None
) -> None:
    """Report what a stream cannot read any more: gone, another topic, or ended early."""
    others = recreated(start, end)
    for topic in sorted(others):
        planner.policy.recreated(topic, others[topic])
    gone = [tp for tp in start.positions if tp not in end.positions and tp.topic not in others]
    if gone:
        planner.policy.deleted(show(gone))
    for tp in sorted(cuts):
        planner.policy.truncated(tp, start.positions[tp], cuts[tp], start.epoch(tp))
    short = shrunk(start, end, cuts)
    for tp in short:
        planner.policy.shrunk(tp, start.positions[tp], end.positions[tp])
    for tp in stepped_back(start, end):
        if tp in start.positions and tp not in cuts and tp not in short:
            planner.policy.stepped_back(tp, start.positions[tp], start.epoch(tp), end.epoch(tp))
    if seen is not None:
        for tp in ended_early(start, end, seen):
            planner.policy.ended_early(tp, seen.positions[tp], end.positions[tp])


def starts_of(
    planner: Planner, start: Offsets, end: Offsets, cuts: Cuts = _NONE
) -> dict[TopicPartition, int]:
    """Return where reading begins in `end`'s partitions: new ones from their beginning."""
    new = new_partitions(start, end)
    known = {tp: cuts.get(tp, start.positions[tp]) for tp in end.positions if tp in start.positions}
    return known | planner.earliest(new)


def limited(
    start: Offsets,
    end: Offsets,
    starts: Mapping[TopicPartition, int],
    max_rows: int | None,
    max_bytes: int | None = None,
    bytes_per_offset: Mapping[TopicPartition, float] | None = None,
) -> Offsets:
    """Return an end that takes at most `max_rows` offsets, and about `max_bytes`, of
    what is there from `starts`.
    """
    positions = dict(end.positions)
    if max_rows is not None:
        positions = limit_offsets(starts, positions, max_rows)
    if max_bytes is not None:
        positions = limit_bytes(starts, positions, bytes_per_offset or {}, max_bytes)
    for tp, offset in end.positions.items():
        if offset < starts.get(tp, offset):
            positions[tp] = offset  # to go on at the log's end is no reading
    return Offsets(positions, end.ids, end.epochs)


def capped(start: Offsets, end: Offsets, target: Offsets, cuts: Cuts = _NONE) -> Offsets:
    """Return `end` held back to `target`, the end of what Trigger.AvailableNow reads.

    Partitions that came after the target was taken are left for the next run.
    """
    there = [tp for tp in end.positions if tp in target.positions or tp in start.positions]
    kept = Offsets({tp: end.positions[tp] for tp in there}, end.ids, end.epochs)
    return held(start, kept, {tp: target.positions.get(tp, 0) for tp in there}, cuts)


def held(
    start: Offsets, end: Offsets, limits: Mapping[TopicPartition, int], cuts: Cuts = _NONE
) -> Offsets:
    """Return `end` held back to `limits`, but not behind what was read already."""
    positions, new = dict(end.positions), new_partitions(start, end)
    for tp, limit in limits.items():
        if tp in positions:
            read = 0 if tp in cuts or tp in new else start.positions[tp]
            positions[tp] = min(positions[tp], max(limit, read))
    return Offsets(positions, end.ids, end.epochs)


def plan_stream(planner: Planner, start: Offsets, end: Offsets) -> list[Task]:
    """Return what the tasks of a micro-batch read. The same offsets give the same
    ranges, whenever they are asked; which of them a task reads may follow the leaders.
    """
    cuts = planner.histories.cuts(start, end)
    report_losses(planner, start, end, cuts)
    whole, new = [], new_partitions(start, end)
    for tp, first in starts_of(planner, start, end, cuts).items():
        if tp in new and 0 < first < end.positions[tp] and start.positions:
            planner.policy.aged_out(tp, 0, first)
        whole.append(
            OffsetRange(tp, first, end.positions[tp], end.ids.get(tp.topic, ""), end.epoch(tp))
        )
    return planner.tasks(whole)
