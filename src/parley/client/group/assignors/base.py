"""What an assignor is, what it knows of members and topics, and in which order members come.

Rules of this file:
1. Static members come first, by instance id, then dynamic ones, by member id; both in Java's order
   of texts, which is that of UTF-16 code units (G24).
2. A topic without metadata, without partitions or without subscribers is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from parley.client.group.formats import Subscription
from parley.types import TopicPartition

Racks: TypeAlias = frozenset[str]
"""The racks of a partition's replicas, offline ones included; empty where they are unknown."""

Topics: TypeAlias = Mapping[str, Sequence[Racks]]
"""For each topic that exists, one entry per partition."""

Assignment: TypeAlias = dict[str, list[TopicPartition]]
"""What each member gets, by member id; one who gets nothing has an empty list."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member as the leader sees it in the answer to its JoinGroup."""

    member_id: str
    subscription: Subscription
    instance_id: str | None = None


@runtime_checkable
class Assignor(Protocol):
    """How the leader of a group divides partitions; every member must offer the one that is chosen.

    `name` is what members offer in JoinGroup. With a `cooperative` one members keep what they own
    while the group rebalances (KIP-429); with others they give up everything before they join
    again. `assign` is called in another thread than the event loop's, once at a time: it may take
    long, and heartbeats go on.
    """

    @property
    def name(self) -> str: ...

    @property
    def cooperative(self) -> bool: ...

    def user_data(self, owned: Collection[TopicPartition], generation: int) -> bytes | None:
        """Return what to add to the subscription of a member that owned
        these in that generation.
        """

    def assign(self, topics: Topics, members: Sequence[Member]) -> Assignment:
        """Return what each member gets: an entry for every member, every partition once at most."""


def in_order(members: Iterable[Member]) -> list[Member]:
    """Return members in the order in which they take their turns (rule 1)."""
    return sorted(members, key=_turn)


def _turn(member: Member) -> tuple[bool, bytes]:
    dynamic = member.instance_id is None
    return dynamic, _utf16(member.member_id if member.instance_id is None else member.instance_id)


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def subscribers(topics: Topics, members: Sequence[Member]) -> dict[str, list[int]]:
    """Return who subscribes to each topic, as places in `members`; topics sorted (rule 2)."""
    found: dict[str, list[int]] = {}
    for place, member in enumerate(members):
        for topic in set(member.subscription.topics):
            if topics.get(topic):
                found.setdefault(topic, []).append(place)
    return dict(sorted(found.items()))
