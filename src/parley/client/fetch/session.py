"""Reading partitions: which broker is asked for what and when.

1. One request is under way to each broker, for all its partitions that are free; a second one for those
   that become free meanwhile.
2. The next request goes out as soon as the headers of an answer were walked, while its records wait
   to be decoded; at most `prefetch_max_bytes` wait, plus one answer per broker.
3. Nothing is decoded here: this runs in the event loop. `next` hands out raw bytes, and the caller
   decodes them in a thread of its own.
4. A partition that moved is asked for at its new leader at once (hint) or after a refresh; the other
   partitions go on.
5. A partition waits for one answer at a time: for records, for the validation of its position, or for
   a reset. What that answer means is decided in `fetch.answers` and `positions`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Container, Iterable
from typing import Any

from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Reaction, classify
from parley.client.cluster.wanted_topics import ensure_partitions
from parley.client.fetch.answers import HINTED, Asked, Do, Limits, Verdict, unexpected
from parley.client.fetch.exchange import Lanes, Outcome, judged
from parley.client.fetch.incremental import FETCH_SESSION_TOPIC_ID_ERROR, SESSION_ERRORS
from parley.client.fetch.out_of_range import explain_out_of_range
from parley.client.fetch.position_requests import Found, Kept, PositionKeeper
from parley.client.fetch.positions import DataLoss, Stage
from parley.client.fetch.queue import FetchQueue
from parley.client.fetch.recreation import ROUND_MS, rewound
from parley.client.fetch.state import Conduct, PartitionFetch, RawFetch, retry_delay
from parley.client.options.client_options import FetchOptions
from parley.errors import DataLossError, KafkaError, NetworkError, broker_error
from parley.types import ZERO_UUID, TopicPartition

LEADER_NOT_AVAILABLE = 5


class FetchSession:
    """The reading of some partitions. Belongs to the event loop."""

    def __init__(
        self, cluster: Cluster, parts: Iterable[PartitionFetch], options: FetchOptions, conduct: Conduct
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._conduct = conduct
        self._parts = {part.tp: part for part in parts}
        self._queue = FetchQueue()
        self._keeper = PositionKeeper(cluster, options.isolation_level)
        self._lanes = Lanes(cluster, options, sessions=conduct.sessions)
        self._failure: KafkaError | None = None
        self._stopped: set[TopicPartition] = set()
        self._waiters: set[asyncio.Future[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._refreshing = False
        self._timer: Any = None
        self._scope = contextlib.ExitStack()
        self._closed = False

    async def start(self) -> None:
        """Find the partitions and begin to fetch. Raises as `ensure_partitions`."""
        self._scope.enter_context(self._cluster.interested(self._parts))
        try:
            await ensure_partitions(self._cluster, self._parts, self._cluster.deadline(self._conduct.patience_ms))
        except BaseException:
            self._scope.close()
            raise
        self.kick()

    async def next(self) -> RawFetch | None:
        """Return the next record bytes, None when every partition has reached its end.

        Raises the error that ended the reading, after everything in front of it was handed out.
        """
        while True:
            if (raw := self.take()) is not None:
                self._parts[raw.tp].place.passed(raw.next_offset, raw.epoch_before(raw.next_offset))
                return raw
            if (error := self.failure()) is not None:
                raise error
            if self._closed or all(part.done for part in self._parts.values()):
                return None
            await self.changed()

    def take(self, wanted: Container[TopicPartition] | None = None) -> RawFetch | None:
        """Return bytes that wait, of any or of these partitions, and let the next ones be fetched."""
        raw = self._queue.take(wanted)
        if raw is not None:
            self._parts[raw.tp].queued -= 1
            self.kick()
        return raw

    def failure(self, wanted: Container[TopicPartition] | None = None) -> KafkaError | None:
        """Return the error that stands in front of any, or of these partitions, once nothing waits before it."""
        if self._failure is not None:
            return self._failure
        for tp in self._stopped:
            part = self._parts[tp]
            if not part.queued and not part.paused and (wanted is None or tp in wanted):
                return part.place.error
        return None

    async def changed(self) -> None:
        """Return when there may be something to take, an error, or nothing more at all."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    async def close(self) -> None:
        """Stop fetching. What was not handed out is dropped; it can be fetched again. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._scope.close()
        self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._wake()

    # -- deciding who is asked ------------------------------------------------------------------------

    def kick(self) -> None:
        """Send whatever may be sent now, and arrange to be called again when more may be."""
        if self._closed or self._failure is not None:
            return
        self._cluster.refresh_if_due()
        full = self._queue.bytes > 0 and self._queue.bytes >= self._options.prefetch_max_bytes
        now = self._cluster.now_ms()
        fetches: dict[int, list[PartitionFetch]] = {}
        checks: dict[int, list[PartitionFetch]] = {}
        resets: list[PartitionFetch] = []
        later = [now + max(self._cluster.schedule.due_in_ms(now), ROUND_MS)]  # paused partitions have leaders too
        for part in self._parts.values():
            if part.busy or part.done or part.place.stage in (Stage.UNSET, Stage.STOPPED):
                continue
            if self._doubtful(part, now):
                later.append(now + ROUND_MS)
            elif part.place.stage is Stage.AWAIT_RESET:
                (later.append(part.not_before_ms) if part.not_before_ms > now else resets.append(part))
            else:
                node_id = self._source(part, now)
                if node_id is None or part.must_wait(now, part.place.fetch.leader_epoch):
                    later.append(max(part.not_before_ms, now + 1))
                elif part.place.stage is Stage.AWAIT_VALIDATION:
                    checks.setdefault(node_id, []).append(part)
                elif not (full or part.paused):
                    fetches.setdefault(node_id, []).append(part)
        for node_id, parts in checks.items():
            lane = self._lanes.quiet(node_id)
            self._spawn(self._kept, self._keeper.validate, node_id, lane, self._begin(parts))
        for group in self._keeper.reset_groups(resets):
            self._spawn(self._kept, self._keeper.reset, self._begin(group))
        for node_id, parts in fetches.items():
            if (exchange := self._lanes.free(node_id)) is not None:
                self._spawn(self._answered, exchange.ask, self._begin(parts))
        self._call_at(min(later))

    def _begin(self, parts: Iterable[PartitionFetch]) -> list[Asked]:
        flight, asked = object(), []
        for part in parts:
            part.flight = flight
            asked.append(Asked(part, flight, part.place.fetch, part.place.lineage, part.preferred is not None))
        return asked

    def _source(self, part: PartitionFetch, now: int) -> int | None:
        """Return the broker to read a partition from, None when there is none; hold its position against the leader."""
        leader = self._cluster.leader(part.tp)
        if leader.node is None:
            if part.not_before_ms <= now:
                self._leaderless(part, now)
            return None
        if part.topic.held == ZERO_UUID and rewound(part.place.fetch.leader_epoch, leader.epoch):
            part.place.recreated(ZERO_UUID, ZERO_UUID)
            self._settle(part)
        if part.topic.in_doubt:
            return leader.node.id  # what metadata says may be of another topic: only a fetch by id tells
        stage = part.place.meet(leader.node.id, leader.epoch)
        if part.preferred is not None and stage is Stage.FETCHING:
            node_id, until = part.preferred
            if now < until and self._cluster.cache.online_replica(part.tp, node_id) is not None:
                return node_id
            part.preferred = None
        return leader.node.id if stage in (Stage.FETCHING, Stage.AWAIT_VALIDATION) else None

    def _leaderless(self, part: PartitionFetch, now: int) -> None:
        code = self._cluster.cache.topic_error(part.tp.topic)
        error = broker_error(code, topic=part.tp.topic, partition=part.tp.partition, api="METADATA") if code else None
        if error is not None and classify(error) is Reaction.FAIL:
            part.place.stop(error)
            self._settle(part)
            return
        text = "no broker leads this partition at the moment"
        none = broker_error(LEADER_NOT_AVAILABLE, text, topic=part.tp.topic, partition=part.tp.partition)
        self._troubled(part, none, now, refresh=True)
        self._settle(part)  # it may have been the last try: whoever waits must hear of it

    def _doubtful(self, part: PartitionFetch, now: int) -> bool:
        """Return whether nothing may be asked because another topic may stand under the name (KIP-516)."""
        topic, answers = part.topic, self._cluster.schedule.refreshes
        by_wire = part.by_wire and not part.paused and part.place.stage is Stage.FETCHING
        if topic.observe(self._cluster.view.topic_id(part.tp.topic), answers, now, by_wire=by_wire):
            part.place.recreated(*topic.accept(now))
            self._settle(part)
        if not topic.in_doubt:
            return False
        if topic.asks and not self._refreshing:
            topic.rounds += 1
            self._refresh_soon()
        return not by_wire

    def _call_at(self, when_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._cluster.clock.call_at_ms(when_ms, self.kick)

    def _spawn(self, then: Callable[[Any], None] | None, work: Callable[..., Awaitable[Any]], *arguments: Any) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(self._guarded(then, work, *arguments))
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    async def _guarded(
        self, then: Callable[[Any], None] | None, work: Callable[..., Awaitable[Any]], *arguments: Any
    ) -> None:
        found = await work(*arguments)
        if then is not None and not self._closed:
            then(found)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = self._failure or unexpected(
                error
            )  # it must surface at the reader, not in the log of the loop
            self._wake()
        self.kick()

    # -- taking answers -------------------------------------------------------------------------------

    def _answered(self, outcome: Outcome) -> None:
        for asked in outcome.put_off:
            if asked.stands:
                asked.part.flight = None
        if outcome.error is not None:
            self._request_failed([asked for asked in outcome.asked if asked.stands], outcome.error)
            return
        limits = self._limits()
        for asked in outcome.asked:
            if asked.stands:
                verdict = judged(outcome, asked, limits)
                if verdict.do is not Do.LOOK_INTO_RANGE:
                    asked.part.flight = None
                self._apply(asked, verdict, outcome)

    def _limits(self) -> Limits:
        max_age_ms = self._cluster.options.metadata_max_age_ms
        return Limits(self._options, self._cluster.now_ms(), self._conduct.patience_ms, max_age_ms)

    def _apply(self, asked: Asked, verdict: Verdict, outcome: Outcome) -> None:
        part = asked.part
        if verdict.raw is not None:
            self._queue.put(part, verdict.raw)
            self._cluster.see_epoch(part.tp, verdict.epoch)
            self._parts[part.tp] = self._parts.pop(part.tp)  # the others come first in the next request
            self._wake()
        if part.topic.is_refused:
            self._cluster.cache.see_rejected_id(part.tp.topic, part.topic.held)
        if verdict.do is Do.STOP and verdict.error is not None:
            part.place.stop(verdict.error)
        elif verdict.do is Do.LOOK_INTO_RANGE and verdict.error is not None:
            self._spawn(None, self._look_into_range, asked, verdict.error)
        elif verdict.do is Do.RETRY and verdict.error is not None:
            epoch = asked.position.leader_epoch
            hinted = self._take_hint(part, epoch, outcome)
            refresh = verdict.error.refresh_metadata and not hinted
            now = self._cluster.now_ms()
            self._troubled(part, verdict.error, now, refresh=refresh, immediate=hinted, epoch=epoch)
        self._settle(part, verdict.loss)

    def _take_hint(self, part: PartitionFetch, epoch: int, outcome: Outcome) -> bool:
        answer = outcome.answers.get(part.tp)
        if answer is None or answer.error_code not in HINTED:
            return False
        return self._cluster.next_leader(part.tp, epoch, answer.leader, outcome.endpoints)

    def _kept(self, kept: Iterable[tuple[Asked, Kept]]) -> None:
        """Take what the validation or the reset of positions found."""
        for asked, found in kept:
            part, loss = asked.part, None
            if not asked.stands:
                continue
            part.flight = None
            if isinstance(found, KafkaError):
                self._position_trouble(asked, found)
            else:
                part.succeeded()
                if isinstance(found, Found):
                    loss = part.place.reset_to(found.asked, found.offset)
                else:
                    loss = part.place.validated(asked.position, found)
            self._settle(part, loss)

    async def _look_into_range(self, asked: Asked, error: KafkaError) -> None:
        """Find out whether the position is really gone, or the broker was only behind."""
        part, trouble = asked.part, error
        lost: DataLossError | None = None
        try:
            lost = await explain_out_of_range(self._cluster, part.tp, asked.position.offset, error, part.lost_range)
        except KafkaError as found:
            trouble = found
        if not asked.stands or self._closed:
            return
        part.flight = None
        if lost is not None:
            part.place.out_of_range(asked.position.offset, lost)
        else:
            part.place.revalidate()
            self._position_trouble(asked, trouble, passing=trouble is error)
        self._settle(part)

    def _settle(self, part: PartitionFetch, loss: DataLoss | None = None) -> None:
        """Do what follows when a partition's place has changed: nothing of another lineage is handed out."""
        stopped = part.place.stage is Stage.STOPPED
        if part.lineage != part.place.lineage:
            part.lineage = part.place.lineage
            self._queue.drop(part)
            part.jumped()
            self._wake()
        (self._stopped.add if stopped else self._stopped.discard)(part.tp)
        if stopped:
            self._wake()
        if loss is not None and self._conduct.on_loss is not None:
            self._conduct.on_loss(loss)

    # -- trouble --------------------------------------------------------------------------------------

    def _request_failed(self, asked: Iterable[Asked], error: KafkaError) -> None:
        for one in asked:
            one.part.flight = None
        if classify(error) is Reaction.FAIL:
            self._failure = self._failure or error
            self._wake()
            return
        now, code = self._cluster.now_ms(), getattr(error, "code", 0)
        refresh = isinstance(error, NetworkError) or error.refresh_metadata or code == FETCH_SESSION_TOPIC_ID_ERROR
        for one in asked:
            immediate = code in SESSION_ERRORS and not one.part.attempts
            epoch = one.position.leader_epoch
            self._troubled(one.part, error, now, refresh=refresh, immediate=immediate, epoch=epoch)
            self._settle(one.part)

    def _position_trouble(self, asked: Asked, error: KafkaError, *, passing: bool = False) -> None:
        """L2: whatever goes wrong here is tried again or told; a position is never reset because of it."""
        if classify(error) is Reaction.FAIL and not passing:
            asked.part.place.stop(error)
            return
        refresh = isinstance(error, NetworkError) or error.refresh_metadata or passing
        now = self._cluster.now_ms()
        self._troubled(asked.part, error, now, refresh=refresh, epoch=asked.position.leader_epoch)

    def _troubled(
        self,
        part: PartitionFetch,
        error: KafkaError,
        now: int,
        *,
        refresh: bool,
        immediate: bool = False,
        epoch: int = -1,
    ) -> None:
        delay = retry_delay(part, self._cluster.backoff, self._cluster.dice(), immediate=immediate)
        final = part.failed(error, now, delay_ms=delay, patience_ms=self._conduct.patience_ms, epoch=epoch)
        if final is not None:
            part.place.stop(final)
        elif refresh or part.stubborn:
            self._cluster.leader_failed(part.tp, epoch)
            self._refresh_soon()

    def _refresh_soon(self) -> None:
        if not self._refreshing:
            self._refreshing = True
            self._spawn(None, self._refresh)

    async def _refresh(self) -> None:
        try:
            await self._cluster.refresh_quietly(self._cluster.deadline())
        finally:
            self._refreshing = False

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
