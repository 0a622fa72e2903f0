"""The broker's steps of a SASL login (KIP-43, KIP-152, KIP-368); no mechanism's own.

Rules (V13 of docs/proof/negotiation.md):
1. Before a login a client may ask ApiVersions, then SaslHandshake, and nothing else; after the
   handshake only the mechanism's messages. Anything else closes the connection.
2. Handshake v0 is followed by bare tokens, v1 by SaslAuthenticate requests.
3. A refusal is answered where the protocol has an answer for it, and always closes the connection.
   The answer says the same whatever was wrong.
4. A login may be repeated only where sessions end, and only by the same principal with the same
   mechanism.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parley.errors import AuthenticationError
from parley.errors.codes import (
    ILLEGAL_SASL_STATE,
    SASL_AUTHENTICATION_FAILED,
    UNSUPPORTED_SASL_MECHANISM,
)
from parley.messages import Message, SaslAuthenticateResponse, SaslHandshakeResponse
from parley.protocol.sasl import ServerMechanism
from parley.protocol.sasl.base import REFUSED
from parley.schema import ApiKey

if TYPE_CHECKING:
    from parley.messages import SaslAuthenticateRequest, SaslHandshakeRequest

FIRST_AUTHENTICATE_VERSION = 1
"""First SaslHandshake version that SaslAuthenticate follows (KIP-152)."""


@dataclass(frozen=True, slots=True)
class BrokerSasl:
    """What a SASL listener offers: a maker of each mechanism, by name, and how long a login lasts.

    `session_lifetime_ms` 0: forever (Kafka's `connections.max.reauth.ms`).
    """

    mechanisms: Mapping[str, Callable[[], ServerMechanism]]
    session_lifetime_ms: int = 0


class Phase(enum.Enum):
    """How far a client's login has come."""

    BEFORE = "before the handshake"
    AUTHENTICATE = "SaslAuthenticate is expected"
    TOKENS = "bare tokens are expected"
    DONE = "logged in"


class BrokerLogin:
    """The login of one client. Answers are returned; a refusal is raised with its answer."""

    def __init__(self, sasl: BrokerSasl) -> None:
        self._sasl = sasl
        self._mechanism: ServerMechanism | None = None
        self._mechanism_name = ""
        self.phase = Phase.BEFORE
        self.principal: str | None = None

    def allows(self, api_key: int) -> bool:
        """Whether a request of this API may come now."""
        if self.phase is Phase.DONE:
            return True
        if self.phase is Phase.BEFORE:
            return api_key in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE)
        return api_key == ApiKey.SASL_AUTHENTICATE

    def handshake(self, request: SaslHandshakeRequest, version: int) -> SaslHandshakeResponse:
        """Return the answer to a SaslHandshake. Raises Refusal for a mechanism not offered."""
        if self.phase is Phase.DONE and self._sasl.session_lifetime_ms == 0:
            return SaslHandshakeResponse(error_code=ILLEGAL_SASL_STATE)
        offered = sorted(self._sasl.mechanisms)
        name = request.mechanism
        changed = self.principal is not None and name != self._mechanism_name
        if name not in self._sasl.mechanisms or changed:
            answer = SaslHandshakeResponse(
                error_code=UNSUPPORTED_SASL_MECHANISM, mechanisms=offered
            )
            raise Refusal(f"the client asked for the mechanism {name[:40]!r}", answer)
        self._mechanism_name = name
        self._mechanism = self._sasl.mechanisms[name]()
        self.phase = Phase.AUTHENTICATE if version >= FIRST_AUTHENTICATE_VERSION else Phase.TOKENS
        return SaslHandshakeResponse(mechanisms=offered)

    def authenticate(self, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        """Return the answer to a SaslAuthenticate. Raises Refusal for bad credentials."""
        if self.phase is Phase.DONE:
            return SaslAuthenticateResponse(
                error_code=ILLEGAL_SASL_STATE,
                error_message="SaslAuthenticate request received after authentication",
            )
        try:
            challenge = self._step(request.auth_bytes)
        except AuthenticationError as error:
            answer = SaslAuthenticateResponse(
                error_code=SASL_AUTHENTICATION_FAILED, error_message=REFUSED
            )
            raise Refusal(str(error), answer) from error
        lifetime_ms = self._sasl.session_lifetime_ms if self._mechanism is None else 0
        return SaslAuthenticateResponse(auth_bytes=challenge, session_lifetime_ms=lifetime_ms)

    def token(self, data: bytes) -> bytes:
        """Return the answer to a bare token. Raises Refusal, to which there is no answer."""
        try:
            return self._step(data)
        except AuthenticationError as error:
            raise Refusal(str(error)) from error

    def _step(self, message: bytes) -> bytes:
        mechanism = self._mechanism
        assert mechanism is not None
        challenge = mechanism.step(message)
        if mechanism.complete:
            if self.principal is not None and mechanism.principal != self.principal:
                raise AuthenticationError("a repeated login may not change the principal")
            self.principal = mechanism.principal
            self._mechanism = None
            self.phase = Phase.DONE
        return challenge


class Refusal(AuthenticationError):
    """A refused login. `answer` is to be sent before the connection is closed, if any."""

    def __init__(self, reason: str, answer: Message | None = None) -> None:
        super().__init__(reason)
        self.answer = answer
