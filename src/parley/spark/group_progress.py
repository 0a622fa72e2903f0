"""A query's progress as committed offsets of a group, for lag monitors: `commitToGroup`.

Only what Spark has finished is committed, so that the group is behind the query and never ahead. Nothing
is read from the group, and no failure here fails the query: it is said once and tried again later.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from parley.client import Client, OffsetAndMetadata, TopicPartition
from parley.errors import KafkaError
from parley.spark.offsets import Offsets

log = logging.getLogger("parley.spark")
PAUSE_MS = 30_000
"""How long nothing is committed after a failure: it may have taken as long as a call may take."""


@dataclass(slots=True)
class GroupProgress:
    """Commits what is new. Used by one thread."""

    client: Client
    group: str
    _done: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    _not_before_ms: int | None = None
    _said: bool = False

    def commit(self, done: Offsets, now_ms: int) -> None:
        """Commit the positions that moved since the last time."""
        if self._not_before_ms is not None and now_ms < self._not_before_ms:
            return
        wanted = {tp: OffsetAndMetadata(offset, "", done.epoch(tp)) for tp, offset in done.positions.items()}
        moved = {tp: found for tp, found in wanted.items() if self._done.get(tp) != found}
        if not moved:
            return
        try:
            self.client.commit_offsets(self.group, moved)
        except KafkaError as error:
            self._not_before_ms = now_ms + PAUSE_MS
            if not self._said:
                self._said = True
                log.warning("the progress of the query is not committed to group %s: %s", self.group, error)
            return
        self._done |= moved
        self._not_before_ms, self._said = None, False
