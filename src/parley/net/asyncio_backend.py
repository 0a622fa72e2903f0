"""Sockets by asyncio: BufferedProtocol into the receiver's memory, bounded sending."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import cast

from parley.net.address import Address
from parley.net.asyncio_listener import AsyncioListener
from parley.net.failures import CONNECT, LISTEN, NAME_LOOKUP, TLS, network_errors
from parley.net.stream import Accept, Place, Receiver, Segment, SystemPlace

WRITE_PIECE_BYTES = 256 * 1024
"""Handed to the transport at once: it copies what the socket leaves (Python 3.11)."""

JOIN_BELOW_BYTES = 32 * 1024
"""Segments smaller than this are handed over together: each piece costs a system call and a packet,
which is more than a copy. A request of many partitions has one segment and more for each.
"""

WRITE_HIGH_BYTES = 1024 * 1024
"""Above this much unsent data a stream is not writable."""

_NO_ADDRESS = Address("", 0)
_LINGER_RESET = struct.pack("ii", 1, 0)  # close at once and say so: RST instead of FIN


class AsyncioStream(asyncio.BufferedProtocol):
    """A socket's transport on one side, a receiver on the other."""

    def __init__(self, receiver: Receiver | None, accept: Accept | None = None) -> None:
        self._accept = accept
        self._transport: asyncio.Transport | None = None
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._stopped = False  # the transport asked for a pause
        self._closing = False
        self._waiters: list[asyncio.Future[None]] = []
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._receiver: Receiver | None = None
        if receiver is not None:
            self._attach(receiver)

    def _attach(self, receiver: Receiver) -> None:
        self._receiver = receiver
        # Bound straight through: these two are called for every piece that is received.
        self.get_buffer = receiver.get_buffer  # type: ignore[method-assign, assignment]
        self.buffer_updated = receiver.buffer_updated  # type: ignore[method-assign, assignment]

    # -- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin. Called by asyncio."""
        # Not by isinstance: uvloop's transports do what
        # asyncio's do, and are not derived from them.
        self._transport = transport = cast(asyncio.Transport, transport)
        # Unsent bytes stop us, however few: our own queue copies nothing. Not 0, because
        # asyncio's TLS transport then pauses with nothing unsent and never resumes
        # (sslproto._control_app_writing, Python 3.11).
        transport.set_write_buffer_limits(high=1)
        if self._accept is not None:
            self._attach(self._accept(self))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the receiver's memory. Called by asyncio.

        This class' own method is used only by an accepted TLS connection, for which asyncio takes
        the methods before `connection_made`, when no receiver is attached yet.
        """
        assert self._receiver is not None
        return self._receiver.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """Notify the receiver. Called by asyncio; see `get_buffer`."""
        assert self._receiver is not None
        self._receiver.buffer_updated(nbytes)

    def eof_received(self) -> bool:
        """Close too when the peer has: Kafka never half-closes. Called by asyncio."""
        return False

    def pause_writing(self) -> None:
        """Hand nothing more to the transport. Called by asyncio."""
        self._stopped = True

    def resume_writing(self) -> None:
        """Go on handing pieces to the transport. Called by asyncio."""
        self._stopped = False
        self._send_some()

    def connection_lost(self, exc: Exception | None) -> None:
        """End. Called by asyncio, once."""
        self._closing = True
        self._unsent.clear()
        self._unsent_bytes = 0
        self._wake()
        if not self._closed.done():
            self._closed.set_result(None)
        if self._receiver is not None:
            self._receiver.connection_lost(exc)

    # -- the stream's side

    @property
    def peer(self) -> Address:
        """The address of the other end."""
        return self._address("peername")

    @property
    def local(self) -> Address:
        """The address of this end."""
        return self._address("sockname")

    @property
    def is_writable(self) -> bool:
        """False while more than WRITE_HIGH_BYTES wait."""
        return self._unsent_bytes < WRITE_HIGH_BYTES

    @property
    def unsent_bytes(self) -> int:
        """What waits here, and in the transport."""
        held = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return self._unsent_bytes + held

    def write(self, segments: Sequence[Segment]) -> None:
        """Queue bytes; dropped after the end, of which the receiver hears, not the writer."""
        if self._closing:
            return
        for segment in segments:
            self._unsent.append(memoryview(segment))
            self._unsent_bytes += len(segment)
        if not self._stopped:
            self._send_some()

    async def drained(self) -> None:
        """Return when the stream is writable again, or over."""
        while not self.is_writable and not self._closed.done():
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)

    def pause_reading(self) -> None:
        """Receive nothing until `resume_reading`."""
        if self._transport is not None and not self._closing and self._transport.is_reading():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Receive again."""
        if self._transport is not None and not self._closing and not self._transport.is_reading():
            self._transport.resume_reading()

    def close(self) -> None:
        """Send what is queued, then end."""
        if not self._closing:
            self._closing = True
            if not self._unsent and self._transport is not None:
                self._transport.close()

    def abort(self, *, reset: bool = False) -> None:
        """End at once."""
        self._closing = True
        self._unsent.clear()
        self._unsent_bytes = 0
        if self._transport is None:
            return
        if reset:
            sock = self._transport.get_extra_info("socket")
            if sock is not None and sock.fileno() >= 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
        self._transport.abort()

    async def wait_closed(self) -> None:
        """Return when the connection is over."""
        await asyncio.shield(self._closed)

    def _send_some(self) -> None:
        transport = self._transport
        if transport is None:
            return
        while self._unsent and not self._stopped:
            piece = self._next_piece()
            self._unsent_bytes -= len(piece)
            transport.write(piece)  # may call pause_writing
        if self.is_writable:
            self._wake()
        if self._closing and not self._unsent:
            transport.close()

    def _next_piece(self) -> memoryview | bytes:
        """Take what is handed over next: of a large segment, or several small ones."""
        unsent, size = self._unsent, 0
        small: list[memoryview] = []
        while unsent and len(unsent[0]) < JOIN_BELOW_BYTES and size < WRITE_PIECE_BYTES:
            small.append(unsent.popleft())
            size += len(small[-1])
        if small:
            return small[0] if len(small) == 1 else b"".join(small)
        head = unsent.popleft()
        if len(head) > WRITE_PIECE_BYTES:
            unsent.appendleft(head[WRITE_PIECE_BYTES:])
        return head[:WRITE_PIECE_BYTES]

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    def _address(self, name: str) -> Address:
        found = None if self._transport is None else self._transport.get_extra_info(name)
        return Address(found[0], found[1]) if isinstance(found, tuple) else _NO_ADDRESS


class AsyncioBackend:
    """TCP and TLS by the running event loop."""

    def __init__(self, *, receive_buffer_bytes: int = -1, send_buffer_bytes: int = -1) -> None:
        self._receive_buffer_bytes = receive_buffer_bytes
        self._send_buffer_bytes = send_buffer_bytes

    async def lookup(self, address: Address) -> Sequence[SystemPlace]:
        """Ask the system's resolver, in a thread; an address in numbers needs neither."""
        with suppress(OSError, UnicodeError):
            return socket.getaddrinfo(
                address.host,
                address.port,
                type=socket.SOCK_STREAM,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
        with network_errors(address, NAME_LOOKUP):
            loop = asyncio.get_running_loop()
            return await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)

    async def connect(
        self,
        address: Address,
        place: Place,
        receiver: Receiver,
        tls: ssl.SSLContext | None,
        entered: Callable[[str], None],
    ) -> AsyncioStream:
        """Connect a socket, then let asyncio shake hands."""
        assert not isinstance(place, Address)  # it comes from `lookup`
        entered(CONNECT)
        sock = await self._connected_socket(address, place)
        entered(CONNECT if tls is None else TLS)
        # From here on the socket is asyncio's, which closes it when this fails or is cancelled.
        with network_errors(address, CONNECT if tls is None else TLS):
            _, stream = await asyncio.get_running_loop().create_connection(
                lambda: AsyncioStream(receiver),
                sock=sock,
                ssl=tls,
                server_hostname=None if tls is None else address.host,
            )
        return stream

    async def _connected_socket(self, address: Address, place: SystemPlace) -> socket.socket:
        family, kind, protocol, _, target = place
        with network_errors(address, CONNECT):
            sock = socket.socket(family, kind, protocol)
            try:
                sock.setblocking(False)
                self._tune(sock)
                await asyncio.get_running_loop().sock_connect(sock, target)
            except BaseException:
                sock.close()
                raise
        return sock

    async def listen(
        self, address: Address, accept: Accept, tls: ssl.SSLContext | None
    ) -> AsyncioListener:
        """Listen on the host's first place: two would choose two ports for port 0."""
        place = (await self.lookup(address))[0]
        listener = AsyncioListener(lambda: AsyncioStream(None, accept), tls)
        with network_errors(address, LISTEN):
            listener.listen(place)
        return listener

    def hold(self, address: Address) -> Callable[[], None]:
        """Bind without listening. No look-up: where it listened, the address is in numbers."""
        held = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET)
        try:
            # connections that ended there may linger
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind((address.host, address.port))
        except OSError:
            held.close()
        return held.close

    def _tune(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # An explicit size switches Linux' own growing off,
        # and its ceiling is lower: hence -1 as default.
        if self._receive_buffer_bytes >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
        if self._send_buffer_bytes >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
