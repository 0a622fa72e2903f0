"""The broker's end of a connection.

Rules:
1. One request at a time: until it is answered or dropped, `next_event` returns PAUSED. Kafka mutes
   the connection in the same way, which is why answers are always in request order.
2. The policy is asked before a body is read; a release's refusals are its own affair.
3. A request that does not decode is the client's fault; the policy only chooses between silence and
   closing.
4. On a SASL listener the login (broker_login.py) comes before the policy, in frames of at most 512
   KiB.
"""

from __future__ import annotations

from functools import partial

from parley.errors import LocalProtocolError, RemoteProtocolError
from parley.frames import (
    DEFAULT_MAX_FRAME_BYTES,
    UNAUTHENTICATED_MAX_FRAME_BYTES,
    EmptyFrames,
    Frame,
    Framer,
)
from parley.messages import (
    Message,
    RequestHeader,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    decode_request,
    decode_request_header,
    decode_request_quickly,
    encode_response,
    peek_request_header,
)
from parley.protocol.broker_login import BrokerLogin, BrokerSasl, Phase, Refusal
from parley.protocol.connection import Connection, State
from parley.protocol.events import PAUSED, NoEvent, RequestReceived
from parley.protocol.policy import (
    BrokerPolicy,
    Close,
    Decision,
    Respond,
    RespondBytes,
    Serve,
    Swallow,
    Translate,
    Translator,
)

_SaslRequest = SaslHandshakeRequest | SaslAuthenticateRequest
_Decoded = tuple[RequestHeader, Message] | RemoteProtocolError


class BrokerProtocol(Connection):
    """Requests in, answers out, by the policy of a release."""

    def __init__(
        self,
        policy: BrokerPolicy,
        *,
        max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
        sasl: BrokerSasl | None = None,
    ) -> None:
        first_cap = (
            max_frame_bytes
            if sasl is None
            else min(max_frame_bytes, UNAUTHENTICATED_MAX_FRAME_BYTES)
        )
        state = State.READY if sasl is None else State.AUTHENTICATING
        super().__init__(Framer(first_cap, empty_frames=policy.empty_frames), state)
        self._policy = policy
        self._max_frame_bytes = max_frame_bytes
        self._login = None if sasl is None else BrokerLogin(sasl)
        self.logins = 0
        """How often a login was completed on this connection."""
        self._current: RequestReceived | None = None

    @property
    def is_serving(self) -> bool:
        """Whether a request is decoded or waits for its answer; no other is read meanwhile."""
        return self._current is not None or self._work is not None

    @property
    def principal(self) -> str | None:
        """Who logged in; None before that and on listeners without SASL."""
        return None if self._login is None else self._login.principal

    def send_response(
        self, request: RequestReceived, message: Message, *, version: int | None = None
    ) -> None:
        """Answer the current request, in its own version unless another one is given.

        Mutates: the next request may be read afterwards. Raises LocalProtocolError when `request`
        is not the current one, or when `message` has no form in that version; nothing is sent then.
        """
        self._check_current(request)
        if request.translator is not None:
            self._queue(request.translator.response(message, request.correlation_id))
        else:
            answered_in = request.version if version is None else version
            self._queue(encode_response(message, answered_in, request.correlation_id))
        self._current = None

    def drop_request(self, request: RequestReceived) -> None:
        """Leave the current request unanswered: Produce with acks=0, or a silent release."""
        self._check_current(request)
        self._current = None

    def _check_current(self, request: RequestReceived) -> None:
        if request is not self._current:
            raise LocalProtocolError(
                "only the request that was received last can be answered, and only once"
            )

    def _waits_for(self) -> NoEvent | None:
        if self._current is not None and self._state is not State.CLOSED:
            return PAUSED
        return super()._waits_for()

    def _take_frame(self, frame: Frame) -> None:
        try:
            self._take_request(frame.data)
        finally:
            frame.release()  # messages may keep views: the buffer is not used again while they live

    def _take_request(self, data: memoryview) -> None:
        if self._login is not None and self._login.phase is Phase.TOKENS:
            self._log_in_by_token(self._login, bytes(data))
            return
        try:
            api_key, api_version, correlation_id = peek_request_header(data)
        except RemoteProtocolError as error:
            self._refuse(self._policy.malformed(-1, -1), error)
            return
        if self._login is not None and not self._login.allows(api_key):
            raise RemoteProtocolError(
                f"the client asked for API {api_key}, but {self._login.phase.value}"
            )
        decision = self._policy.decide(api_key, api_version)
        if isinstance(decision, Serve):
            self._serve(decision, data, api_key, api_version)
        elif isinstance(decision, Respond):
            self._respond(decision, data, api_key, api_version)
        elif isinstance(decision, RespondBytes):
            self._queue([correlation_id.to_bytes(4, "big", signed=True), decision.body])
        elif isinstance(decision, Translate):
            self._translate(decision.translator, data, api_key, api_version)
        elif (
            isinstance(decision, Swallow) and decision.needs_client_id and not _names_a_client(data)
        ):
            self._refuse(
                Close(f"the header of request {api_key} v{api_version} names no client"), None
            )
        else:
            self._refuse(decision, None)

    def _respond(self, decision: Respond, data: memoryview, api_key: int, api_version: int) -> None:
        try:
            header, _ = decode_request_header(data, header_version=decision.header_version)
        except RemoteProtocolError as error:
            self._refuse(self._policy.malformed(api_key, api_version), error)
            return
        self._queue(encode_response(decision.message, decision.version, header.correlation_id))

    def _serve(self, decision: Serve, data: memoryview, api_key: int, api_version: int) -> None:
        version = api_version if decision.as_version is None else decision.as_version
        try:
            found = decode_request_quickly(data, as_version=version)
        except RemoteProtocolError as error:
            self._refuse(self._policy.malformed(api_key, api_version), error)
            return
        take = partial(self._take_decoded, api_key, api_version, version, len(data))
        if found is not None:
            take(found)
        else:  # the work needs a view of its own: that of the frame ends with this call
            self._do(partial(_decoded, data[:], version), take)

    def _take_decoded(
        self, api_key: int, api_version: int, version: int, size_bytes: int, found: _Decoded
    ) -> None:
        if isinstance(found, RemoteProtocolError):
            self._refuse(self._policy.malformed(api_key, api_version), found)
            return
        header, message = found
        if self._login is not None and isinstance(message, _SaslRequest):
            self._log_in(self._login, message, version, header.correlation_id)
            return
        self._current = RequestReceived(
            api_key=api_key,
            version=version,
            correlation_id=header.correlation_id,
            client_id=header.client_id,
            message=message,
            api_version=api_version,
            size_bytes=size_bytes,
        )
        self._events.append(self._current)

    # -- login

    def _log_in(
        self, login: BrokerLogin, message: _SaslRequest, version: int, correlation_id: int
    ) -> None:
        try:
            if isinstance(message, SaslHandshakeRequest):
                answer: Message = login.handshake(message, version)
            else:
                answer = login.authenticate(message)
        except Refusal as refusal:
            if refusal.answer is not None:
                self._queue(encode_response(refusal.answer, version, correlation_id))
            self._end(refusal)
            return
        self._queue(encode_response(answer, version, correlation_id))
        self._note_phase(login)

    def _log_in_by_token(self, login: BrokerLogin, token: bytes) -> None:
        try:
            answer = login.token(token)
        except Refusal as refusal:
            self._end(refusal)
            return
        self._queue([answer])
        self._note_phase(login)

    def _note_phase(self, login: BrokerLogin) -> None:
        done = login.phase is Phase.DONE
        if done and self._state is not State.READY:
            self.logins += 1
        self._state = State.READY if done else State.AUTHENTICATING
        self._framer.max_frame_bytes = (
            self._max_frame_bytes
            if done
            else min(self._max_frame_bytes, UNAUTHENTICATED_MAX_FRAME_BYTES)
        )
        tokens = login.phase is Phase.TOKENS
        self._framer.empty_frames = EmptyFrames.YIELD if tokens else self._policy.empty_frames

    # -- other than plain

    def _translate(
        self, translator: Translator, data: memoryview, api_key: int, api_version: int
    ) -> None:
        _, _, correlation_id = peek_request_header(data)
        try:
            message = translator.request(data)
        except RemoteProtocolError as error:
            self._refuse(self._policy.malformed(api_key, api_version), error)
            return
        version = translator.as_version
        self._current = RequestReceived(
            api_key, version, correlation_id, None, message, api_version, translator, len(data)
        )
        self._events.append(self._current)

    def _refuse(self, decision: Decision, cause: RemoteProtocolError | None) -> None:
        if isinstance(decision, Close):
            reason = decision.reason if cause is None else f"{decision.reason}: {cause}"
            raise RemoteProtocolError(f"the connection is closed: {reason}") from cause

    def _lost(self) -> tuple[int, ...]:
        current, self._current = self._current, None
        return () if current is None else (current.correlation_id,)

    @property
    def stage(self) -> str:
        """The stage that a NetworkError of this moment names."""
        return "request"


def _decoded(data: memoryview, version: int) -> _Decoded:
    """Return the request, or the error of bytes that are none."""
    try:
        return decode_request(data, as_version=version)
    except RemoteProtocolError as error:
        return error


def _names_a_client(data: memoryview) -> bool:
    """Whether 0.9 can read the header: with a client id, maybe empty but not null."""
    try:
        header, _ = decode_request_header(data, header_version=1)
    except RemoteProtocolError:
        return False
    return header.client_id is not None
