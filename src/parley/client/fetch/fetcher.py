"""Reading partitions: asks brokers as the plan says, and does what their answers mean.

1. One request is under way to each broker, for all its partitions that are free; a second one for
   those that become free meanwhile.
2. The next request goes out as soon as the headers of an answer were walked, while its records wait
   to be decoded; at most `prefetch_max_bytes` wait, plus one answer per broker.
3. Nothing is decoded here: this runs in the event loop. `take` hands out raw bytes, and the caller
   decodes them in a thread of its own.
4. A partition that moved is asked for at its new leader at once (hint) or after a refresh; the
   other partitions go on.
5. Who is asked for what is decided in `fetch.plan`, what an answer means in `fetch.answers` and
   `positions`.

A fetcher belongs to its owner, which says what is read and when it ends: `fetch.bounded`, or
`fetch.assigned`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Container, Iterable, Mapping, Sequence

from parley.client.cluster.change import Change
from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Reaction, classify
from parley.client.cluster.view import HINTED
from parley.client.fetch.answers import Asked, Do, FollowUp, Limits, unexpected
from parley.client.fetch.exchange import Exchange, Lanes, Outcome, judged
from parley.client.fetch.flights import Flights
from parley.client.fetch.plan import Moment, make_plan
from parley.client.fetch.position_requests import PositionKeeper
from parley.client.fetch.positions import DataLoss, Stage
from parley.client.fetch.queue import FetchQueue
from parley.client.fetch.searching import PositionSearch
from parley.client.fetch.state import FetchPolicy, PartitionFetch, RawFetch
from parley.client.fetch.tasks import Tasks
from parley.client.fetch.troubles import Troubles
from parley.client.options.client_options import FetchOptions
from parley.errors import KafkaError
from parley.net import TimerHandle
from parley.types import TopicPartition


class Fetcher:
    """Fetches what its partitions point at. Belongs to the event loop, and to one owner."""

    def __init__(
        self,
        cluster: Cluster,
        parts: Iterable[PartitionFetch],
        options: FetchOptions,
        policy: FetchPolicy,
    ) -> None:
        self.cluster = cluster
        self._flights = Flights(parts)
        self._stirred = 0
        """Counts what ends that partitions stand: a jump, a pause, others that are read."""
        self._options = options
        self._policy = policy
        self._queue = FetchQueue()
        self._lanes = Lanes(cluster, options, sessions=policy.sessions)
        self._failure: KafkaError | None = None
        self._stopped: set[TopicPartition] = set()
        self._change = Change()
        self._tasks = Tasks(self._task_done)
        self._troubles = Troubles(cluster, policy.patience_ms, self._tasks)
        keeper = PositionKeeper(cluster, options.isolation_level)
        self._search = PositionSearch(
            cluster, keeper, self._flights, self._tasks, self._troubles, self.settle
        )
        self._kicking = False
        self._timer: TimerHandle | None = None
        self._interest = contextlib.ExitStack()
        self._closed = False

    # -- for the owner -----------------------------------------------------------------------------

    @property
    def parts(self) -> Mapping[TopicPartition, PartitionFetch]:
        """The partitions being read."""
        return self._flights.parts

    def register_interest(self) -> None:
        """Have the metadata of the partitions of now asked for again while it is outdated."""
        self._interest.close()
        self._interest.enter_context(self.cluster.interested(self.parts))

    def replace(self, parts: Mapping[TopicPartition, PartitionFetch]) -> None:
        """Read these partitions from now on, and no others."""
        for part in self._flights.replace(parts):
            self._queue.drop(part)
            self._stopped.discard(part.tp)
        self._stirred += 1
        self.register_interest()
        self.kick_soon()  # a listener that waits to hear of them comes first

    def take(self, wanted: Container[TopicPartition] | None = None) -> RawFetch | None:
        """Return bytes that wait, of any or these partitions, and let the next be fetched."""
        raw = self._queue.take(wanted)
        if raw is not None:
            self.parts[raw.tp].queued -= 1
            self.kick()
        return raw

    def take_several(
        self,
        wanted: Container[TopicPartition] | None,
        most_bytes: int,
        without: Collection[TopicPartition],
    ) -> list[RawFetch]:
        """Return bytes that wait, of each partition once: at least one's, then up to so many."""
        found: list[RawFetch] = []
        passed, size = set(without), 0
        while size < most_bytes and (raw := self._queue.take(wanted, passed)) is not None:
            found.append(raw)
            passed.add(raw.tp)
            self.parts[raw.tp].queued -= 1
            size += len(raw.data)
        if found and not self._is_full:
            self.kick()
        return found

    def failure(self, wanted: Container[TopicPartition] | None = None) -> KafkaError | None:
        """Return the error in front of any, or of these partitions, once nothing waits there."""
        if self._failure is not None:
            return self._failure
        for tp in self._stopped:
            part = self.parts[tp]
            if not part.queued and not part.paused and (wanted is None or tp in wanted):
                return part.positions.error
        return None

    def forget_failure(self, error: KafkaError) -> list[PartitionFetch]:
        """Go on after an error from `failure`; return the partitions that it still stops."""
        if self._failure is error:
            self._failure = None
        return [part for tp in self._stopped if (part := self.parts[tp]).positions.error is error]

    async def changed(self) -> None:
        """Return when there may be something to take, an error, or nothing more at all."""
        await self._change.wait()

    def wake(self) -> None:
        """Let everybody who waits look again."""
        self._change.notify()

    def drop(self, part: PartitionFetch) -> None:
        """Drop what was fetched of a partition and not taken."""
        self._queue.drop(part)

    def pause(self, part: PartitionFetch) -> None:
        """Fetch and hand out nothing of a partition until it is resumed."""
        if not part.paused:
            part.paused = True
            self._stirred += 1
            self._queue.pause(part)

    def resume(self, part: PartitionFetch) -> None:
        """Go on with a paused partition where it was."""
        if part.paused:
            part.paused = False
            self._queue.resume(part)
            self.wake()
            self.kick_soon()

    @property
    def closed(self) -> bool:
        """Whether nothing is fetched any more."""
        return self._closed

    async def close(self) -> None:
        """Stop fetching. What was not taken is dropped; it can be fetched again. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._interest.close()
        self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.close()
        self.wake()

    async def end_sessions(self) -> None:
        """End what brokers remember of this fetcher (KIP-227)."""
        await self._lanes.end_sessions()

    # -- asking ------------------------------------------------------------------------------------

    def kick(self) -> None:
        """Send whatever may be sent now, and arrange to be called again when more may be."""
        if self._closed or self._failure is not None:
            return
        self.cluster.refresh_if_due()
        for standing in self._lanes.resting():
            if standing.state != self._state():
                self._flights.fall(standing)
        moment = self._moment()
        plan = make_plan(self._flights.loose.values(), self.cluster.cache, moment)
        for part in plan.recreated:
            self._left_history(part)
            self.settle(part)
        if plan.needs_metadata:
            self._troubles.refresh_soon()
        look_again_ms = plan.look_again_ms
        for part in plan.leaderless:
            self._troubles.leaderless(part)
            self.settle(part)  # it may have been the last try: whoever waits must hear of it
            look_again_ms = min(look_again_ms, max(part.not_before_ms, self.cluster.now_ms() + 1))
        for node_id, parts in plan.validations.items():
            lane = self._lanes.quiet(node_id)
            self._search.validate(node_id, lane, parts)
        self._search.reset(plan.resets)
        for node_id, parts in plan.fetches.items():
            if (exchange := self._lanes.free(node_id)) is not None:
                self._ask(exchange, parts)
        for standing in () if moment.full else self._lanes.resting():
            if (again := self._lanes.again(standing)) is not None:
                self._ask(again, ())
        self._call_at(look_again_ms)

    def _ask(self, exchange: Exchange, parts: Iterable[PartitionFetch]) -> None:
        if exchange.standing is not None:
            exchange.standing.state = self._state()
        self._tasks.spawn(self._answered, exchange.ask, self._flights.begin(parts))

    def _state(self) -> tuple[int, int]:
        """Return what partitions stand on."""
        return self.cluster.cache.changes, self._stirred

    def kick_soon(self) -> None:
        """Kick once for all partitions that are moved now: they are then asked about together."""
        if not self._kicking:
            self._kicking = True
            asyncio.get_running_loop().call_soon(self._kick_now)

    def _kick_now(self) -> None:
        self._kicking = False
        self.kick()

    def _moment(self) -> Moment:
        now, schedule = self.cluster.now_ms(), self.cluster.schedule
        due_ms = now + schedule.due_in_ms(now)
        refreshing, full, state = self._troubles.refreshing, self._is_full, self._state()
        return Moment(now, due_ms, schedule.refreshes, refreshing, full, state)

    @property
    def _is_full(self) -> bool:
        """Whether as many bytes wait to be taken as may wait."""
        return self._queue.bytes > 0 and self._queue.bytes >= self._options.prefetch_max_bytes

    def _call_at(self, when_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.cluster.clock.call_at_ms(when_ms, self.kick)

    def _task_done(self, error: BaseException | None) -> None:
        if error is not None:
            # It must surface at the reader, not in the log of the loop.
            self._failure = self._failure or unexpected(error)
            self.wake()
        self.kick_soon()  # thousands of positions are looked up by as many tasks

    # -- taking answers ----------------------------------------------------------------------------

    def _answered(self, outcome: Outcome) -> None:
        standing = outcome.standing
        for asked in outcome.put_off:
            if asked.stands:
                self._flights.free(asked.part)
        if outcome.error is not None:
            asked_for = [*outcome.asked, *(standing.fall() if standing is not None else ())]
            self._request_failed([asked for asked in asked_for if asked.stands], outcome.error)
            return
        lasts = outcome.lasts and standing is not None and standing.state == self._state()
        if standing is not None and not lasts:
            self._flights.fall(standing, but=outcome.answers)
        limits, served = self._limits(), list[PartitionFetch]()
        for asked in (*(standing.pick(outcome.answers) if standing else ()), *outcome.asked):
            if not asked.stands:
                continue
            follow_up = judged(outcome, asked, limits)
            no_news = follow_up.do is Do.GO_ON and asked.part.tp not in outcome.answers
            if no_news and lasts and standing is not None and standing.add(asked):
                continue
            if follow_up.do is not Do.LOOK_INTO_RANGE:
                self._flights.free(asked.part)
            self._apply(asked, follow_up, outcome)
            if follow_up.raw is not None:
                served.append(asked.part)
        self._flights.put_behind(served)

    def _request_failed(self, asked: Sequence[Asked], error: KafkaError) -> None:
        for one in asked:
            self._flights.free(one.part)
        if classify(error) is Reaction.FAIL:
            self._failure = self._failure or error
            self.wake()
            return
        self._troubles.request_failed(asked, error)
        for one in asked:
            self.settle(one.part)

    def _limits(self) -> Limits:
        max_age_ms = self.cluster.options.metadata_max_age_ms
        return Limits(self._options, self.cluster.now_ms(), self._policy.patience_ms, max_age_ms)

    def _apply(self, asked: Asked, follow_up: FollowUp, outcome: Outcome) -> None:
        part = asked.part
        if follow_up.raw is not None:
            self._queue.put(part, follow_up.raw)
            self.cluster.see_epoch(part.tp, follow_up.epoch)
            self.wake()
        if part.topic.is_refused:
            self.cluster.cache.see_rejected_id(part.tp.topic, part.topic.held)
        if follow_up.do is Do.STOP and follow_up.error is not None:
            part.positions.stop(follow_up.error)
        elif follow_up.do is Do.LOOK_INTO_RANGE and follow_up.error is not None:
            self._search.look_into_range(asked, follow_up.error)
        elif follow_up.do is Do.RETRY and follow_up.error is not None:
            epoch = asked.position.leader_epoch
            hinted = self._take_hint(part, epoch, outcome)
            refresh = follow_up.error.refresh_metadata and not hinted
            self._troubles.failed(
                part, follow_up.error, refresh=refresh, immediate=hinted, epoch=epoch
            )
        self.settle(part, follow_up.loss)

    def _take_hint(self, part: PartitionFetch, epoch: int, outcome: Outcome) -> bool:
        answer = outcome.answers.get(part.tp)
        if answer is None or answer.error_code not in HINTED:
            return False
        return self.cluster.next_leader(part.tp, epoch, answer.leader, outcome.endpoints)

    def settle(self, part: PartitionFetch, loss: DataLoss | None = None) -> None:
        """Do what follows a change of position: nothing of another history is handed out."""
        if part.follow_place():
            self._left_history(part)
        if not part.busy:
            self._flights.free(part)
        stopped = part.positions.stage is Stage.STOPPED
        self._stirred += stopped
        (self._stopped.add if stopped else self._stopped.discard)(part.tp)
        if stopped:
            self.wake()
        if loss is not None and self._policy.on_loss is not None:
            self._policy.on_loss(loss)

    def _left_history(self, part: PartitionFetch) -> None:
        self._queue.drop(part)
        self._stirred += 1
        if self._policy.on_jump is not None:
            self._policy.on_jump()
        self.wake()
