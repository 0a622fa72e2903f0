"""The broker's end of one connection: requests come out one at a time, answers go in.

Kafka serves one request of a connection at a time, in order: a client that sends ahead is left
unread, and the answers wait in the stream until the client takes them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from parley.errors import AuthenticationError, KafkaError
from parley.messages import Message
from parley.net.address import Address
from parley.net.failures import REQUEST, explain
from parley.net.idle import Activity
from parley.net.server_settings import ServerSettings
from parley.net.stream import Stream
from parley.net.work import off_loop
from parley.protocol import (
    NEED_DATA,
    PAUSED,
    BrokerPolicy,
    BrokerProtocol,
    Closed,
    Event,
    NoEvent,
    RequestReceived,
    Work,
)

_log = logging.getLogger("parley.net")

READ_AHEAD_BYTES = 256 * 1024
"""What a client may send ahead while its request is served; then its socket is left unread."""


class ServerConnection:
    """One client's connection. `async for request in connection` until it ends."""

    def __init__(
        self,
        stream: Stream,
        policy: BrokerPolicy,
        settings: ServerSettings,
        lost: Callable[[ServerConnection], None],
    ) -> None:
        self._stream = stream
        self._lost = lost
        self._settings = settings
        self._protocol = BrokerProtocol(
            policy, max_frame_bytes=settings.max_frame_bytes, sasl=settings.sasl
        )
        self._protocol.gives_work = True
        self._logins = 0  # that _session_ends_ms was computed for
        self._session_ends_ms: int | None = None
        self.get_buffer = self._protocol.get_buffer
        self._arrived = asyncio.Event()
        self._event: Event | NoEvent | None = None  # taken from the protocol, not yet received
        self._paused = False
        self._activity = Activity(settings.clock.now_ms())
        self._held_back: list[bytes] = []  # answers that leave after the next one
        self._thawed = asyncio.Event()
        self._thawed.set()
        self.error: KafkaError | None = None

    @property
    def peer(self) -> Address:
        """The client's address."""
        return self._stream.peer

    @property
    def local(self) -> Address:
        """The address that the client connected to."""
        return self._stream.local

    @property
    def principal(self) -> str | None:
        """Who logged in by SASL; None where nobody had to."""
        return self._protocol.principal

    @property
    def is_closed(self) -> bool:
        """Whether no answer can be sent any more. A request being served may be given up then."""
        return self._protocol.is_closed

    def __aiter__(self) -> ServerConnection:
        return self

    async def __anext__(self) -> RequestReceived:
        request = await self.receive()
        if request is None:
            raise StopAsyncIteration
        return request

    async def receive(self) -> RequestReceived | None:
        """Return the next request, None when the connection is over (`error` says why).

        The one before it must have been answered or dropped: Kafka serves one at a time, in order.
        """
        while True:
            await self._thawed.wait()
            event, self._event = self._event or self._next_event(), None
            self._note_login()
            self._flush()
            if isinstance(event, RequestReceived):
                if not self._session_is_over():
                    return event
                self._protocol.close(
                    AuthenticationError("the session has ended and was not renewed (KIP-368)")
                )
                continue
            if isinstance(event, Closed):
                self._end(event)
                return None
            if self._protocol.is_closed:
                return None
            if self._paused:
                self._paused = False
                self._stream.resume_reading()
            self._arrived.clear()
            await self._arrived.wait()

    async def respond(
        self,
        request: RequestReceived,
        message: Message,
        *,
        version: int | None = None,
        change: Callable[[bytes], bytes] | None = None,
        hold_back: bool = False,
    ) -> None:
        """Answer the current request; return when the send buffer has room again.

        For tests of clients, `change` replaces the bytes of the answer, and `hold_back` keeps them
        until the next answer is sent. On a connection that is over the answer is dropped. Raises
        LocalProtocolError when the message has no form in that version, or the request is not the
        current one.
        """
        if self._protocol.is_closed:
            return
        if change is not None or hold_back:
            self._flush()  # what was queued before is not this answer
        self._protocol.send_response(request, message, version=version)
        if change is not None or hold_back:
            data = b"".join(self._protocol.data_to_send())
            data = data if change is None else change(data)
            if hold_back:
                self._held_back.append(data)
            else:
                self._stream.write([data])
        self._flush()
        if not hold_back and self._held_back:
            self._stream.write(self._held_back)
            self._held_back = []
        if not self._stream.is_writable:
            await self._stream.drained()

    def drop(self, request: RequestReceived) -> None:
        """Leave the current request unanswered (Produce with acks=0, or a silent release)."""
        if not self._protocol.is_closed:
            self._protocol.drop_request(request)

    def close(self) -> None:
        """End the connection after what was queued is sent. `receive` returns None then."""
        self._protocol.close()
        self._stream.close()
        self._wake()

    def abort(self, *, reset: bool = False) -> None:
        """End the connection at once; `reset` as a killed process does."""
        self._protocol.close()
        self._stream.abort(reset=reset)
        self._wake()

    async def wait_closed(self) -> None:
        """Return when the stream is over."""
        await self._stream.wait_closed()

    def freeze(self) -> None:
        """Read, hand out, send nothing until `thaw`; it stays, as with a stopped process."""
        self._thawed.clear()
        self._stream.pause_reading()

    def thaw(self) -> None:
        """Go on: what was answered meanwhile is sent, what has piled up is read."""
        if not self._thawed.is_set():
            self._thawed.set()
            self._flush()
            if not self._paused:
                self._stream.resume_reading()

    # -- the stream's receiver (get_buffer is the protocol's own)

    def buffer_updated(self, received_bytes: int) -> None:
        """Take received bytes. Called by the stream."""
        self._activity.at_ms = self._settings.clock.now_ms()
        self._protocol.buffer_updated(received_bytes)
        if self._protocol.is_serving:
            if self._protocol.unread_bytes > READ_AHEAD_BYTES and not self._paused:
                self._paused = True
                self._stream.pause_reading()
        elif self._event is None:
            self._look()

    def connection_lost(self, cause: Exception | None) -> None:
        """Take note of the stream's end. Called by the stream."""
        self._protocol.receive_eof(
            *(() if cause is None else (explain(cause, self.peer, REQUEST),))
        )
        self._wake()
        self._lost(self)

    # -- inside

    def _look(self) -> None:
        # The waiting task is woken for a whole request, not for each piece of one.
        event = self._next_event()
        self._note_login()
        if event is NEED_DATA or event is PAUSED:
            self._flush()
            return
        self._event = event
        self._arrived.set()

    def _next_event(self) -> Event | NoEvent:
        event = self._protocol.next_event()
        if not isinstance(event, Work):
            return event
        off_loop(event, self._finish)
        return PAUSED

    def _finish(self, work: Work) -> None:
        self._activity.at_ms = self._settings.clock.now_ms()
        self._protocol.finish(work)
        self._look()

    def end_if_idle(self, now_ms: int, timeout_ms: int) -> None:
        """End the connection if nothing moved for so long; called by the server's sweeps."""
        unsent = self._stream.unsent_bytes
        if self._thawed.is_set() and self._activity.is_over(
            now_ms, timeout_ms, unsent, serving=self._protocol.is_serving
        ):
            what = f"takes no answer, {unsent} bytes wait" if unsent else "sends nothing"
            _log.info(
                "client %s %s for %d ms; its connection is closed", self.peer, what, timeout_ms
            )
            self.abort()

    def _wake(self) -> None:
        self._thawed.set()  # a frozen connection hears of its end too
        self._arrived.set()

    def _session_is_over(self) -> bool:
        return (
            self._session_ends_ms is not None
            and self._settings.clock.now_ms() > self._session_ends_ms
        )

    def _note_login(self) -> None:
        sasl = self._settings.sasl
        if sasl is not None and sasl.session_lifetime_ms and self._protocol.logins != self._logins:
            self._logins = self._protocol.logins
            self._session_ends_ms = self._settings.clock.now_ms() + sasl.session_lifetime_ms

    def _flush(self) -> None:
        data = self._protocol.data_to_send() if self._thawed.is_set() else ()
        if not data:
            return
        if self._stream.unsent_bytes > self._settings.max_unsent_bytes:
            # Refusals by the policy are answered without waiting for the client to read.
            _log.warning(
                "client %s asks and does not read, %d bytes wait for it; its connection is closed",
                self.peer,
                self._stream.unsent_bytes,
            )
            self.abort()
            return
        self._stream.write(data)

    def _end(self, event: Closed) -> None:
        self.error = event.error
        _log.debug("client %s is gone: %s", self.peer, event.error or "closed by this side")
        self._stream.close()
