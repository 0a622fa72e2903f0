"""Which records of an answer are this member's. Pure.

Brokers send whole batches; what was acquired is said as ranges of offsets (G64). An offset of such
a range for which there is no record (compaction, control records) is acknowledged as a gap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple


class AcquiredRange(NamedTuple):
    """Offsets that a broker gave this member, and how often it has given them to anybody."""

    first: int
    last: int
    delivery_count: int


class Acquired:
    """The ranges of one answer that are still to be met with records, whose offsets grow.

    Records that were met and not handed out may be met again: `meet_again` says from where.
    """

    def __init__(self, ranges: Iterable[AcquiredRange]) -> None:
        self._ranges: deque[AcquiredRange] = deque()
        for found in sorted(ranges):  # a broker's word: they may be out of order, or overlap
            first = max(found.first, self._ranges[-1].last + 1 if self._ranges else 0)
            if first <= found.last:
                self._ranges.append(found._replace(first=first))
        self._all = tuple(self._ranges)
        self._gaps: list[tuple[int, int]] = []

    @property
    def first(self) -> int | None:
        """The first offset that is still to be met, None where all were."""
        return self._ranges[0].first if self._ranges else None

    def left(self, position: int) -> int:
        """Return how many offsets there were from a position on, met or not."""
        return sum(max(0, last + 1 - max(first, position)) for first, last, _ in self._all)

    def meet(self, offset: int) -> int:
        """Return how often a record was delivered with this time; 0: it is not this member's."""
        ranges = self._ranges
        while ranges and ranges[0].last < offset:
            self._gaps.append(ranges.popleft()[:2])
        if not ranges or ranges[0].first > offset:
            return 0
        found = ranges[0]
        if found.first < offset:
            self._gaps.append((found.first, offset - 1))
        if offset == found.last:
            ranges.popleft()
        else:
            ranges[0] = found._replace(first=offset + 1)
        return max(1, found.delivery_count)

    def meet_again(self, position: int) -> None:
        """Begin again at an offset: what lies in front was handed out, or is a gap."""
        passed = [*self._gaps, *(found[:2] for found in self._ranges)]
        self._gaps = [(a, min(b, position - 1)) for a, b in passed if a < position]
        self._ranges = deque(
            found._replace(first=max(found.first, position))
            for found in self._all
            if found.last >= position
        )

    def take_gaps(self) -> list[tuple[int, int]]:
        """Return the offsets without records that were passed since the last call."""
        gaps, self._gaps = self._gaps, []
        return gaps

    def take_rest(self) -> list[tuple[int, int]]:
        """Return the offsets that were not met. Nothing is left."""
        rest = [found[:2] for found in self._ranges]
        self._ranges.clear()
        return rest
