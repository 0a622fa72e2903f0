"""The assignor "range": consecutive partitions of each topic, near members where racks matter.

Rules of this file:
1. Of n partitions each of m subscribers of a topic gets n // m, and the first n % m get one more
   (G25).
2. Topics with the same subscribers and as many partitions are divided alike, so that partitions of
   one number meet at one member: joins rely on it.
3. Where racks matter to one topic at least, partitions go first to members in a rack of their
   replicas, as far as rule 1 allows. Of topics divided alike the rack has to match all (G26).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from parley.client.group.assignors.base import (
    Assignment,
    Member,
    Racks,
    Topics,
    in_order,
    subscribers,
)
from parley.client.group.assignors.racks import racks_matter
from parley.types import TopicPartition


class RangeAssignor:
    """Divide each topic by itself: members get consecutive partitions, the first ones one more.

    Members with a `client.rack` are given partitions with a replica there first (KIP-881).
    """

    name = "range"
    cooperative = False

    def user_data(self, owned: Collection[TopicPartition], generation: int) -> None:
        """Return None: what members owned does not matter here."""

    def assign(self, topics: Topics, members: Sequence[Member]) -> Assignment:
        """Return what each member gets, sorted by topic and number."""
        ordered = in_order(members)
        by_topic = subscribers(topics, ordered)
        rack_of = [member.subscription.rack or None for member in ordered]
        near = {
            topic
            for topic, places in by_topic.items()
            if _racks_matter(topics[topic], places, rack_of)
        }
        owners: dict[str, Sequence[int]] = {}
        for alike in _divided_alike(topics, by_topic):
            divided = _Shares(by_topic[alike[0]], len(topics[alike[0]]))
            if near and len(alike) > 1:
                common = [
                    frozenset.intersection(*each)
                    for each in zip(*map(topics.__getitem__, alike), strict=True)
                ]
                divided.match_partitions(common, rack_of)
            elif alike[0] in near:
                divided.match_members(topics[alike[0]], rack_of)
            owners.update(dict.fromkeys(alike, divided.filled()))
        given: Assignment = {member.member_id: [] for member in ordered}
        shares = [given[member.member_id] for member in ordered]
        for topic in by_topic:
            for index, place in enumerate(owners[topic]):
                shares[place].append(TopicPartition(topic, index))
        return given


def _racks_matter(
    partitions: Sequence[Racks], places: Iterable[int], rack_of: Sequence[str | None]
) -> bool:
    return racks_matter({rack for place in places if (rack := rack_of[place])}, partitions)


def _divided_alike(topics: Topics, by_topic: Mapping[str, Sequence[int]]) -> Iterable[list[str]]:
    """Return topics in groups of the same subscribers and number of partitions (rule 2)."""
    found: dict[tuple[int, tuple[int, ...]], list[str]] = {}
    for topic, places in by_topic.items():
        found.setdefault((len(topics[topic]), tuple(places)), []).append(topic)
    return found.values()


class _Shares:
    """The partitions of topics that are divided alike, while they are handed out.

    `places` are the subscribers in their order. A place that has no room once never has room again:
    its count only grows, and how many may still get one more only falls.
    """

    def __init__(self, places: Sequence[int], partitions: int) -> None:
        self._each, self._one_more = divmod(partitions, len(places))
        self._count = dict.fromkeys(places, 0)
        self._owners: list[int | None] = [None] * partitions

    def _room(self, place: int) -> int:
        count = self._count[place]
        return max(self._each - count, 0) + (count <= self._each and self._one_more > 0)

    def _give(self, indexes: Sequence[int], place: int) -> None:
        before = self._count[place]
        for index in indexes:
            self._owners[index] = place
        self._count[place] += len(indexes)
        self._one_more -= before <= self._each < self._count[place]

    def match_partitions(self, racks: Sequence[Racks], rack_of: Sequence[str | None]) -> None:
        """Give each partition to the first subscriber with room in one of its
        racks, or without a rack.
        """
        waiting: dict[str | None, deque[int]] = {}
        for place in self._count:
            waiting.setdefault(rack_of[place], deque()).append(place)
        for index, near in enumerate(racks):
            queues = [waiting[rack] for rack in (None, *near) if rack in waiting]
            for queue in queues:
                while queue and not self._room(queue[0]):
                    queue.popleft()
            first = min((queue[0] for queue in queues if queue), default=None)
            if first is not None:
                self._give([index], first)

    def match_members(self, racks: Sequence[Racks], rack_of: Sequence[str | None]) -> None:
        """Give each subscriber the first free partitions in its rack; one
        without a rack takes any.
        """
        places = {rack_of[place] for place in self._count}
        free = {
            rack: iter([index for index, near in enumerate(racks) if rack is None or rack in near])
            for rack in places
        }
        for place in self._count:
            self._take(place, free[rack_of[place]])

    def filled(self) -> list[int]:
        """Give each subscriber in its turn what is left, and return the owner of each partition."""
        free = iter(range(len(self._owners)))
        for place in self._count:
            self._take(place, free)
        return [owner for owner in self._owners if owner is not None]

    def _take(self, place: int, free: Iterator[int]) -> None:
        without_owner = (index for index in free if self._owners[index] is None)
        self._give(list(islice(without_owner, self._room(place))), place)
