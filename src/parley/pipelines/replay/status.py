"""How far a replay is."""

from __future__ import annotations

from typing import NamedTuple

from parley.client import TopicPartition


class ReplayStatus(NamedTuple):
    """One partition of the source: `next_offset` is replayed next, `end_offset` not any more.
    `records` were committed by this process.
    """

    partition: TopicPartition
    next_offset: int
    end_offset: int
    records: int

    @property
    def lag(self) -> int:
        """Offsets that are still to be read: some of them may not belong to the replay."""
        return max(0, self.end_offset - self.next_offset)
