"""Where records without an explicit partition go: hashes of keys, and spreading those without one.

Java hashes keys with murmur2; librdkafka with CRC-32 by default, so that programs that
come from there need its names (`partitioner=` of a producer). Vectors: librdkafka's test 0048.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import NamedTuple

from parley.client.produce.rows import Sticky, TopicPlan
from parley.records import crc32

MURMUR2 = "murmur2"


def fnv1a(key: bytes) -> int:
    """Return the 32-bit FNV-1a hash without its sign, as Sarama and librdkafka take it.

    >>> hex(fnv1a(b"")), hex(fnv1a(b"hejsan"))
    ('0x7ee3623b', '0x17b1e27a')
    """
    found = 0x811C9DC5
    for byte in key:
        found = (found ^ byte) * 0x01000193 & 0xFFFFFFFF
    return found if found < 2**31 else 2**32 - found


class KeyHash(NamedTuple):
    """How the partition of a key is found by other means than Java's."""

    of: Callable[[bytes], int]
    spread_null: bool
    """Whether records without a key are spread; else they have the hash of an empty one."""
    spread_empty: bool = False
    """Whether records with an empty key are spread, too."""

    def partitions(self, keys: Sequence[bytes | None], count: int) -> bytes:
        """Return the partition of each key as int32 numbers, -1 where it is to be spread."""
        null = -1 if self.spread_null else self.of(b"") % count
        empty = -1 if self.spread_empty else self.of(b"") % count
        return array(
            "i",
            [self.of(key) % count if key else null if key is None else empty for key in keys],
        ).tobytes()


KEY_HASHES: dict[str, KeyHash | None] = {
    MURMUR2: None,
    "murmur2_random": None,
    "consistent": KeyHash(crc32, spread_null=False),
    "consistent_random": KeyHash(crc32, spread_null=True, spread_empty=True),
    "fnv1a": KeyHash(fnv1a, spread_null=False),
    "fnv1a_random": KeyHash(fnv1a, spread_null=True),
}
"""By librdkafka's names; None is Java's, which the kernel does in bulk."""


class AdaptiveSticky(Sticky):
    """Spreads records without a key as KIP-794 does: less to partitions that are behind.

    `load` returns how many batches wait for a partition; `available` which of them take records
    now. Both are asked when the partition may change.
    """

    def __init__(
        self,
        rng: Callable[[], float],
        load: Callable[[int], int],
        available: Callable[[TopicPlan], tuple[int, ...]],
        *,
        adaptive: bool,
    ) -> None:
        super().__init__(rng)
        self._load, self._available, self._adaptive = load, available, adaptive

    def choices(self, plan: TopicPlan) -> tuple[int, ...]:
        """Return the partitions that records may go to."""
        return self._available(plan) or super().choices(plan)

    def choose(self, choices: Sequence[int]) -> int:
        """Return one of the partitions. A partition's weight is how much shorter its queue is than
        the longest one, plus one: queues of 0, 3 and 1 have weights of 4, 1 and 3.
        """
        if not self._adaptive:
            return super().choose(choices)
        loads = [self._load(choice) for choice in choices]
        most = max(loads) + 1
        at = self._rng() * sum(most - load for load in loads)
        for choice, load in zip(choices, loads, strict=True):
            at -= most - load
            if at < 0:
                return choice
        return choices[-1]

    def leave_if_behind(self, plan: TopicPlan) -> None:
        """Go to another partition with the next record if batches wait for the current one, and
        for some other none do.
        """
        current = self._current
        behind = self._adaptive and current is not None and self._load(current) > 0
        if behind and any(not self._load(choice) for choice in self.choices(plan)):
            self._left_bytes = 0
