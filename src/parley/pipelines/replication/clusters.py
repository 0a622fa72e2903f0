"""What a replication has to know of both clusters before it copies."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from parley.client import (
    EARLIEST,
    LATEST,
    AsyncClient,
    ClusterMetadata,
    TopicPartition,
    rewound,
)
from parley.errors import ConfigError, DataLossError, TopicRecreatedError
from parley.pipelines.replication.chunks import Position
from parley.pipelines.replication.lane import Lane
from parley.pipelines.replication.options import FAIL, LATEST_START, ReplicationOptions
from parley.pipelines.replication.store import Known
from parley.pipelines.replication.writers import READ_COMMITTED, READ_UNCOMMITTED
from parley.types import ZERO_UUID
from parley.versions import Feature

log = logging.getLogger("parley.pipelines")


async def isolation_of(source: AsyncClient) -> str:
    """Return how the source is read: what is committed, where it has transactions."""
    committed = await source.supports(Feature.READ_COMMITTED)
    return READ_COMMITTED if committed else READ_UNCOMMITTED


def wanted_topics(source: ClusterMetadata, options: ReplicationOptions) -> list[str]:
    """Return the topics to copy. Raises ConfigError for one that is named and not there."""
    missing = sorted(set(options.topics) - set(source.topics))
    if missing:
        raise ConfigError(f"the source has no topic {', '.join(missing)}")
    internal = {name for name, topic in source.topics.items() if topic.is_internal}
    return sorted(
        name
        for name in source.topics
        if options.wants(name) and (name in options.topics or name not in internal)
    )


def partitions_of(metadata: ClusterMetadata, topics: Iterable[str]) -> list[TopicPartition]:
    """Return all partitions of some topics."""
    return [
        TopicPartition(topic, index)
        for topic in topics
        for index in sorted(metadata.topics[topic].partitions)
    ]


async def ends_of(
    source: AsyncClient, partitions: Iterable[TopicPartition], isolation_level: str
) -> dict[TopicPartition, int]:
    """Return where partitions end now."""
    wanted = dict.fromkeys(partitions, LATEST)
    found = await source.list_offsets(wanted, isolation_level=isolation_level)
    return {tp: answer.offset for tp, answer in found.items()}


async def lanes_of(
    source: AsyncClient,
    metadata: tuple[ClusterMetadata, ClusterMetadata],
    partitions: Iterable[TopicPartition],
    known: Known,
    options: ReplicationOptions,
    isolation_level: str,
) -> list[Lane]:
    """Return a lane for each partition, where it was left or where it begins: at the end only what
    is there when a replication with start="latest" is started for the first time.

    Raises TopicRecreatedError where a topic is another one than was copied, DataLossError where the
    source has deleted what was still to be copied.
    """
    partitions = list(partitions)
    begins = await source.list_offsets(dict.fromkeys(partitions, EARLIEST))
    ends: Mapping[TopicPartition, int] = {}
    if options.start == LATEST_START and not known.is_settled:
        ends = await ends_of(source, partitions, isolation_level)
    found = []
    for tp in partitions:
        first = begins[tp].offset
        ids = (metadata[0].topic_id(tp.topic), metadata[1].topic_id(tp.topic))
        copied = known.copied.get(tp)
        left = known.begins.get(tp) if copied is None else copied.newest.position
        if left is None:
            found.append(Lane(tp, Position(ends.get(tp, first), -1, *ids)))
            continue
        check_same(tp, left, metadata, ids)
        position = _still_there(
            tp, left._replace(topic_id=ids[0], target_id=ids[1]), first, options
        )
        lane = Lane(tp, position, *(copied or ()))
        lane.begin = first
        found.append(lane)
    return found


def _still_there(
    tp: TopicPartition, position: Position, first: int, options: ReplicationOptions
) -> Position:
    """Return where copying goes on in a source that begins at `first` by now."""
    if position.next_offset >= first:
        return position
    if options.on_data_loss == FAIL:
        raise DataLossError(
            f"{tp}: the source has deleted the offsets {position.next_offset} to {first - 1}, "
            'which were not copied yet; on_data_loss="go-on" copies what is left',
            topic=tp.topic,
            partition=tp.partition,
            expected_offset=position.next_offset,
            available_offset=first,
        )
    log.warning("%s: offsets %d to %d are lost", tp, position.next_offset, first - 1)
    return position._replace(next_offset=first, leader_epoch=-1)


def check_same(
    tp: TopicPartition,
    position: Position,
    metadata: tuple[ClusterMetadata, ClusterMetadata],
    ids: tuple[bytes, bytes],
) -> None:
    """Raise TopicRecreatedError where a topic of either cluster is another one by now."""
    check_ids(tp, position, ids)
    leader = metadata[0].partition(tp)
    if (
        ids[0] == ZERO_UUID
        and leader is not None
        and rewound(position.leader_epoch, leader.leader_epoch)
    ):
        raise _recreated("source", tp, position, b"", b"")


def check_ids(tp: TopicPartition, position: Position, ids: tuple[bytes, bytes]) -> None:
    """Do the same by the topics' ids alone."""
    held = (position.topic_id, position.target_id)
    for side, before, now in zip(("source", "target"), held, ids, strict=True):
        if ZERO_UUID not in (before, now) and before != now:
            raise _recreated(side, tp, position, before, now)


def _recreated(
    side: str, tp: TopicPartition, position: Position, before: bytes, now: bytes
) -> TopicRecreatedError:
    return TopicRecreatedError(
        f"{tp}: the topic of the {side} was deleted and created again since offset "
        f"{position.next_offset - 1} was copied; both histories are not mixed. Delete the target's "
        "topic and copy under another name",
        topic=tp.topic,
        partition=tp.partition,
        expected_offset=position.next_offset,
        planned_id=before,
        found_id=now,
    )


def cluster_ids(
    metadata: Mapping[str, ClusterMetadata], options: ReplicationOptions
) -> tuple[str | None, str | None]:
    """Return the ids of source and target. Raises ConfigError where two ways need one that is not
    known.
    """
    source = options.source_id or metadata["source"].cluster_id
    target = options.target_id or metadata["target"].cluster_id
    if options.two_way:
        for name, found in (("source", source), ("target", target)):
            if found is None:
                raise ConfigError(
                    f"the {name} has no cluster id (Kafka 0.10.1): give {name}_id for two_way"
                )
    if source is not None and source == target:
        raise ConfigError(f"source and target are the same cluster, {source}")
    return source, target
