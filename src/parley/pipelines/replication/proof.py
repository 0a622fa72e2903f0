"""Whether what was copied is what the source has: both sides compared where the map says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from parley.client import AsyncClient, TopicPartition
from parley.pipelines.replication.lane import Lane
from parley.pipelines.replication.plan import is_compacted
from parley.pipelines.replication.topics import describe_topics
from parley.pipelines.verify import (
    DifferenceKind,
    Verification,
    VerifiedPartition,
    VerifyOptions,
    async_verify_topics,
)

_EVERYTHING = (0, 2**63 - 1)


async def verify_copied(
    source: AsyncClient,
    target: AsyncClient,
    lanes: Mapping[TopicPartition, Lane],
    options: VerifyOptions,
) -> Verification:
    """Compare what is copied of some partitions with what it became.

    Partitions that the target alone has were not copied, and do not count. Where a compacted topic
    differs, the latest record of each key does: cleaners take others away, each side's in its time.
    """

    def in_target(tp: TopicPartition, start: int, end: int) -> tuple[int, int]:
        places = lanes[tp].map.place(start), lanes[tp].map.place(end)
        if places[0] is None or places[1] is None:
            return _EVERYTHING  # nothing was copied: whatever is there is too much
        return places[0].offset, places[1].offset

    topics = sorted({tp.topic for tp in lanes})
    copied = {tp: _copied(lane) for tp, lane in lanes.items()}
    aligned = replace(options, left_offsets=copied, alignment=in_target)
    found = await async_verify_topics(source, target, topics, aligned)
    compared = [one for one in found.partitions if not _is_beside(one)]
    differ = dict.fromkeys(
        one.left.topic for one in compared if one.left is not None and _has_differed(one)
    )
    if differ and not options.latest_per_key:
        compacted = await _compacted(source, differ) | await _compacted(target, differ)
        if compacted:
            latest = replace(
                aligned, latest_per_key=True, ignore_tombstones=True, from_later_beginning=False
            )
            again = await async_verify_topics(source, target, sorted(compacted), latest)
            by_key = {one.left: one for one in again.partitions}
            compared = [
                by_key.get(one.left, one) if _has_differed(one) else one for one in compared
            ]
    return Verification(tuple(compared))


def _is_beside(found: VerifiedPartition) -> bool:
    return found.left is None and found.right is not None and found.right.partition >= 0


def _has_differed(found: VerifiedPartition) -> bool:
    """Whether both sides have the partition, and not the same records in it."""
    difference = found.difference
    return difference is not None and difference.kind is not DifferenceKind.NO_PARTITION


async def _compacted(client: AsyncClient, topics: Iterable[str]) -> set[str]:
    """Return which topics a cluster compacts, as far as it shows that (Kafka 0.11)."""
    metadata = await client.metadata(list(topics))
    there = [name for name in topics if name in metadata.topics]
    found = await describe_topics(client, metadata, there)
    return {one.name for one in found if is_compacted(one.effective)}


def _copied(lane: Lane) -> tuple[int, int]:
    """Return which offsets of the source are in the target: from the first run on."""
    first = next(iter(lane.map), None)
    end = lane.position.next_offset
    return (end if first is None else first.source), end
