"""The division that is as even as subscriptions allow and moves little, for both sticky assignors.

Rules of this file:
1. Members keep what they held. What is free goes to the subscriber with the least, topics with the
   fewest subscribers first, for their choice is the smallest.
2. Then the member with the most, L partitions, gives one to a subscriber of its topic with L - 2 or
   less; or, where none has so few, along a chain: a partition from it to a second member, another
   from there to a third, and so on. Each step makes the sum of the squares of all loads smaller, so
   this ends (G30).
3. If there is no chain, all members that one could reach have L - 1 at least and cannot pass
   anything on to others: they are settled, and stay so, for nobody has more than L afterwards.
4. First only what was free moves, and what members held only when that has come to its end. So who
   gave up what it had to in a cooperative rebalance gives up nothing more in the next one.
5. Of a topic a member gives first what it just got, then the partition with the highest number.
6. Where racks matter (KIP-881), what is free goes first to members in a rack of its replicas, as
   long as they have less than an even share; afterwards whatever is far from its owner is brought
   near where no load changes for it (`near`). So evenness comes before nearness, and nearness
   before what members held; but what is not brought nearer stays where it was.

When all are settled no other division has a smaller sum of squares; with equal subscriptions loads
differ by one at most. (A semi-matching is optimal if no path improves it: Harvey, Ladner, Lovász
and Tamir, 2006.)
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeAlias, TypeVar

from parley.client.group.assignors.base import Racks
from parley.client.group.assignors.give_back import give_back
from parley.client.group.assignors.near import bring_near
from parley.client.group.assignors.racks import Nearness
from parley.types import TopicPartition

_Parts: TypeAlias = list[dict[str, list[int]]]
"""By member and topic the numbers of partitions; a topic of which there are none has no entry."""
_Move: TypeAlias = tuple[int, str, int]
"""Who gives, of which topic, to whom."""


def balance(
    counts: Mapping[str, int],
    subscribers: Mapping[str, Sequence[int]],
    held: Sequence[Iterable[TopicPartition]],
    near: Nearness | None = None,
) -> list[list[TopicPartition]]:
    """Return each member's partitions, sorted, with what need not have moved given back.

    `counts` are the partitions of each topic, `subscribers` the members of each topic, as places in
    `held`, which has what each member held and may keep; `near` is None where racks do not matter.
    """
    division = _Division(subscribers, held)
    division.fill(counts, near)
    division.settle(with_kept=False)
    division.settle(with_kept=True)
    found = give_back(division.result(), subscribers, held, near)
    # ends: each time one partition more is near, at least
    while near is not None and (nearer := bring_near(found, subscribers, held, near)) is not None:
        found = give_back(nearer, subscribers, held, near)
    return found


class _Division:
    """Who has what at the moment: what it kept, and what it got."""

    def __init__(
        self, subscribers: Mapping[str, Sequence[int]], held: Sequence[Iterable[TopicPartition]]
    ) -> None:
        self._subscribers = subscribers
        self._kept: _Parts = [{} for _ in held]
        self._got: _Parts = [{} for _ in held]
        for topics, partitions in zip(self._kept, held, strict=True):
            for topic, index in sorted(partitions):
                topics.setdefault(topic, []).append(index)
        self._loads = [sum(map(len, topics.values())) for topics in self._kept]
        self._least = _Least(subscribers, self._loads)

    def result(self) -> list[list[TopicPartition]]:
        """Return what each member has."""
        return [
            [
                TopicPartition(topic, index)
                for part in parts
                for topic in part
                for index in part[topic]
            ]
            for parts in zip(self._kept, self._got, strict=True)
        ]

    def fill(self, counts: Mapping[str, int], near: Nearness | None) -> None:
        """Give what nobody kept to the least loaded (rules 1 and 6)."""
        taken: dict[str, set[int]] = {topic: set() for topic in counts}
        for topics in self._kept:
            for topic, indexes in topics.items():
                taken[topic].update(indexes)
        free = [
            TopicPartition(topic, index)
            for topic in sorted(
                self._subscribers, key=lambda topic: (len(self._subscribers[topic]), topic)
            )
            for index in range(counts[topic])
            if index not in taken[topic]
        ]
        if near is not None:
            self._fill_near(free, sum(counts.values()), near)
            return
        for topic, index in free:
            self._put(self._least.of(topic), topic, index)

    def _fill_near(self, free: Sequence[TopicPartition], count: int, near: Nearness) -> None:
        """Give partitions to members that they are near to and that have room, then the rest.

        Those that are near to the fewest come first, for their choice is the smallest.
        """
        takers: dict[tuple[str, Racks], list[int]] = {}
        for partition in free:
            topic, racks = partition.topic, near.racks(partition)
            if (topic, racks) not in takers:
                places = self._subscribers[topic]
                takers[topic, racks] = [one for one in places if not near.far(partition, one)]
        least = _Least({kind: places for kind, places in takers.items() if places}, self._loads)
        each, one_more = divmod(count, len(self._loads))
        one_more -= sum(load > each for load in self._loads)
        left = []
        order = sorted((len(takers[one.topic, near.racks(one)]), at) for at, one in enumerate(free))
        for choices, at in order:
            topic, index = free[at]
            place = least.of((topic, near.racks(free[at]))) if choices else -1
            if place < 0 or self._loads[place] >= each + (one_more > 0):
                left.append(at)
                continue
            self._put(place, topic, index)
            one_more -= self._loads[place] > each
        for at in sorted(left):
            topic, index = free[at]
            place, kind = self._least.of(topic), (topic, near.racks(free[at]))
            if takers[kind] and self._loads[least.of(kind)] == self._loads[place]:
                place = least.of(kind)
            self._put(place, topic, index)

    def settle(self, *, with_kept: bool) -> None:
        """Move partitions until no move narrows a gap (rules 2 to 4)."""
        given = [self._got, self._kept] if with_kept else [self._got]
        settled = [False] * len(self._loads)
        self._least.forget()
        most = [(-load, place) for place, load in enumerate(self._loads)]
        heapq.heapify(most)
        while most:
            load, place = -most[0][0], most[0][1]
            if settled[place] or load != self._loads[place]:
                heapq.heappop(most)
                continue
            for giver, topic, taker in self._direct(place, given) or self._chain(
                place, given, settled
            ):
                self._move(giver, topic, taker)
                heapq.heappush(most, (-self._loads[giver], giver))
                heapq.heappush(most, (-self._loads[taker], taker))

    def _direct(self, giver: int, given: Sequence[_Parts]) -> list[_Move]:
        """Return the move to a subscriber that has two less, as a chain of
        one; empty where none has.
        """
        for parts in given:
            choices = []
            for topic, indexes in parts[giver].items():
                taker = self._least.of(topic)
                if self._loads[taker] <= self._loads[giver] - 2:
                    choices.append((-self._loads[taker], indexes[-1], topic, taker))
            if choices:
                _, _, topic, taker = max(choices)
                return [(giver, topic, taker)]
        return []

    def _chain(self, giver: int, given: Sequence[_Parts], settled: list[bool]) -> list[_Move]:
        """Return the shortest chain to a member that has two less, or settle
        all that were reached.
        """
        came_from: dict[int, tuple[int, str]] = {}
        reached, topics = [giver], set[str]()
        for place in reached:  # which grows meanwhile
            for topic in sorted({topic for parts in given for topic in parts[place]} - topics):
                topics.add(topic)
                for taker in self._subscribers[topic]:
                    if taker == giver or taker in came_from or settled[taker]:
                        continue
                    came_from[taker] = place, topic
                    if self._loads[taker] <= self._loads[giver] - 2:
                        return _back(taker, giver, came_from)
                    reached.append(taker)
        for place in reached:
            settled[place] = True
        return []

    def _move(self, giver: int, topic: str, taker: int) -> None:
        """Take one partition of a topic from a member and give it to another (rule 5)."""
        part = self._got[giver] if topic in self._got[giver] else self._kept[giver]
        index = part[topic].pop()
        if not part[topic]:
            del part[topic]
        self._loads[giver] -= 1
        self._put(taker, topic, index)

    def _put(self, taker: int, topic: str, index: int) -> None:
        self._got[taker].setdefault(topic, []).append(index)
        self._loads[taker] += 1


def _back(taker: int, giver: int, came_from: Mapping[int, tuple[int, str]]) -> list[_Move]:
    """Return the moves of a chain, the last one first: each giver still has what it gives."""
    moves = []
    while taker != giver:
        place, topic = came_from[taker]
        moves.append((place, topic, taker))
        taker = place
    return moves


_Key = TypeVar("_Key")


class _Least(Generic[_Key]):
    """The subscriber of each topic that has the least: a heap for all topics with the same
    subscribers.

    Loads on a heap are corrected when they come to its top. One that is too large stays where it
    is: it is that of a member which gave, and nobody gives to that one before `forget`, for it has
    the most or one less.
    """

    def __init__(self, subscribers: Mapping[_Key, Sequence[int]], loads: Sequence[int]) -> None:
        self._loads = loads
        audiences: dict[tuple[int, ...], int] = {}
        self._audience = {
            topic: audiences.setdefault(tuple(places), len(audiences))
            for topic, places in subscribers.items()
        }
        self._places = list(audiences)
        self._heaps: dict[int, list[tuple[int, int]]] = {}

    def of(self, topic: _Key) -> int:
        """Return the subscriber of a topic with the smallest load, the first of several."""
        audience = self._audience[topic]
        heap = self._heaps.get(audience)
        if heap is None:
            heap = self._heaps[audience] = [
                (self._loads[place], place) for place in self._places[audience]
            ]
            heapq.heapify(heap)
        while heap[0][0] != self._loads[heap[0][1]]:
            heapq.heapreplace(heap, (self._loads[heap[0][1]], heap[0][1]))
        return heap[0][1]

    def forget(self) -> None:
        """Read all loads again."""
        self._heaps.clear()
