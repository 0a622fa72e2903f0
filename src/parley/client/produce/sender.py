"""Sending batches: what partitions have for whom, and what is made of the answers.

1. What a broker is sent is decided by `produce.requests`.
2. What an answer does to a partition is decided by `produce.state` and `sequences`; here it is
   done.
3. What cannot be sent again as it is goes through `produce.resend`; its partition is locked
   meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Reaction, classify
from parley.client.cluster.view import HINTED
from parley.client.produce.answers import (
    NO_SUCH_TOPIC,
    Action,
    closed_error,
    judge,
    leaves_in_doubt,
    too_late,
)
from parley.client.produce.buffer_memory import Room
from parley.client.produce.ready import ReadyPartitions
from parley.client.produce.requests import Requests
from parley.client.produce.resend import Resend, goes_as_it_is
from parley.client.produce.state import Chosen, OutBatch, PartitionLog, ProduceCall
from parley.client.produce.wire import ProduceAnswer, read_produce
from parley.errors import KafkaError, RemoteProtocolError
from parley.messages import ProduceResponse
from parley.net import Reply, TimerHandle
from parley.net.blocking import Work
from parley.types import TopicPartition


class Sender:
    """Everything that one client has to write. Belongs to the event loop."""

    def __init__(
        self, cluster: Cluster, renew_identity: Callable[[], Awaitable[tuple[int, int]]]
    ) -> None:
        self._cluster = cluster
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self._ready = ReadyPartitions()
        self._tasks: set[asyncio.Task[None]] = set()
        self._refreshing = self._kicked = self._closed = False
        self._timer: TimerHandle | None = None
        self.memory = Room()
        self.lock = asyncio.Lock()
        """Held while batches are numbered, encoded, added, and a partition is numbered again."""
        self._resend = Resend(self.memory, self.lock, renew_identity)
        self.has_older_topics = False
        """Whether a leader has refused the newest record format for a topic."""
        self.requests = Requests(cluster, self._ready, self.memory, self)
        self.kicked: list[Callable[[], None]] = []
        """Called after what may be sent has been looked at."""

    def log(self, tp: TopicPartition) -> PartitionLog:
        """Return the state of a partition, a new one where there is none."""
        return self.logs.get(tp) or self.logs.setdefault(tp, PartitionLog(tp))

    async def room(self, call: ProduceCall, buffer_memory: int) -> None:
        """Return when more rows may be encoded. Raises the call's error as soon as it has one."""
        while self.memory.used_bytes >= buffer_memory and call.error is None and not self._closed:
            await self.memory.change()
        if call.error is not None:
            raise call.error
        if self._closed:
            raise closed_error()

    def add(self, batches: Iterable[OutBatch]) -> None:
        """Queue batches behind those before them. Call with the lock held."""
        for batch in batches:
            self.check_wanted(batch)
            self.memory.take(batch)
            batch.call.opened()
            log = self.log(batch.tp)
            log.add(batch)
            self._ready.touch(log)
        self.kick_soon()

    def check_wanted(self, batch: OutBatch) -> None:
        """Raise why a batch is not to be sent any more, if so."""
        if self._closed or batch.call.error is not None:
            raise batch.call.error or closed_error()

    async def settled(self, call: ProduceCall) -> None:
        """Return when a call has all its acknowledgements, or an error."""
        while not call.settled:
            await self.memory.change()

    def abandon(self, call: ProduceCall, error: KafkaError) -> None:
        """Give a call up: what was not sent is dropped, what was sent is on its own."""
        in_doubt = False
        for log in self._logs_of(call):
            in_doubt = in_doubt or any(batch.call is call for batch in log.in_flight)
            waiting = (*log.to_retry, *log.rewriting, *log.queue)
            for batch in [batch for batch in waiting if batch.call is call]:
                in_doubt = in_doubt or batch.in_doubt
                log.dropped(batch)
                self.memory.give(batch)
                self._ready.touch(log)
                self.kick_soon()
        call.give_up(error, in_doubt=in_doubt)
        self.memory.notify()

    def open_records(self, call: ProduceCall) -> int:
        """Return how many records of a call's batches have no outcome yet. From any thread."""
        logs = list(self.logs.values())
        open_batches = [batch for log in logs for batch in log.open_batches()]
        return sum(batch.records for batch in open_batches if batch.call is call)

    def _logs_of(self, call: ProduceCall) -> Iterable[PartitionLog]:
        """Return where batches of a call may be open."""
        if call.partition is None:
            return list(self._ready.active.values())
        log = self._ready.active.get(call.partition)
        return () if log is None else (log,)

    async def quiet(self) -> None:
        """Return when no request is under way and nothing is being rewritten."""
        while any(log.in_flight or log.locked for log in self._ready.active.values()):
            await self.memory.change()

    async def close(self) -> None:
        """Fail what is still open and stop. Idempotent."""
        self._closed = self.requests.closed = True
        for log in self._ready.active.values():
            for batch in log.open_batches():
                batch.call.give_up(
                    closed_error(), in_doubt=batch.in_doubt or batch in log.in_flight
                )
        self._ready.clear()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.memory.notify()

    # -- deciding who is sent what -----------------------------------------------------------------

    def _kick(self) -> None:
        """Send whatever may be sent now, and arrange to be called again when more may be."""
        self._kicked = False
        if self._closed:
            return
        self._cluster.refresh_if_due()
        now, cache = self._cluster.now_ms(), self._cluster.cache
        for log in self._ready.touched(now, cache.changes):
            self._look_at(log, now)
        self.requests.begin()
        if (look_ms := self._ready.next_look_ms) is not None:
            self._call_at(look_ms)
        for call in self.kicked:
            call()

    def may_have_more(self, node_id: int) -> bool:
        """Return whether a broker may get another request, and nothing is on its way there."""
        return not self._kicked and self.requests.may_have_more(node_id)

    def _look_at(self, log: PartitionLog, now: int) -> None:
        """Decide what a partition needs, and whether it has something for its leader."""
        self._expire(log, now)
        if log.is_empty and not log.locked:
            self._ready.drop(log)
            return
        log.see_topic(self._cluster.view.topic_id(log.tp.topic))
        log.begin_again()
        if log.settled:
            self._put_back(log)
        leader = self._cluster.leader(log.tp)
        if log.look_again_ms is not None:
            self._ready.look_again(log.look_again_ms)
        if log.queue and leader.node is None:
            self._ready.touch(log)  # until there is one
            self._want_refresh()
        elif (
            leader.node is not None
            and log.sendable(now, leader.epoch, self.requests.max_in_flight) is not None
        ):
            self._ready.put(log, leader.node.id)
        elif log.queue and log.not_before_ms > now:
            self._ready.look_again(log.not_before_ms)

    def _put_back(self, log: PartitionLog) -> None:
        """Queue what is to be sent again, after rewriting what cannot go as it is."""
        if goes_as_it_is(log):
            log.put_back()
        else:
            log.begin_rewriting()
            self.spawn(self._rewrite(log))

    async def _rewrite(self, log: PartitionLog) -> None:
        try:
            await self._resend.write(
                log, lambda log, batch, error: self._finish(log, batch, error=error)
            )
        finally:
            self._ready.touch(log)

    def convert(self, entries: Iterable[Chosen], magic: int) -> None:
        """Have batches rewritten in the format of a leader of another release."""
        for log, batch, epoch in entries:
            batch.convert_to = magic
            self._again(log, batch, 0, epoch)
        self.kick_soon()

    def kick_soon(self) -> None:
        """Look soon at what may be sent."""
        if not self._kicked:
            self._kicked = True
            asyncio.get_running_loop().call_soon(self._kick)

    def _call_at(self, when_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._cluster.clock.call_at_ms(
            max(when_ms, self._cluster.now_ms() + 1), self._kick
        )

    def spawn(self, work: Work[None]) -> None:
        """Run a task of the sender's."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.bug(error)
        self.kick_soon()

    # -- answers -----------------------------------------------------------------------------------

    def take(
        self, chosen: Sequence[Chosen], reply: Reply[ProduceResponse], topic_ids: dict[str, bytes]
    ) -> None:
        """Do what an answer calls for, batch by batch."""
        if reply.message is None:  # acks=0: there is no answer
            for log, batch, _ in chosen:
                self._finish(log, batch, ack=(-1, -1))
            return
        answers = read_produce(reply.message, reply.version, topic_ids)
        for log, batch, epoch in chosen:
            answer = answers.get(batch.tp)
            if answer is None:
                error = RemoteProtocolError(f"the broker's Produce answer leaves out {batch.tp}")
                self.failed(log, batch, error, epoch, refresh=True, final=False)
            else:
                self._judged(log, batch, answer, epoch, reply)

    def _judged(
        self,
        log: PartitionLog,
        batch: OutBatch,
        answer: ProduceAnswer,
        epoch: int,
        reply: Reply[ProduceResponse],
    ) -> None:
        """Do what the answer for one batch calls for."""
        if answer.error_code == 0:
            self._finish(log, batch, ack=(answer.base_offset, answer.log_append_time_ms))
            return
        if answer.error_code in NO_SUCH_TOPIC:
            log.confirmed = False
            self._cluster.cache.see_rejected_id(batch.tp.topic, batch.sent_to)
        hinted = answer.error_code in HINTED and self._cluster.next_leader(
            batch.tp, epoch, answer.leader, reply.message.node_endpoints
        )
        follow_up = judge(log, batch, answer, reply.version, hinted=hinted)
        if follow_up.action is Action.DONE:
            self._finish(log, batch, ack=(answer.base_offset, answer.log_append_time_ms))
        elif follow_up.action is Action.FAIL or follow_up.error is None:
            self._finish(log, batch, error=follow_up.error)
        elif follow_up.action is Action.SPLIT:
            batch.must_split = True
            self._again(log, batch, 0, epoch)
        elif follow_up.action is Action.OLDER_FORMAT:
            log.newest_magic = batch.convert_to = 1
            self.has_older_topics = True
            self._again(log, batch, 0, epoch)
        else:
            log.restamp = log.restamp or follow_up.action is Action.RESTAMP
            refresh, immediate = follow_up.refresh, follow_up.immediate
            self.failed(
                log,
                batch,
                follow_up.error,
                epoch,
                refresh=refresh,
                immediate=immediate,
                final=False,
            )

    def failed(
        self,
        log: PartitionLog,
        batch: OutBatch,
        error: KafkaError,
        epoch: int,
        *,
        refresh: bool,
        immediate: bool = False,
        final: bool = True,
    ) -> None:
        """Keep a batch for another attempt, or give it up where the error will not pass."""
        if leaves_in_doubt(error, batch):
            batch.in_doubt, batch.maybe_in = True, batch.sent_to
        if final and classify(error) is Reaction.FAIL:
            self._finish(log, batch, error=error)
            return
        delay = 0 if immediate else self._cluster.backoff.delay_ms(log.attempts, self._cluster.rng)
        log.last_error = error
        self._again(log, batch, delay, epoch)
        if refresh:
            self._cluster.leader_failed(log.tp, epoch)
            self._want_refresh()

    def _again(self, log: PartitionLog, batch: OutBatch, delay_ms: int, epoch: int) -> None:
        """Keep a batch for another attempt, unless its call failed meanwhile."""
        log.failed(batch, self._cluster.now_ms(), delay_ms, epoch)
        self._ready.touch(log)
        if batch.call.error is not None:
            self.memory.give(batch)

    def _finish(
        self,
        log: PartitionLog,
        batch: OutBatch,
        *,
        ack: tuple[int, int] | None = None,
        error: KafkaError | None = None,
    ) -> None:
        """Settle a batch: its call learns what became of it."""
        self._ready.touch(log)
        if ack is not None:
            log.acknowledged(batch)
            batch.call.acknowledged(batch, *ack)
        else:
            batch.in_doubt = batch.in_doubt or (error is not None and leaves_in_doubt(error, batch))
            log.dropped(batch)
            log.last_error = error or log.last_error
            failed = error if error is not None else closed_error()
            batch.call.failed(failed, in_doubt=batch.in_doubt)
            self.abandon(batch.call, failed)
        self.memory.give(batch)

    def _expire(self, log: PartitionLog, now: int) -> None:
        """Fail the calls past their delivery timeout; their batches in flight are on their own."""
        for batch in log.overdue(now):
            if batch.call.error is None:
                leaderless = log.last_error is None and self._cluster.leader(log.tp).node is None
                self.abandon(batch.call, too_late(batch, log.last_error, leaderless=leaderless))

    # -- the rest ----------------------------------------------------------------------------------

    def _want_refresh(self) -> None:
        if not self._refreshing:
            self._refreshing = True
            self.spawn(self._refresh())

    async def _refresh(self) -> None:
        try:
            await self._cluster.refresh_quietly(self._cluster.deadline())
        finally:
            self._refreshing = False

    def bug(self, error: BaseException) -> None:
        """Let an unexpected exception surface at every open call, not in the log of the loop."""
        wrapped = KafkaError(f"writing ended with an unexpected {type(error).__name__}: {error}")
        wrapped.__cause__ = error
        for log in list(self._ready.active.values()):
            for batch in log.open_batches():
                if batch.call.error is None:
                    self.abandon(batch.call, wrapped)
