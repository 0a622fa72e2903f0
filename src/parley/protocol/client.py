"""The client's end of a connection.

Rules:
1. FRESH → NEGOTIATING → READY, with a login NEGOTIATING → AUTHENTICATING → NEGOTIATING between.
   Nothing of the application is sent before READY.
2. Negotiated versions belong to this connection; they are forgotten when it ends (V6).
3. Each request goes out in the highest version that the broker, parley and the caller's own range
   have in common; if there is none, an error says so and no byte is sent (V8).
4. Answers come in request order, or the connection ends.
5. A Produce that wants no acknowledgement has no answer and is not waited for.
6. While a login is repeated (KIP-368) new requests are held back; those before it are answered
   first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from parley.errors import AuthenticationError, KafkaError, LocalProtocolError, RemoteProtocolError
from parley.frames import (
    UNAUTHENTICATED_MAX_FRAME_BYTES,
    EmptyFrames,
    Frame,
    Framer,
)
from parley.messages import (
    Message,
    Request,
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
    encode_request,
)
from parley.protocol.answers import decoded, decoded_quickly, message_of
from parley.protocol.client_settings import ClientSettings
from parley.protocol.connection import Connection, Segment, State
from parley.protocol.events import Authenticated, Negotiated, ResponseReceived
from parley.protocol.held_back import HeldBack
from parley.protocol.inflight import InFlight, Pending, Purpose
from parley.protocol.login import Ask, Login, Token
from parley.protocol.negotiation import Negotiation, canary_request
from parley.protocol.sasl import ClientMechanism
from parley.protocol.throttle import client_throttle_ms
from parley.schema import ApiKey
from parley.versions import CLIENT_RANGES, BrokerVersions, VersionRange

DEFAULT_SETUP_TIMEOUT_MS = 10_000
MAX_SETUP_BYTES = 128 * 1024
"""The longest answer while a connection is set up; real ones have at most a few thousand bytes."""

_CORRELATION_ID_BYTES = 4


class ClientProtocol(Connection):
    """Requests out, answers in, in negotiated versions."""

    def __init__(
        self, settings: ClientSettings | None = None, mechanism: ClientMechanism | None = None
    ) -> None:
        self._settings = settings if settings is not None else ClientSettings()
        cap = self._settings.max_frame_bytes
        if mechanism is not None:  # until both ends have proved who they are, nothing large is read
            cap = min(cap, UNAUTHENTICATED_MAX_FRAME_BYTES)
        super().__init__(Framer(cap), State.FRESH)
        self._in_flight = InFlight()
        self._versions: BrokerVersions | None = None
        self._login = None if mechanism is None else Login(mechanism)
        self._login_done = mechanism is None
        self._held = HeldBack()
        self._negotiation = self._new_negotiation()
        self._setup_deadline_ms = 0
        self._canary_id: int | None = None

    @property
    def versions(self) -> BrokerVersions | None:
        """What the broker can do; None before negotiation and after the end."""
        return self._versions

    @property
    def in_flight(self) -> int:
        """The number of requests whose answer has not come."""
        return len(self._in_flight) + len(self._held) + (self._work is not None)

    def start(self, now_ms: int, timeout_ms: int = DEFAULT_SETUP_TIMEOUT_MS) -> None:
        """Begin negotiation: queue ApiVersions, newest version first, or take a pinned table.

        Raises LocalProtocolError when it was begun before, ConfigError for an unknown release.
        """
        if self._state is not State.FRESH:
            raise LocalProtocolError(
                f"a connection is started once; this one is {self._state.value}"
            )
        self._setup_deadline_ms = now_ms + timeout_ms
        if self._settings.pinned_release is not None:
            pinned = self._pinned_versions()
            try:
                self._versions_known(pinned, inferred=True)
            except KafkaError as error:  # a release without the login that is asked for
                self._end(error)
            return
        self._state = State.NEGOTIATING
        self._ask_versions()
        if self._settings.probe_old_brokers and self._login is None:
            self._canary_id = self._in_flight.next_id()
            canary = Pending(
                self._canary_id, ApiKey.LIST_GROUPS, 0, self._setup_deadline_ms, Purpose.CANARY
            )
            self._send(canary, canary_request(self._canary_id, self._settings.client_id))

    def send_request(
        self,
        message: Request[Message],
        *,
        now_ms: int,
        timeout_ms: int,
        allowed: VersionRange | None = None,
        version: int | None = None,
    ) -> int:
        """Queue a request and return its correlation id.

        The version is the highest that both sides and `allowed` have in common; `version` sends
        that one unasked, for tests of refusals. Raises UnsupportedVersionError when there is none,
        LocalProtocolError when the connection is not READY or the message has no form in that
        version; nothing is queued then and the connection stays as it was.
        """
        if self._versions is None:
            raise LocalProtocolError(
                f"requests need a negotiated connection; this one is {self._state.value}"
            )
        api_key = int(message.API_KEY)
        if version is None:
            version = self._versions.choose(api_key, self._narrowed(api_key, allowed))
        correlation_id = self._in_flight.next_id()
        segments = encode_request(message, version, correlation_id, self._settings.client_id)
        pending = None
        if api_key != ApiKey.PRODUCE or getattr(message, "acks", None) != 0:
            pending = Pending(correlation_id, api_key, version, now_ms + timeout_ms)
        if self._state is State.AUTHENTICATING:
            self._held.add(pending, segments)
        else:
            self._send(pending, segments)
        return correlation_id

    def reauthenticate(self, mechanism: ClientMechanism, now_ms: int, timeout_ms: int) -> None:
        """Log in once more, before the session ends (KIP-368). An `Authenticated` event follows.

        Requests are held back meanwhile. Raises LocalProtocolError when the connection is not
        READY.
        """
        if self._state is not State.READY or self._versions is None:
            raise LocalProtocolError(
                f"only a connection in use can log in again; this one is {self._state.value}"
            )
        self._setup_deadline_ms = now_ms + timeout_ms
        self._login = Login(mechanism)
        self._begin_login(self._versions)

    def abandon(self, correlation_id: int) -> None:
        """Drop the answer of this request unread when it comes. Unknown ids are ignored."""
        self._in_flight.abandon(correlation_id)
        self._held.abandon(correlation_id)

    def expired(self, now_ms: int) -> list[int]:
        """Return the requests, negotiation included, whose deadline has passed.

        Does not mutate. Answers come in order, so an expired request blocks those behind it: close.
        """
        held = [one.correlation_id for one in self._held.awaited() if one.deadline_ms <= now_ms]
        return self._in_flight.expired(now_ms) + held

    def next_deadline_ms(self) -> int | None:
        """Return the earliest moment at which something expires, None when nothing waits."""
        held = [one.deadline_ms for one in self._held.awaited()]
        first = self._in_flight.next_deadline_ms()
        return min(held if first is None else [*held, first], default=None)

    def _narrowed(self, api_key: int, allowed: VersionRange | None) -> VersionRange | None:
        limit = self._settings.version_limits.get(api_key)
        if limit is None or allowed is None:
            return allowed if limit is None else limit
        both = limit.intersect(allowed)
        if both is None:
            raise LocalProtocolError(
                f"API {api_key} is asked for in {allowed}, but version_limits allows {limit}"
            )
        return both

    def _take_frame(self, frame: Frame) -> None:
        try:
            self._take_response(frame.data)
        finally:
            frame.release()  # messages may keep views: the buffer is not used again while they live

    def _take_response(self, data: memoryview) -> None:
        head = self._in_flight.head()
        if head is not None and head.purpose is Purpose.TOKEN:
            self._in_flight.take(head.correlation_id)
            self._login_answered(head, data)
            return
        if len(data) < _CORRELATION_ID_BYTES:
            raise RemoteProtocolError(
                f"the broker sent an answer of {len(data)} bytes, too few for a correlation id"
            )
        correlation_id = int.from_bytes(data[:_CORRELATION_ID_BYTES], "big", signed=True)
        if correlation_id == self._canary_id and self._state is State.NEGOTIATING:
            self._canary_answered()
        pending = self._in_flight.take(correlation_id)
        if pending.purpose is Purpose.NEGOTIATION:
            self._versions_answered(data[_CORRELATION_ID_BYTES:])
        elif pending.purpose is Purpose.LOGIN:
            self._login_answered(pending, data)
        elif pending.purpose is Purpose.APPLICATION and not pending.abandoned:
            self._decode(pending, data)

    def _decode(self, pending: Pending, data: memoryview) -> None:
        found = decoded_quickly(pending, data)
        if found is not None:
            self._answered(pending, found)
        else:  # the work needs a view of its own: that of the frame ends with this call
            self._do(partial(decoded, pending, data[:]), partial(self._answered, pending))

    def _answered(self, pending: Pending, message: Message | RemoteProtocolError) -> None:
        if isinstance(message, RemoteProtocolError):
            self._in_flight.put_back(pending)  # what makes no sense is no answer
            raise message
        throttle_ms = client_throttle_ms(pending.api_key, pending.version, message)
        self._events.append(
            ResponseReceived(
                pending.correlation_id, pending.api_key, pending.version, message, throttle_ms
            )
        )

    # -- negotiation

    def _new_negotiation(self) -> Negotiation:
        own = CLIENT_RANGES[ApiKey.API_VERSIONS]
        limit = self._settings.version_limits.get(ApiKey.API_VERSIONS, own)
        if not self._login_done:
            # before a login every broker since 0.10 understands v0, and nobody more
            limit = VersionRange(0, 0)
        settings = self._settings
        return Negotiation(
            limit.intersect(own) or own,
            settings.software_name,
            settings.software_version,
            broker=settings.broker,
        )

    def _pinned_versions(self) -> BrokerVersions:
        return BrokerVersions.from_release(
            self._settings.pinned_release or "", broker=self._settings.broker
        )

    def _ask_versions(self) -> None:
        message, version = self._negotiation.request(), self._negotiation.version
        self._ask(message, version, Purpose.NEGOTIATION)

    def _versions_answered(self, body: memoryview) -> None:
        try:
            _check_short(body)
            versions = self._negotiation.answered(body)
            if versions is None:
                self._ask_versions()
            else:
                self._versions_known(versions, inferred=False)
        except KafkaError as error:
            self._end(error)

    def _canary_answered(self) -> None:
        head = self._in_flight.head()
        if head is not None and head.purpose is Purpose.NEGOTIATION:
            self._in_flight.drop(Purpose.NEGOTIATION)  # 0.9 swallowed it: no answer will come
            self._versions_known(
                BrokerVersions.fixed_pre_0_10(broker=self._settings.broker), inferred=True
            )

    def _versions_known(self, versions: BrokerVersions, *, inferred: bool) -> None:
        if not self._login_done:
            self._begin_login(versions)
            return
        rules = self._settings.must_not_use
        self._versions = versions.without(rules) if rules else versions
        self._state = State.READY
        self._events.append(Negotiated(self._versions, inferred))

    # -- login

    def _begin_login(self, versions: BrokerVersions) -> None:
        assert self._login is not None
        first = self._login.begin(versions)
        self._state = State.AUTHENTICATING
        self._perform(first)

    def _login_answered(self, pending: Pending, data: memoryview) -> None:
        login = self._login
        assert login is not None
        try:
            _check_short(data)
            if pending.purpose is Purpose.TOKEN:
                self._take_step(login, bytes(data))
                return
            message = message_of(pending, data)
            if isinstance(message, SaslHandshakeResponse):
                self._perform(login.handshake_answered(message))
            elif isinstance(message, SaslAuthenticateResponse):
                self._take_step(login, login.authenticate_answered(message))
        except KafkaError as error:
            self._end(error)

    def _take_step(self, login: Login, challenge: bytes) -> None:
        if login.takes_long:
            self._do(partial(login.token_answered, challenge), self._perform)
        else:
            self._perform(login.token_answered(challenge))

    def _perform(self, step: Ask | Token | None) -> None:
        if isinstance(step, Ask):
            self._ask(step.message, step.version, Purpose.LOGIN)
        elif isinstance(step, Token):
            self._framer.empty_frames = EmptyFrames.YIELD
            self._send(Pending(-1, -1, 0, self._setup_deadline_ms, Purpose.TOKEN), [step.data])
        else:
            self._logged_in()

    def _logged_in(self) -> None:
        assert self._login is not None
        self._framer.empty_frames = EmptyFrames.REJECT
        self.accept_frames(self._settings.max_frame_bytes)
        self._events.append(Authenticated(self._login.session_lifetime_ms))
        self._login_done = True
        if self._versions is not None:  # it was a repeated login
            self._state = State.READY
            for pending, segments in self._held.take_all():
                self._send(pending, segments)
        elif self._settings.pinned_release is not None:
            self._versions_known(self._pinned_versions(), inferred=True)
        else:
            self._state = State.NEGOTIATING
            self._negotiation = self._new_negotiation()
            self._ask_versions()

    # -- sending

    def _ask(self, message: Request[Message], version: int, purpose: Purpose) -> None:
        correlation_id = self._in_flight.next_id()
        segments = encode_request(message, version, correlation_id, self._settings.client_id)
        self._send(
            Pending(
                correlation_id, int(message.API_KEY), version, self._setup_deadline_ms, purpose
            ),
            segments,
        )

    def _send(self, pending: Pending | None, segments: Sequence[Segment]) -> None:
        self._queue(segments)
        if pending is not None:
            self._in_flight.add(pending)

    def _lost(self) -> tuple[int, ...]:
        self._versions = None
        held = [one.correlation_id for one in self._held.awaited()]
        self._held = HeldBack()
        return (*self._in_flight.clear(), *held)

    @property
    def stage(self) -> str:
        """The stage that a NetworkError of this moment names."""
        if self._state is State.AUTHENTICATING:
            return "authentication"
        return "versions" if self._state in (State.FRESH, State.NEGOTIATING) else "request"

    def _eof_error(self, how: str) -> KafkaError:
        if self._state is State.AUTHENTICATING and self._login is not None and self._login.is_raw:
            # During a login with bare tokens it is how brokers before 1.0 refuse credentials.
            return AuthenticationError(
                f"{how} during the login: the credentials were most likely refused"
            )
        return super()._eof_error(how)

    def _eof_text(self, how: str) -> str:
        text = super()._eof_text(how)
        if self._state is not State.NEGOTIATING:
            return text
        return (
            f"{text}, instead of answering ApiVersions. Either this listener wants "
            "TLS or SASL (security_protocol) or a client certificate "
            "(ssl_certfile), or the broker is older than 0.10 (pin its release)"
        )


def _check_short(data: memoryview) -> None:
    if len(data) > MAX_SETUP_BYTES:
        raise RemoteProtocolError(
            f"the broker sent {len(data)} bytes while the connection was set up; "
            f"{MAX_SETUP_BYTES} are plenty"
        )
