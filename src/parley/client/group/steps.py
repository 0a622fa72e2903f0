"""What a rebalance lets the application see, one step after the other, whatever the protocol."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from parley.types import TopicPartition


class Revoke(NamedTuple):
    """These partitions go to others: what was read of them may still be committed."""

    partitions: tuple[TopicPartition, ...]


class Lost(NamedTuple):
    """These partitions may be others' already: nothing may be committed for them."""

    partitions: tuple[TopicPartition, ...]


class Assign(NamedTuple):
    """These partitions were added; with those kept they are all."""

    added: tuple[TopicPartition, ...]
    kept: tuple[TopicPartition, ...] = ()


GroupStep = Revoke | Lost | Assign


def in_order(partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
    """Return partitions as callbacks get them: by topic, then by number, each once (G46).

    >>> mixed = [TopicPartition("b", 0), TopicPartition("a", 10), TopicPartition("a", 9)]
    >>> [str(one) for one in in_order(mixed)]
    ['a-9', 'a-10', 'b-0']
    """
    return tuple(sorted(set(partitions)))
