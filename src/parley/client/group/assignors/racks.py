"""When racks matter to an assignment (KIP-881)."""

from __future__ import annotations

from collections.abc import Collection

from parley.client.group.assignors.base import Racks


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
