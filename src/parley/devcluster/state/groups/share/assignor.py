"""The assignor of share groups: which partitions each member reads from (Kafka's is named
"simple").

Rules of this file:
1. Every partition of a topic that is subscribed to has a member, and every member has a partition
   of each set of topics that it shares; members share partitions where there are more members.
2. Members keep what they have as far as the even share allows.
3. Where all subscribe to the same topics their partitions are one pool, else each topic is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Part = tuple[bytes, int]
"""A partition by its topic's id."""

Target = dict[str, frozenset[Part]]
"""What each member reads from, by member id."""

NAME = "simple"


def assign(
    members: Mapping[str, frozenset[bytes]],
    counts: Mapping[bytes, int],
    before: Mapping[str, frozenset[Part]],
) -> Target:
    """Return what members should have, from their topics, the topics' partitions and the last
    target.

    >>> topic = bytes(16)
    >>> both = {"a": frozenset([topic]), "b": frozenset([topic])}
    >>> [sorted(parts) == [(topic, 0)] for parts in assign(both, {topic: 1}, {}).values()]
    [True, True]
    """
    target: dict[str, set[Part]] = {member: set() for member in members}
    for topics in _pools(members, counts):
        parts = [(topic, index) for topic in topics for index in range(counts[topic])]
        sharing = sorted(name for name, wanted in members.items() if wanted.issuperset(topics))
        if parts and sharing:
            for name, found in _shared_out(parts, sharing, before).items():
                target[name] |= found
    return {member: frozenset(found) for member, found in target.items()}


def _pools(
    members: Mapping[str, frozenset[bytes]], counts: Mapping[bytes, int]
) -> Iterable[Sequence[bytes]]:
    wanted = {topics.intersection(counts) for topics in members.values()}
    if len(wanted) == 1:
        return [sorted(wanted.pop())]
    return [[topic] for topic in sorted(frozenset().union(*wanted))]


def _shared_out(
    parts: Sequence[Part], members: Sequence[str], before: Mapping[str, frozenset[Part]]
) -> dict[str, set[Part]]:
    """Share a pool out evenly (rules 1 and 2)."""
    most_parts, most_members = -(-len(parts) // len(members)), -(-len(members) // len(parts))
    owned: dict[str, set[Part]] = {member: set() for member in members}
    readers: dict[Part, int] = dict.fromkeys(parts, 0)
    for member in members:
        for part in sorted(before.get(member, frozenset())):
            fits = readers.get(part, most_members) < most_members
            if fits and len(owned[member]) < most_parts:
                owned[member].add(part)
                readers[part] += 1
    for part in parts:
        if not readers[part]:
            least = min(members, key=lambda member: len(owned[member]))
            owned[least].add(part)
            readers[part] += 1
    for member in members:
        if owned[member]:
            continue
        most = max(members, key=lambda other: len(owned[other]))
        if len(owned[most]) > 1:
            given = max(owned[most])
            owned[most].remove(given)
        else:
            given = min(parts, key=lambda part: readers[part])
            readers[given] += 1
        owned[member].add(given)
    return owned
