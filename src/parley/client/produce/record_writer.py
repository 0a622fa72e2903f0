"""Takes single records and has them sent: the accumulator's chunks, closed when they are due.

Belongs to the event loop, but for `room`, which any thread may call. What is due is decided by
`accumulator`, batches are made of it by `handing_over`, what is sent when by the sender.

1. Chunks of a topic are handed to the sender before Arrow rows that are written later.
2. The outcome of a record is known in the end, whatever is cancelled: acknowledged, failed, or in
   doubt.
3. Callbacks run in the loop, those of a partition in the order of its records, all of them before
   `flush` returns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import repeat
from threading import Lock, get_ident
from typing import Protocol

from parley.client.cluster.change import Change
from parley.client.cluster.core import Cluster
from parley.client.produce import under_way
from parley.client.produce.accumulator import LARGEST_GRANT_BYTES, Accumulator, Gate
from parley.client.produce.chunk import BatchCall, RecordChunk, failure
from parley.client.produce.handing_over import HandOver
from parley.client.produce.producer import Producer
from parley.client.produce.record_topics import RecordPolicy, RecordTopics, TopicRecords
from parley.client.produce.rows import TopicPlan
from parley.client.produce.shares import BusyTopics, Shares
from parley.client.results import RecordMetadata
from parley.errors import BufferExhaustedError, KafkaError
from parley.net import Deadline as ClockDeadline, TimerHandle
from parley.net.blocking import Work

log = logging.getLogger("parley.client")
LARGEST_CHUNK_BYTES = 4 * 2**20
NEVER_MS = 2**63 - 1


class Observer(Protocol):
    """Who learns how a producer's chunks and batches fare. May be called in any thread at first."""

    def chunk_begun(self) -> None:
        """A chunk begins. What this raises, the sender of its first record gets."""

    def batch_ended(self, call: BatchCall, chunk: RecordChunk) -> None:
        """The outcome of a batch is known. In the loop, before whoever waits for it goes on."""

    def chunk_ended(self) -> None:
        """The outcome of a chunk's last record is known. In the loop."""


class RecordWriter:
    """The records of one producer on their way into batches."""

    def __init__(
        self, cluster: Cluster, producer: Producer, policy: RecordPolicy, observer: Observer
    ) -> None:
        self._cluster, self._producer, self._policy = cluster, producer, policy
        self._observer = observer
        self._loop, self._thread = asyncio.get_running_loop(), get_ident()
        self._ahead_ms = cluster.now_ms() - int(self._loop.time() * 1000)
        self._memory = producer.sender.memory
        self._accumulator = Accumulator(policy.linger_ms, policy.batches.options.buffer_memory)
        self.open = self._accumulator.open
        """The chunks that take records, by topic; see `guard`."""
        self.guard = Lock()
        """Held while chunks are granted memory, begin and end, never while a record is appended."""
        self._topics = RecordTopics(cluster, producer, policy, self._now_ms)
        self._hand_over = HandOver(producer, self._topics, policy, self._spawn, self._handed_over)
        self._unsettled: dict[RecordChunk, None] = {}
        self._settled, self._handed = Change(), Change()
        self._turn = asyncio.Lock()
        self._waiting = 0
        self.owes_turn = False
        """Whether so much was sent that a task which sends should let others go on."""
        self._timer: TimerHandle | None = None
        self._timer_at_ms: int | None = None
        self._ticking = False
        self._tasks: set[asyncio.Task[None]] = set()
        producer.ahead.append(self.hand_over_topic)
        producer.sender.kicked.append(self._look_again)

    # -- room for records --------------------------------------------------------------------------

    def plan(self, topic: str) -> TopicPlan | None:
        """Return what is known of a topic, None before it was asked for."""
        records = self._topics.get(topic)
        return None if records is None else records.plan

    def room(self, topic: str, size: int, *, first: bool = False) -> RecordChunk | None:
        """Return a topic's open chunk, with room for a record of `size`; None where that has to be
        waited for. `first`: whoever calls has waited longest.
        """
        records = self._topics.get(topic)
        if records is None or records.plan is None:
            return None
        full: RecordChunk | None = None
        begun = False
        with self.guard:
            chunk = self.open.get(topic)
            if chunk is not None and chunk.room >= size:
                return chunk
            if (self._waiting and not first) or (
                self._policy.in_loop_only and get_ident() != self._thread
            ):
                return None
            if chunk is not None and not self._accumulator.grant(chunk, size):
                full = self._close(records)
                chunk = None
            if chunk is None:
                chunk, begun = self._new_chunk(records), True
            if not self._grant(chunk, size):
                chunk = None
        if full is not None:
            self.owes_turn = True
            self._hand_over.take([(records, full)])
        if begun and chunk is not None:
            chunk = self._begin(chunk)
            self._in_loop(self._arm)
        return chunk

    async def wait_for_room(self, topic: str, partition: int | None, size: int) -> None:
        """Return when a topic is known, its partition too, and its chunk has room for a record.

        Those who wait get room in the order in which they came. Raises the topic's error, and
        BufferExhaustedError when `max_block_ms` is over.
        """
        options = self._policy.batches.options
        began_ms = self._cluster.now_ms()
        await self.prepare(topic, -1 if partition is None else partition)
        try:
            deadline = ClockDeadline(self._cluster.clock, began_ms + options.max_block_ms)
            async with deadline, self._turn:
                self._waiting += 1
                try:
                    while self.room(topic, size, first=True) is None:
                        self._tick()
                        if self.room(topic, size, first=True) is None:
                            await self._memory.change()
                finally:
                    self._waiting -= 1
        except TimeoutError:
            waited_ms = self._cluster.now_ms() - began_ms
            raise self.exhausted(topic, size, waited_ms) from None

    def exhausted(self, topic: str, size: int, waited_ms: int) -> BufferExhaustedError:
        """Return the error for a record that finds no room."""
        limit = self._policy.batches.options.buffer_memory
        return BufferExhaustedError(topic, size, self._memory.used_bytes, limit, waited_ms)

    async def prepare(self, topic: str, highest: int = -1) -> TopicPlan:
        """Return what is known of a topic, after asking for it, and again where a partition is not
        known. Raises the topic's error.
        """
        return await self._topics.prepare(topic, highest)

    def gather_unprepared(self, topic: str, size: int) -> RecordChunk | None:
        """Return a chunk with room for a record of a topic that nothing is known of yet; its
        batches are made when something is. None where buffer memory is exhausted.
        """
        records = self._topics.of(topic)
        with self.guard:
            chunk = self.open.get(topic)
            begun = chunk is None
            if chunk is None:
                chunk = self._new_chunk(records)
            if chunk.room < size and not self._grant(chunk, size):
                return None
        if begun:
            chunk = self._begin(chunk)
            self._arm()
        return chunk if chunk.room >= size else None

    def _new_chunk(self, records: TopicRecords) -> RecordChunk:
        options = self._policy.batches.options
        count = 1 if records.plan is None else records.plan.partition_count
        limit = min(options.batch_size * count, LARGEST_CHUNK_BYTES, options.buffer_memory // 4)
        chunk = RecordChunk(
            records.topic, self._now_ms(), max(1, limit), self.guard, self._call_ended
        )
        chunk.loop = self._loop
        if records.plan is not None:
            magics = records.plan.magics.values()
            chunk.admit(count, min(magics, default=0) >= 2, self.guard)
        return chunk

    def _begin(self, chunk: RecordChunk) -> RecordChunk:
        """Let records into a new chunk; return it, or what another thread has begun meanwhile."""
        try:
            self._observer.chunk_begun()
        except BaseException:
            self._memory.release(chunk.granted)
            raise
        with self.guard:
            other = self.open.get(chunk.topic)
            if other is None:
                self._accumulator.begin(chunk)
                self._unsettled[chunk] = None
                under_way.begun(chunk)
                return chunk
        self._memory.release(chunk.granted)
        self._observer.chunk_ended()
        return other

    def _grant(self, chunk: RecordChunk, size: int) -> bool:
        limit = self._policy.batches.options.buffer_memory
        for wanted in (self._accumulator.grant(chunk, size), size - chunk.room):
            if chunk.room + wanted >= size and self._memory.reserve(wanted, limit):
                chunk.granted += wanted
                chunk.grant(wanted)
                if wanted >= LARGEST_GRANT_BYTES:
                    self.owes_turn = True
                return True
        return False

    def _close(self, records: TopicRecords) -> RecordChunk:
        """Close a topic's open chunk; call with the guard held, and hand it over afterwards."""
        chunk = self._accumulator.close(records.topic)
        records.closed.append(chunk)
        return chunk

    # -- what is due -------------------------------------------------------------------------------

    def _tick(self, *, hurry: bool = False, at_least_ms: int = 0) -> None:
        """Close what is due, or with `hurry` everything, and arrange to be called again. It is
        `at_least_ms` by now, whatever the clock says.
        """
        self._ticking = False
        # who waits for memory ends all lingering; what cannot be sent yet gathers on all the same
        now_ms = NEVER_MS if self._waiting else max(at_least_ms, self._cluster.now_ms())
        with self.guard:
            # closed as they come: whether there are many is asked while they are open
            found = self._accumulator.due(now_ms, self._gate(), hurry=hurry)
            due = [(records, self._close(records)) for records in map(self._topics.of, found)]
        if due:
            self._hand_over.take(due)
        self._arm()

    def _gate(self) -> Gate:
        """Return what holds chunks that are due."""
        if not self._accumulator.has_many:
            return BusyTopics(self._topics)
        brokers, ready = [*self._cluster.view.brokers], not self._hand_over.is_making
        return Shares(self._topics, self._producer.sender, brokers, ready=ready)

    def _look_again(self) -> None:
        """Take note that brokers may have room for more than when that was looked at last."""
        if self._accumulator.look_at_held():
            self._tick_soon()

    def _arm(self) -> None:
        due_ms = self._accumulator.next_due_ms()
        if due_ms is None or (self._timer_at_ms is not None and self._timer_at_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = due_ms
        # A clock adds a millisecond, so that its time has passed when it is looked at. Here it is
        # not looked at: each record would wait for that.
        self._timer = self._cluster.clock.call_at_ms(due_ms - 1, self._time_is_up)

    def _time_is_up(self) -> None:
        due_ms, self._timer, self._timer_at_ms = self._timer_at_ms, None, None
        self._tick(at_least_ms=due_ms or 0)

    def _tick_soon(self) -> None:
        if not self._ticking:
            self._ticking = True
            self._loop.call_soon(self._tick)

    # -- outcomes ----------------------------------------------------------------------------------

    def _call_ended(self, chunk: RecordChunk, call: BatchCall) -> None:
        self._observer.batch_ended(call, chunk)
        if chunk.callbacks is not None:
            self._loop.call_soon(self._call_back, chunk, call)
        if chunk.settled:
            self._forget(chunk)
        if self._accumulator.answered(chunk.topic):
            self._tick_soon()

    def _handed_over(self, chunk: RecordChunk) -> None:
        """Take note of a chunk whose batches are the sender's now."""
        self._memory.release(chunk.granted)
        self._handed.notify()
        if self._waiting:
            self._memory.notify()
        if not chunk.rows:
            self._forget(chunk)

    def _forget(self, chunk: RecordChunk) -> None:
        if chunk not in self._unsettled:
            return
        del self._unsettled[chunk]
        under_way.ended(chunk)
        self._settled.notify()
        self._observer.chunk_ended()

    def _call_back(self, chunk: RecordChunk, call: BatchCall) -> None:
        """Call back for the records of a batch. What a callback raises ends nothing."""
        callbacks = chunk.callbacks or []
        most = len(callbacks)
        error = call.error and failure(call.error, in_doubt=call.in_doubt)
        if error is None:
            found = chunk.delivered(call)
        else:
            nowhere = RecordMetadata(*call.partition, -1, -1)
            found = zip(chunk.rows_of(call), repeat(nowhere), strict=False)
        for row, metadata in found:
            callback = callbacks[row] if row < most else None
            if callback is not None:
                callbacks[row] = None
                try:
                    callback(error, metadata)
                except (Exception, SystemExit):
                    log.exception("a callback of a producer raised; its record is not affected")

    # -- flush and close ---------------------------------------------------------------------------

    async def hand_over_topic(self, topic: str) -> None:
        """Return when all that was sent to a topic before this call is the sender's."""
        records = self._topics.get(topic)
        if records is None:
            return
        with self.guard:
            chunk = self._close(records) if topic in self.open else None
        if chunk is not None:
            self._hand_over.take([(records, chunk)])
        if records.closed:
            last = records.closed[-1]
            while last in records.closed:
                await self._handed.wait()

    def hand_over_all(self) -> None:
        """Close all chunks, and have their batches handed over."""
        self._tick(hurry=True)

    async def flush(self) -> None:
        """Return when the outcome of every record that was sent before this call is known."""
        self.hand_over_all()
        for chunk in list(self._unsettled):
            while chunk in self._unsettled:
                await self._settled.wait()
        await asyncio.sleep(0)  # callbacks of the last batches run first

    def abandon(self, error: KafkaError) -> None:
        """Give up every record whose outcome is not known."""
        with self.guard:
            for topic in list(self.open):
                self._close(self._topics.of(topic)).batches = []
        waiting = {chunk for records in self._topics.all() for chunk in records.closed}
        for chunk in list(self._unsettled):
            if chunk in waiting:
                chunk.fail(error)
                continue
            for call in list(chunk.calls):
                if not call.done:
                    self._producer.sender.abandon(call.joint or call, error)
        for records in self._topics.all():
            self._hand_over.hand_over(records)

    def leave_behind(self) -> None:
        """Say what is lost with an event loop that is closed: nothing can be sent any more."""
        under_way.warn(self._unsettled, "when their event loop was closed")
        for chunk in self._unsettled:
            under_way.ended(chunk)
        self._unsettled.clear()
        self.open.clear()

    async def close(self) -> None:
        """Stop; what is not settled by now is given up elsewhere."""
        if self.hand_over_topic in self._producer.ahead:
            self._producer.ahead.remove(self.hand_over_topic)
            self._producer.sender.kicked.remove(self._look_again)
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- inside ------------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000) + self._ahead_ms

    def _in_loop(self, work: Callable[[], None]) -> None:
        if get_ident() == self._thread:
            work()
        else:
            self._loop.call_soon_threadsafe(work)

    def _spawn(self, work: Work[None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
