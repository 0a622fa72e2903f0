"""Where a consumer begins: at the group's commits, else by the reset policy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from parley.client.consumer.assignment import Assignment
from parley.client.consumer.group import ConsumerGroup
from parley.client.consumer.options import ConsumerOptions
from parley.client.fetch.assigned import AssignedFetch
from parley.client.fetch.positions import Stage
from parley.client.fetch.state import PartitionFetch
from parley.client.results import EARLIEST
from parley.errors import DataLossError, KafkaError, NetworkError
from parley.types import OffsetAndMetadata, TopicPartition

log = logging.getLogger("parley.client")


class Placing:
    """Finds positions for partitions that have none. Belongs to the event loop."""

    def __init__(
        self, options: ConsumerOptions, group: ConsumerGroup, assigned: Assignment
    ) -> None:
        self._options, self._group, self._assigned = options, group, assigned
        self._task: asyncio.Task[None] | None = None
        self._trouble: KafkaError | None = None

    def begin(self, fetch: AssignedFetch, parts: Iterable[PartitionFetch]) -> None:
        """Look for the positions of partitions that have none, once at a time."""
        if self._task is None or self._task.done():
            unset = [part for part in parts if part.positions.stage is Stage.UNSET]
            if unset:
                self._task = asyncio.get_running_loop().create_task(self._find(fetch, unset))

    def take_trouble(self) -> KafkaError | None:
        """Return what stood in the way since the last call, if anything."""
        error, self._trouble = self._trouble, None
        return error

    async def close(self) -> None:
        """Look no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _find(self, fetch: AssignedFetch, parts: list[PartitionFetch]) -> None:
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        try:
            if self._options.group_id:
                found = await self._group.committed([part.tp for part in parts])
        except KafkaError as error:
            # looked up again, as records are fetched again
            if isinstance(error, NetworkError) and error.retriable:
                log.warning(
                    "the positions of %d partitions are not known yet: %s", len(parts), error
                )
            else:
                self._trouble = error
        else:
            for part in parts:
                if part.positions.stage is Stage.UNSET and self._assigned.reads(part):
                    self._put(fetch, part, found.get(part.tp))
        self._task = None
        fetch.wake()

    def _put(
        self, fetch: AssignedFetch, part: PartitionFetch, known: OffsetAndMetadata | None
    ) -> None:
        here = self._group.committed_here(part.tp)
        former = self._assigned.former.back(part, known, here)
        if former is None:
            _begin(fetch, part, known)
        elif former.loss is not None:
            part.positions.loss = former.loss
            fetch.reset(part, EARLIEST)
        elif known is None and former.topic.is_other(fetch.cluster.view.topic_id(part.tp.topic)):
            # the position says what is lost with it, as soon as that is confirmed
            fetch.seek(part, former.position.offset, former.position.offset_epoch)
        else:
            _begin(fetch, part, known)


def _begin(fetch: AssignedFetch, part: PartitionFetch, known: OffsetAndMetadata | None) -> None:
    if known is not None:
        fetch.seek(part, known.offset, known.leader_epoch)
    elif part.positions.policy is not None:
        fetch.reset(part, part.positions.policy)
    else:
        text = (
            f"{part.tp} has no position: nothing is committed for it and auto_offset_reset is "
            "none. Seek, or choose earliest or latest"
        )
        fetch.stop(part, DataLossError(text, topic=part.tp.topic, partition=part.tp.partition))
