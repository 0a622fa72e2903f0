"""One broker of the embedded cluster: a listening socket, and the handlers behind it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from parley.devcluster.faults.asked import asked_about
from parley.devcluster.faults.cut_off import answer_alone
from parley.devcluster.faults.faults import Fault, FaultQueue, Kind, api_name
from parley.devcluster.faults.requests import JournalEntry, Requests
from parley.devcluster.faults.tampering import Act, Tampering
from parley.devcluster.handlers import HANDLERS, SERVED, Call, NoAnswer, Wait
from parley.devcluster.handlers.base import Answer, Slices
from parley.devcluster.handlers.fetching import whole_request
from parley.devcluster.policy import ReleasePolicy
from parley.devcluster.release.profile import Profile, make_profile
from parley.devcluster.security.listeners import Listeners
from parley.devcluster.state.cleaner import LogCleaner
from parley.devcluster.state.cluster_state import ClusterState
from parley.devcluster.state.fetch_sessions import FetchSessions
from parley.devcluster.state.groups.share.sessions import ShareSessions
from parley.devcluster.state.replication.broker_state import BrokerState
from parley.devcluster.timers import Timers
from parley.messages import FetchRequest, Message, ProduceRequest
from parley.net import Address, AsyncioBackend, Backend, Clock, Server, ServerConnection, serve
from parley.protocol import Close, Decision, Dialect, RequestReceived


@dataclass(slots=True)
class Shared:
    """What the brokers of one cluster have in common."""

    state: ClusterState
    clock: Clock
    now_ms: Callable[[], int]
    """The time of day, for timestamps; waiting goes by `clock`."""
    faults: FaultQueue
    requests: Requests
    listeners: Listeners
    timers: Timers
    cleaner: LogCleaner
    backend: Backend | None = None
    """The network, sockets if None."""
    rng: random.Random = field(default_factory=random.Random)
    """For the ids of fetch sessions, which must not look like those of a broker's earlier life."""


class Broker:
    """A broker: `release` and `address` say how and where it speaks, `running` whether it does.

    It has a socket for each of the cluster's listeners; `address` is that of the first, `addresses`
    has all. `dialect` may be set at any time: what it speaks besides its release (KIP-35's drafts,
    for comparison).
    """

    def __init__(
        self, broker_id: int, release: str, shared: Shared, host: str, ports: Mapping[str, int]
    ) -> None:
        self.id = broker_id
        self._shared = shared
        self.profile: Profile = self._profile_of(release)
        self.addresses = {listener: Address(host, port) for listener, port in ports.items()}
        self.state: BrokerState | None = None
        self.dialect: Dialect | None = None
        self._servers: dict[str, Server] = {}
        self._held_ports: list[Callable[[], None]] = []
        self._fetch_sessions = self._no_sessions()
        self._share_sessions = ShareSessions()

    def __repr__(self) -> str:
        how = "running" if self.running else "stopped"
        return f"Broker({self.id}, {self.release}, {self.address}, {how})"

    @property
    def address(self) -> Address:
        """Where its first listener is."""
        return self.addresses[self._shared.listeners.first]

    @property
    def release(self) -> str:
        """The release it speaks as."""
        return self.profile.name

    @property
    def running(self) -> bool:
        """Whether it accepts connections."""
        return bool(self._servers)

    # -- life ----------------------------------------------------------------------------------

    def speak_as(self, release: str) -> None:
        """Take another release for the next start. Raises ConfigError for an unknown one."""
        self.profile = self._profile_of(release)

    def _profile_of(self, release: str) -> Profile:
        profile = make_profile(release, SERVED)
        self._shared.listeners.check(profile.release)
        return profile

    def _no_sessions(self) -> FetchSessions:
        slots = self._shared.state.settings.max_incremental_fetch_session_cache_slots
        return FetchSessions(lambda: self._shared.rng.randrange(1, 2**31), slots)

    async def listen(self) -> None:
        """Accept connections, at the ports of before. Raises NetworkError if one is taken."""
        self.give_up_ports()
        self._fetch_sessions = self._no_sessions()
        self._share_sessions = ShareSessions(
            self._shared.state.settings.group_share_max_share_sessions
        )
        policy = ReleasePolicy(self.profile, self._refused, lambda: self.dialect)
        shared = self._shared
        idle_ms = shared.state.settings.connections_max_idle_ms
        servers: dict[str, Server] = {}
        try:
            for listener, address in self.addresses.items():
                tls, settings = shared.listeners.of(listener).made_for(
                    self.profile.release, shared.clock, shared.now_ms, idle_ms
                )
                servers[listener] = await serve(
                    address.host,
                    address.port,
                    partial(self._converse, listener),
                    policy=policy,
                    backend=shared.backend,
                    ssl_context=tls,
                    settings=settings,
                )
        except BaseException:
            for server in servers.values():
                await server.abort()
            raise
        self._servers = servers
        self.addresses = {listener: server.address for listener, server in servers.items()}

    async def close(self) -> None:
        """End every connection in order, accept no more; its ports stay until `give_up_ports`."""
        servers, self._servers = self._servers, {}
        for server in servers.values():
            await server.close()
        self._hold_ports(servers)

    async def abort(self) -> None:
        """Reset every connection, accept no more: a killed process. Its ports stay its own."""
        servers, self._servers = self._servers, {}
        for server in servers.values():
            await server.abort()
        self._hold_ports(servers)

    def _hold_ports(self, servers: Mapping[str, Server]) -> None:
        """Let nobody else listen here: clients would take another cluster for their own."""
        backend = self._shared.backend or AsyncioBackend()
        self._held_ports += [backend.hold(server.address) for server in servers.values()]

    def give_up_ports(self) -> None:
        """Let others have the ports of a broker that does not run."""
        held, self._held_ports = self._held_ports, []
        for give_up in held:
            give_up()

    async def freeze(self) -> None:
        """Answer nothing until `thaw`; connections are made and stay."""
        for server in self._servers.values():
            await server.freeze()

    async def thaw(self) -> None:
        """Answer again, first what has piled up."""
        for server in self._servers.values():
            await server.thaw()

    # -- requests ------------------------------------------------------------------------------

    async def _converse(self, listener: str, connection: ServerConnection) -> None:
        try:
            await self._answer_all(listener, connection)
        finally:
            self._lost(connection)

    def _lost(self, connection: ServerConnection) -> None:
        """End the share sessions of a connection that ended: others may have
        what was acquired there.
        """
        ended = self._share_sessions.lost(id(connection))
        for session in ended if self.state is not None else ():
            self._shared.state.share_groups.release(session)

    async def _answer_all(self, listener: str, connection: ServerConnection) -> None:
        async for request in connection:
            self._note(request)
            faults = self._faults_of(request) if self._shared.faults else {}
            if faults:
                names = {} if self.state is None else self.state.image.names
                acting, whole = self._acting(listener, connection, request), self._whole(request)
                tampering = Tampering(connection, request, faults, acting, names, whole)
                await tampering.answer(self._shared.clock, self._shared.faults.rng)
            else:
                await self._answer(listener, connection, request)
            if isinstance(request.message, ProduceRequest):
                _forget_records(request.message)

    def _faults_of(self, request: RequestReceived) -> dict[Kind, Fault]:
        names = {} if self.state is None else self.state.image.names
        return self._shared.faults.take(
            request.api_key,
            self.id,
            request.client_id,
            lambda: asked_about(self._whole(request), names),
        )

    def _whole(self, request: RequestReceived) -> Message:
        """Return the request whole: a Fetch names only what its session does not know."""
        message = request.message
        if not isinstance(message, FetchRequest):
            return message
        return whole_request(self._fetch_sessions, message, request.version)

    def _acting(self, listener: str, connection: ServerConnection, request: RequestReceived) -> Act:
        async def act(message: Message) -> Message | NoAnswer | None:
            return await self._handle(listener, connection, request, message)

        return act

    async def _answer(
        self, listener: str, connection: ServerConnection, request: RequestReceived
    ) -> None:
        answer = await self._handle(listener, connection, request, request.message)
        if isinstance(answer, NoAnswer):
            connection.drop(request)
            if answer.close:
                connection.close()
        elif answer is not None:
            await connection.respond(request, answer)

    async def _handle(
        self,
        listener: str,
        connection: ServerConnection,
        request: RequestReceived,
        message: Message,
    ) -> Message | NoAnswer | None:
        """Return the answer, a NoAnswer, or None when the connection ended meanwhile."""
        state = self.state
        if state is None:
            return NoAnswer(close=True)
        if self.id in self._shared.state.replication.links.isolated:
            refusal = answer_alone(request.api_key, request.version, message)
            if refusal is not None:
                return refusal
        now_ms, sessions = self._shared.now_ms(), self._fetch_sessions
        call = Call(
            self._shared.state,
            state,
            self.profile,
            request.version,
            now_ms,
            sessions,
            request.client_id,
        )
        call.client_host = f"/{connection.peer.host}"
        call.share_sessions, call.connection = self._share_sessions, id(connection)
        call.clock = self._shared.now_ms
        call.listener = None if listener == self._shared.listeners.first else listener
        handler = HANDLERS[request.api_key]
        work = None if handler.ahead is None else handler.ahead(call, message)
        if work is not None:
            # Only this connection waits: the next request on it is read when this one is answered.
            await asyncio.to_thread(work)
            if self.state is not state:
                return NoAnswer(close=True)
        answer: Answer | None = handler.handle(call, message)
        self._shared.timers.arm()
        if isinstance(answer, Wait):
            answer = await self._wait(connection, answer)
            self._shared.timers.arm()
        if isinstance(answer, Slices):
            answer = await self._in_slices(connection, answer)
        return answer

    async def _in_slices(self, connection: ServerConnection, slices: Slices) -> Message | None:
        for step in slices.steps:
            if connection.is_closed:
                return None
            if step is None:
                await asyncio.sleep(0)
            elif isinstance(step, Message):
                return step
            else:
                await asyncio.to_thread(step)
        return None

    async def _wait(self, connection: ServerConnection, wait: Wait) -> Message | Slices | None:
        """Ask again whenever something watched changes, for the last time at the deadline."""
        changed = asyncio.Event()
        expired = False

        def expire() -> None:
            nonlocal expired
            expired = True
            changed.set()

        clock = self._shared.clock
        timer = clock.call_at_ms(clock.now_ms() + max(wait.timeout_ms, 0), expire)
        # A client that leaves must not be waited for: max_wait_ms may be 24 days.
        gone = asyncio.ensure_future(connection.wait_closed())
        gone.add_done_callback(lambda _: changed.set())
        for watched in wait.on:
            watched.on_change.append(changed.set)
        try:
            while not connection.is_closed:
                await changed.wait()
                changed.clear()
                answer = wait.attempt(expired)
                if answer is not None:
                    return answer
            return None
        finally:
            gone.cancel()
            timer.cancel()
            for watched in wait.on:
                watched.on_change.remove(changed.set)

    # -- journal -------------------------------------------------------------------------------

    def _note(self, request: RequestReceived) -> None:
        entry = JournalEntry(
            self._shared.now_ms(),
            self.id,
            api_name(request.api_key),
            request.version,
            request.client_id,
            request.correlation_id,
            request.message,
            size_bytes=request.size_bytes,
        )
        self._shared.requests.note(entry)

    def _refused(self, api_key: int, version: int, decision: Decision) -> None:
        reason = decision.reason if isinstance(decision, Close) else type(decision).__name__.lower()
        entry = JournalEntry(
            self._shared.now_ms(), self.id, api_name(api_key), version, refused=reason
        )
        self._shared.requests.note(entry)


def _forget_records(produce: ProduceRequest) -> None:
    """Let go of the receive buffer: the log has the records, the journal the rest."""
    for topic in produce.topic_data:
        for partition in topic.partition_data:
            partition.records = None
