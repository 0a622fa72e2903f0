"""ConsumerGroupHeartbeat: what a member says, all of it when it joins, and after
that only what is new (G47).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from parley.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from parley.types import TopicPartition

JOINING = 0
LEAVING = -1
LEAVING_FOR_A_WHILE = -2
"""Of a static member, which may come back (G56)."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a member says of itself."""

    group_id: str
    member_id: str
    group_instance_id: str | None = None
    rebalance_timeout_ms: int = 300_000
    rack: str = ""
    server_assignor: str | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """What the coordinator knows of a member once it has answered."""

    topics: frozenset[str]
    owned: frozenset[TopicPartition]


def heartbeat_request(
    who: Standing, epoch: int, now: Said, before: Said | None, topic_ids: Mapping[str, bytes]
) -> ConsumerGroupHeartbeatRequest:
    """Return the heartbeat of a member; without `before` it says everything, as when
    joining and after a failure.
    """
    whole = before is None or epoch == JOINING
    return ConsumerGroupHeartbeatRequest(
        group_id=who.group_id,
        member_id=who.member_id,
        member_epoch=epoch,
        instance_id=who.group_instance_id,
        rack_id=who.rack or None if whole else None,
        rebalance_timeout_ms=who.rebalance_timeout_ms if whole else -1,
        subscribed_topic_names=sorted(now.topics)
        if before is None or whole or now.topics != before.topics
        else None,
        server_assignor=who.server_assignor if whole else None,
        topic_partitions=(
            _by_topic(now.owned, topic_ids)
            if before is None or whole or now.owned != before.owned
            else None
        ),
    )


def asks_for_partitions(epoch: int, now: Said, before: Said | None) -> bool:
    """Return whether a heartbeat lets the coordinator give this member partitions that others have
    to give up first (G52): it joins, or subscribes to other topics.
    """
    return epoch == JOINING or (before is not None and now.topics != before.topics)


def leaving_request(who: Standing, epoch: int) -> ConsumerGroupHeartbeatRequest:
    """Return the heartbeat that ends a membership."""
    return ConsumerGroupHeartbeatRequest(
        group_id=who.group_id,
        member_id=who.member_id,
        member_epoch=epoch,
        instance_id=who.group_instance_id,
    )


def _by_topic(
    owned: Collection[TopicPartition], topic_ids: Mapping[str, bytes]
) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
    grouped: dict[bytes, list[int]] = {}
    for tp in sorted(owned):
        grouped.setdefault(topic_ids[tp.topic], []).append(tp.partition)
    make = ConsumerGroupHeartbeatRequest.TopicPartitions
    return [make(topic_id=topic, partitions=parts) for topic, parts in grouped.items()]


def target_of(answer: ConsumerGroupHeartbeatResponse) -> frozenset[tuple[bytes, int]] | None:
    """Return the partitions that a coordinator wants a member to have, by topic id; None where
    nothing is new.

    Each once, and none below 0 (G61): a partition that was given twice would be begun again.
    """
    if answer.assignment is None:
        return None
    found = answer.assignment.topic_partitions
    return frozenset(
        (bytes(topic.topic_id), part) for topic in found for part in topic.partitions if part >= 0
    )
