"""Partitions moved to members in a rack of their replicas, where no load changes for it (KIP-881).

Rules of this file:
1. A partition that is far from its owner moves to a member that it is near to, which gives one to
   another member, and so on, until the owner gets one back. No step but the first may change
   whether a partition is near, unless for the better. So each chain makes one partition less far,
   and this ends.
2. A member with one partition less than another may keep what it gets, and the other one gives in
   its place. So loads stay the same numbers, though of other members: what was even stays so.
3. Members with the same rack and topics are one class, partitions of one topic with the same racks
   one kind: a chain is looked for among classes, which are few. Where they are many, it ends after
   `MOST_STEPS`: whatever is far then stays so.
4. Of a kind a member gives first what it just got.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from parley.client.group.assignors.racks import Nearness, is_far
from parley.types import TopicPartition

MOST_STEPS = 500_000
"""Pairs of classes that are looked at, about a second's work."""

_Kind: TypeAlias = tuple[str, frozenset[str]]
"""A topic, and the racks of some of its partitions."""


class _Class(NamedTuple):
    """Members that may have the same partitions, and are near to the same ones."""

    rack: str | None
    topics: frozenset[str]

    def takes(self, kind: _Kind) -> bool:
        return kind[0] in self.topics

    def far(self, kind: _Kind) -> bool:
        return is_far(self.rack, kind[1])


class _Step(NamedTuple):
    """A class gives one of a kind to the next one of a chain, the last one to its beginning; or,
    with None, it keeps what it got, and the next one gives in its place."""

    giver: _Class
    kind: _Kind | None


def bring_near(
    division: Sequence[Sequence[TopicPartition]],
    subscribers: Mapping[str, Iterable[int]],
    held: Sequence[Iterable[TopicPartition]],
    near: Nearness,
) -> list[list[TopicPartition]] | None:
    """Return each member's partitions; None where nothing can be brought nearer.

    `division` is one that no move makes more even.
    """
    search = _Search(division, subscribers, held, near)
    moved = False
    while search.pass_once():
        moved = True
    return search.result() if moved else None


class _Search:
    """Who has what, by classes and kinds."""

    def __init__(
        self,
        division: Sequence[Sequence[TopicPartition]],
        subscribers: Mapping[str, Iterable[int]],
        held: Sequence[Iterable[TopicPartition]],
        near: Nearness,
    ) -> None:
        self._near, self._steps = near, 0
        topics: list[set[str]] = [set() for _ in division]
        for topic, places in subscribers.items():
            for place in places:
                topics[place].add(topic)
        self._of = [
            _Class(near.rack_of[place], frozenset(found)) for place, found in enumerate(topics)
        ]
        self._classes = list(dict.fromkeys(self._of))
        self._loads = [len(partitions) for partitions in division]
        self._with_load: dict[_Class, dict[int, dict[int, None]]] = {
            one: {} for one in self._classes
        }
        for place, load in enumerate(self._loads):
            self._with_load[self._of[place]].setdefault(load, {})[place] = None
        self._owner: dict[TopicPartition, int] = {}
        self._has: list[dict[TopicPartition, None]] = [{} for _ in division]
        self._stock: dict[_Class, dict[_Kind, dict[TopicPartition, None]]] = {
            one: {} for one in self._classes
        }
        own = self._own = [set(partitions) for partitions in held]
        for kept in (True, False):  # what comes last is given first (rule 4)
            for place, partitions in enumerate(division):
                for partition in partitions:
                    if (partition in own[place]) is kept:
                        self._put(partition, place)

    def _put(self, partition: TopicPartition, place: int) -> None:
        self._owner[partition] = place
        self._has[place][partition] = None
        kind = partition.topic, self._near.racks(partition)
        self._stock[self._of[place]].setdefault(kind, {})[partition] = None

    def result(self) -> list[list[TopicPartition]]:
        """Return what each member has."""
        return [list(partitions) for partitions in self._has]

    def pass_once(self) -> bool:
        """Look at whatever is far; return whether something came nearer."""
        moved = False
        for one in self._classes:
            far = [kind for kind in self._stock[one] if one.far(kind)]
            for kind in sorted(far, key=lambda kind: self._keeps(one, kind)):
                while self._bring_one(one, kind):
                    moved = True
        return moved

    def _bring_one(self, one: _Class, kind: _Kind) -> bool:
        chain = self._chain(one, kind) if kind in self._stock[one] else []
        if chain:
            self._move(next(reversed(self._stock[one][kind])), chain)
        return bool(chain)

    def _chain(self, first: _Class, kind: _Kind) -> list[_Step]:
        """Return the shortest chain behind a class that gives one of a kind; empty without one."""
        came_from: dict[_Class, _Step | None] = {
            one: None for one in self._classes if one.takes(kind) and not one.far(kind)
        }
        kept = set[_Class]()
        """Classes behind one that keeps what it got, which is done once."""
        reached = list(came_from)
        for one in reached:  # which grows meanwhile
            if one not in kept and self._less(one, first):
                return _steps_to(_Step(one, None), came_from)
            if (back := self._passes(one, first)) is not None:
                return _steps_to(_Step(one, back), came_from)
            for other in self._classes:
                if other in came_from or other is first:
                    continue
                if self._steps >= MOST_STEPS:
                    return []
                given = self._passes(one, other)
                keeps = given is None and one not in kept and self._less(one, other)
                if given is None and not keeps:
                    continue
                came_from[other] = _Step(one, given)
                reached.append(other)
                if keeps or one in kept:
                    kept.add(other)
        return []

    def _less(self, one: _Class, other: _Class) -> bool:
        """Whether a member of one class may have one more, and one of another one less."""
        return min(self._with_load[one]) == max(self._with_load[other]) - 1

    def _passes(self, giver: _Class, taker: _Class) -> _Kind | None:
        """Return what one class can give another without making it far, best what it just got."""
        self._steps += 1
        found = None
        for kind in self._stock[giver]:
            if taker.takes(kind) and (giver.far(kind) or not taker.far(kind)):
                if not self._keeps(giver, kind):
                    return kind
                found = found or kind
        return found

    def _keeps(self, giver: _Class, kind: _Kind) -> bool:
        """Whether what a class would give of a kind is something that a member held."""
        partition = next(reversed(self._stock[giver][kind]))
        return partition in self._own[self._owner[partition]]

    def _move(self, partition: TopicPartition, chain: Sequence[_Step]) -> None:
        """Move a partition, and others along a chain."""
        first, start = self._of[self._owner[partition]], self._owner[partition]
        moving: TopicPartition | None = partition
        for giver, kind in chain:
            if kind is None and moving is not None:
                with_load = self._with_load[giver]
                place = next(iter(with_load[min(with_load)]))
                self._give(moving, place)
                self._count(place, 1)
                moving = None
            elif kind is not None:
                given = next(reversed(self._stock[giver][kind]))
                if moving is None:
                    self._has_less(self._owner[given], giver)
                else:
                    self._give(moving, self._owner[given])
                moving = given
        if moving is None:
            self._has_less(start, first)
        else:
            self._give(moving, start)

    def _has_less(self, place: int, one: _Class) -> None:
        """Take note that a member gives one more than it gets; of its class whoever has the most
        makes up for it."""
        with_load = self._with_load[one]
        most = next(iter(with_load[max(with_load)]))
        if self._loads[most] > self._loads[place]:
            self._give(next(reversed(self._has[most])), place)
            place = most
        self._count(place, -1)

    def _give(self, partition: TopicPartition, place: int) -> None:
        owner, kind = self._owner[partition], (partition.topic, self._near.racks(partition))
        del self._has[owner][partition]
        stock = self._stock[self._of[owner]]
        del stock[kind][partition]
        if not stock[kind]:
            del stock[kind]
        self._put(partition, place)

    def _count(self, place: int, more: int) -> None:
        with_load, load = self._with_load[self._of[place]], self._loads[place]
        del with_load[load][place]
        if not with_load[load]:
            del with_load[load]
        with_load.setdefault(load + more, {})[place] = None
        self._loads[place] += more


def _steps_to(last: _Step, came_from: Mapping[_Class, _Step | None]) -> list[_Step]:
    steps = [last]
    while (before := came_from[steps[-1].giver]) is not None:
        steps.append(before)
    return steps[::-1]
