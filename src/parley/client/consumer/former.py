"""What partitions were when they were given up, so that another topic under the name is found out
when they come back.

A rebalance takes partitions and gives them back, and another topic may stand under the name by
then. The coordinator drops the offsets of a deleted topic, but knows offsets by name: one that was
committed too late counts for the new topic, whose records before it nobody would read.

1. A partition that begins where it was left, at what this consumer committed last, or where nothing
   is committed, goes on as what it was: `fetch.recreation` finds out whether that is still there.
2. Any other offset was committed by somebody who has read it since, and counts for the topic of
   now.
"""

from __future__ import annotations

from typing import NamedTuple

from parley.client.fetch.positions import Cause, DataLoss, Position
from parley.client.fetch.recreation import Incarnation
from parley.client.fetch.state import PartitionFetch
from parley.types import ZERO_UUID, OffsetAndMetadata, TopicPartition


class Former(NamedTuple):
    """One partition that was given up."""

    topic: Incarnation
    position: Position
    loss: DataLoss | None
    """That another topic has the name, where that was known and not reported yet."""

    def was_at(self, offset: OffsetAndMetadata) -> bool:
        """Return whether it was left there."""
        return (offset.offset, offset.leader_epoch) == self.position[:2]


class FormerPartitions:
    """The partitions that one consumer gave up. Belongs to the event loop."""

    def __init__(self) -> None:
        self._former: dict[TopicPartition, Former] = {}

    def leave(self, part: PartitionFetch) -> None:
        """Remember a partition that is given up."""
        at, loss = part.positions.consumed, part.positions.loss
        if part.topic.held != ZERO_UUID and at.offset >= 0:
            recreated = loss if loss is not None and loss.cause is Cause.RECREATED else None
            self._former[part.tp] = Former(part.topic, at, recreated)

    def back(
        self,
        part: PartitionFetch,
        begins: OffsetAndMetadata | None,
        committed_here: OffsetAndMetadata | None = None,
    ) -> Former | None:
        """Let a partition that begins at an offset, or where nothing is committed, go on as what it
        was; return that, None where it is read for the first time, or by others since.
        """
        former = self._former.pop(part.tp, None)
        if former is None:
            return None
        if begins is not None and begins != committed_here and not former.was_at(begins):
            return None
        part.topic = former.topic
        return former
