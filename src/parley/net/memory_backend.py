"""A network in memory: the interface without sockets, with faults where a test wants them.

Bytes go through the event loop, in order, in pieces as small as asked for. Delays use the clock
that the backend is given, so that a `ManualClock` decides when anything arrives.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from parley.errors import ConfigError, NetworkError
from parley.net.address import Address
from parley.net.clock import Clock, LoopClock
from parley.net.failures import CONNECT, LISTEN, NAME_LOOKUP, network_error
from parley.net.stream import Accept, Place, Receiver, Segment

_HIGH_BYTES = 1024 * 1024


@dataclass(slots=True)
class Way:
    """One direction's faults.

    `cut_after_bytes`: so many arrive, then both ends see a reset; `silent_after_bytes`: so many
    arrive, then nothing does, as over a link that broke without a word.
    """

    cut_after_bytes: int | None = None
    silent_after_bytes: int | None = None
    delay_ms: int = 0
    piece_bytes: int | None = None
    silent: bool = False  # everything sent this way disappears


@dataclass(slots=True)
class Faults:
    """What goes wrong with the connections to one address that are made from now on."""

    unknown_name: bool = False
    refused: bool = False
    connect_hangs: bool = False
    to_broker: Way = field(default_factory=Way)
    to_client: Way = field(default_factory=Way)


class _Pipe:
    """Bytes on their way from one stream to its peer."""

    def __init__(self, way: Way, clock: Clock) -> None:
        self.way = way
        self._clock = clock
        self._queue: deque[memoryview] = deque()
        self.queued_bytes = 0
        self._delivered_bytes = 0
        self._planned = False
        self._ends = False
        self.target: MemoryStream | None = None
        self.source: MemoryStream | None = None

    def put(self, segments: Sequence[Segment]) -> None:
        if self.way.silent:
            return
        for segment in segments:
            if len(segment):
                self._queue.append(memoryview(bytes(segment)))
                self.queued_bytes += len(segment)
        self.plan()

    def end(self) -> None:
        """Signal to the target, after all bytes, that no more come."""
        self._ends = True
        self.plan()

    def plan(self) -> None:
        if self._planned:
            return
        self._planned = True
        if self.way.delay_ms:
            self._clock.call_at_ms(self._clock.now_ms() + self.way.delay_ms, self._deliver)
        else:
            asyncio.get_running_loop().call_soon(self._deliver)

    def clear(self) -> None:
        self._queue.clear()
        self.queued_bytes = 0

    def _deliver(self) -> None:
        self._planned = False
        target, source = self.target, self.source
        if target is None or source is None or target.is_over or target.is_paused:
            return
        if self._queue:
            self._deliver_piece(target)
        if self._delivered_bytes == self.way.cut_after_bytes:
            source.cut()
            return
        source.wake_if_writable()
        if target.is_over:
            return
        if self._queue:
            self.plan()
        elif self._ends:
            target.lose(None)

    def _deliver_piece(self, target: MemoryStream) -> None:
        buffer = target.receiver.get_buffer(-1)
        head = self._queue[0]
        count = min(len(buffer), len(head), self.way.piece_bytes or len(head))
        for limit in (self.way.cut_after_bytes, self.way.silent_after_bytes):
            if limit is not None:
                count = min(count, limit - self._delivered_bytes)
        buffer[:count] = head[:count]
        buffer.release()
        if count == len(head):
            self._queue.popleft()
        else:
            self._queue[0] = head[count:]
        self.queued_bytes -= count
        self._delivered_bytes += count
        if self._delivered_bytes == self.way.silent_after_bytes:
            self.way.silent = True
            self.clear()
        if count:
            target.receiver.buffer_updated(count)


class MemoryStream:
    """One end of a connection in memory."""

    def __init__(self, local: Address, peer: Address, outgoing: _Pipe, incoming: _Pipe) -> None:
        self._local = local
        self._peer = peer
        self._outgoing = outgoing
        self._incoming = incoming
        outgoing.source = self
        incoming.target = self
        self.receiver: Receiver
        self.is_over = False
        self.is_paused = False
        self._closing = False
        self._waiters: list[asyncio.Future[None]] = []
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def peer(self) -> Address:
        """The address of the other end."""
        return self._peer

    @property
    def local(self) -> Address:
        """The address of this end."""
        return self._local

    @property
    def is_writable(self) -> bool:
        """False while more than 1 MiB is on its way."""
        return self._outgoing.queued_bytes < _HIGH_BYTES

    @property
    def unsent_bytes(self) -> int:
        """What is on its way."""
        return self._outgoing.queued_bytes

    def write(self, segments: Sequence[Segment]) -> None:
        """Queue a copy of the bytes; after the end they are dropped."""
        if not self._closing and not self.is_over:
            self._outgoing.put(segments)

    async def drained(self) -> None:
        """Return when the stream is writable again, or over."""
        while not self.is_writable and not self.is_over:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def pause_reading(self) -> None:
        """Let received bytes wait."""
        self.is_paused = True

    def resume_reading(self) -> None:
        """Take received bytes again."""
        self.is_paused = False
        self._incoming.plan()

    def close(self) -> None:
        """Send what is queued, then end both ends."""
        if not self._closing and not self.is_over:
            self._closing = True
            self._outgoing.end()
            asyncio.get_running_loop().call_soon(self.lose, None)

    def abort(self, *, reset: bool = False) -> None:
        """End both ends at once."""
        if self.is_over:
            return
        self._outgoing.clear()
        other = self._outgoing.target
        loop = asyncio.get_running_loop()
        loop.call_soon(self.lose, None)
        if other is not None:
            loop.call_soon(other.lose, ConnectionResetError("reset by peer") if reset else None)

    async def wait_closed(self) -> None:
        """Return when the connection is over."""
        await asyncio.shield(self._closed)

    def cut(self) -> None:
        """Break the connection: both ends see a reset."""
        for end in (self, self._outgoing.target):
            if end is not None:
                end.lose(ConnectionResetError("connection cut by a test"))

    def lose(self, cause: Exception | None) -> None:
        """End this end and notify its receiver, once."""
        if self.is_over:
            return
        self.is_over = True
        self._wake()
        self._closed.set_result(None)
        self.receiver.connection_lost(cause)

    def wake_if_writable(self) -> None:
        """Wake the tasks in `drained`, if they may go on."""
        if self.is_writable:
            self._wake()

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()


class MemoryListener:
    """Accepts until it is closed."""

    def __init__(self, backend: MemoryBackend, address: Address) -> None:
        self._backend = backend
        self._address = address

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self._address

    async def pause(self) -> None:
        """Accept nothing: who connects waits."""
        self._backend.paused.setdefault(self._address, asyncio.Event())

    async def resume(self) -> None:
        """Accept again, those who waited first."""
        waiting = self._backend.paused.pop(self._address, None)
        if waiting is not None:
            waiting.set()

    async def close(self) -> None:
        """Accept no more."""
        self._backend.listeners.pop(self._address, None)
        await self.resume()  # who waited is refused now


class MemoryBackend:
    """A network of its own: what listens on one backend is reached through the same one only.

    `faults[address]` applies to connections made afterwards; `streams` are the client ends, oldest
    first, so that a test can cut or pause any of them.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock if clock is not None else LoopClock()
        self.listeners: dict[Address, Accept] = {}
        self.paused: dict[Address, asyncio.Event] = {}
        self.faults: dict[Address, Faults] = {}
        self.streams: list[MemoryStream] = []
        self._next_port = 20_000

    async def lookup(self, address: Address) -> Sequence[Place]:
        """Return the address itself."""
        await asyncio.sleep(0)
        if self._faults(address).unknown_name:
            raise NetworkError(
                f'{address}: the name "{address.host}" cannot be resolved',
                address=str(address),
                stage=NAME_LOOKUP,
            )
        return [address]

    async def connect(
        self,
        address: Address,
        place: Place,
        receiver: Receiver,
        tls: ssl.SSLContext | None,
        entered: Callable[[str], None],
    ) -> MemoryStream:
        """Join a new pair of streams."""
        entered(CONNECT)
        _refuse_tls(tls)
        await asyncio.sleep(0)
        faults = self._faults(address)
        if faults.connect_hangs:
            await asyncio.get_running_loop().create_future()
        if address in self.paused:
            await self.paused[address].wait()
        accept = self.listeners.get(address)
        if accept is None or faults.refused:
            raise network_error(ConnectionRefusedError(), address, CONNECT)
        self._next_port += 1
        origin = Address("client", self._next_port)
        there, back = _Pipe(faults.to_broker, self._clock), _Pipe(faults.to_client, self._clock)
        near = MemoryStream(origin, address, there, back)
        far = MemoryStream(address, origin, back, there)
        near.receiver = receiver
        far.receiver = accept(far)
        self.streams.append(near)
        return near

    async def listen(
        self, address: Address, accept: Accept, tls: ssl.SSLContext | None
    ) -> MemoryListener:
        """Listen; port 0 takes one that is free."""
        _refuse_tls(tls)
        if address.port == 0:
            self._next_port += 1
            address = Address(address.host, self._next_port)
        if address in self.listeners:
            raise network_error(OSError("address already in use"), address, LISTEN)
        self.listeners[address] = accept
        return MemoryListener(self, address)

    def hold(self, address: Address) -> Callable[[], None]:
        """Do nothing: here no port is given out twice."""
        return lambda: None

    def _faults(self, address: Address) -> Faults:
        return self.faults.get(address) or Faults()


def _refuse_tls(tls: ssl.SSLContext | None) -> None:
    if tls is not None:
        raise ConfigError("a connection in memory has no TLS; use AsyncioBackend for it")
