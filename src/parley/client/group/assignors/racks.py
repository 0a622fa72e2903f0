"""When racks matter to an assignment, and which partitions are near to whom (KIP-881)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from parley.client.group.assignors.base import Racks, Topics
from parley.types import TopicPartition


def racks_matter(of_members: Collection[str], of_partitions: Collection[Racks]) -> bool:
    """Whether it matters which member gets which partition: one is near to some, but not to all.

    >>> racks_matter({"a"}, [frozenset({"a"}), frozenset({"b"})])
    True
    >>> racks_matter({"a"}, [frozenset({"a", "b"}), frozenset({"a", "b"})])
    False
    """
    everywhere = frozenset[str]().union(*of_partitions)
    return not everywhere.isdisjoint(of_members) and any(
        racks != everywhere for racks in of_partitions
    )


def is_far(rack: str | None, racks: Racks) -> bool:
    """Whether a member has a rack that no replica of a partition is in."""
    return rack is not None and rack not in racks


class Nearness:
    """Which partitions have a replica in the rack of a member. To one without a rack all are near.

    `rack_of` are the racks of members by their places.
    """

    def __init__(self, topics: Topics, rack_of: Sequence[str | None]) -> None:
        self._topics, self.rack_of = topics, rack_of

    def racks(self, partition: TopicPartition) -> Racks:
        """Return the racks of a partition's replicas."""
        return self._topics[partition.topic][partition.partition]

    def far(self, partition: TopicPartition, place: int) -> bool:
        """Whether a partition is far from a member."""
        return is_far(self.rack_of[place], self.racks(partition))
