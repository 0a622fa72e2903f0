"""Partitions and topics as records of groups have them, whatever the groups' protocol."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from parley.devcluster.state.groups.modern.assignors import Part
from parley.devcluster.state.groups.xxh3 import xxh3_64

Topics = Mapping[str, tuple[bytes, int]]
"""Id and number of partitions by name."""
Racks = tuple[tuple[str, ...], ...]
"""The racks of each partition's replicas, of those that have one; nothing where none does."""
RacksOf = Callable[[str], Racks]
"""The racks of a topic, by its name."""
MAGIC = b"\0"
"""What the bytes of a topic begin with: the version of their layout."""


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


def no_racks(topic: str) -> Racks:
    """Return that no replica of a topic has a rack."""
    return ()


def topics_hash(topics: Topics, racks: Mapping[str, Racks] | None = None) -> int:
    """Return the number that a coordinator of 4.1 or later keeps of a group's topics, 0 for none:
    another set of topics, ids, counts or racks has another one (KIP-1101).

    It is the same as real brokers write, so that each may go on with the other's log.

    >>> topics_hash({}), topics_hash({"a": (bytes(16), 1)}) == topics_hash({"a": (bytes(16), 2)})
    (0, False)
    """
    if not topics:
        return 0
    found = racks or {}
    each = [_topic_hash(name, *topics[name], found.get(name, ())) for name in sorted(topics)]
    number = xxh3_64(b"".join(one.to_bytes(8, "little") for one in each))
    return number - 2**64 if number >= 2**63 else number


@lru_cache(maxsize=1_024)
def _topic_hash(name: str, topic_id: bytes, count: int, racks: Racks) -> int:
    """Return the hash of one topic: its id and name, then each partition with its racks.

    Numbers have their lowest byte first, a text is followed by its length; a rack's stands in front
    of it as well. Racks are in the order of Java's strings.
    """
    parts = [MAGIC, topic_id[7::-1], topic_id[:7:-1], _text(name), _int32(count)]
    for index in range(count):
        parts.append(_int32(index))
        for rack in sorted(racks[index] if racks else (), key=lambda one: one.encode("utf-16-be")):
            parts += [_int32(len(rack.encode("utf-16-le")) // 2), _text(rack)]
    return xxh3_64(b"".join(parts))


def _text(text: str) -> bytes:
    data = text.encode("utf-16-le")
    return data + _int32(len(data) // 2)


def _int32(number: int) -> bytes:
    return number.to_bytes(4, "little")
