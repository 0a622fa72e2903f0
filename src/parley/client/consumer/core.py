"""What both forms of the consumer share: positions, commits, and the bytes that are consumed next.

Belongs to the event loop. Nothing is decoded here; whoever decodes says with `pass_rows` and
`pass_batch` what was consumed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable

from parley.client.async_client import AsyncClient
from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline
from parley.client.consumer.group import ConsumerGroup
from parley.client.consumer.options import ConsumerOptions
from parley.client.consumer.records import CompletedFetch, ConsumerRecord
from parley.client.fetch.assigned import AssignedFetch
from parley.client.fetch.positions import DataLoss, PartitionPosition, Spec, Stage
from parley.client.fetch.state import FetchPolicy, PartitionFetch
from parley.client.options import arguments
from parley.client.results import FetchedBatch
from parley.errors import (
    DataLossError,
    KafkaError,
    LocalProtocolError,
    NetworkError,
    RequestTimedOut,
)
from parley.net import Deadline as ClockDeadline
from parley.types import OffsetAndMetadata, TopicPartition

log = logging.getLogger("parley.client")
LOSSES_KEPT = 1_000
LossListener = Callable[[DataLoss], None]


class ConsumerCore:
    """The state of one consumer."""

    def __init__(
        self, client: AsyncClient, options: ConsumerOptions, on_data_loss: LossListener | None
    ) -> None:
        self.client, self.options = client, options
        self.losses: deque[DataLoss] = deque(maxlen=LOSSES_KEPT)
        self._on_data_loss = on_data_loss
        self._parts: dict[TopicPartition, PartitionFetch] = {}
        self._completed: dict[TopicPartition, CompletedFetch] = {}
        self.group = ConsumerGroup(options, self)
        self._fetch: AssignedFetch | None = None
        self._placing: asyncio.Task[None] | None = None
        self._trouble: KafkaError | None = None
        self._closed = False

    # -- life and assignment -----------------------------------------------------------------------

    async def start(self) -> None:
        """Reach a broker and begin to fetch what is assigned. Raises as `AsyncClient.start`."""
        if self._closed:
            raise LocalProtocolError("this consumer is stopped; make a new one")
        if self._fetch is None:
            cluster = await self.client._started()
            policy = FetchPolicy(None, sessions=True, on_loss=self._lost)
            self._fetch = AssignedFetch(cluster, self._parts.values(), self.options, policy)
            self._fetch.start()
            self._place()
            self.group.start(cluster)

    async def close(self) -> None:
        """Commit, where that is regular, give the partitions up, leave the group and
        stop fetching. Idempotent.
        """
        if self._closed:
            return
        self._closed = True
        try:
            await self.group.finish("the consumer is being closed")
        finally:
            await self._stop()

    async def _stop(self) -> None:
        placing, self._placing = self._placing, None
        if placing is not None:
            placing.cancel()
            await asyncio.gather(placing, return_exceptions=True)
        await self.group.close()
        fetch, self._fetch = self._fetch, None
        self._completed.clear()
        if fetch is not None:
            await fetch.close()

    @property
    def fetch(self) -> AssignedFetch:
        """The reading under way. Raises LocalProtocolError before `start` and after `stop`."""
        if self._fetch is None:
            raise LocalProtocolError(
                "this consumer is not started: await start(), or use it in an `async with` block"
            )
        return self._fetch

    @property
    def cluster(self) -> Cluster:
        """The cluster of the client."""
        return self.fetch.cluster

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions being read."""
        return frozenset(self._parts)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others; those assigned before keep their positions."""
        wanted = arguments.partitions(partitions)
        if self.group.subscribed:
            raise LocalProtocolError(
                "this consumer has subscribed: its group assigns partitions; unsubscribe first"
            )
        self.read(wanted)

    def read(
        self, partitions: Collection[TopicPartition], held: Collection[TopicPartition] = ()
    ) -> None:
        """Read these partitions and no others: the application's choice, or the group's.

        Those of `held` are not fetched before `release`.
        """
        kept = self._parts
        self._parts = {}
        for tp in partitions:
            positions = PartitionPosition(tp, self.options.reset_policy)
            self._parts[tp] = kept.get(tp) or PartitionFetch(
                tp, positions, None, self.options.max_partition_fetch_bytes, held=tp in held
            )
        self._completed = {
            tp: completed for tp, completed in self._completed.items() if tp in self._parts
        }
        if self._fetch is not None:
            self._fetch.replace(self._parts.values())
            self._place()

    def release(self) -> None:
        """Fetch the partitions that `read` held back."""
        if self._fetch is not None:
            self._fetch.release(part for part in self._parts.values() if part.held)

    def part(self, tp: TopicPartition) -> PartitionFetch:
        """Return the state of an assigned partition. Raises LocalProtocolError for another."""
        if arguments.partition(tp) not in self._parts:
            raise LocalProtocolError(f"{tp} is not assigned to this consumer; assign it first")
        return self._parts[tp]

    # -- positions ---------------------------------------------------------------------------------

    def seek(self, tp: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go to an offset; an OffsetAndMetadata brings the epoch that it is validated with."""
        part = self.part(tp)
        to = arguments.offset_to_commit(tp, offset)
        self._completed.pop(tp, None)
        if self._fetch is None:
            part.positions.seek(to.offset, to.leader_epoch)
            part.position_epoch = part.positions.position_epoch
        else:
            self._fetch.seek(part, to.offset, to.leader_epoch)

    def seek_to(self, spec: Spec, partitions: Collection[TopicPartition]) -> None:
        """Go to an offset that has to be looked up."""
        for part in [self.part(tp) for tp in partitions or self.assignment]:
            self._completed.pop(part.tp, None)
            self.fetch.reset(part, spec)

    def pause(self, partitions: Iterable[TopicPartition], *, paused: bool) -> None:
        """Stop or go on handing out records of partitions."""
        for part in [self.part(tp) for tp in partitions]:
            if self._fetch is None:
                part.paused = paused
            else:
                (self._fetch.pause if paused else self._fetch.resume)(part)

    async def positioned(self, partitions: Collection[TopicPartition]) -> None:
        """Return when these partitions have positions. Raises what stands in their way,
        RequestTimedOut at the end.
        """
        deadline = self.cluster.deadline()
        while True:
            waiting = [tp for tp in partitions if not self.fetch.positioned(self.part(tp))]
            if not waiting:
                return
            self._raise_trouble(frozenset(waiting))
            self._place()
            if not await self._wait(deadline):
                names = ", ".join(map(str, waiting))
                raise RequestTimedOut(
                    f"no position was found for {names} before the deadline", stage="request"
                )

    async def position(self, tp: TopicPartition) -> OffsetAndMetadata:
        """Return the offset of the next record that will be handed out, with the
        epoch of the one before.
        """
        part = self.part(tp)
        await self.positioned([tp])
        return OffsetAndMetadata(
            part.positions.consumed.offset, "", part.positions.consumed.offset_epoch
        )

    def _place(self) -> None:
        """Begin to find positions for partitions that have none, once at a time."""
        unset = [part for part in self._parts.values() if part.positions.stage is Stage.UNSET]
        if unset and self._fetch is not None and (self._placing is None or self._placing.done()):
            self._placing = asyncio.get_running_loop().create_task(self._find_positions(unset))

    async def _find_positions(self, parts: list[PartitionFetch]) -> None:
        """From the group's commits, else by the reset policy."""
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        try:
            if self.options.group_id:
                found = await self.group.committed([part.tp for part in parts])
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
                if part.positions.stage is Stage.UNSET and self._parts.get(part.tp) is part:
                    self._put(part, found.get(part.tp))
        self._placing = None
        self.fetch.wake()

    def _put(self, part: PartitionFetch, known: OffsetAndMetadata | None) -> None:
        if known is not None:
            self.fetch.seek(part, known.offset, known.leader_epoch)
        elif part.positions.policy is not None:
            self.fetch.reset(part, part.positions.policy)
        else:
            text = (
                f"{part.tp} has no position: nothing is committed for it and "
                "auto_offset_reset is none. "
                "Seek, or choose earliest or latest"
            )
            self.fetch.stop(
                part, DataLossError(text, topic=part.tp.topic, partition=part.tp.partition)
            )

    # -- what the group needs ----------------------------------------------------------------------

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions behind what was handed out, with their leader epochs."""
        found = {tp: part.positions.consumed for tp, part in self._parts.items()}
        return {
            tp: OffsetAndMetadata(at.offset, "", at.offset_epoch)
            for tp, at in found.items()
            if at.offset >= 0
        }

    def stalled(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that cannot be read now: no position, no leader, or an error."""
        return tuple(
            tp
            for tp, part in sorted(self._parts.items())
            if part.positions.stage is not Stage.FETCHING or self.cluster.leader(tp).node is None
        )

    def wake(self) -> None:
        """Let a poll that waits look again."""
        if self._fetch is not None:
            self._fetch.wake()

    # -- consuming ---------------------------------------------------------------------------------

    async def next_completed(
        self,
        wanted: Collection[TopicPartition],
        timeout_ms: int | None,
        *,
        raise_errors: bool = True,
    ) -> CompletedFetch | None:
        """Return bytes to consume, None when none came in time (None: wait forever).

        Raises the error that stands at a position, if `raise_errors`, after everything in front of
        it.
        """
        fetch = self.fetch
        if not self._parts and not self.group.subscribed:
            raise LocalProtocolError(
                "nothing is assigned to this consumer; subscribe to topics or assign partitions"
            )
        for tp in wanted:
            arguments.partition(tp)
        deadline = None if timeout_ms is None else self.cluster.deadline(timeout_ms)
        of = frozenset(wanted) if wanted else None
        if raise_errors:
            self.group.poll_begins()
        try:
            return await self._next_completed(fetch, of, deadline, raise_errors=raise_errors)
        finally:
            self.group.poll_ends()

    async def _next_completed(
        self,
        fetch: AssignedFetch,
        of: frozenset[TopicPartition] | None,
        deadline: Deadline | None,
        *,
        raise_errors: bool,
    ) -> CompletedFetch | None:
        while True:
            if raise_errors and self.group.news:
                await self.group.show()
            for tp in of or ():
                self.part(tp)
            self._place()
            self._drop_stale()
            if raise_errors:
                self._raise_trouble(of)
            for tp, completed in self._completed.items():
                if not self._parts[tp].paused and (of is None or tp in of):
                    return completed
            raw = fetch.take(of)
            if raw is not None:
                completed = self._completed[raw.tp] = CompletedFetch(raw, self.options)
                return completed
            if not await self._wait(deadline):
                return None

    def position_of(self, completed: CompletedFetch) -> int:
        """Return where the decoding of a completed fetch begins."""
        return self._parts[completed.raw.tp].positions.consumed.offset

    async def next_rows(
        self,
        wanted: Collection[TopicPartition],
        timeout_ms: int | None,
        most: int,
        *,
        raise_errors: bool,
        filled: CompletedFetch | None,
    ) -> tuple[list[ConsumerRecord] | None, CompletedFetch | None]:
        """Return rows (None: none came in time), or bytes to be decoded: `fill_rows` them
        and call again with them.
        """
        if filled is not None and (rows := self.pass_rows(filled, most)):
            return rows, None
        completed = await self.next_completed(wanted, timeout_ms, raise_errors=raise_errors)
        if completed is None:
            return None, None
        return (
            ([], completed)
            if completed.at >= len(completed.rows)
            else (self.pass_rows(completed, most), None)
        )

    async def next_batch(
        self, wanted: Collection[TopicPartition], filled: CompletedFetch | None
    ) -> tuple[FetchedBatch | None, CompletedFetch | None]:
        """Return the batch of a decoded fetch, and what is to be decoded next; without
        a batch it waits for that.
        """
        # what the poll before handed out is done with; this one may be another member's now
        if filled is not None:
            self.group.poll_begins()
            if self.group.news:
                await self.group.show()
        batch = self.pass_batch(filled) if filled is not None else None
        return batch, await self.next_completed(
            wanted, None if batch is None else 0, raise_errors=batch is None
        )

    def pass_rows(self, completed: CompletedFetch, most: int) -> list[ConsumerRecord]:
        """Return up to so many decoded rows of a completed fetch; they count as consumed."""
        if self.current(completed) is None:
            return []
        part = self._parts[completed.raw.tp]
        rows = completed.take_rows(most)
        after = completed.position_after
        if rows or completed.exhausted:
            self._passed(part, completed, after)
        self._drop_if_done(part, completed)
        return rows

    def pass_batch(self, completed: CompletedFetch) -> FetchedBatch | None:
        """Return the decoded batch of a completed fetch; it counts as consumed."""
        if self.current(completed) is None:
            return None
        part = self._parts[completed.raw.tp]
        batch, completed.batch = completed.batch, None
        if batch is not None:
            self._passed(part, completed, batch.next_offset)
        elif completed.exhausted:
            self._passed(part, completed, completed.next_offset)
        self._drop_if_done(part, completed)
        return batch

    def _passed(self, part: PartitionFetch, completed: CompletedFetch, next_offset: int) -> None:
        if next_offset > part.positions.consumed.offset:
            part.positions.passed(next_offset, completed.raw.epoch_before(next_offset))

    def current(self, completed: CompletedFetch | None) -> CompletedFetch | None:
        """Return a completed fetch if it is still to be consumed: between two calls a seek
        or a reset may have come.
        """
        if completed is None or self._completed.get(completed.raw.tp) is not completed:
            return None
        return (
            completed
            if completed.raw.position_epoch
            == self._parts[completed.raw.tp].positions.position_epoch
            else None
        )

    def _drop_stale(self) -> None:
        """Forget bytes that lie before a seek or a reset, or in another history."""
        for tp, completed in tuple(self._completed.items()):
            if completed.raw.position_epoch != self._parts[tp].positions.position_epoch:
                del self._completed[tp]

    def _drop_if_done(self, part: PartitionFetch, completed: CompletedFetch) -> None:
        if completed.exhausted:
            del self._completed[part.tp]
            if completed.error is not None:
                self.fetch.stop(part, completed.error)

    # -- inside ------------------------------------------------------------------------------------

    def _raise_trouble(self, of: Collection[TopicPartition] | None) -> None:
        error, self._trouble = self._trouble, None
        if error is not None:
            raise error
        error = self.fetch.failure(of)
        if error is not None and not any(
            self._parts[tp].positions.error is error for tp in self._completed
        ):
            self.fetch.reported(error)
            raise error

    async def _wait(self, deadline: Deadline | None) -> bool:
        """Wait for news; return False when the deadline has passed."""
        if deadline is None:
            await self.fetch.changed()
            return True
        left_ms = deadline.remaining_ms(self.cluster.now_ms())
        if left_ms <= 0:
            return False
        try:
            async with ClockDeadline(self.cluster.clock, self.cluster.now_ms() + left_ms):
                await self.fetch.changed()
        except TimeoutError:
            return False
        return True

    def _lost(self, loss: DataLoss) -> None:
        log.warning("%s; reading goes on from offset %s", loss.text, loss.resumed_at)
        self.losses.append(loss)
        self.group.history_changed(loss.partition)
        if self._on_data_loss is not None:
            try:
                self._on_data_loss(loss)
            except Exception:
                log.exception(
                    "the listener for data losses raised an exception; the consumer goes on"
                )
