"""How far a replication is."""

from __future__ import annotations

from typing import NamedTuple

from parley.client import TopicPartition


class PartitionStatus(NamedTuple):
    """One partition.

    `next_offset` is the source's offset to be copied next, `end_offset` where the source ends (its
    last stable offset), `lag` what lies between: offsets, so that control records and what was
    compacted away count until they are passed. `target_end` is the target's offset behind the last
    record, -1 where nothing was copied; `records` were committed by this process.
    """

    partition: TopicPartition
    next_offset: int
    end_offset: int
    target_end: int
    records: int

    @property
    def lag(self) -> int:
        """Offsets of the source that are still to be copied."""
        return max(0, self.end_offset - self.next_offset)
