"""Whether what was copied is what the source has: both sides compared where the map says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from parley.client import AsyncClient, TopicPartition
from parley.pipelines.replication.lane import Lane
from parley.pipelines.verify import Verification, VerifyOptions, async_verify_topics

_EVERYTHING = (0, 2**63 - 1)


async def verify_copied(
    source: AsyncClient,
    target: AsyncClient,
    lanes: Mapping[TopicPartition, Lane],
    options: VerifyOptions,
) -> Verification:
    """Compare what is copied of some partitions with what it became."""

    def in_target(tp: TopicPartition, start: int, end: int) -> tuple[int, int]:
        places = lanes[tp].map.place(start), lanes[tp].map.place(end)
        if places[0] is None or places[1] is None:
            return _EVERYTHING  # nothing was copied: whatever is there is too much
        return places[0].offset, places[1].offset

    topics = sorted({tp.topic for tp in lanes})
    copied = {tp: _copied(lane) for tp, lane in lanes.items()}
    aligned = replace(options, left_offsets=copied, alignment=in_target)
    return await async_verify_topics(source, target, topics, aligned)


def _copied(lane: Lane) -> tuple[int, int]:
    """Return which offsets of the source are in the target: from the first run on."""
    first = next(iter(lane.map), None)
    end = lane.position.next_offset
    return (end if first is None else first.source), end
