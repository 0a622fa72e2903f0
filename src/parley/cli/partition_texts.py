"""Partitions as people write them on the command line: `flights`, `flights:0`, `flights:0-2,5`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from parley.errors import ConfigError
from parley.types import TopicPartition

_PART = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
MOST_PARTITIONS = 1_000_000
"""A span that names more is a slip of the finger."""


def read_partitions(text: str) -> tuple[str, tuple[int, ...] | None]:
    """Return a topic and its partitions, None for all of them. Raises ConfigError.

    >>> read_partitions("flights:0-2,5"), read_partitions("flights")
    (('flights', (0, 1, 2, 5)), ('flights', None))
    """
    topic, colon, parts = text.partition(":")
    if not topic:
        raise ConfigError(
            f'"{text}" names no topic: give TOPIC, or TOPIC:0,2 for some of its partitions'
        )
    return topic, tuple(dict.fromkeys(_indexes(text, parts))) if colon else None


def _indexes(text: str, parts: str) -> Iterator[int]:
    for part in parts.split(","):
        found = _PART.fullmatch(part.strip())
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if not first <= last < first + MOST_PARTITIONS:
            raise ConfigError(f'"{text}": "{part}" is no partition: give TOPIC:0,2 or TOPIC:0-5')
        yield from range(first, last + 1)


def write_partitions(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions as a text, topic by topic.

    >>> of_b = [TopicPartition("b", index) for index in (4, 1, 2)]
    >>> write_partitions([*of_b, TopicPartition("a", 0)])
    'a:0 b:1-2,4'
    """
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        by_topic.setdefault(topic, []).append(index)
    return " ".join(f"{topic}:{','.join(_spans(indexes))}" for topic, indexes in by_topic.items())


def _spans(indexes: list[int]) -> Iterator[str]:
    first = 0
    for at, index in enumerate(indexes):
        if at + 1 == len(indexes) or indexes[at + 1] != index + 1:
            yield str(index) if first == at else f"{indexes[first]}-{index}"
            first = at + 1
