"""The bytes in which members of the classic protocol say what they want, and hear what they own."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from parley.devcluster.state.groups.classic.group import ClassicGroup
from parley.devcluster.state.groups.modern.assignors import Part
from parley.errors import RemoteProtocolError
from parley.messages import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_body,
    encode_body,
)

CONSUMER_PROTOCOL = "consumer"
"""The protocol type whose members use these bytes."""

NEWEST_VERSION = 3


def version_of(data: bytes) -> int:
    """Return the version in which bytes are to be read. Raises
    RemoteProtocolError where they have none.
    """
    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) < 2 or version < 0:
        raise RemoteProtocolError(
            f"{len(data)} bytes of a consumer's subscription or assignment have no version"
        )
    return min(version, NEWEST_VERSION)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Return a subscription. Raises RemoteProtocolError."""
    return decode_body(ConsumerProtocolSubscription, version_of(data), data[2:], trailing=True)


def subscribes(group: ClassicGroup, topic: str) -> bool:
    """Whether a member of a group subscribes to a topic; one whose subscription
    cannot be read may do so.
    """
    if group.protocol_type != CONSUMER_PROTOCOL:
        return False
    return any(_names(member.metadata(group.protocol), topic) for member in group.members.values())


def _names(subscription: bytes, topic: str) -> bool:
    try:
        return topic in read_subscription(subscription).topics
    except RemoteProtocolError:
        return True


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Return an assignment; no bytes are one of nothing. Raises RemoteProtocolError."""
    if not data:
        return ConsumerProtocolAssignment()
    return decode_body(ConsumerProtocolAssignment, version_of(data), data[2:], trailing=True)


def write_assignment(parts: Collection[Part], names: Mapping[bytes, str], version: int) -> bytes:
    """Return the bytes of an assignment; a topic without a name is gone, and left out."""
    topics: dict[str, list[int]] = {}
    for topic_id, index in sorted(parts):
        if topic_id in names:
            topics.setdefault(names[topic_id], []).append(index)
    kind = ConsumerProtocolAssignment
    listed = [
        kind.TopicPartition(topic=name, partitions=indexes) for name, indexes in topics.items()
    ]
    body = encode_body(kind(assigned_partitions=listed, user_data=None), version)
    return version.to_bytes(2, "big") + b"".join(body)
