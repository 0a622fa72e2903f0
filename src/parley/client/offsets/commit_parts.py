"""What OffsetCommit and TxnOffsetCommit have in common: offsets by topic, and what of them was
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from parley.client.cluster.refusals import refusal
from parley.client.results import ConsumerGroupMetadata
from parley.errors import KafkaError
from parley.errors.codes import GROUP_AUTHORIZATION_FAILED, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID
from parley.messages import Message
from parley.net import BrokerConnection, Reply
from parley.types import OffsetAndMetadata, TopicPartition

Part = TypeVar("Part")
R = TypeVar("R", bound=Message)
ACTIVE_GROUP = (ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID)
"""The answer of a group that has members of its own."""


class Answered(Protocol):
    """What a coordinator says of one partition."""

    partition_index: int
    error_code: int


def parts_by_topic(
    offsets: Mapping[TopicPartition, OffsetAndMetadata], make: Callable[..., Part]
) -> dict[str, list[Part]]:
    """Return the parts of a request, made by their class in the messages, by topic."""
    topics: dict[str, list[Part]] = {}
    for tp, at in offsets.items():
        part = make(
            partition_index=tp.partition,
            committed_offset=at.offset,
            committed_leader_epoch=at.leader_epoch,
            committed_metadata=at.metadata,
        )
        topics.setdefault(tp.topic, []).append(part)
    return topics


def refused_offsets(
    reply: Reply[R],
    topics: Iterable[tuple[str, Iterable[Answered]]],
    group: ConsumerGroupMetadata,
    conn: BrokerConnection,
) -> dict[TopicPartition, KafkaError]:
    """Return the errors of partitions whose offsets a coordinator did not take."""
    return {
        (tp := TopicPartition(name, part.partition_index)): _refusal(
            reply, part.error_code, tp, group, conn
        )
        for name, parts in topics
        for part in parts
        if part.error_code
    }


def _refusal(
    reply: Reply[R],
    code: int,
    tp: TopicPartition,
    group: ConsumerGroupMetadata,
    conn: BrokerConnection,
) -> KafkaError:
    active = group.outside and code in ACTIVE_GROUP
    said = f"group {group.group_id} has active members; only they may commit" if active else None
    resource = f"group {group.group_id}" if code == GROUP_AUTHORIZATION_FAILED else None
    return refusal(reply, code, said, tp, conn=conn, resource=resource)
