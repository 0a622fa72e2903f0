"""What need not have moved: partitions go back to who held them, where nobody has more for it.

Rules of this file:
1. A partition goes back to a holder that has less than who got it, or in exchange for one that the
   holder just got and the other may have.
2. Loads stay the same numbers, though of other members: what was even stays so.
3. Where racks matter, no partition goes away from a rack of its replicas for it (KIP-881).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from parley.client.group.assignors.racks import Nearness
from parley.types import TopicPartition


def give_back(
    division: Sequence[Sequence[TopicPartition]],
    subscribers: Mapping[str, Iterable[int]],
    held: Sequence[Iterable[TopicPartition]],
    near: Nearness | None = None,
) -> list[list[TopicPartition]]:
    """Return each member's partitions, sorted.

    `division` is one that no move makes more even: who got a partition has one more than its holder
    at most.
    """
    wanted = {topic: set(places) for topic, places in subscribers.items()}
    holders = {one: place for place, partitions in enumerate(held) for one in partitions}
    loads = [len(partitions) for partitions in division]
    own = [
        {one for one in partitions if holders.get(one) == place}
        for place, partitions in enumerate(division)
    ]
    got = [
        dict.fromkeys(one for one in each if one not in own[place])
        for place, each in enumerate(division)
    ]
    again = True
    while again:  # ends: each time more partitions are where they were
        again = False
        moved = [
            (place, one, holders[one])
            for place, each in enumerate(got)
            for one in each
            if one in holders
        ]
        for place, partition, holder in moved:
            if partition not in got[place] or _worse(near, partition, place, holder):
                continue
            has_less = loads[holder] < loads[place]
            other = next(
                (
                    one
                    for one in got[holder]
                    if place in wanted[one.topic] and not _worse(near, one, holder, place)
                ),
                None,
            )
            if not (has_less or other):
                continue
            again = True
            del got[place][partition]
            own[holder].add(partition)
            if has_less:
                loads[holder], loads[place] = loads[place], loads[holder]
            elif other is not None:
                del got[holder][other]
                if holders.get(other) == place:
                    own[place].add(other)
                else:
                    got[place][other] = None
    return [sorted(own[place].union(got[place])) for place in range(len(division))]


def _worse(near: Nearness | None, partition: TopicPartition, owner: int, other: int) -> bool:
    """Whether a partition is near to its owner, and not to another member."""
    return near is not None and near.far(partition, other) and not near.far(partition, owner)
