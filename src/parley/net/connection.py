"""One connection to one broker: bytes pumped between a stream and `protocol.ClientProtocol`.

Rules:
1. Everything runs in one event loop; nothing here is called from another thread.
2. Requests go out in the order of the `submit` calls and are answered in that order.
3. A request whose deadline passes ends the connection: answers come in order, so those behind it
   would wait as well, and a late answer must not be taken for another one (Java does the same).
4. A caller that is cancelled leaves nothing behind: its answer is dropped unread when it comes.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, TypeVar

from parley.errors import KafkaError, RequestTimedOut
from parley.messages import Message, Request
from parley.net.address import Address
from parley.net.clock import Clock, Deadline, TimerHandle
from parley.net.endings import CLOSED_HERE, failed_opening, failed_request, is_over, overdue
from parley.net.failures import REQUEST, explain
from parley.net.login import make_mechanism
from parley.net.options import ConnectOptions
from parley.net.reply import Reply
from parley.net.stream import Stream
from parley.net.work import off_loop
from parley.protocol import (
    NEED_DATA,
    PAUSED,
    Authenticated,
    ClientProtocol,
    ClientSettings,
    Closed,
    Event,
    Negotiated,
    ResponseReceived,
    Work,
)
from parley.protocol.sasl import ClientMechanism
from parley.versions import BrokerVersions, VersionRange

R = TypeVar("R", bound=Message)
T = TypeVar("T")

_log = logging.getLogger("parley.net")

LOGIN_AGAIN_AT = 0.85
"""The part of a session's lifetime before the next login (KIP-368; Java: 0.85 to 0.95)."""

MIN_LOGIN_PAUSE_MS = 1_000
"""Logins are not repeated faster than this: Kafka's brokers refuse it (V14)."""


class BrokerConnection:
    """A negotiated connection; `open_connection` makes one."""

    def __init__(
        self,
        address: Address,
        options: ConnectOptions,
        settings: ClientSettings,
        clock: Clock,
        mechanism: ClientMechanism | None = None,
    ) -> None:
        self.address = address
        self.clock = clock
        self._options = options
        self._protocol = ClientProtocol(settings, mechanism)
        self._protocol.gives_work = True
        self.get_buffer = self._protocol.get_buffer
        self._stream: Stream | None = None
        # and the API that was asked
        self._waiting: dict[int, tuple[asyncio.Future[Reply[Any]], int]] = {}
        self._negotiated: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # done when it is over
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._timer: TimerHandle | None = None
        self._timer_ms = 0
        self._throttled_until_ms = 0
        self._login_timer: TimerHandle | None = None
        self._login_task: asyncio.Task[None] | None = None
        self._session_ends_ms = 0
        self._expired: frozenset[int] = frozenset()
        self._was_answered = False
        self._is_lost = False
        self.inferred = False
        self.error: KafkaError | None = None
        self.last_used_ms = clock.now_ms()

    @property
    def versions(self) -> BrokerVersions:
        """What the broker can do, learnt on this connection. Raises NetworkError once over."""
        versions = self._protocol.versions
        if versions is None:
            raise self._why_closed("its versions are forgotten")
        return versions

    def accept_frames(self, frame_bytes: int) -> None:
        """Accept answers of at least that size, whatever `max_frame_bytes` says."""
        self._protocol.accept_frames(frame_bytes)

    @property
    def is_closed(self) -> bool:
        """Whether no request can be sent any more."""
        return self._protocol.is_closed

    @property
    def in_flight(self) -> int:
        """The number of requests whose answer has not come."""
        return self._protocol.in_flight

    @property
    def stage(self) -> str:
        """How far opening has come: "versions", "authentication", then "request"."""
        return self._protocol.stage

    @property
    def throttled_ms(self) -> int:
        """How long the broker still wants to hear nothing; `request` waits for it by itself."""
        return max(0, self._throttled_until_ms - self.clock.now_ms())

    def submit(
        self,
        message: Request[R],
        *,
        timeout_ms: int | None = None,
        allowed: VersionRange | None = None,
        version: int | None = None,
    ) -> asyncio.Future[Reply[R]]:
        """Send a request now, behind those submitted before it; return its answer's future.

        For a Produce without acknowledgement the future is done at once, with a Reply of None.
        Cancelling the future drops the answer when it comes. Raises UnsupportedVersionError or
        LocalProtocolError when nothing could be sent, NetworkError when the connection is over.
        """
        if self._protocol.is_closed:
            raise self._why_closed("nothing was sent")
        timeout = self._options.request_timeout_ms if timeout_ms is None else timeout_ms
        now_ms = self.last_used_ms = self.clock.now_ms()
        before = self._protocol.in_flight
        correlation_id = self._protocol.send_request(
            message, now_ms=now_ms, timeout_ms=timeout, allowed=allowed, version=version
        )
        future: asyncio.Future[Reply[R]] = asyncio.get_running_loop().create_future()
        if self._protocol.in_flight == before:
            future.set_result(
                Reply(ResponseReceived(correlation_id, int(message.API_KEY), -1, None))
            )
        else:
            self._waiting[correlation_id] = future, int(message.API_KEY)
            future.add_done_callback(lambda done: self._forget(correlation_id, done))
            self._watch(now_ms + timeout)
        self._flush()
        return future

    async def request(
        self,
        message: Request[R],
        *,
        timeout_ms: int | None = None,
        allowed: VersionRange | None = None,
        version: int | None = None,
    ) -> Reply[R]:
        """Send a request and return its answer.

        Waits first while the broker throttles this connection or the send buffer is full; that time
        counts. Raises what `submit` raises, RequestTimedOut when the deadline passes (the
        connection is over then, and whether the broker acted is unknown), NetworkError when it is
        lost, RemoteProtocolError when the broker's bytes make no sense.
        """
        timeout = self._options.request_timeout_ms if timeout_ms is None else timeout_ms
        if self._stream is not None and (self.throttled_ms or not self._stream.is_writable):
            deadline_ms = self.clock.now_ms() + timeout
            await self._until_sendable(deadline_ms, message)
            timeout = max(1, deadline_ms - self.clock.now_ms())
        return await self.submit(message, timeout_ms=timeout, allowed=allowed, version=version)

    async def close(self) -> None:
        """End the connection, wait for it. Requests in flight fail (NetworkError). Idempotent."""
        self._protocol.close()
        self._pump()
        if self._stream is not None:
            await self._stream.wait_closed()

    def abort(self) -> None:
        """End the connection at once, without waiting."""
        self._protocol.close()
        self._pump()
        if self._stream is not None:
            self._stream.abort()

    async def wait_closed(self) -> None:
        """Return when the connection is over; `error` says why."""
        await asyncio.shield(self.closed)

    # -- opening

    async def negotiate(self, stream: Stream, timeout_ms: int) -> None:
        """Exchange versions over a fresh stream. Raises what ended the connection, if so."""
        self._stream = stream
        now_ms = self.clock.now_ms()
        self._protocol.start(now_ms, timeout_ms)
        self._watch(now_ms + timeout_ms)
        self._pump()
        await asyncio.shield(self._negotiated)
        self.last_used_ms = self.clock.now_ms()

    # -- the stream's receiver (get_buffer is the protocol's own)

    def buffer_updated(self, received_bytes: int) -> None:
        """Take received bytes. Called by the stream."""
        if self._protocol.buffer_updated(received_bytes):
            self._pump()

    def connection_lost(self, cause: Exception | None) -> None:
        """Take note of the stream's end. Called by the stream."""
        self._protocol.receive_eof(
            *(() if cause is None else (explain(cause, self.address, REQUEST),))
        )
        self._is_lost = True
        self._pump()

    # -- inside

    def _pump(self) -> None:
        while (event := self._protocol.next_event()) is not NEED_DATA and event is not PAUSED:
            self._take(event)
        self._flush()
        if self._is_lost and self._protocol.is_closed and not self.closed.done():
            self.closed.set_result(None)

    def _begin(self, work: Work) -> None:
        if self._stream is not None:
            self._stream.pause_reading()  # what a peer sends meanwhile must not pile up
        off_loop(work, self._finish)

    def _finish(self, work: Work) -> None:
        self._protocol.finish(work)
        if self._stream is not None:
            self._stream.resume_reading()
        self._pump()

    def _take(self, event: Event) -> None:
        if isinstance(event, ResponseReceived):
            self._was_answered = True
            if event.throttle_ms:
                self._throttled_until_ms = max(
                    self._throttled_until_ms, self.clock.now_ms() + event.throttle_ms
                )
            future, _ = self._waiting.pop(event.correlation_id, (None, -1))
            if future is not None and not future.done():
                future.set_result(Reply(event))
        elif isinstance(event, Negotiated):
            self.inferred = event.inferred
            if not self._negotiated.done():
                self._negotiated.set_result(None)
        elif isinstance(event, Authenticated):
            self._plan_next_login(event.session_lifetime_ms)
        elif isinstance(event, Work):
            self._begin(event)
        elif isinstance(event, Closed):
            self._end(event)

    def _flush(self) -> None:
        data = self._protocol.data_to_send()
        if data and self._stream is not None:
            self._stream.write(data)

    def _end(self, event: Closed) -> None:
        self.error = event.error
        self.last_used_ms = self.clock.now_ms()
        _log.debug("connection to %s is over: %s", self.address, event.error or CLOSED_HERE)
        for timer in (self._timer, self._login_timer, self._login_task):
            if timer is not None:
                timer.cancel()
        _fail(self._negotiated, failed_opening(self.address, event.error))
        for correlation_id, (waiting, api_key) in self._waiting.items():
            error = failed_request(
                self.address,
                event.error,
                api_key,
                is_overdue=correlation_id in self._expired,
                hints=self._may_want_login,
            )
            _fail(waiting, error)
        self._waiting.clear()
        if self._stream is None:
            return
        if event.error is None:
            self._flush()
            self._stream.close()
        else:
            self._stream.abort()

    def _why_closed(self, consequence: str) -> KafkaError:
        return is_over(self.address, self.error, consequence, hints=self._may_want_login)

    @property
    def _may_want_login(self) -> bool:
        return not self._was_answered and not self._options.uses_sasl

    def _forget(self, correlation_id: int, future: asyncio.Future[Reply[R]]) -> None:
        if future.cancelled() and self._waiting.pop(correlation_id, None) is not None:
            self._protocol.abandon(correlation_id)

    async def _until_sendable(self, deadline_ms: int, message: Message) -> None:
        try:
            async with Deadline(self.clock, deadline_ms):
                while self.throttled_ms:
                    await self.clock.sleep_ms(self.throttled_ms)
                if self._stream is not None:
                    await self._stream.drained()
        except TimeoutError as error:
            why = (
                f"it wants to hear nothing for {self.throttled_ms} ms"
                if self.throttled_ms
                else "it reads too slowly"
            )
            text = (
                f"{self.address}: {type(message).__name__} could not be sent in time ({why}); "
                "nothing was sent"
            )
            raise RequestTimedOut(text, address=str(self.address), stage=REQUEST) from error

    def _watch(self, deadline_ms: int) -> None:
        # One timer for the earliest deadline that was ever set; it plans the next one when it runs.
        if self._timer is not None and self._timer_ms <= deadline_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = deadline_ms
        self._timer = self.clock.call_at_ms(deadline_ms, self._check_deadlines)

    def _check_deadlines(self) -> None:
        self._timer = None
        expired = self._protocol.expired(self.clock.now_ms())
        if expired:
            self._expired = frozenset(expired)
            self._protocol.close(overdue(self.address, self._protocol.state))
            self._pump()
            return
        next_ms = self._protocol.next_deadline_ms()
        if next_ms is not None:
            self._watch(next_ms)

    def _plan_next_login(self, session_lifetime_ms: int) -> None:
        if session_lifetime_ms:
            self._session_ends_ms = self.clock.now_ms() + session_lifetime_ms
            pause_ms = max(MIN_LOGIN_PAUSE_MS, int(session_lifetime_ms * LOGIN_AGAIN_AT))
            self._login_timer = self.clock.call_at_ms(
                self.clock.now_ms() + pause_ms, self._begin_login_again
            )

    def _begin_login_again(self) -> None:
        self._login_task = asyncio.get_running_loop().create_task(self._log_in_again())

    async def _log_in_again(self) -> None:
        timeout_ms = self._options.socket_connection_setup_timeout_ms
        try:
            mechanism = await self._mechanism_for_next_login()
        except KafkaError as error:
            self._protocol.close(error)
        else:
            if mechanism is not None and not self._protocol.is_closed:
                now_ms = self.clock.now_ms()
                self._protocol.reauthenticate(mechanism, now_ms, timeout_ms)
                self._watch(now_ms + timeout_ms)
        self._login_task = None  # what follows must not cancel this very task
        self._pump()

    async def _mechanism_for_next_login(self) -> ClientMechanism | None:
        """Try while the session lasts: no broker has refused anything. Raises as `make_mechanism`.

        A source of tokens that fails for a moment ends no connection so.
        """
        pause_ms = MIN_LOGIN_PAUSE_MS
        while True:
            try:
                return await make_mechanism(self._options)
            except KafkaError as error:
                left_ms = self._session_ends_ms - self.clock.now_ms()
                if left_ms <= 0:
                    raise
                log = _log.warning if pause_ms == MIN_LOGIN_PAUSE_MS else _log.debug
                log(
                    "%s: %s; the session goes on for %d ms, meanwhile this is tried again",
                    self.address,
                    error,
                    left_ms,
                )
            await self.clock.sleep_ms(min(pause_ms, left_ms))
            pause_ms *= 2


def _fail(future: asyncio.Future[T], error: KafkaError) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # marked as seen: nobody may be waiting for it
