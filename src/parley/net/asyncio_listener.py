"""A listening socket by asyncio: what it accepts becomes streams.

Accepting is our own, by what every event loop promises (`add_reader`, `connect_accepted_socket`). A
loop's own server cannot stand still and go on, and does not say which clients still shake hands:
uvloop's shows nothing of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Callable

from parley.net.address import Address
from parley.net.stream import SystemPlace

BACKLOG = 1024
"""How many connections the system completes before they are accepted."""

OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
ACCEPT_AGAIN_S = 1.0
"""After one of these waiting keeps the socket readable, and the loop only tries."""


class AsyncioListener:
    """Accepts until it is closed, and pauses in between when asked to."""

    def __init__(
        self, new_stream: Callable[[], asyncio.BufferedProtocol], tls: ssl.SSLContext | None
    ) -> None:
        self._new_stream = new_stream
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket
        self._again: asyncio.TimerHandle | None = None
        self._opening: set[asyncio.Task[None]] = set()  # accepted, and not yet streams

    def listen(self, place: SystemPlace) -> None:
        """Bind to one of the places of getaddrinfo, and accept. Raises OSError."""
        family, kind, protocol, _, target = place
        self._socket = socket.socket(family, kind, protocol)
        try:
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            self._socket.bind(target)
            self._socket.listen(BACKLOG)
        except BaseException:
            self._socket.close()
            raise
        self._accept_from_now_on()

    @property
    def address(self) -> Address:
        """Where it listens."""
        name = self._socket.getsockname()
        return Address(name[0], name[1])

    async def pause(self) -> None:
        """Accept nothing: the kernel completes connections, and they wait in its queue."""
        self._loop.remove_reader(self._socket)
        if self._again is not None:
            self._again.cancel()
            self._again = None
        # a handshake may last; without one a stream is there in the loop's next turns
        if self._tls is None:
            await asyncio.gather(*self._opening, return_exceptions=True)

    async def resume(self) -> None:
        """Accept again, those who waited first."""
        self._accept_from_now_on()

    async def close(self) -> None:
        """Accept no more, and end those that still shake hands: they have no stream to close."""
        await self.pause()
        self._socket.close()
        # a task that is cancelled before its first step leaks the socket that it was made for
        await asyncio.sleep(0)
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        await asyncio.sleep(0)  # the loop closes their sockets in its next turn

    def _accept_from_now_on(self) -> None:
        self._again = None
        self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        for _ in range(BACKLOG):
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in OUT_OF_RESOURCES:
                    raise
                self._loop.remove_reader(self._socket)
                self._again = self._loop.call_later(ACCEPT_AGAIN_S, self._accept_from_now_on)
                return
            task = self._loop.create_task(self._open(accepted))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, accepted: socket.socket) -> None:
        # what the peer did, in its handshake or before: it concerns nobody here
        with contextlib.suppress(OSError):
            accepted.setblocking(False)
            await self._loop.connect_accepted_socket(self._new_stream, accepted, ssl=self._tls)
