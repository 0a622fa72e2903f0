"""A query's progress as committed offsets of a group, for lag monitors: `commitToGroup`.

1. Only what Spark has finished is committed, so that the group is behind the query and never ahead.
   Nothing is read from the group, and no failure here fails the query: it is said once and tried
   again later.
2. The leader epoch that goes with an offset is that of the record before it, as Java's consumer
   commits it (KIP-320), and not the one that the query knows its position by: that may be a later
   one, in which a truncation between the two would not be seen.
3. Nothing is committed of a topic that is another one now: offset and epoch would belong to the old
   one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from parley.client import Client, EpochEndOffset, OffsetAndMetadata, TopicPartition
from parley.errors import KafkaError
from parley.spark.values.offsets import Offsets, recreated

log = logging.getLogger("parley.spark")
PAUSE_MS = 30_000
"""How long nothing is committed after a failure: it may have taken as long as a call may take."""
MOST_EPOCHS = 16
"""Epochs walked back in search of a record's; beyond, an offset is committed without."""

AskEpochs = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, EpochEndOffset]]


@dataclass(slots=True)
class GroupProgress:
    """Commits what is new. Used by one thread."""

    client: Client
    group: str
    _done: dict[TopicPartition, tuple[int, int, str]] = field(default_factory=dict)
    """Offset, epoch that the query knew it by, and topic id of what was committed last."""
    _not_before_ms: int | None = None
    _said: bool = False

    def commit(self, done: Offsets, now: Offsets, now_ms: int) -> None:
        """Commit positions that moved since last time; `now` is what the cluster has."""
        if self._not_before_ms is not None and now_ms < self._not_before_ms:
            return
        others = recreated(done, now)
        wanted = {
            tp: (offset, done.epoch(tp), done.ids.get(tp.topic, ""))
            for tp, offset in done.positions.items()
            if tp in now.positions and tp.topic not in others
        }
        moved = {tp: found for tp, found in wanted.items() if self._done.get(tp) != found}
        if not moved:
            return
        try:
            epochs = epochs_before(
                self.client.offsets_for_leader_epochs,
                {tp: (offset, known) for tp, (offset, known, _) in moved.items()},
            )
            offsets = {
                tp: OffsetAndMetadata(found[0], "", epochs.get(tp, -1))
                for tp, found in moved.items()
            }
            self.client.commit_offsets(self.group, offsets)
        except KafkaError as error:
            self._not_before_ms = now_ms + PAUSE_MS
            if not self._said:
                self._said = True
                log.warning(
                    "the progress of the query is not committed to group %s: %s", self.group, error
                )
            return
        self._done |= moved
        self._not_before_ms, self._said = None, False


def epochs_before(
    ask: AskEpochs, places: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, int]:
    """Return the leader epoch of the record before each offset, where the leaders know it.

    A place is an offset and an epoch that is at least that of the record. While the epochs below it
    end at the offset or after, the record is one of theirs. Left out are offsets without an epoch,
    and where a log begins.
    """
    found: dict[TopicPartition, int] = {}
    open_ = {tp: epoch for tp, (offset, epoch) in places.items() if offset > 0 and epoch >= 0}
    for _ in range(MOST_EPOCHS):
        found |= {tp: 0 for tp, epoch in open_.items() if epoch == 0}
        below = {tp: epoch - 1 for tp, epoch in open_.items() if epoch > 0}
        if not below:
            break
        answers = ask(below)
        for tp in below:
            answer = answers[tp]
            if not answer.available:
                del open_[tp]
            elif answer.end_offset < places[tp][0]:
                found[tp] = open_.pop(tp)
            else:
                open_[tp] = answer.leader_epoch
        open_ = {tp: epoch for tp, epoch in open_.items() if tp not in found}
    return found
