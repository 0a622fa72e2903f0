"""The commits of one consumer: positions with their epochs, one commit after the other, by hand or
regularly.

1. A commit never goes forward in offsets and back in epochs (L4).
2. A regular commit has the positions as they stand when a poll begins: what was handed out in the
   poll before is done with, what the running one hands out is not (G44).
3. An automatic commit waits for no topic that was deleted: nobody goes on there. Nor is it taken
   for the topic that has the name since: whoever goes on there would pass over its records.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Protocol

from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline
from parley.client.offsets import committed as group_offsets
from parley.client.results import ConsumerGroupMetadata
from parley.errors import (
    BrokerError,
    CommitFailedError,
    DataLossError,
    KafkaError,
    RequestTimedOut,
    broker_error,
)
from parley.errors.codes import STALE_MEMBER_EPOCH
from parley.net import Deadline as ClockDeadline
from parley.types import OffsetAndMetadata, TopicPartition

log = logging.getLogger("parley.client")
EPOCH_BACKOFF_MS = 50
"""Between two commits of which the first had an epoch that was over: a
heartbeat brings the new one.
"""
Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class Committer(Protocol):
    """On whose behalf a consumer commits."""

    def may_commit(self) -> ConsumerGroupMetadata:
        """Return as whom to commit. Raises where a rebalance or the loss of the
        membership forbids it.
        """

    def commit_refused(self, error: KafkaError, asked_as: ConsumerGroupMetadata) -> bool:
        """Take note of what the coordinator answered; return whether the commit may go again."""

    def held(self) -> frozenset[TopicPartition]:
        """Return the partitions that are read now."""

    def of_other_topics(self) -> frozenset[TopicPartition]:
        """Return those of which another topic seems to have the name now."""


class Commits:
    """What one consumer has committed and will commit. Belongs to the event loop."""

    def __init__(
        self, cluster: Cluster, group_id: str, committer: Committer, interval_ms: int | None
    ) -> None:
        self._cluster, self.group_id, self._committer = cluster, group_id, committer
        self._interval_ms = interval_ms
        self._last: dict[TopicPartition, OffsetAndMetadata] = {}
        """What a commit is compared with: of partitions as they are held now, and of their topics
        as they are.
        """
        self._here: dict[TopicPartition, OffsetAndMetadata] = {}
        """What was committed last, as long as the topic is the same."""
        self._incomparable: set[TopicPartition] = set()
        """Of what the commit under way says nothing that later ones could be compared with."""
        self._left_out: frozenset[TopicPartition] = frozenset()
        """What the last automatic commit was not taken for."""
        self._order = asyncio.Lock()
        self._regular: asyncio.Task[None] | None = None
        self._next_ms = cluster.now_ms() + (interval_ms or 0)

    async def commit(self, wanted: Offsets, deadline: Deadline | None = None) -> None:
        """Commit offsets; raises what stands against it, CommitFailedError by partition."""
        await self._commit(wanted, deadline, automatic=False)

    async def _commit(
        self, wanted: Offsets, deadline: Deadline | None, *, automatic: bool
    ) -> frozenset[TopicPartition]:
        """Commit offsets; return the partitions that an automatic commit left out."""
        deadline = deadline or self._cluster.deadline()
        await self._turn(deadline)
        self._incomparable.clear()
        try:
            for tp, offset in wanted.items():
                refuse_other_history(tp, offset, self._last.get(tp))
            held = self._committer.held()
            while (gone := await self._committed(wanted, deadline, automatic=automatic)) is None:
                await self._cluster.clock.sleep_ms(EPOCH_BACKOFF_MS)
                refuse_given_up(self.group_id, (held & wanted.keys()) - self._committer.held())
            known = {
                tp: at for tp, at in wanted.items() if not (tp in gone or tp in self._incomparable)
            }
            self._last |= known
            self._here |= known
            return gone
        finally:
            self._order.release()

    async def _turn(self, deadline: Deadline) -> None:
        """Have the turn to commit. Raises RequestTimedOut where the commit before has no answer in
        time.
        """
        try:
            async with ClockDeadline(self._cluster.clock, deadline.at_ms):
                await self._order.acquire()
        except TimeoutError:
            raise RequestTimedOut(
                f"group {self.group_id}: nothing was committed: the coordinator did not answer to "
                "the commit before this one in time",
                stage="request",
            ) from None

    async def _committed(
        self, wanted: Offsets, deadline: Deadline, *, automatic: bool
    ) -> frozenset[TopicPartition] | None:
        """Commit once; return what was left out, or None where the same may go again, under an
        epoch that is on its way (G57).
        """
        group = self._committer.may_commit()
        try:
            return await group_offsets.commit_offsets(
                self._cluster, group, wanted, deadline, leave_out_missing=automatic
            )
        except KafkaError as error:
            first = (
                next(iter(error.failures.values()), error)
                if isinstance(error, CommitFailedError)
                else error
            )
            if self._committer.commit_refused(first, group) and not deadline.passed(
                self._cluster.now_ms()
            ):
                return None
            raise

    def forget(self, tp: TopicPartition) -> None:
        """Compare the next commit of a partition with none before: its history is another."""
        self._here.pop(tp, None)
        self.taken([tp])

    def taken(self, partitions: Collection[TopicPartition]) -> None:
        """Compare the next commit of partitions with none before: they were not held meanwhile, so
        that others may have committed something else, and of another topic.
        """
        for tp in partitions:
            self._last.pop(tp, None)
        self._incomparable.update(partitions)

    def last(self, tp: TopicPartition) -> OffsetAndMetadata | None:
        """Return what was committed last for a partition, held or not."""
        return self._here.get(tp)

    # -- regular commits ---------------------------------------------------------------------------

    @property
    def regular(self) -> bool:
        """Whether positions are committed without being asked."""
        return self._interval_ms is not None

    def due(self, now_ms: int) -> bool:
        """Return whether a regular commit is due."""
        return self._interval_ms is not None and now_ms >= self._next_ms and self._regular is None

    @property
    def due_ms(self) -> int | None:
        """When the next regular commit is due, None where there are none."""
        return None if self._interval_ms is None else self._next_ms

    def begin(self, positions: Offsets) -> None:
        """Commit positions in the background."""
        self.restart()
        changed = self._changed(positions)
        if changed:
            self._regular = asyncio.get_running_loop().create_task(
                self._commit_quietly(changed, None)
            )

    def restart(self) -> None:
        """Count the interval from now on."""
        self._next_ms = self._cluster.now_ms() + (self._interval_ms or 0)

    async def finish(self, positions: Offsets, deadline: Deadline) -> None:
        """Commit positions before they are given up, where regular commits are
        wanted; failures are logged.
        """
        if self._interval_ms is None:
            return
        if self._regular is not None:
            await self._outlast(self._regular, deadline)
        changed = self._changed(positions)
        if changed:
            await self._commit_quietly(changed, deadline)

    async def _outlast(self, regular: asyncio.Task[None], deadline: Deadline) -> None:
        """Let the regular commit under way end first; one that takes too long is given up."""
        try:
            async with ClockDeadline(self._cluster.clock, deadline.at_ms):
                await asyncio.wait([regular])
        except TimeoutError:
            await self.close()

    async def close(self) -> None:
        """End the regular commit under way."""
        task, self._regular = self._regular, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _changed(self, positions: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
        others = self._committer.of_other_topics()
        return {
            tp: at for tp, at in positions.items() if self._last.get(tp) != at and tp not in others
        }

    async def _commit_quietly(self, positions: Offsets, deadline: Deadline | None) -> None:
        try:
            self._leave_out(await self._commit(positions, deadline, automatic=True))
        except KafkaError as error:
            log.warning("group %s: an automatic commit failed: %s", self.group_id, error)
            if isinstance(error, BrokerError) and error.retriable:
                self._next_ms = self._cluster.now_ms() + self._cluster.options.retry_backoff_ms
        finally:
            self._regular = None

    def _leave_out(self, gone: frozenset[TopicPartition]) -> None:
        """Say of what is gone that nothing is committed for it any more: once."""
        if new := sorted(gone - self._left_out):
            log.warning(
                "group %s: offsets are no longer committed for %s: the coordinator knows no such "
                "topic, so it was deleted",
                self.group_id,
                ", ".join(map(str, new)),
            )
        self._left_out = gone


def refuse_given_up(group_id: str, gone: Collection[TopicPartition]) -> None:
    """Raise CommitFailedError for partitions that were given up while their commit waited to go
    again.

    The coordinator would take it with the epoch of now, over what the next owner has committed
    (G58).
    """
    if gone:
        text = (
            f"group {group_id} has given the partition to another member meanwhile, who goes on "
            "from the last commit"
        )
        error = broker_error(STALE_MEMBER_EPOCH, text, api="OFFSET_COMMIT")
        raise CommitFailedError("nothing was committed", dict.fromkeys(gone, error)) from error


def refuse_other_history(
    tp: TopicPartition, new: OffsetAndMetadata, last: OffsetAndMetadata | None
) -> None:
    """Raise DataLossError for a commit that goes forward in offsets and back in epochs (L4).

    Both cannot be: epochs grow along a log. Offsets without an epoch are compared with nothing.

    >>> new, last = OffsetAndMetadata(7, "", -1), OffsetAndMetadata(6, "", 1)
    >>> refuse_other_history(TopicPartition("t", 0), new, last)
    """
    if last is None or new.leader_epoch < 0 or last.leader_epoch < 0:
        return
    if new.leader_epoch < last.leader_epoch and new.offset > last.offset:
        raise DataLossError(
            f"{tp}: offset {new.offset} of epoch {new.leader_epoch} cannot follow the "
            f"committed offset {last.offset} "
            f"of epoch {last.leader_epoch}: it belongs to a history that was truncated. "
            "Commit a position read since",
            topic=tp.topic,
            partition=tp.partition,
            expected_offset=new.offset,
            available_offset=last.offset,
        )
