"""Partitions and topics as records of groups have them, whatever the groups' protocol."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from parley.devcluster.state.groups.modern.assignors import Part

Topics = Mapping[str, tuple[bytes, int]]
"""Id and number of partitions by name."""


class Listed(Protocol):
    """Partitions of one topic, in a record."""

    @property
    def topic_id(self) -> bytes: ...

    @property
    def partitions(self) -> Sequence[int]: ...


def by_topic(parts: Iterable[Part]) -> dict[bytes, list[int]]:
    """Return the partitions of each topic, in order."""
    found: dict[bytes, list[int]] = defaultdict(list)
    for topic_id, index in sorted(parts):
        found[topic_id].append(index)
    return found


def parts_of(listed: Iterable[Listed]) -> frozenset[Part]:
    """Return the partitions that a record lists."""
    return frozenset((one.topic_id, index) for one in listed for index in one.partitions)


def topics_hash(topics: Topics) -> int:
    """Return a number that another set of topics, ids or counts does not have; 0 for none. It is
    one of our own: to a real broker it is out of date, which makes it compute the target again.

    >>> topics_hash({}), topics_hash({"a": (bytes(16), 1)}) == topics_hash({"a": (bytes(16), 2)})
    (0, False)
    """
    if not topics:
        return 0
    digest = hashlib.blake2b(digest_size=8)
    for name, (topic_id, count) in sorted(topics.items()):
        digest.update(topic_id + count.to_bytes(4, "big") + name.encode() + b"\0")
    return int.from_bytes(digest.digest(), "big", signed=True)
