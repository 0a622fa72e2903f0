"""The assignors of the broker: who should own which partition, in a group of the consumer protocol
(KIP-848).

Rules of this file:
1. A target covers every partition of every subscribed topic that has a subscriber, each once.
2. "uniform" keeps what members own as far as balance allows: where all subscribe to the same
   topics, their counts differ by one at most; elsewhere no single move between two members would
   narrow their gap.
3. "range" gives consecutive partitions of each topic to the members in their order, whoever owned
   them.
4. The order of members is that of instance ids, then of member ids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Part = tuple[bytes, int]
"""A partition by its topic's id."""

Target = dict[str, frozenset[Part]]
"""What each member should own, by member id."""


@dataclass(frozen=True, slots=True)
class Subscriber:
    """What an assignor knows of a member: `owned` is its part of the target before."""

    topics: frozenset[bytes]
    owned: frozenset[Part] = frozenset()
    instance_id: str | None = None


Assignor = Callable[[Mapping[str, Subscriber], Mapping[bytes, int]], Target]
"""From the members and the number of partitions of each topic to the target."""


def by_range(members: Mapping[str, Subscriber], counts: Mapping[bytes, int]) -> Target:
    """Give each subscriber of a topic consecutive partitions (rule 3).

    >>> topic = bytes(16)
    >>> subscriber = Subscriber(frozenset([topic]))
    >>> found = by_range({"a": subscriber, "b": subscriber}, {topic: 3})
    >>> sorted(index for _, index in found["a"])
    [0, 1]
    """
    target: dict[str, set[Part]] = {member: set() for member in members}
    for topic, subscribers in _subscribers(members, counts).items():
        share, extra = divmod(counts[topic], len(subscribers))
        start = 0
        for at, member in enumerate(subscribers):
            end = start + share + (at < extra)
            target[member].update((topic, index) for index in range(start, end))
            start = end
    return {member: frozenset(parts) for member, parts in target.items()}


def uniform(members: Mapping[str, Subscriber], counts: Mapping[bytes, int]) -> Target:
    """Balance the number of partitions, moving as few as possible (rule 2)."""
    subscriptions = {member.topics for member in members.values()}
    if len(subscriptions) <= 1:
        return _uniform_for_equals(members, counts)
    return _uniform_for_others(members, counts)


ASSIGNORS: Mapping[str, Assignor] = {"uniform": uniform, "range": by_range}
"""By the names that `group.consumer.assignors` has; the first is the default."""


def _ordered(members: Mapping[str, Subscriber]) -> list[str]:
    static = sorted(
        (one.instance_id, name) for name, one in members.items() if one.instance_id is not None
    )
    return [name for _, name in static] + sorted(
        name for name, one in members.items() if one.instance_id is None
    )


def _subscribers(
    members: Mapping[str, Subscriber], counts: Mapping[bytes, int]
) -> dict[bytes, list[str]]:
    """Return the members of each topic that exists and has some, both in order."""
    found: dict[bytes, list[str]] = {}
    for member in _ordered(members):
        for topic in members[member].topics & counts.keys():
            found.setdefault(topic, []).append(member)
    return dict(sorted(found.items()))


def _kept(members: Mapping[str, Subscriber], counts: Mapping[bytes, int]) -> dict[str, list[Part]]:
    """Return what each member owns and may keep; a partition that two own is the first one's."""
    taken: set[Part] = set()
    kept: dict[str, list[Part]] = {}
    for name in _ordered(members):
        member = members[name]
        parts = [
            part
            for part in sorted(member.owned)
            if _may_own(member, part, counts) and part not in taken
        ]
        taken.update(parts)
        kept[name] = parts
    return kept


def _may_own(member: Subscriber, part: Part, counts: Mapping[bytes, int]) -> bool:
    topic, index = part
    return topic in member.topics and index < counts.get(topic, 0)


def _uniform_for_equals(members: Mapping[str, Subscriber], counts: Mapping[bytes, int]) -> Target:
    """Fill each member up to its quota; all may own everything."""
    if not members:
        return {}
    wanted = [
        (topic, index) for topic in _subscribers(members, counts) for index in range(counts[topic])
    ]
    quota, extra = divmod(len(wanted), len(members))
    kept = _kept(members, counts)
    for parts in kept.values():
        # Who has more than the quota already is the first to have one of the partitions that are
        # left over.
        more = extra > 0 and len(parts) > quota
        extra -= more
        del parts[quota + more :]
    taken = {part for parts in kept.values() for part in parts}
    free = iter([part for part in wanted if part not in taken])
    for parts in kept.values():
        parts.extend(part for _, part in zip(range(quota - len(parts)), free, strict=False))
    for parts, part in zip(
        [parts for parts in kept.values() if len(parts) == quota], free, strict=False
    ):
        parts.append(part)
    return {member: frozenset(parts) for member, parts in kept.items()}


def _uniform_for_others(members: Mapping[str, Subscriber], counts: Mapping[bytes, int]) -> Target:
    """Give what is free to the least loaded subscriber, then move while a move narrows a gap."""
    subscribers = _subscribers(members, counts)
    target = {member: set(parts) for member, parts in _kept(members, counts).items()}
    taken = {part for parts in target.values() for part in parts}
    # Topics with few subscribers first: theirs is the smallest choice.
    for topic in sorted(subscribers, key=lambda topic: (len(subscribers[topic]), topic)):
        for index in range(counts[topic]):
            if (topic, index) not in taken:
                least = min(subscribers[topic], key=lambda member: len(target[member]))
                target[least].add((topic, index))
    moved = True
    while moved:  # ends: each move makes the sum of the squares of all loads smaller
        moved = sum(_narrow(topic, subscribers[topic], target) for topic in subscribers) > 0
    return {member: frozenset(parts) for member, parts in target.items()}


def _narrow(topic: bytes, subscribers: list[str], target: dict[str, set[Part]]) -> int:
    """Move partitions of a topic from the most to the least loaded of its
    subscribers; return how many moved.
    """
    moved = 0
    while True:
        owners = [
            member for member in subscribers if any(part[0] == topic for part in target[member])
        ]
        if not owners:
            return moved
        most = max(owners, key=lambda member: len(target[member]))
        least = min(subscribers, key=lambda member: len(target[member]))
        if len(target[most]) - len(target[least]) < 2:
            return moved
        part = max(part for part in target[most] if part[0] == topic)
        target[most].remove(part)
        target[least].add(part)
        moved += 1
