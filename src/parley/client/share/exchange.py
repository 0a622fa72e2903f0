"""One request at a time to each broker that leads partitions of a share consumer.

Belongs to the event loop. What to send is decided in `group.share.session`, what an error means in
`group.share.reactions`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from parley.client.cluster.core import Cluster
from parley.client.cluster.refusals import refusal
from parley.client.cluster.retry import Deadline, Reaction, classify
from parley.client.cluster.view import HINTED, ClusterMetadata, Endpoint
from parley.client.fetch.answers import unexpected
from parley.client.group.share.acquired import AcquiredRange
from parley.client.group.share.book import AcknowledgeType, Book, Due, Grant, Outcome
from parley.client.group.share.heartbeat import ShareStanding
from parley.client.group.share.reactions import SessionReaction, after_session_error
from parley.client.group.share.session import (
    ENDING,
    Request,
    TopicIdPartition,
    next_request,
)
from parley.client.group.share.wire import (
    RECORD_LIMIT,
    acknowledge_request,
    allowed_versions,
    fetch_request,
    renewing,
)
from parley.client.share.brokers import Broker
from parley.client.share.fetched import Row, SharedFetch
from parley.client.share.options import ShareConsumerOptions
from parley.errors import KafkaError, NetworkError, UnsupportedVersionError
from parley.messages import ShareAcknowledgeResponse, ShareFetchResponse
from parley.net import BrokerConnection, Deadline as ClockDeadline
from parley.types import TopicPartition
from parley.versions import Feature

log = logging.getLogger("parley.client")
FRAME_SLACK_BYTES = 2**20
"""What an answer may have besides `fetch_max_bytes` of records."""
FAREWELL_MS = 1_000
"""What is kept of the time of `close` for ending sessions."""
_numbers = itertools.count(1)
Partitions = Mapping[TopicIdPartition, TopicPartition]
Answered = ShareFetchResponse.PartitionData | ShareAcknowledgeResponse.PartitionData


class ShareExchange:
    """The requests of one share consumer, and what came of them."""

    def __init__(
        self,
        cluster: Cluster,
        options: ShareConsumerOptions,
        who: ShareStanding,
        book: Book[Row],
        *,
        on_change: Callable[[], None],
        on_fenced: Callable[[], None],
    ) -> None:
        self._cluster, self._options, self._who, self._book = cluster, options, who, book
        self._on_change, self._on_fenced = on_change, on_fenced
        self._lane = f"share consumer {next(_numbers)}"
        self._brokers: dict[int, Broker] = {}
        self._asked = itertools.count(1)
        self._in_flight = 0
        self._led: tuple[Mapping[TopicPartition, bytes], ClusterMetadata] | None = None
        self._by_leader: dict[int, dict[TopicIdPartition, TopicPartition]] = {}
        self.fetched: deque[SharedFetch] = deque()
        self.outcomes: list[Outcome] = []
        self.trouble: KafkaError | None = None
        """What the next poll raises."""
        self.acquisition_lock_timeout_ms: int | None = None
        self.leaderless = False
        """Whether a partition has no leader that is known."""

    # -- what to send -----------------------------------------------------------------------------

    @property
    def acknowledging(self) -> bool:
        """Whether acknowledgements are due or under way."""
        return bool(self._book.due_at) or self._in_flight > 0

    @property
    def waiting(self) -> int:
        """How many offsets were acquired that no poll has handed out."""
        return sum(found.left for found in self.fetched)

    def pump(
        self, assigned: Mapping[TopicPartition, bytes], *, fetching: bool, hurried: bool
    ) -> None:
        """Send each broker that waits for no answer what is to be sent to it now."""
        if not fetching and not self._book.due_at:
            return
        led = self._leaders(assigned)
        nodes = [self._broker(node_id) for node_id in {*led, *self._book.due_at}]
        for broker in sorted(nodes, key=lambda one: one.last_asked):
            if broker.task is not None:
                continue
            if not broker.session.opened:
                self._settle_dead(broker)
            wanted = led.get(broker.node_id, {})
            limited = self._options.share_acquire_mode == RECORD_LIMIT and self._fetching
            dues = self._book.due(broker.node_id)
            ask = fetching and not limited
            request = next_request(
                broker.session, wanted.keys(), dues, fetching=ask, hurried=hurried
            )
            if request is not None:
                self._start(broker, request, wanted)

    @property
    def _fetching(self) -> bool:
        return any(broker.request is Request.FETCH for broker in self._brokers.values())

    def _broker(self, node_id: int) -> Broker:
        return self._brokers.setdefault(node_id, Broker(node_id))

    def _leaders(
        self, assigned: Mapping[TopicPartition, bytes]
    ) -> dict[int, dict[TopicIdPartition, TopicPartition]]:
        cluster = self._cluster
        if self._led is None or self._led[0] is not assigned or self._led[1] is not cluster.view:
            self._led, self._by_leader, self.leaderless = (assigned, cluster.view), {}, False
            for tp, topic_id in assigned.items():
                node = cluster.leader(tp).node
                if node is None:
                    self.leaderless = True
                else:
                    self._by_leader.setdefault(node.id, {})[topic_id, tp.partition] = tp
        if self.leaderless:
            cluster.schedule.request_full()
        cluster.refresh_if_due()
        return self._by_leader

    def _start(self, broker: Broker, request: Request, wanted: Partitions) -> None:
        # now: more may be due later
        dues, dead = self._book.take(broker.node_id, broker.session.number)
        self._settle(dead, self._lost(broker))
        self._in_flight += bool(dues)
        broker.request, broker.last_asked = request, next(self._asked)
        work = self._run(broker, request, wanted, dues)
        broker.task = asyncio.get_running_loop().create_task(work)

    # -- requests ---------------------------------------------------------------------------------

    async def _run(
        self, broker: Broker, request: Request, wanted: Partitions, dues: Sequence[Due]
    ) -> None:
        delay_ms = 0
        try:
            if request is Request.FETCH:
                well = await self._fetch(broker, wanted, dues)
            else:
                well = await self._acknowledge(broker, broker.session.epoch, dues)
            broker.failures = 0 if well else broker.failures + 1
            delay_ms = 0 if well else self._delay_ms(broker)
        except UnsupportedVersionError as error:  # nothing was sent
            delay_ms = self._refused(broker, request, dues, error)
        except KafkaError as error:
            delay_ms = self._failed(broker, dues, error)
        except Exception as error:  # a defect must surface in polls, not in the log of the loop
            delay_ms = self._failed(broker, dues, unexpected(error))
        except asyncio.CancelledError:
            self._settle(dues, _unanswered())
            raise
        finally:
            self._in_flight -= bool(dues)
            broker.request = None
            if not delay_ms:
                broker.task = None
            self._on_change()
        if delay_ms:
            await self._cluster.clock.sleep_ms(delay_ms)
            broker.task = None
            self._on_change()

    async def _connection(self, broker: Broker) -> BrokerConnection:
        conn = await self._cluster.connection(broker.node_id, self._lane)
        conn.versions.require(Feature.SHARE_GROUPS)
        return conn

    async def _fetch(self, broker: Broker, wanted: Partitions, dues: Sequence[Due]) -> bool:
        """Fetch, and acknowledge along with it; return whether every partition was well."""
        cluster, options, session = self._cluster, self._options, broker.session
        conn = await self._connection(broker)
        conn.accept_frames(options.fetch_max_bytes + FRAME_SLACK_BYTES)
        message = fetch_request(self._who, session.fetching(wanted.keys()), dues, options.limits)
        allowed = allowed_versions(options.share_acquire_mode == RECORD_LIMIT)
        timeout_ms = cluster.options.request_timeout_ms + options.fetch_max_wait_ms
        reply = await cluster.ask(conn, message, timeout_ms, allowed)
        answer, refused = reply.message, partial(refusal, reply, conn=conn)
        if answer.error_code:
            raise refused(answer.error_code, answer.error_message)
        session.fetched(wanted.keys())
        self.acquisition_lock_timeout_ms = answer.acquisition_lock_timeout_ms or None
        errors: dict[TopicPartition, KafkaError] = {}
        well = True
        for topic in answer.responses:
            for found in topic.partitions:
                tp = wanted.get((bytes(topic.topic_id), found.partition_index))
                if tp is None:
                    continue
                if code := found.acknowledge_error_code:
                    errors[tp] = refused(code, found.acknowledge_error_message, tp)
                if found.error_code:
                    error = refused(found.error_code, found.error_message, tp)
                    well &= self._partition_failed(tp, error, found, answer.node_endpoints)
                else:
                    self._take(tp, Grant(broker.node_id, session.number, topic.topic_id), found)
        self.outcomes += self._book.settle(dues, errors)
        return well

    def _take(
        self, tp: TopicPartition, grant: Grant, found: ShareFetchResponse.PartitionData
    ) -> None:
        ranges = [
            AcquiredRange(one.first_offset, one.last_offset, one.delivery_count)
            for one in found.acquired_records
        ]
        if not ranges:
            return
        lock_ms = self.acquisition_lock_timeout_ms
        until_ms = None if lock_ms is None else self._cluster.now_ms() + lock_ms
        data = found.records if found.records is not None else memoryview(b"")
        self.fetched.append(SharedFetch(tp, grant, data, ranges, until_ms, self._options))

    async def _acknowledge(self, broker: Broker, epoch: int, dues: Sequence[Due]) -> bool:
        """Acknowledge; return whether every partition was well."""
        cluster, conn = self._cluster, await self._connection(broker)
        message, renews = acknowledge_request(self._who, epoch, dues), renewing(dues)
        timeout_ms = cluster.options.request_timeout_ms
        reply = await cluster.ask(conn, message, timeout_ms, allowed_versions(renews))
        answer, refused = reply.message, partial(refusal, reply, conn=conn)
        if answer.error_code:
            raise refused(answer.error_code, answer.error_message)
        broker.session.acknowledged()
        lock_ms = answer.acquisition_lock_timeout_ms or self.acquisition_lock_timeout_ms
        self.acquisition_lock_timeout_ms = lock_ms
        named = {(due.grant.topic_id, due.tp.partition): due.tp for due in dues}
        errors: dict[TopicPartition, KafkaError] = {}
        for topic in answer.responses:
            for found in topic.partitions:
                tp = named.get((bytes(topic.topic_id), found.partition_index))
                if tp is not None and found.error_code:
                    errors[tp] = refused(found.error_code, found.error_message, tp)
                    self._follow(tp, errors[tp], found, answer.node_endpoints)
        self.outcomes += self._book.settle(dues, errors)
        return True

    # -- what came of it --------------------------------------------------------------------------

    def _partition_failed(
        self, tp: TopicPartition, error: KafkaError, found: Answered, where: Iterable[Endpoint]
    ) -> bool:
        """Take a partition's error; return whether it needs no pause: the new leader is known."""
        log.debug("share group %s: %s", self._who.group_id, error)
        if self._follow(tp, error, found, where):
            return True
        if classify(error) is Reaction.FAIL:
            self.trouble = error
        return False

    def _follow(
        self, tp: TopicPartition, error: KafkaError, found: Answered, where: Iterable[Endpoint]
    ) -> bool:
        """Take the leader that an error names (KIP-951); else metadata has to say it."""
        hinted = getattr(error, "code", 0) in HINTED
        if hinted and self._cluster.take_hint(tp, found.current_leader, where):
            return True
        if error.refresh_metadata:
            self._cluster.schedule.request_full()
            self._cluster.refresh_if_due()
        return False

    def _refused(
        self, broker: Broker, request: Request, dues: Sequence[Due], error: UnsupportedVersionError
    ) -> int:
        if request is Request.FETCH or not error.local:
            return self._failed(broker, dues, error)
        renewals = [due for due in dues if due.type == AcknowledgeType.RENEW]
        self._settle(renewals, error)
        self._book.put_back(due for due in dues if due.type != AcknowledgeType.RENEW)
        return 0

    def _failed(self, broker: Broker, dues: Sequence[Due], error: KafkaError) -> int:
        """Take an error of a whole request; return how long to wait."""
        reaction = after_session_error(error)
        log.debug("share group %s: %s: %s", self._who.group_id, reaction.value, error)
        self._end_session(broker, error)
        self._settle(dues, error)
        if reaction is SessionReaction.REJOIN:
            self._on_fenced()
        elif reaction is SessionReaction.RAISE:
            self.trouble = error
        if error.refresh_metadata or isinstance(error, NetworkError):
            self._cluster.schedule.request_full()
            self._cluster.refresh_if_due()
        broker.failures += 1
        at_once = reaction is SessionReaction.AT_ONCE and broker.failures == 1
        return 0 if at_once else self._delay_ms(broker)

    def _delay_ms(self, broker: Broker) -> int:
        return self._cluster.backoff.delay_ms(broker.failures - 1, self._cluster.rng)

    def _end_session(self, broker: Broker, error: KafkaError | None) -> None:
        """Forget a session, and what waits of it: a broker releases what a lost session gave."""
        number = broker.session.number
        broker.session.lost()
        broker.lost_by = error
        gone = (broker.node_id, number)
        self.fetched = deque(
            one for one in self.fetched if (one.grant.node_id, one.grant.session) != gone
        )

    def _lost(self, broker: Broker) -> KafkaError:
        return broker.lost_by or NetworkError(
            f"the share session with broker {broker.node_id} is over; its records are "
            "delivered again"
        )

    def _settle_dead(self, broker: Broker) -> None:
        _, dead = self._book.take(broker.node_id, -1)
        if dead:
            self._settle(dead, self._lost(broker))
            self._on_change()

    def _settle(self, dues: Sequence[Due], error: KafkaError) -> None:
        self.outcomes += self._book.settle(dues, {due.tp: error for due in dues})

    # -- the end ----------------------------------------------------------------------------------

    async def finish(self, deadline: Deadline) -> None:
        """Wait for what is under way, acknowledge what is due, and release everything else."""
        tasks = [broker.task for broker in self._brokers.values() if broker.task is not None]
        left_ms = deadline.remaining_ms(self._cluster.now_ms())
        until_ms = deadline.at_ms - min(FAREWELL_MS, left_ms // 2)
        with contextlib.suppress(TimeoutError):
            async with ClockDeadline(self._cluster.clock, until_ms):
                await asyncio.wait(tasks) if tasks else None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            async with ClockDeadline(self._cluster.clock, deadline.at_ms):
                await asyncio.gather(*(self._end(broker) for broker in self._brokers.values()))
        except TimeoutError:
            log.info("share group %s: the sessions end by themselves", self._who.group_id)
            for broker in self._brokers.values():  # those that there was no time to ask
                _, unsent = self._book.take(broker.node_id, -1)
                self._settle(unsent, _unanswered())
        self.stop()

    def stop(self) -> None:
        """End what is under way, and forget all sessions: brokers end them by themselves."""
        for broker in self._brokers.values():
            if broker.task is not None:
                broker.task.cancel()
        self._brokers, self._led = {}, None
        self.fetched.clear()

    async def _end(self, broker: Broker) -> None:
        broker.task = None
        dues, dead = self._book.take(broker.node_id, broker.session.number)
        self._settle(dead, self._lost(broker))
        if not broker.session.opened:
            return
        said = [due for due in dues if due.type != AcknowledgeType.RENEW]
        try:
            await self._acknowledge(broker, ENDING, said)
        except KafkaError as error:
            self._settle(said, error)
        except asyncio.CancelledError:
            self._settle(said, _unanswered())
            raise
        self._end_session(broker, None)


def _unanswered() -> KafkaError:
    return NetworkError("the consumer was closed before a broker had answered")
