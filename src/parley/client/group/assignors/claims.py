"""What members owned before, as far as they may claim it: whoever held a partition last.

Rules of this file:
1. Of two claims to one partition that of the higher generation counts; two of one generation cancel
   each other, for neither can be believed (G28).
2. What cannot be read is no claim: a member of another client must not stop the group.
3. A claim to a partition that is gone, or of a topic that the member has left, is dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from parley.client.group.assignors.base import Member, Topics
from parley.client.group.formats import Subscription, by_topic
from parley.errors import RemoteProtocolError
from parley.types import TopicPartition
from parley.wire import Cursor, WriteBuffer

NO_GENERATION = -1
_GENERATION_BYTES = 4
_VERSION_IN_FRONT = b"\x00\x01"


@dataclass(frozen=True, slots=True)
class Claim:
    """The partitions that a member says it held, and the generation in which it did."""

    partitions: Collection[TopicPartition] = ()
    generation: int = NO_GENERATION


def encode_user_data(partitions: Collection[TopicPartition], generation: int) -> bytes:
    """Return the user data of "sticky": partitions by topic, then the generation (KIP-341)."""
    buffer = WriteBuffer()
    topics = by_topic(partitions)
    buffer.write_array_count(len(topics))
    for topic, indexes in topics.items():
        buffer.write_string(topic)
        buffer.write_array_count(len(indexes))
        for index in indexes:
            buffer.write_int32(index)
    buffer.write_int32(generation)
    return buffer.getvalue()


def decode_user_data(data: bytes | None) -> Claim:
    """Return the claim in the user data of "sticky"; its first version has no generation (KIP-54).

    kafka-python 3 writes a version in front, and nobody else: theirs would be 65,536 topics or
    more.
    """
    cursor = Cursor((data or b"").removeprefix(_VERSION_IN_FRONT))
    partitions: list[TopicPartition] = []
    try:
        for _ in range(cursor.read_array_count(6)):
            topic = cursor.read_string()
            indexes = cursor.read_numbers(max(0, cursor.read_array_count(4)), "i", 4)
            partitions.extend(TopicPartition(topic, index) for index in indexes)
        generation = (
            cursor.read_int32() if cursor.remaining() >= _GENERATION_BYTES else NO_GENERATION
        )
    except RemoteProtocolError:
        return Claim()
    return Claim(partitions, generation)


def encode_generation(generation: int) -> bytes:
    """Return the user data of "cooperative-sticky", for which older subscriptions have no field."""
    buffer = WriteBuffer()
    buffer.write_int32(generation)
    return buffer.getvalue()


def eager_claim(subscription: Subscription) -> Claim:
    """Return the claim of an eager member: it has given up what it owned, and
    its user data remembers.
    """
    return decode_user_data(subscription.user_data)


def cooperative_claim(subscription: Subscription) -> Claim:
    """Return the claim of a cooperative member.

    The generation is a field from version 2 on. Before, Java has it as user data, librdkafka in the
    user data of "sticky", kafka-python not at all (G68).
    """
    data = subscription.user_data
    if subscription.generation >= 0 or not data:
        generation = max(NO_GENERATION, subscription.generation)
    elif len(data) == _GENERATION_BYTES:
        generation = Cursor(data).read_int32()
    else:
        generation = decode_user_data(data).generation
    return Claim(subscription.owned, generation)


def held(
    topics: Topics, members: Sequence[Member], claims: Sequence[Claim]
) -> list[list[TopicPartition]]:
    """Return for each member what it held and may keep, in the order in which it says so."""
    owners: dict[TopicPartition, int | None] = {}
    generations: dict[TopicPartition, int] = {}
    for place, claim in enumerate(claims):
        for partition in dict.fromkeys(claim.partitions):
            known = generations.get(partition)
            if known is None or claim.generation > known:
                owners[partition] = place
                generations[partition] = claim.generation
            elif claim.generation == known:
                owners[partition] = None
    wanted = [set(member.subscription.topics) for member in members]
    kept: list[list[TopicPartition]] = [[] for _ in members]
    for partition, owner in owners.items():
        topic, index = partition
        if owner is not None and topic in wanted[owner] and 0 <= index < len(topics.get(topic, ())):
            kept[owner].append(partition)
    return kept
