"""The client's end of a connection.

Rules:
1. FRESH → NEGOTIATING → READY. Nothing of the application is sent before READY.
2. Negotiated versions belong to this connection; they are forgotten when it ends (V6).
3. Each request goes out in the highest version that the broker, parley and the caller's own range
   have in common; if there is none, an error says so and no byte is sent (V8).
4. Answers come in request order, or the connection ends.
5. A Produce that wants no acknowledgement has no answer and is not waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from parley.errors import KafkaError, LocalProtocolError, RemoteProtocolError
from parley.frames import DEFAULT_MAX_FRAME_BYTES, Frame, Framer
from parley.messages import decode_at, decode_response, decode_response_header, encode_request, response_class
from parley.protocol.connection import Connection, State
from parley.protocol.events import Negotiated, ResponseReceived
from parley.protocol.inflight import InFlight, Pending, Purpose
from parley.protocol.negotiation import Negotiation, canary_request
from parley.protocol.throttle import client_throttle_ms
from parley.schema import ApiKey
from parley.versions import CLIENT_RANGES, BrokerVersions, VersionRange

DEFAULT_SETUP_TIMEOUT_MS = 10_000
_CORRELATION_ID_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """What a client connection says about itself and how it finds the broker's versions.

    `pinned_release` ("0.9", "2.4.1") takes that release's versions and asks nothing.
    `probe_old_brokers` sends the canary that recognises brokers older than 0.10, which would
    otherwise stay silent until a deadline passes; for the first connection to an address only, since
    the probe makes such a broker forget other clients' requests. `version_limits` narrows, by API
    key, what parley would otherwise use. `broker` names the broker in errors.
    """

    client_id: str = "parley"
    software_name: str = "parley"
    software_version: str = "0"
    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES
    pinned_release: str | None = None
    probe_old_brokers: bool = False
    version_limits: Mapping[int, VersionRange] = field(default_factory=dict)
    broker: str = ""


class ClientProtocol(Connection):
    """Requests out, answers in, in negotiated versions."""

    def __init__(self, settings: ClientSettings | None = None) -> None:
        self._settings = settings if settings is not None else ClientSettings()
        super().__init__(Framer(self._settings.max_frame_bytes), State.FRESH)
        self._in_flight = InFlight()
        self._versions: BrokerVersions | None = None
        own = CLIENT_RANGES[ApiKey.API_VERSIONS]
        self._negotiation = Negotiation(
            self._settings.version_limits.get(ApiKey.API_VERSIONS, own).intersect(own) or own,
            self._settings.software_name,
            self._settings.software_version,
            broker=self._settings.broker,
        )
        self._setup_deadline_ms = 0
        self._canary_id: int | None = None

    @property
    def versions(self) -> BrokerVersions | None:
        """What the broker can do; None before negotiation and after the end."""
        return self._versions

    @property
    def in_flight(self) -> int:
        """The number of requests whose answer has not come."""
        return len(self._in_flight)

    def start(self, now_ms: int, timeout_ms: int = DEFAULT_SETUP_TIMEOUT_MS) -> None:
        """Begin negotiation: queue ApiVersions, newest version first, or take the pinned release's table.

        Raises LocalProtocolError when it was begun before, ConfigError for an unknown release.
        """
        if self._state is not State.FRESH:
            raise LocalProtocolError(f"a connection is started once; this one is {self._state.value}")
        self._setup_deadline_ms = now_ms + timeout_ms
        if self._settings.pinned_release is not None:
            self._ready(
                BrokerVersions.from_release(self._settings.pinned_release, broker=self._settings.broker), inferred=True
            )
            return
        self._state = State.NEGOTIATING
        self._ask_versions()
        if self._settings.probe_old_brokers:
            self._canary_id = self._in_flight.next_id()
            self._queue(canary_request(self._canary_id, self._settings.client_id))
            self._wait(self._canary_id, ApiKey.LIST_GROUPS, 0, self._setup_deadline_ms, Purpose.CANARY)

    def send_request(
        self,
        message: Any,
        *,
        now_ms: int,
        timeout_ms: int,
        allowed: VersionRange | None = None,
        version: int | None = None,
    ) -> int:
        """Queue a request and return its correlation id.

        The version is the highest that both sides and `allowed` have in common; `version` sends that
        one unasked, for tests of refusals. Raises UnsupportedVersionError when there is none,
        LocalProtocolError when the connection is not READY or the message has no form in that
        version; nothing is queued then and the connection stays as it was.
        """
        if self._state is not State.READY or self._versions is None:
            raise LocalProtocolError(f"requests need a negotiated connection; this one is {self._state.value}")
        api_key = int(message.API_KEY)
        if version is None:
            version = self._versions.choose(api_key, self._narrowed(api_key, allowed))
        correlation_id = self._in_flight.next_id()
        self._queue(encode_request(message, version, correlation_id, self._settings.client_id))
        if api_key != ApiKey.PRODUCE or message.acks != 0:
            self._wait(correlation_id, api_key, version, now_ms + timeout_ms, Purpose.APPLICATION)
        return correlation_id

    def abandon(self, correlation_id: int) -> None:
        """Drop the answer of this request unread when it comes. Unknown ids are ignored."""
        self._in_flight.abandon(correlation_id)

    def expired(self, now_ms: int) -> list[int]:
        """Return the requests, negotiation included, whose deadline has passed.

        Does not mutate. Answers come in order, so an expired request blocks those behind it: close.
        """
        return self._in_flight.expired(now_ms)

    def next_deadline_ms(self) -> int | None:
        """Return the earliest moment at which something expires, None when nothing is waited for."""
        return self._in_flight.next_deadline_ms()

    def _narrowed(self, api_key: int, allowed: VersionRange | None) -> VersionRange | None:
        limit = self._settings.version_limits.get(api_key)
        if limit is None or allowed is None:
            return allowed if limit is None else limit
        both = limit.intersect(allowed)
        if both is None:
            raise LocalProtocolError(f"API {api_key} is asked for in {allowed}, but version_limits allows {limit}")
        return both

    def _take_frame(self, frame: Frame) -> None:
        try:
            self._take_response(frame.data)
        finally:
            frame.release()  # messages may keep views: the buffer is not used again while they live

    def _take_response(self, data: memoryview) -> None:
        if len(data) < _CORRELATION_ID_BYTES:
            raise RemoteProtocolError(f"the broker sent an answer of {len(data)} bytes, too few for a correlation id")
        correlation_id = int.from_bytes(data[:_CORRELATION_ID_BYTES], "big", signed=True)
        if correlation_id == self._canary_id and self._state is State.NEGOTIATING:
            self._canary_answered()
        pending = self._in_flight.take(correlation_id)
        if pending.purpose is Purpose.NEGOTIATION:
            self._versions_answered(data[_CORRELATION_ID_BYTES:])
        elif pending.purpose is Purpose.APPLICATION and not pending.abandoned:
            try:
                self._events.append(self._response(pending, data))
            except RemoteProtocolError:
                self._in_flight.put_back(pending)  # what makes no sense is no answer
                raise

    def _response(self, pending: Pending, data: memoryview) -> ResponseReceived:
        api_key, version = pending.api_key, pending.version
        if api_key == ApiKey.API_VERSIONS:
            _, message = decode_response(api_key, version, data)  # its errors come in the shape of v0
        else:
            _, start = decode_response_header(api_key, version, data)
            # Bytes behind the message are ignored, as Kafka's own client ignores them.
            message, _ = decode_at(response_class(api_key), version, data, start)
        throttle_ms = client_throttle_ms(api_key, version, message)
        return ResponseReceived(pending.correlation_id, api_key, version, message, throttle_ms)

    def _ask_versions(self) -> None:
        version, correlation_id = self._negotiation.version, self._in_flight.next_id()
        message = self._negotiation.request()
        self._queue(encode_request(message, version, correlation_id, self._settings.client_id))
        self._wait(correlation_id, ApiKey.API_VERSIONS, version, self._setup_deadline_ms, Purpose.NEGOTIATION)

    def _versions_answered(self, body: memoryview) -> None:
        try:
            versions = self._negotiation.answered(body)
        except KafkaError as error:
            self._end(error)
            return
        if versions is None:
            self._ask_versions()
        else:
            self._ready(versions, inferred=False)

    def _canary_answered(self) -> None:
        head = self._in_flight.head()
        if head is not None and head.purpose is Purpose.NEGOTIATION:
            self._in_flight.drop(Purpose.NEGOTIATION)  # 0.9 swallowed it: no answer will come
            self._ready(BrokerVersions.fixed_pre_0_10(broker=self._settings.broker), inferred=True)

    def _ready(self, versions: BrokerVersions, *, inferred: bool) -> None:
        self._versions = versions
        self._state = State.READY
        self._events.append(Negotiated(versions, inferred))

    def _wait(self, correlation_id: int, api_key: int, version: int, deadline_ms: int, purpose: Purpose) -> None:
        self._in_flight.add(Pending(correlation_id, int(api_key), version, deadline_ms, purpose))

    def _lost(self) -> tuple[int, ...]:
        self._versions = None
        return self._in_flight.clear()

    def _stage(self) -> str:
        return "versions" if self._state in (State.FRESH, State.NEGOTIATING) else "request"

    def _eof_text(self, how: str) -> str:
        text = super()._eof_text(how)
        if self._state is not State.NEGOTIATING:
            return text
        return (
            f"{text}, instead of answering ApiVersions. Either this listener wants TLS or SASL "
            "(security_protocol), or the broker is older than 0.10 (pin its release)"
        )
