"""What a cooperative assignor must not hand out yet: partitions that another member still reads."""

from __future__ import annotations

from collections.abc import Sequence

from parley.client.group.assignors.claims import Claim
from parley.types import TopicPartition


def withhold(
    given: Sequence[Sequence[TopicPartition]], claims: Sequence[Claim]
) -> list[list[TopicPartition]]:
    """Return what each member may have now: not what another claims in the same or a later
    generation (G31).

    Who claims a partition in an older generation than its new owner does lost it without noticing,
    and does not count.

    >>> a, b = TopicPartition("t", 0), TopicPartition("t", 1)
    >>> withhold([[a], [b]], [Claim([a, b], 5), Claim([], -1)])
    [[TopicPartition(topic='t', partition=0)], []]
    """
    claimants: dict[TopicPartition, list[int]] = {}
    for place, claim in enumerate(claims):
        for partition in set(claim.partitions):
            claimants.setdefault(partition, []).append(place)

    def is_free(partition: TopicPartition, owner: int) -> bool:
        places = claimants.get(partition, [])
        own = claims[owner].generation if owner in places else None
        return all(
            place == owner or (own is not None and claims[place].generation < own)
            for place in places
        )

    return [
        [partition for partition in partitions if is_free(partition, owner)]
        for owner, partitions in enumerate(given)
    ]
