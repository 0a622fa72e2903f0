"""What members of a group write for each other: subscriptions in JoinGroup, assignments in
SyncGroup.

Rules of this file:
1. The bytes are a contract between clients, not with the broker: any member may lead (G67).
2. A reader takes a version above the last one as the last one and ignores the rest (G21).
3. Foreign bytes cause RemoteProtocolError and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from parley.errors import RemoteProtocolError
from parley.messages import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    Message,
    decode_body,
    encode_body,
)
from parley.types import TopicPartition

VERSION = 3
"""The last version of both: owned partitions came with 1, the generation
with 2, the rack with 3.
"""
_PREFIX_BYTES = 2

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member writes into JoinGroup.

    `user_data` belongs to the assignor. `owned` are the partitions that the member holds (KIP-429)
    since `generation`, which is -1 where it is unknown (KIP-792). `rack` is its `client.rack`
    (KIP-881).
    """

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    rack: str | None = None


def encode_subscription(subscription: Subscription) -> bytes:
    """Return a subscription in version 3, topics and owned partitions sorted as Java sorts them.

    Raises LocalProtocolError for what the format cannot hold, such as a name of 40,000 bytes.
    """
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(sorted(subscription.owned)).items()
        ],
        generation_id=subscription.generation,
        rack_id=subscription.rack,
    )
    return _encoded(message)


def decode_subscription(data: bytes) -> Subscription:
    """Return the subscription that a member wrote, in any version.

    Raises RemoteProtocolError when the bytes are none.
    """
    message = _decoded(ConsumerProtocolSubscription, data)
    return Subscription(
        topics=tuple(message.topics),
        user_data=None if message.user_data is None else bytes(message.user_data),
        owned=_partitions((item.topic, item.partitions) for item in message.owned_partitions),
        generation=message.generation_id,
        rack=message.rack_id or None,
    )


def encode_assignment(
    partitions: Sequence[TopicPartition], user_data: bytes | None = None
) -> bytes:
    """Return an assignment in version 3, topics in the order of their first partition (G20).

    Raises LocalProtocolError for what the format cannot hold.
    """
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(partitions).items()
        ],
        user_data=user_data,
    )
    return _encoded(message)


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions that the leader gave to a member, in its order, each once.

    No bytes at all are no partitions: brokers send that to a member which the leader left out
    (G10). Raises RemoteProtocolError when the bytes are no assignment.
    """
    if not data:
        return ()
    message = _decoded(ConsumerProtocolAssignment, data)
    return _partitions((item.topic, item.partitions) for item in message.assigned_partitions)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return partitions by topic, both in the order of their first occurrence.

    >>> by_topic([TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("b", 0)])
    {'b': [1, 0], 'a': [0]}
    """
    found: dict[str, list[int]] = {}
    for topic, index in partitions:
        found.setdefault(topic, []).append(index)
    return found


def _encoded(message: Message) -> bytes:
    return b"".join([VERSION.to_bytes(_PREFIX_BYTES, "big"), *encode_body(message, VERSION)])


def _decoded(message: type[M], data: bytes) -> M:
    version = int.from_bytes(data[:_PREFIX_BYTES], "big", signed=True)
    if len(data) < _PREFIX_BYTES or version < 0:
        raise RemoteProtocolError(
            f"{message.__name__}: {len(data)} bytes that begin with "
            f"{data[:_PREFIX_BYTES].hex() or 'nothing'} "
            "have no version: the client that wrote them is broken, or the group is of "
            "another protocol"
        )
    return decode_body(message, min(version, VERSION), data[_PREFIX_BYTES:], trailing=True)


def _partitions(items: Iterable[tuple[str, Iterable[int]]]) -> tuple[TopicPartition, ...]:
    found: dict[TopicPartition, None] = {}
    for topic, indexes in items:
        for index in indexes:
            if index < 0:
                raise RemoteProtocolError(
                    f"partition {index} of topic {topic!r}: partitions are numbered from 0"
                )
            found[TopicPartition(topic, index)] = None
    return tuple(found)
