"""What every operation stands on: connections by broker, the metadata cache, refreshes, retries.

1. An outdated answer (KIP-232) is asked for again with the backoff, and only for partitions that
   some operation is interested in; `refreshing` does it.
2. Every wait has a deadline. What a deadline cuts off says what it waited for.
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
from parley.client.cluster.event_loops import another_loop, running_loop
from parley.client.cluster.interests import Interests
from parley.client.cluster.metadata_cache import MetadataCache
from parley.client.cluster.metadata_source import MetadataSource
from parley.client.cluster.refresh import RefreshSchedule
from parley.client.cluster.refreshing import Refresher
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
from parley.client.events import Listener
from parley.client.options.client_options import ClientOptions
from parley.errors import KafkaError
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
        self._refresher = Refresher(
            self.cache,
            self.schedule,
            MetadataSource(self._connect, self.rng),
            self.pool,
            clock=self.clock,
            ask=self.ask,
            request_timeout_ms=options.request_timeout_ms,
            on_event=on_event,
        )
        self._interests = Interests(self.cache)
        self._loop = running_loop()
        self.used: dict[Address, dict[int, int]] = {}
        self.coordinators: dict[tuple[KeyType, str], int] = {}
        """The broker that coordinates a group or a transactional id, as `routing` found it last."""
        self.look_ups: dict[tuple[KeyType, str], asyncio.Task[int]] = {}
        """The look-ups of coordinators under way, which `routing` lets several wait for."""

    # -- the event loop ----------------------------------------------------------------------------

    @property
    def is_left_behind(self) -> bool:
        """Whether its event loop is closed, and all connections with it."""
        return self._loop is not None and self._loop.is_closed()

    def check_loop(self, what: str = "client") -> None:
        """Raise LocalProtocolError in another event loop than the one that it was started in."""
        if self._loop is not None and running_loop() not in (None, self._loop):
            raise another_loop(what, is_closed=self._loop.is_closed())

    # -- time --------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """Return the time of the client's clock."""
        return int(self.clock.now_ms())

    def deadline(self, timeout_ms: int | None = None) -> Deadline:
        """Return the deadline of a call: `timeout_ms` from now, or `default_api_timeout_ms`.

        Raises LocalProtocolError in another event loop: the call would wait there forever.
        """
        self.check_loop()
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
        return self._refresher.asked

    @property
    def metadata_listeners(self) -> set[Callable[[], None]]:
        """Called after each answer about the topics that are wanted."""
        return self._refresher.listeners

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
        await self._refresher.close()
        await self.pool.close()  # which ends the requests of look-ups
        await asyncio.gather(*self.look_ups.values(), return_exceptions=True)

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
            self._refresher.update_pool()
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

    async def join_refresh(self, deadline: Deadline) -> Applied:
        """Return what the refresh under way brings; begin one, for what is due, where none is."""
        return await self._refresher.join(deadline)

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
        self._refresher.begin_if_due()

    async def describe_all(self, deadline: Deadline) -> ClusterMetadata:
        """Return metadata of every topic. The cache keeps what it knows of topics in use."""

        async def ask() -> MetadataUpdate:
            conn = await self.connection(None)
            return await self._refresher.fetch(conn, None, self.request_timeout_ms(deadline))

        update = await self.retrying("asking for all topics", deadline, ask)
        whole = MetadataCache()
        await self._refresher.merge(whole, update, full=True)
        await self._refresher.merge(self.cache, update, full=True)
        self._refresher.update_pool()
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
