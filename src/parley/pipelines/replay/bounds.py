"""Which offsets of the source a replay reads: asked when it begins, and the same ever after."""

from __future__ import annotations

from collections.abc import Iterable

from parley.client import (
    EARLIEST,
    LATEST,
    AsyncClient,
    ClusterMetadata,
    OffsetSpec,
    Timestamp,
    TopicPartition,
)
from parley.errors import ConfigError
from parley.pipelines.replay.options import ReplayOptions


def partitions_of(source: ClusterMetadata, topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic. Raises ConfigError where it is not there."""
    if topic not in source.topics:
        raise ConfigError(f"the source has no topic {topic}")
    return [TopicPartition(topic, index) for index in sorted(source.topics[topic].partitions)]


async def ranges_of(
    source: AsyncClient,
    partitions: Iterable[TopicPartition],
    options: ReplayOptions,
    isolation_level: str,
) -> dict[int, tuple[int, int]]:
    """Return first and last offset (not included) of each partition, by its index."""
    partitions = list(partitions)

    async def at(spec: OffsetSpec | Timestamp) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(partitions, spec)
        found = await source.list_offsets(wanted, isolation_level=isolation_level)
        return {tp: answer.offset for tp, answer in found.items()}

    begins, ends = await at(EARLIEST), await at(LATEST)
    if options.from_timestamp_ms is not None:
        found = await at(Timestamp(options.from_timestamp_ms))
        begins = {tp: ends[tp] if offset < 0 else offset for tp, offset in found.items()}
    if options.until_timestamp_ms is not None:
        found = await at(Timestamp(options.until_timestamp_ms + options.late_ms))
        ends = {
            tp: end if found[tp] < 0 else min(end, max(found[tp], begins[tp]))
            for tp, end in ends.items()
        }
    return {tp.partition: (begins[tp], ends[tp]) for tp in partitions}
