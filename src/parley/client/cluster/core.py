"""What every operation stands on: connections by broker, the metadata cache, refreshes, retries.

1. Metadata is refreshed once at a time; everybody who needs it waits for the same answer.
2. An outdated answer (KIP-232) is asked for again with the backoff, and only for partitions that
   some operation is interested in.
3. Every wait has a deadline. What a deadline cuts off says what it waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from parley.client.cluster.call_deadline import call_deadline, without_connection, working_until
from parley.client.cluster.connecting import connect_options
from parley.client.cluster.coordinators import KeyType
from parley.client.cluster.interests import Interests
from parley.client.cluster.metadata_cache import MetadataCache
from parley.client.cluster.metadata_source import MetadataSource, metadata_request, read_answer
from parley.client.cluster.overdue import without_metadata
from parley.client.cluster.refresh import RefreshRequest, RefreshSchedule
from parley.client.cluster.retry import (
    Backoff,
    Deadline,
    Reaction,
    backoff_after,
    classify,
    nowhere,
)
from parley.client.cluster.view import (
    Applied,
    ClusterMetadata,
    Endpoint,
    LeaderAndEpoch,
    LeaderHint,
    MetadataUpdate,
    read_nodes,
)
from parley.client.events import Listener, PossibleDataLoss, TopicRecreated, notify
from parley.client.options.client_options import ClientOptions
from parley.errors import KafkaError, NetworkError
from parley.errors.codes import REBOOTSTRAP_REQUIRED
from parley.messages import Message, Request
from parley.net import (
    Address,
    Backend,
    BrokerConnection,
    Clock,
    Deadline as ClockDeadline,
    LoopClock,
    Pool,
    Reply,
)
from parley.net.shared import outcome
from parley.schema import ApiKey
from parley.types import TopicPartition
from parley.versions import BrokerVersions, VersionRange

log = logging.getLogger("parley.client")
T = TypeVar("T")
R = TypeVar("R", bound=Message)


class Cluster:
    """The state that the operations of one client share. Belongs to one event loop."""

    def __init__(
        self,
        options: ClientOptions,
        *,
        backend: Backend | None = None,
        clock: Clock | None = None,
        rng: Callable[[], float] | None = None,
        on_event: Listener | None = None,
    ) -> None:
        self.options = options
        self.cache = MetadataCache()
        self.clock: Clock = clock if clock is not None else LoopClock()
        self.rng: Callable[[], float] = rng if rng is not None else random.Random().random
        self.backoff = Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms)
        self.schedule = RefreshSchedule(self.backoff, options.metadata_max_age_ms, self.rng)
        self.pool = Pool(connect_options(options), backend=backend, clock=self.clock, rng=self.rng)
        self._source = MetadataSource(self._connect, self.rng)
        self._on_event = on_event
        self._interests = Interests(self.cache)
        self._refreshing: asyncio.Task[Applied] | None = None
        self._merging = asyncio.Lock()
        self._unreachable: KafkaError | None = None
        self.used: dict[Address, dict[int, int]] = {}
        self.coordinators: dict[tuple[KeyType, str], int] = {}
        """The broker that coordinates a group or a transactional id, as `routing` found it last."""

    # -- time --------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """Return the time of the client's clock."""
        return int(self.clock.now_ms())

    def deadline(self, timeout_ms: int | None = None) -> Deadline:
        """Return the deadline of a call: `timeout_ms` from now, or `default_api_timeout_ms`."""
        return Deadline.after(
            self.now_ms(), self.options.default_api_timeout_ms if timeout_ms is None else timeout_ms
        )

    def request_timeout_ms(self, deadline: Deadline) -> int:
        """Return how long one request may take: what is left, at most `request_timeout_ms`."""
        return max(1, min(self.options.request_timeout_ms, deadline.remaining_ms(self.now_ms())))

    # -- brokers -----------------------------------------------------------------------------------

    @property
    def asked(self) -> Address | None:
        """The broker that the last Metadata request went to."""
        return self._source.asked

    @property
    def view(self) -> ClusterMetadata:
        """What is known of the cluster now."""
        return self.cache.snapshot

    async def connection(self, node_id: int | None, lane: str = "main") -> BrokerConnection:
        """Return a negotiated connection to a broker, or to any when `node_id` is None.

        Raises what opening it raises, and RequestTimedOut at the deadline of the call that it is
        for, if that is known (`working_until`; `retrying` sees to it).
        """
        deadline = call_deadline()
        if deadline is None:
            return await self._connect(node_id, lane)
        try:
            async with ClockDeadline(self.clock, deadline.at_ms):
                return await self._connect(node_id, lane)
        except TimeoutError:
            error = without_connection(self.pool, node_id)
            raise error from error.__cause__

    async def versions(self, node_id: int | None) -> BrokerVersions:
        """Return what a broker can do, connecting to it first where needed."""
        return (await self.connection(node_id)).versions

    async def ask(
        self,
        conn: BrokerConnection,
        message: Request[R],
        timeout_ms: int,
        allowed: VersionRange | None = None,
    ) -> Reply[R]:
        """Send a request on a connection; return the answer, and note the version used."""
        reply = await conn.request(message, timeout_ms=timeout_ms, allowed=allowed)
        self.note(conn, reply)
        return reply

    def note(self, conn: BrokerConnection, reply: Reply[R]) -> None:
        """Remember which version of an API a broker was spoken to in, for `versions_in_use`."""
        if reply.version >= 0:
            self.used.setdefault(conn.address, {})[reply.api_key] = reply.version

    def versions_in_use(self) -> dict[int, dict[ApiKey, int]]:
        """Return the version last used, by broker and API."""
        found = {}
        for node in self.view.brokers.values():
            used = self.used.get(Address(node.host, node.port))
            if used:
                found[node.id] = {ApiKey(key): version for key, version in sorted(used.items())}
        return found

    async def close(self) -> None:
        """Close all connections and stop refreshing."""
        task, self._refreshing = self._refreshing, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self.pool.close()

    # -- metadata ----------------------------------------------------------------------------------

    def interested(
        self, partitions: Iterable[TopicPartition] | None
    ) -> contextlib.AbstractContextManager[None]:
        """Count these partitions (None: all) as those whose outdated metadata is asked again."""
        return self._interests.add(partitions)

    def leader(self, tp: TopicPartition) -> LeaderAndEpoch:
        """Return the leader of a partition as the cache knows it."""
        return self.cache.current_leader(tp)

    def take_hint(
        self, tp: TopicPartition, leader: LeaderHint | None, endpoints: Iterable[Endpoint]
    ) -> bool:
        """Take the new leader out of an error (KIP-951); return whether the cache has it now.

        What was taken is also asked about: metadata is due afterwards.
        """
        if leader is None or leader.leader_id < 0:
            return False
        taken = self.cache.apply_hint(
            tp, leader.leader_id, leader.leader_epoch, read_nodes(endpoints or ()).values()
        )
        if taken:
            self._update_pool()
            self.schedule.moved()
            self.schedule.request_full()
        return taken

    def next_leader(
        self, tp: TopicPartition, epoch: int, hint: LeaderHint | None, endpoints: Iterable[Endpoint]
    ) -> bool:
        """Return whether a newer leader than that of `epoch`, which refused, is known by now."""
        if self.take_hint(tp, hint, endpoints):
            return True
        known = self.leader(tp)
        return known.node is not None and known.epoch > epoch >= 0

    def leader_failed(self, tp: TopicPartition, epoch: int) -> None:
        """Note that the leader of `epoch` did not act as one; Metadata is then to confirm a hint.

        Without a pause: an answer that came while the hint counted was judged by it, and so called
        outdated.
        """
        if self.cache.hint_failed(tp, epoch):
            self.schedule.hurry()

    def see_epoch(self, tp: TopicPartition, epoch: int) -> None:
        """Take note of a leader epoch found in an answer; a newer one makes metadata due (M7)."""
        if epoch >= 0 and self.cache.see_epoch(tp, epoch):
            self.schedule.request_full()

    async def reach(self, deadline: Deadline) -> None:
        """Learn about the cluster from whichever broker answers first.

        Raises BrokersUnreachable when none does, after `bootstrap_timeout_ms`; by default, and
        where no name can be resolved, after each address was tried once: a wrong address is
        reported at once.
        """
        try:
            await self.refresh(deadline)
        except KafkaError as error:
            patience_ms = self.options.bootstrap_timeout_ms
            if not patience_ms or classify(error) is Reaction.FAIL or nowhere(error):
                raise
            log.warning("%s Trying for %d s (bootstrap_timeout_ms).", error, patience_ms // 1000)
            await self.refresh_until(self.deadline(patience_ms))

    async def refresh(self, deadline: Deadline) -> Applied:
        """Ask for the metadata of all topics in use, once, together with everyone who asks now.

        Waits out the backoff first. Raises NetworkError when no broker answers, or none in time.
        """
        self.schedule.request_full()
        return await self.join_refresh(deadline)

    async def refresh_until(self, deadline: Deadline) -> None:
        """Refresh, again after errors that may pass, until the deadline: for calls that need it."""
        await self.retrying(
            "asking for metadata", deadline, lambda: self.refresh(deadline), refreshing=False
        )

    async def refresh_quietly(self, deadline: Deadline) -> None:
        """Refresh, and leave it to the caller's next attempt to find out if that failed."""
        with contextlib.suppress(KafkaError):
            await self.refresh(deadline)

    def refresh_if_due(self) -> None:
        """Begin a refresh in the background when one is needed and allowed now. Never waits."""
        now = self.now_ms()
        if (
            self._refreshing is None
            and self.schedule.needed(now)
            and self.schedule.due_in_ms(now) == 0
        ):
            self._start_refresh()

    async def describe_all(self, deadline: Deadline) -> ClusterMetadata:
        """Return metadata of every topic. The cache keeps what it knows of topics in use."""

        async def ask() -> MetadataUpdate:
            conn = await self.connection(None)
            return await self._ask(conn, None, deadline)

        update = await self.retrying("asking for all topics", deadline, ask)
        whole = MetadataCache()
        await self._merge(whole, update, full=True)
        await self._merge(self.cache, update, full=True)
        self._update_pool()
        return whole.snapshot

    # -- retries -----------------------------------------------------------------------------------

    async def pause(self, attempt: int, deadline: Deadline, backoff: Backoff | None = None) -> None:
        """Wait the backoff of a retry, at most until the deadline."""
        delay = (backoff or self.backoff).delay_ms(attempt, self.rng)
        await self.clock.sleep_ms(min(delay, deadline.remaining_ms(self.now_ms())))

    async def retrying(
        self,
        what: str,
        deadline: Deadline,
        attempt: Callable[[], Awaitable[T]],
        *,
        refreshing: bool = True,
    ) -> T:
        """Return what `attempt` returns, repeated after errors that may pass, until the deadline.

        In between metadata is asked for where the error calls for it, unless `refreshing` is false.
        Raises the last error, with a note saying how often and how long was tried.
        """
        count, began = 0, self.now_ms()
        while True:
            try:
                with working_until(deadline):
                    return await attempt()
            except KafkaError as error:
                reaction = classify(error)
                count += 1
                if reaction is Reaction.FAIL or deadline.passed(self.now_ms()):
                    if reaction is not Reaction.FAIL:
                        error.add_note(
                            f"{what}: gave up after {count} attempts in {self.now_ms() - began} ms"
                        )
                    raise
                log.debug("%s: %s; trying again", what, error)
                backoff = backoff_after(error, self.backoff)
            await self.pause(count - 1, deadline, backoff)
            if refreshing and reaction is Reaction.REFRESH:
                await self.refresh_quietly(deadline)

    # -- inside ------------------------------------------------------------------------------------

    async def _connect(self, node_id: int | None, lane: str = "main") -> BrokerConnection:
        return await (
            self.pool.any_connection()
            if node_id is None
            else self.pool.connection(node_id, lane=lane)
        )

    async def join_refresh(self, deadline: Deadline) -> Applied:
        """Return what the refresh under way brings; begin one, for what is due, where none is."""
        task = self._refreshing if self._refreshing is not None else self._start_refresh()
        try:
            async with ClockDeadline(self.clock, max(deadline.at_ms, self.now_ms() + 1)):
                return await outcome(task)
        except TimeoutError:
            raise without_metadata(
                self._unreachable, self.pool.opening, self._source.asked
            ) from None

    def _start_refresh(self) -> asyncio.Task[Applied]:
        task = asyncio.get_running_loop().create_task(
            self._run_refresh(), name="parley metadata refresh"
        )
        self._refreshing = task
        task.add_done_callback(self._refresh_done)
        return task

    def _refresh_done(self, task: asyncio.Task[Applied]) -> None:
        if self._refreshing is task:
            self._refreshing = None
        # retrieved: those who wait for it get it too
        if not task.cancelled() and task.exception() is not None:
            log.debug("metadata refresh failed: %s", task.exception())

    async def _run_refresh(self) -> Applied:
        await self.clock.sleep_ms(
            self.schedule.due_in_ms(self.now_ms()) if self.schedule.needed(self.now_ms()) else 0
        )
        request = self.schedule.begin(self.now_ms())
        try:
            conn = await self._source.connection(self.view)
            update = await self._ask(conn, request, self.deadline(self.options.request_timeout_ms))
        except KafkaError as error:
            if self._unreachable is None and self.schedule.refreshes:
                log.warning("%s Metadata will be asked for again until a broker answers.", error)
            self._unreachable = error
            self.schedule.failed(self.now_ms())
            raise
        self._unreachable = None
        applied = await self._merge(self.cache, update, full=request.full)
        self._source.answered(outdated=bool(applied.outdated))
        self.schedule.finished(request, applied, self.now_ms())
        self._update_pool()
        self._notify_application(applied)
        return applied

    async def _merge(self, cache: MetadataCache, update: MetadataUpdate, *, full: bool) -> Applied:
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

    def _notify_application(self, applied: Applied) -> None:
        lost = tuple(sorted(applied.possible_data_loss))
        if lost:
            again = applied.recreated & {tp.topic for tp in lost}
            notify(self._on_event, PossibleDataLoss(lost, tuple(sorted(again))))
        for topic in sorted(applied.recreated - {tp.topic for tp in lost}):
            notify(self._on_event, TopicRecreated(topic))

    async def _ask(
        self, conn: BrokerConnection, request: RefreshRequest | None, deadline: Deadline
    ) -> MetadataUpdate:
        version = conn.versions.choose(ApiKey.METADATA)
        topics = None if request is None else sorted(request.topics)
        message = metadata_request(topics, version)
        reply = await self.ask(conn, message, self.request_timeout_ms(deadline))
        if getattr(reply.message, "error_code", 0) == REBOOTSTRAP_REQUIRED:
            # KIP-1102: what is known of the cluster is not to be used any more
            self.pool.update_nodes({})
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

    def _update_pool(self) -> None:
        self.pool.update_nodes(
            {node.id: Address(node.host, node.port) for node in self.view.brokers.values()}
        )
