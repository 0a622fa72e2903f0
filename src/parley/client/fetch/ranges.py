"""From what a caller asks to read to a running read: ranges checked, named places looked up."""

from __future__ import annotations

from collections.abc import Mapping

from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline
from parley.client.cluster.wanted_topics import ensure_topics
from parley.client.fetch.bounded import BoundedRead
from parley.client.fetch.positions import PartitionPosition
from parley.client.fetch.recreation import Incarnation
from parley.client.fetch.state import PartitionFetch
from parley.client.offsets.list_offsets import Spec, list_offsets, place_hint, spec_code
from parley.client.options import arguments
from parley.client.options.client_options import FetchOptions
from parley.client.results import OffsetSpec, PartitionRange, Timestamp
from parley.errors import ConfigError
from parley.types import ZERO_UUID, TopicPartition, shown

Bound = int | Spec | None
Range = int | Spec | tuple[int | Spec, Bound] | PartitionRange


def by_partition(ranges: Mapping[TopicPartition, Range]) -> Mapping[TopicPartition, Range]:
    """Return what a caller asks to read. Raises ConfigError for what names no partitions."""
    return arguments.by_partition(
        "ranges", ranges, 'TopicPartition("flights", 0): (EARLIEST, LATEST)'
    )


async def open_read(
    cluster: Cluster, ranges: Mapping[TopicPartition, Range], options: FetchOptions
) -> BoundedRead:
    """Return a read that has begun. Raises ConfigError, or the error of a missing partition."""
    arguments.instance("options", options, FetchOptions)
    ranges = by_partition(ranges)
    bounds = {tp: _bounds(tp, value) for tp, value in ranges.items()}
    patience_ms = (
        options.patience_ms
        if options.patience_ms is not None
        else cluster.options.default_api_timeout_ms
    )
    starts = await _resolve(cluster, {tp: start for tp, (start, _) in bounds.items()}, options)
    ends = await _resolve(cluster, {tp: end for tp, (_, end) in bounds.items()}, options)
    planned = {
        tp: found.topic_id for tp, found in ranges.items() if isinstance(found, PartitionRange)
    }
    await _learn_ids(cluster, planned, cluster.deadline(patience_ms))
    parts = []
    for tp in bounds:
        start, end = starts[tp], ends[tp]
        if start is None or start < 0 or (end is not None and end < 0):
            raise ConfigError(f"{tp}: cannot read from {start} to {end}; offsets start at 0")
        value = ranges[tp]
        given = value if isinstance(value, PartitionRange) else PartitionRange(start)
        positions = PartitionPosition(tp)
        positions.seek(start, given.leader_epoch, planned=True)
        topic = Incarnation(given.topic_id)
        parts.append(PartitionFetch(tp, positions, end, options.max_partition_fetch_bytes, topic))
    read = BoundedRead(cluster, parts, options, patience_ms)
    await read.start()
    return read


async def _learn_ids(
    cluster: Cluster, planned: Mapping[TopicPartition, bytes], deadline: Deadline
) -> None:
    """Refresh where a topic's id is not the planned one: the cache may be older than the plan."""
    planned = {tp: topic_id for tp, topic_id in planned.items() if topic_id != ZERO_UUID}
    if planned:
        view = await ensure_topics(cluster, {tp.topic for tp in planned}, deadline)
        if any(
            view.topic_id(tp.topic) not in (ZERO_UUID, topic_id) for tp, topic_id in planned.items()
        ):
            cluster.schedule.hurry()
            await cluster.refresh_until(deadline)


def _bounds(tp: TopicPartition, value: Range) -> tuple[int | Spec, Bound]:
    start: int | Spec
    end: Bound = None
    if isinstance(value, PartitionRange):
        arguments.number(f"{tp}: leader_epoch", value.leader_epoch, -1, arguments.INT32)
        if not isinstance(value.topic_id, bytes) or len(value.topic_id) != len(ZERO_UUID):
            raise ConfigError(
                f"{tp}: topic_id={shown(value.topic_id)} is no topic id: 16 bytes are wanted"
            )
        start, end = value.start, value.end
    elif isinstance(value, tuple) and len(value) == 2 and not isinstance(value, OffsetSpec):
        start, end = value
    else:
        start = value
    _check_bound(tp, start)
    if end is not None:
        _check_bound(tp, end)
    return start, end


def _check_bound(tp: TopicPartition, bound: object) -> None:
    if isinstance(bound, OffsetSpec | Timestamp):
        spec_code(bound)
    elif isinstance(bound, bool) or not isinstance(bound, int):
        raise ConfigError(
            f"{tp}: {shown(bound)} is no place to read from or to: give an offset, or "
            f"{place_hint(bound)}; a range is start, (start, end) or a PartitionRange"
        )
    elif not 0 <= bound <= arguments.INT64:
        raise ConfigError(f"{tp}: cannot read from or to {bound}; offsets start at 0")


async def _resolve(
    cluster: Cluster, bounds: Mapping[TopicPartition, Bound], options: FetchOptions
) -> dict[TopicPartition, int | None]:
    """Return offsets for all bounds. A time after the last record is the end of the log."""
    found: dict[TopicPartition, int | None] = {
        tp: bound  # type: ignore[misc]
        for tp, bound in bounds.items()
        if not _is_place(bound)
    }
    places = {tp: bound for tp, bound in bounds.items() if _is_place(bound)}
    if places:
        deadline = cluster.deadline()
        answers = await list_offsets(cluster, places, options.isolation_level, deadline)  # type: ignore[arg-type]
        late = {tp: LATEST_SPEC for tp, answer in answers.items() if answer.offset < 0}
        if late:
            answers |= await list_offsets(cluster, late, options.isolation_level, deadline)
        found |= {tp: answer.offset for tp, answer in answers.items()}
    return found


def _is_place(bound: Bound) -> bool:
    return isinstance(bound, OffsetSpec | Timestamp)


LATEST_SPEC = OffsetSpec("latest", -1)
