"""The order of metadata as KIP-232 was first drafted: one
order of whole answers, instead of epochs of partitions.

Kafka's Metadata has no such fields. Only comparisons use this, with answers that they stamp.
"""

from __future__ import annotations

from dataclasses import dataclass

from parley.client.cluster.metadata_cache import MetadataCache
from parley.client.cluster.topic_merger import TopicMerger
from parley.client.cluster.view import (
    Applied,
    MetadataUpdate,
    PartitionMetadata,
    TopicMetadata,
    TopicUpdate,
)
from parley.types import TopicPartition


@dataclass(frozen=True, slots=True)
class StampedUpdate(MetadataUpdate):
    """A Metadata answer with its place in the one order."""

    order: tuple[int, int] = (-1, -1)
    """Controller epoch and controller metadata epoch."""


class _InOrder(TopicMerger):
    """Judges topics as `TopicMerger` does, but misses none."""

    def keep_missing(
        self,
        topic: TopicUpdate,
        old: TopicMetadata | None,
        partitions: dict[int, PartitionMetadata],
        findings: object,
    ) -> None:
        """What an answer in order leaves out is gone."""
        self.rewinds.pop(topic.name, None)


class GlobalOrderCache(MetadataCache):
    """Refuses an answer that stands before the cached one whole, and takes any other whole."""

    def __init__(self) -> None:
        super().__init__(_InOrder())
        self._order = (-1, -1)

    def apply(self, update: MetadataUpdate, *, full: bool) -> Applied:
        """Take an answer or refuse it; nothing is judged by its epoch, and by its id neither."""
        order = update.order if isinstance(update, StampedUpdate) else (-1, -1)
        if order < self._order:
            named = {
                TopicPartition(t.name, found.partition)
                for t in update.topics
                for found in t.partitions
            }
            return Applied(outdated=frozenset(named))
        self._order = order
        self._known.last_epochs.clear()
        self._known.ids.clear()
        return super().apply(update, full=full)
