"""The assignors "sticky" (KIP-54, KIP-341) and "cooperative-sticky" (KIP-429)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from parley.client.group.assignors.balance import balance
from parley.client.group.assignors.base import Assignment, Member, Topics, in_order, subscribers
from parley.client.group.assignors.claims import (
    Claim,
    cooperative_claim,
    eager_claim,
    encode_generation,
    encode_user_data,
    held,
)
from parley.client.group.assignors.cooperative import withhold
from parley.client.group.assignors.racks import Nearness, racks_matter
from parley.types import TopicPartition


class StickyAssignor:
    """Divide as evenly as subscriptions allow, and leave members as much as possible of what they
    had.

    Members give up all partitions before a rebalance; what they had they report as user data.
    Members with a `client.rack` get partitions with a replica there, as far as an even division
    allows, before they keep others (KIP-881).
    """

    name = "sticky"
    cooperative = False

    def user_data(self, owned: Collection[TopicPartition], generation: int) -> bytes | None:
        """Return what a member had, for the next leader; None for one that
        was in no generation yet.
        """
        return encode_user_data(owned, generation) if owned or generation >= 0 else None

    def assign(self, topics: Topics, members: Sequence[Member]) -> Assignment:
        """Return what each member gets, sorted by topic and number."""
        ordered = in_order(members)
        return _divided(topics, ordered, [eager_claim(member.subscription) for member in ordered])


class CooperativeStickyAssignor:
    """Divide as "sticky" does, by racks too, while members go on reading what they keep.

    A partition that moves is given to nobody at first: its owner learns from the answer that it has
    to give it up, and joins again when it has. The new owner gets it in that next generation.
    """

    name = "cooperative-sticky"
    cooperative = True

    def user_data(self, owned: Collection[TopicPartition], generation: int) -> bytes:
        """Return the generation, for leaders that do not read its field (Java before 3.4)."""
        return encode_generation(generation)

    def assign(self, topics: Topics, members: Sequence[Member]) -> Assignment:
        """Return what each member may have now, sorted by topic and number."""
        ordered = in_order(members)
        claims = [cooperative_claim(member.subscription) for member in ordered]
        given = _divided(topics, ordered, claims)
        return dict(zip(given, withhold(list(given.values()), claims), strict=True))


def _divided(topics: Topics, members: Sequence[Member], claims: Sequence[Claim]) -> Assignment:
    by_topic = subscribers(topics, members)
    counts = {topic: len(topics[topic]) for topic in by_topic}
    rack_of = [member.subscription.rack or None for member in members]
    partitions = [racks for topic in by_topic for racks in topics[topic]]
    matter = racks_matter({rack for rack in rack_of if rack}, partitions)
    near = Nearness(topics, rack_of) if matter else None
    found = balance(counts, by_topic, held(topics, members, claims), near)
    return {member.member_id: partitions for member, partitions in zip(members, found, strict=True)}
