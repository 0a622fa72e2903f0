"""Metadata is asked for once at a time: everybody who needs it waits for the same answer.

1. `RefreshSchedule` says when, `MetadataSource` whom to ask; what the answer may replace is the
   cache's affair.
2. An answer is merged step by step, one after the other: a large one does not hold the loop.
3. What went wrong last is kept, for the error of those whose deadline passes meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from parley.client.cluster.metadata_cache import MetadataCache
from parley.client.cluster.metadata_source import MetadataSource, metadata_request, read_answer
from parley.client.cluster.overdue import without_metadata
from parley.client.cluster.refresh import RefreshSchedule
from parley.client.cluster.retry import Deadline
from parley.client.cluster.view import Applied, MetadataUpdate
from parley.client.events import Listener, PossibleDataLoss, TopicRecreated, notify
from parley.errors import KafkaError, NetworkError
from parley.errors.codes import REBOOTSTRAP_REQUIRED
from parley.messages import Message, Request
from parley.net import (
    Address,
    BrokerConnection,
    Clock,
    Deadline as ClockDeadline,
    Pool,
    Reply,
)
from parley.net.shared import outcome
from parley.schema import ApiKey

log = logging.getLogger("parley.client")
R = TypeVar("R", bound=Message)


class Ask(Protocol):
    """How a request is sent on a connection: `Cluster.ask`."""

    def __call__(
        self, conn: BrokerConnection, message: Request[R], timeout_ms: int, /
    ) -> Awaitable[Reply[R]]:
        """Return the answer; raise RequestTimedOut after `timeout_ms`."""


class Refresher:
    """Fetches metadata into a cache, and keeps the addresses of the pool.

    `source` finds the connection and `ask` sends on it, for at most `request_timeout_ms`;
    `on_event` is the application's.
    """

    def __init__(
        self,
        cache: MetadataCache,
        schedule: RefreshSchedule,
        source: MetadataSource,
        pool: Pool,
        *,
        clock: Clock,
        ask: Ask,
        request_timeout_ms: int,
        on_event: Listener | None,
    ) -> None:
        self._cache = cache
        self._schedule = schedule
        self._source = source
        self._pool = pool
        self._clock = clock
        self._ask = ask
        self._request_timeout_ms = request_timeout_ms
        self._on_event = on_event
        self._task: asyncio.Task[Applied] | None = None
        self._merging = asyncio.Lock()
        self._unreachable: KafkaError | None = None
        self.listeners: set[Callable[[], None]] = set()
        """Called after each answer, when it is merged."""

    @property
    def asked(self) -> Address | None:
        """The broker that the last Metadata request went to."""
        return self._source.asked

    async def join(self, deadline: Deadline) -> Applied:
        """Return what the refresh under way brings; begin one, for what is due, where none is.

        Raises NetworkError when no broker answers, or none in time.
        """
        task = self._task if self._task is not None else self._start()
        try:
            async with ClockDeadline(self._clock, max(deadline.at_ms, self._now_ms() + 1)):
                return await outcome(task)
        except TimeoutError:
            raise without_metadata(
                self._unreachable, self._pool.opening, self._source.asked
            ) from None

    def begin_if_due(self) -> None:
        """Begin a refresh in the background when one is needed and allowed now. Never waits."""
        now = self._now_ms()
        if self._task is None and self._schedule.needed(now) and self._schedule.due_in_ms(now) == 0:
            self._start()

    async def fetch(
        self, conn: BrokerConnection, topics: list[str] | None, timeout_ms: int
    ) -> MetadataUpdate:
        """Return what a broker says of these topics (None: of all). Nothing is merged."""
        version = conn.versions.choose(ApiKey.METADATA)
        reply = await self._ask(conn, metadata_request(topics, version), timeout_ms)
        if getattr(reply.message, "error_code", 0) == REBOOTSTRAP_REQUIRED:
            # KIP-1102: what is known of the cluster is not to be used any more
            self._pool.update_nodes({})
            raise NetworkError(
                f"{conn.address} wants its clients to start again from bootstrap_servers",
                address=str(conn.address),
                stage="request",
            )
        update = await read_answer(reply)
        if topics is not None:
            wanted = set(topics)
            kept = tuple(topic for topic in update.topics if topic.name in wanted)
            update = MetadataUpdate(
                update.version, update.brokers, kept, update.controller_id, update.cluster_id
            )
        return update

    async def merge(self, cache: MetadataCache, update: MetadataUpdate, *, full: bool) -> Applied:
        """Merge an answer step by step: a large one does not hold the loop. One after the other."""
        async with self._merging:
            steps, large = cache.merging(update, full=full), False
            while True:
                try:
                    next(steps)
                except StopIteration as ended:
                    applied: Applied = ended.value
                    break
                large = True
                await asyncio.sleep(0)
        if large:
            # letting go of the answer takes milliseconds too: not in the turn of the last step
            await asyncio.sleep(0)
        return applied

    def update_pool(self) -> None:
        """Give the pool the brokers' addresses as the cache has them."""
        nodes = self._cache.snapshot.brokers.values()
        self._pool.update_nodes({node.id: Address(node.host, node.port) for node in nodes})

    async def close(self) -> None:
        """Stop refreshing."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # -- inside ------------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return int(self._clock.now_ms())

    def _start(self) -> asyncio.Task[Applied]:
        task = asyncio.get_running_loop().create_task(self._run(), name="parley metadata refresh")
        self._task = task
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Applied]) -> None:
        if self._task is task:
            self._task = None
        # retrieved: those who wait for it get it too
        if not task.cancelled() and task.exception() is not None:
            log.debug("metadata refresh failed: %s", task.exception())

    async def _run(self) -> Applied:
        schedule = self._schedule
        await self._clock.sleep_ms(
            schedule.due_in_ms(self._now_ms()) if schedule.needed(self._now_ms()) else 0
        )
        request = schedule.begin(self._now_ms())
        try:
            conn = await self._source.connection(self._cache.snapshot)
            update = await self.fetch(conn, sorted(request.topics), self._request_timeout_ms)
        except KafkaError as error:
            if self._unreachable is None and schedule.refreshes:
                log.warning("%s Metadata will be asked for again until a broker answers.", error)
            self._unreachable = error
            schedule.failed(self._now_ms())
            raise
        self._unreachable = None
        applied = await self.merge(self._cache, update, full=request.full)
        self._source.answered(outdated=bool(applied.outdated))
        schedule.finished(request, applied, self._now_ms())
        self.update_pool()
        self._notify_application(applied)
        for listener in tuple(self.listeners):
            listener()
        return applied

    def _notify_application(self, applied: Applied) -> None:
        lost = tuple(sorted(applied.possible_data_loss))
        if lost:
            again = applied.recreated & {tp.topic for tp in lost}
            notify(self._on_event, PossibleDataLoss(lost, tuple(sorted(again))))
        for topic in sorted(applied.recreated - {tp.topic for tp in lost}):
            notify(self._on_event, TopicRecreated(topic))
