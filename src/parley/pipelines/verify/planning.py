"""Which partition is held against which, and from where to where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from parley.errors import ConfigError, nearest_hint
from parley.pipelines.verify.bisection import Extent
from parley.pipelines.verify.results import Difference, DifferenceKind, VerifiedPartition
from parley.types import Names, TopicPartition, text, texts

Alignment: TypeAlias = Callable[[TopicPartition, int, int], tuple[int, int]]
"""Says which offsets of the right side a left partition's offsets from `start` up to, not
including, `end` correspond to: called once for each partition, with its left ends.
"""
Partitions: TypeAlias = Mapping[str, Names]
Extents: TypeAlias = Mapping[TopicPartition, Extent]


class Pair(NamedTuple):
    """Two partitions that should be the same, and which of their offsets count."""

    left: TopicPartition
    right: TopicPartition
    left_extent: Extent
    right_extent: Extent


def named_topics(topics: object) -> dict[str, str]:
    """Return the right side's name of each topic. Raises ConfigError for what are no names."""
    if isinstance(topics, Mapping):
        found = {text("topics", left): text("topics", right) for left, right in topics.items()}
    else:
        found = {name: name for name in texts("topics", topics, "topics")}
    if not found:
        raise ConfigError("topics names no topic; give those to compare")
    return found


def matched(
    topics: Mapping[str, str],
    left: Mapping[str, frozenset[int]],
    right: Mapping[str, frozenset[int]],
) -> tuple[list[tuple[TopicPartition, TopicPartition]], list[VerifiedPartition]]:
    """Return the partitions that both sides have, and a difference for each that one side lacks.

    `left` and `right` have the partitions of each topic; a topic that is not in them is missing.
    Raises ConfigError for one that both lack.
    """
    pairs, lacking = [], []
    for ours, theirs in topics.items():
        if ours not in left and theirs not in right:
            raise ConfigError(f'neither side has a topic "{ours}".{nearest_hint(ours, left)}')
        for topic, known, side in ((ours, left, "left"), (theirs, right, "right")):
            if topic not in known:
                lacking.append(_no_topic(ours, theirs, topic, side))
        if ours not in left or theirs not in right:
            continue
        for index in sorted(left[ours] | right[theirs]):
            one, other = TopicPartition(ours, index), TopicPartition(theirs, index)
            if index in left[ours] and index in right[theirs]:
                pairs.append((one, other))
            else:
                counts = f"{len(left[ours])} on the left, {len(right[theirs])} on the right"
                lacking.append(_no_partition(one, other, index in left[ours], counts))
    return pairs, lacking


def _no_topic(ours: str, theirs: str, topic: str, side: str) -> VerifiedPartition:
    detail = (
        f'the {side} side has no topic "{topic}", or its user may not see it: create or copy it, '
        "or look at its name and ACLs"
    )
    return VerifiedPartition(
        None if side == "left" else TopicPartition(ours, -1),
        None if side == "right" else TopicPartition(theirs, -1),
        difference=Difference(DifferenceKind.NO_PARTITION, detail),
    )


def _no_partition(
    left: TopicPartition, right: TopicPartition, on_left: bool, counts: str
) -> VerifiedPartition:
    side, other = ("right", left) if on_left else ("left", right)
    topic = right.topic if on_left else left.topic
    detail = (
        f'the {side} side\'s "{topic}" has no partition {other.partition}: the topics have '
        f"different numbers of partitions ({counts})"
    )
    return VerifiedPartition(
        left if on_left else None,
        None if on_left else right,
        difference=Difference(DifferenceKind.NO_PARTITION, detail),
    )


def within(
    extents: Extents, offsets: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, Extent]:
    """Return the extents that are asked for, as far as they are there."""
    found = {}
    for tp in extents.keys() & offsets.keys():
        (start, end), there = offsets[tp], extents[tp]
        start = min(max(start, there.start), there.end)
        found[tp] = Extent(start, min(max(start, end), there.end))
    return found


def planned(
    pairs: list[tuple[TopicPartition, TopicPartition]],
    left: Extents,
    right: Extents,
    alignment: Alignment | None,
) -> Iterator[Pair]:
    """Yield each pair with what is compared of it: all that both sides have, or, of the right side,
    what the alignment says and is still there.
    """
    for one, other in pairs:
        ours, theirs = left[one], right[other]
        if alignment is not None:
            start, end = alignment(one, ours.start, ours.end)
            if not 0 <= start <= end:
                raise ConfigError(
                    f"the alignment says {start}..{end} for {one}, offsets {ours.start}.."
                    f"{ours.end}: it returns a start and an end at or after it"
                )
            start = min(max(start, theirs.start), theirs.end)
            theirs = Extent(start, min(max(start, end), theirs.end))
        yield Pair(one, other, ours, theirs)
