"""What both forms of the consumer share: assignment, positions, and polls.

Belongs to the event loop. Nothing is decoded here: a poll fills the `stock`, and whoever polls
hands out of it, in a thread of its own.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping

from parley.client.async_client import AsyncClient
from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline
from parley.client.consumer.assignment import Assignment
from parley.client.consumer.closing import not_running
from parley.client.consumer.group import ConsumerGroup
from parley.client.consumer.options import ConsumerOptions
from parley.client.consumer.placing import Placing
from parley.client.consumer.stock import Stock, TakenUp
from parley.client.fetch.assigned import AssignedFetch
from parley.client.fetch.positions import DataLoss, Spec, Stage
from parley.client.fetch.state import FetchPolicy, PartitionFetch
from parley.client.options import arguments
from parley.client.results import FetchedBatch
from parley.errors import LocalProtocolError, RequestTimedOut, UnknownTopicOrPartitionError
from parley.net import Deadline as ClockDeadline, TimerHandle
from parley.types import OffsetAndMetadata, TopicPartition

log = logging.getLogger("parley.client")
LOSSES_KEPT = 1_000
TAKE_BYTES = 2**20
"""So many bytes are taken up at a time, of several partitions."""
LOOK_AGAIN_MS = 100
"""So long records may be handed out before a poll looks at the group, commits and metadata."""
LossListener = Callable[[DataLoss], None]


class ConsumerCore:
    """The state of one consumer."""

    def __init__(
        self, client: AsyncClient, options: ConsumerOptions, on_data_loss: LossListener | None
    ) -> None:
        self.client, self.options = client, options
        self.losses: deque[DataLoss] = deque(maxlen=LOSSES_KEPT)
        self._on_data_loss = on_data_loss
        self.stock = Stock(options, options.deserializers)
        self._assigned = Assignment(options, self._reads_others)
        self.group = ConsumerGroup(options, self)
        self._placing = Placing(options, self.group, self._assigned)
        self._fetch: AssignedFetch | None = None
        self._look_again: TimerHandle | None = None
        self._closed = False

    # -- life and assignment -----------------------------------------------------------------------

    async def start(self) -> None:
        """Reach a broker and begin to fetch what is assigned. Raises as `AsyncClient.start`."""
        if self._closed:
            raise not_running(closed=True)
        if self._fetch is None:
            cluster = await self.client._started()
            policy = FetchPolicy(None, sessions=True, on_loss=self._lost, on_jump=self.stock.close)
            self._fetch = AssignedFetch(
                cluster, self._assigned.states.values(), self.options, policy
            )
            self._fetch.start()
            self._place()
            self.group.start(cluster)

    async def close(self, timeout_ms: int) -> None:
        """Commit, where that is regular, give the partitions up, leave the group and
        stop fetching. Idempotent.
        """
        if self._closed:
            return
        self._closed = True
        self.stock.close()
        deadline = self._fetch.cluster.deadline(timeout_ms) if self._fetch is not None else None
        try:
            await self.group.finish("the consumer is being closed", timeout_ms)
        finally:
            await self._stop(deadline)

    async def _stop(self, deadline: Deadline | None) -> None:
        self.stock.clear()
        await self._placing.close()
        await self.group.close()
        fetch, self._fetch = self._fetch, None
        self.stock.clear()
        if self._look_again is not None:
            self._look_again.cancel()
        if fetch is not None and deadline is not None:
            with contextlib.suppress(TimeoutError):  # brokers forget sessions by themselves
                async with ClockDeadline(fetch.cluster.clock, deadline.at_ms):
                    await fetch.close()

    @property
    def fetch(self) -> AssignedFetch:
        """The reading under way. Raises LocalProtocolError before `start` and after `close`."""
        if self._fetch is None:
            raise not_running(closed=self._closed)
        return self._fetch

    @property
    def cluster(self) -> Cluster:
        """The cluster of the client."""
        return self.fetch.cluster

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions being read."""
        return self._assigned.partitions

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others; those assigned before keep their positions."""
        wanted = arguments.partitions(partitions)
        if self._closed:
            raise not_running(closed=True)
        if self.group.subscribed:
            raise LocalProtocolError(
                "this consumer has subscribed: its group assigns partitions; unsubscribe first"
            )
        self.read(wanted)

    def read(
        self, partitions: Collection[TopicPartition], held: Collection[TopicPartition] = ()
    ) -> None:
        """Read these partitions and no others: the application's choice, or the group's.

        Those of `held` are not fetched before `release`, nor are their positions looked for: the
        listener, which hears of them now, may seek.
        """
        self._assigned.read(partitions, held)
        if not held:
            self._place()

    def _reads_others(self, new: Collection[TopicPartition]) -> None:
        states = self._assigned.states
        self.group.taken(new)
        self.stock.keep(states)
        if self._fetch is not None:
            self._fetch.replace(states)

    def release(self) -> None:
        """Fetch the partitions that `read` held back, from positions that the poll looks for."""
        held = self._assigned.release()
        if self._fetch is not None:
            self._fetch.release(held)

    def part(self, tp: TopicPartition) -> PartitionFetch:
        """Return the state of an assigned partition. Raises LocalProtocolError for another."""
        return self._assigned.state(tp)

    # -- positions ---------------------------------------------------------------------------------

    def seek(self, tp: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go to an offset; an OffsetAndMetadata brings the epoch that it is validated with."""
        part = self.part(tp)
        to = arguments.offset_to_commit(tp, offset)
        self.stock.drop(tp)
        if part.positions.stage is Stage.UNSET:
            self._assigned.former.back(part, to)
        if self._fetch is None:
            part.positions.seek(to.offset, to.leader_epoch)
            part.position_epoch = part.positions.position_epoch
        else:
            self._fetch.seek(part, to.offset, to.leader_epoch)

    def go_back(self, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Go to positions in front of records that nobody got, where partitions are still read."""
        for tp in self.assignment.intersection(positions):
            self.seek(tp, positions[tp])

    def seek_to(self, spec: Spec, partitions: Collection[TopicPartition]) -> None:
        """Go to an offset that has to be looked up."""
        for part in [self.part(tp) for tp in partitions or self.assignment]:
            self.stock.drop(part.tp)
            self.fetch.reset(part, spec)

    def pause(self, partitions: Iterable[TopicPartition], *, paused: bool) -> None:
        """Stop or go on handing out records of partitions."""
        self.stock.close()
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
        """Begin to find positions for partitions that have none."""
        if self._fetch is not None:
            self._placing.begin(self._fetch, self._assigned.unplaced())

    # -- what the group needs ----------------------------------------------------------------------

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions behind what was handed out, with their leader epochs."""
        return self._assigned.consumed()

    def of_other_topics(self) -> frozenset[TopicPartition]:
        """Return the partitions of which another topic seems to have the name now."""
        return self._assigned.of_other_topics(self.cluster.view.topic_id)

    def stalled(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that cannot be read now: no position, no leader, or an error."""
        waiting = self._assigned.not_fetching()
        return tuple(
            tp
            for tp in sorted(self.assignment)
            if tp in waiting or self.cluster.leader(tp).node is None
        )

    def wake(self) -> None:
        """Let a poll look again: the one that waits, or the next."""
        self.stock.close()
        if self._fetch is not None:
            self._fetch.wake()

    # -- polls -------------------------------------------------------------------------------------

    async def poll(
        self,
        wanted: Collection[TopicPartition],
        timeout_ms: int | None,
        *,
        raise_errors: bool = True,
    ) -> TakenUp | None:
        """Open the stock and return what is first in it; None when nothing came in time (timeout
        None: wait forever).

        Raises the error that stands at a position, if `raise_errors`, after everything in front of
        it.
        """
        fetch = self.fetch
        self.cluster.check_loop("consumer")
        if not self._assigned.states and not self.group.subscribed:
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
            found = await self._poll(fetch, of, deadline, raise_errors=raise_errors)
        finally:
            self.group.poll_ends()
        if found is not None:
            self._open()
        return found

    async def _poll(
        self,
        fetch: AssignedFetch,
        of: frozenset[TopicPartition] | None,
        deadline: Deadline | None,
        *,
        raise_errors: bool,
    ) -> TakenUp | None:
        while True:
            if raise_errors and self.group.news and not await self.group.show(deadline):
                return None
            for tp in of or ():
                self.part(tp)
            self._place()
            for ended in self.stock.settle():
                assert ended.fetch.error is not None
                fetch.stop(ended.part, ended.fetch.error)
            if raise_errors:
                self._raise_trouble(of, waits_for_group=self.group.subscribed)
            if (found := self.stock.of(of)) is not None:
                return found
            for part, raw in fetch.take(of, TAKE_BYTES, without=self.stock.partitions):
                self.stock.put(part, raw)
            if (found := self.stock.of(of)) is not None:
                return found
            if not await self._wait(deadline):
                return None

    def _open(self) -> None:
        """Let records be handed out for a while."""
        if self._closed or self.group.news:
            return
        self.stock.open()
        if self._look_again is None:
            now_ms = self.cluster.now_ms()
            due_ms = self.group.commit_due_ms
            until_ms = (
                now_ms + LOOK_AGAIN_MS if due_ms is None else min(now_ms + LOOK_AGAIN_MS, due_ms)
            )
            self._look_again = self.cluster.clock.call_at_ms(until_ms, self._close_stock)

    def _close_stock(self) -> None:
        self._look_again = None
        self.stock.close()

    async def next_batch(
        self, wanted: Collection[TopicPartition], filled: TakenUp | None
    ) -> tuple[FetchedBatch | None, TakenUp | None]:
        """Return the batch of a decoded fetch, and what is to be decoded next; without
        a batch it waits for that.
        """
        # what the poll before handed out is done with; this one may be another member's now
        if filled is not None:
            self.group.poll_begins()
            if self.group.news:
                await self.group.show()
        filled = self.current(filled)
        batch = filled.fetch.take_batch() if filled is not None else None
        found = await self.poll(wanted, None if batch is None else 0, raise_errors=batch is None)
        self.stock.close()  # what was decoded as records is decoded again, as a batch
        return batch, found

    def current(self, taken: TakenUp | None) -> TakenUp | None:
        """Return what was taken up if it is still to be consumed: between two calls a seek
        or a reset may have come.
        """
        return taken if taken is not None and self.stock.has(taken) else None

    # -- inside ------------------------------------------------------------------------------------

    def _raise_trouble(
        self, of: Collection[TopicPartition] | None, *, waits_for_group: bool = False
    ) -> None:
        """Raise what stands in the way. With `waits_for_group` a topic that is gone does not: it is
        looked for again until the group takes it away, or it is there again (G42).
        """
        error = self._placing.take_trouble()
        if error is not None:
            raise error
        while (error := self.fetch.failure(of)) is not None:
            if any(self.part(tp).positions.error is error for tp in self.stock.partitions):
                return
            self.fetch.reported(error)
            if not (waits_for_group and isinstance(error, UnknownTopicOrPartitionError)):
                raise error
            log.warning("the group has not taken a topic away that is gone: %s", error)

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
