"""The broker's side of the network: listen, accept connections, run a handler for each."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable

from parley.net.address import Address
from parley.net.asyncio_backend import AsyncioBackend
from parley.net.idle import IdleSweeps
from parley.net.server_connection import ServerConnection
from parley.net.server_settings import ServerSettings
from parley.net.stream import Backend, Listener, Stream
from parley.protocol import BrokerPolicy

_log = logging.getLogger("parley.net")

CLOSE_GRACE_S = 2.0
"""How long an orderly close waits for clients to take the answers that are queued for them."""

Handler = Callable[[ServerConnection], Awaitable[None]]
PolicySource = BrokerPolicy | Callable[[], BrokerPolicy]


class Server:
    """A listening socket and the connections accepted through it; `serve` makes one."""

    def __init__(
        self, handler: Handler, policy: Callable[[], BrokerPolicy], settings: ServerSettings
    ) -> None:
        self._handler = handler
        self._policy = policy
        self._settings = settings
        self._listener: Listener | None = None
        self._tasks: dict[asyncio.Task[None], ServerConnection] = {}  # the handlers that run
        self._open: set[ServerConnection] = set()  # until their streams are over
        self._idle = IdleSweeps(settings.clock, settings.idle_timeout_ms, lambda: self._open)
        self._is_closing = False
        self._is_frozen = False
        self.address = Address("", 0)

    @property
    def connections(self) -> tuple[ServerConnection, ...]:
        """The connections whose handlers run."""
        return tuple(self._tasks.values())

    async def start(self, address: Address, backend: Backend, tls: ssl.SSLContext | None) -> None:
        """Listen. Raises NetworkError (stage "listen") when the address cannot be had."""
        self._listener = await backend.listen(address, self._accept, tls)
        self.address = self._listener.address

    async def freeze(self) -> None:
        """Stand still as after SIGSTOP: connections are made and kept, nothing is answered."""
        if self._listener is not None and not self._is_frozen:
            self._is_frozen = True
            for connection in self._open:
                connection.freeze()
            await self._listener.pause()

    async def thaw(self) -> None:
        """Go on with every connection, and with those that waited to be accepted."""
        if self._listener is not None and self._is_frozen:
            self._is_frozen = False
            for connection in tuple(self._open):
                connection.thaw()
            await self._listener.resume()

    async def close(self) -> None:
        """Stop in order: accept no more, send what is queued, end every connection and handler."""
        await self._stop_listening()
        for connection in self._open:
            connection.close()
        await self._end_tasks()
        ends = [asyncio.ensure_future(connection.wait_closed()) for connection in self._open]
        if ends:
            await asyncio.wait(ends, timeout=CLOSE_GRACE_S)
        for connection in tuple(self._open):
            connection.abort()  # a client that does not read cannot keep the server from closing
        await asyncio.gather(*ends)

    async def abort(self) -> None:
        """Stop as a killed process does: every client sees a reset, no answer is sent any more."""
        self._is_closing = True
        for connection in tuple(self._open):
            connection.abort(reset=True)
        await self._stop_listening()
        await self._end_tasks()
        await asyncio.gather(*(connection.wait_closed() for connection in self._open))

    async def _stop_listening(self) -> None:
        self._is_closing = True
        self._idle.cancel()
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.close()

    async def _end_tasks(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, stream: Stream) -> ServerConnection:
        connection = ServerConnection(stream, self._policy(), self._settings, self._open.discard)
        self._open.add(connection)
        self._idle.arm()
        if self._is_closing:  # it was on its way when the listener was closed
            connection.abort(reset=True)
            return connection
        if self._is_frozen:  # accepted in the moment of the freeze
            connection.freeze()
        task = asyncio.get_running_loop().create_task(self._run(connection))
        self._tasks[task] = connection
        task.add_done_callback(self._tasks.pop)
        return connection

    async def _run(self, connection: ServerConnection) -> None:
        try:
            await self._handler(connection)
        except asyncio.CancelledError:
            # else it was closed in order, and what is queued still goes out
            if not connection.is_closed:
                connection.abort()
            raise
        except Exception:
            _log.exception(
                "the handler of client %s failed; its connection is dropped", connection.peer
            )
            connection.abort()
        else:
            connection.close()


async def serve(
    host: str,
    port: int,
    handler: Handler,
    *,
    policy: PolicySource,
    backend: Backend | None = None,
    ssl_context: ssl.SSLContext | None = None,
    settings: ServerSettings | None = None,
) -> Server:
    """Listen on an address and run `handler` for each connection; return the running server.

    `policy` is a profile, or a callable that gives one for each connection. `port` 0 takes a free
    one; `server.address` has it. `settings` has the frame cap and the logins of a SASL listener.
    Raises NetworkError (stage "listen") when the address cannot be had.
    """
    source = policy if callable(policy) else lambda: policy
    server = Server(handler, source, settings if settings is not None else ServerSettings())
    await server.start(
        Address(host, port), backend if backend is not None else AsyncioBackend(), ssl_context
    )
    return server
