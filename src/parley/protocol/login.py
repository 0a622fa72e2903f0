"""The client's steps of a SASL login over Kafka, around a mechanism that knows no Kafka.

    ApiVersions v0           which handshake and SaslAuthenticate versions there are (V13)
    SaslHandshake v1         the mechanism is offered or refused
      SaslAuthenticate       the mechanism's messages, each in a request; the answer may end in a
                             session lifetime, after which the broker wants the login again
                             (KIP-368)
    SaslHandshake v0         on brokers older than 1.0
      tokens                 the mechanism's messages as bare frames, empty ones too; a refusal is
                             nothing but a closed connection
    ApiVersions, newest      then the connection may be used

This file decides what comes next; `client.py` sends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from parley.errors import AuthenticationError, RemoteProtocolError, broker_error, printable
from parley.errors.codes import (
    ILLEGAL_SASL_STATE,
    SASL_AUTHENTICATION_FAILED,
    UNSUPPORTED_SASL_MECHANISM,
)
from parley.messages import Message, Request, SaslAuthenticateRequest, SaslHandshakeRequest
from parley.protocol.sasl import ClientMechanism
from parley.schema import ApiKey
from parley.versions import BrokerVersions

if TYPE_CHECKING:
    from parley.messages import SaslAuthenticateResponse, SaslHandshakeResponse


@dataclass(frozen=True, slots=True)
class Ask:
    """Send this message in this version."""

    message: Request[Message]
    version: int


@dataclass(frozen=True, slots=True)
class Token:
    """Send these bytes as a frame of their own, without any header."""

    data: bytes


class Login:
    """One login of a client. Each method returns what to send next, None when it is done."""

    def __init__(self, mechanism: ClientMechanism) -> None:
        self._mechanism = mechanism
        self._authenticate_version = 0
        self.is_raw = False
        self.session_lifetime_ms = 0

    @property
    def takes_long(self) -> bool:
        """Whether taking the mechanism's messages keeps the processor busy for milliseconds."""
        return self._mechanism.takes_long

    def begin(self, versions: BrokerVersions) -> Ask:
        """Begin. Raises UnsupportedVersionError when the broker knows no SASL."""
        handshake = versions.choose(ApiKey.SASL_HANDSHAKE)
        self.is_raw = handshake == 0
        if not self.is_raw:
            self._authenticate_version = versions.choose(ApiKey.SASL_AUTHENTICATE)
        return Ask(SaslHandshakeRequest(mechanism=self._mechanism.name), handshake)

    def handshake_answered(self, message: SaslHandshakeResponse) -> Ask | Token:
        """Take the SaslHandshake answer. Raises AuthenticationError if it lacks the mechanism."""
        name = self._mechanism.name
        if message.error_code == UNSUPPORTED_SASL_MECHANISM:
            offered = printable(", ".join(message.mechanisms[:20]), 200) or "none"
            raise AuthenticationError(
                f"the broker does not offer {name}; it offers {offered} (sasl_mechanism)"
            )
        if message.error_code == ILLEGAL_SASL_STATE:
            raise AuthenticationError(
                "this listener wants no SASL; use security_protocol PLAINTEXT or SSL"
            )
        if message.error_code:
            raise broker_error(message.error_code, api="SaslHandshake")
        return self._send(self._mechanism.first())

    def authenticate_answered(self, message: SaslAuthenticateResponse) -> bytes:
        """Return the mechanism's message in a SaslAuthenticate answer, for `token_answered`.

        Raises AuthenticationError when the credentials were refused.
        """
        if message.error_code:
            raise self._refused(message)
        self.session_lifetime_ms = max(0, message.session_lifetime_ms)
        return bytes(message.auth_bytes)

    def token_answered(self, challenge: bytes) -> Ask | Token | None:
        """Take the mechanism's message. Raises AuthenticationError when it proves nothing."""
        answer = self._mechanism.step(challenge)
        if answer is not None:
            return self._send(answer)
        if not self._mechanism.complete:
            raise RemoteProtocolError(
                f"the broker ended the {self._mechanism.name} login in the middle"
            )
        return None

    def _send(self, data: bytes) -> Ask | Token:
        if self.is_raw:
            return Token(data)
        return Ask(SaslAuthenticateRequest(auth_bytes=data), self._authenticate_version)

    def _refused(self, message: SaslAuthenticateResponse) -> Exception:
        name = self._mechanism.name
        if message.error_code != SASL_AUTHENTICATION_FAILED:
            return broker_error(message.error_code, message.error_message, api="SaslAuthenticate")
        reason = printable(message.error_message or "no reason given")
        if self._mechanism.refusal:
            reason = f"{reason} ({self._mechanism.refusal})"
        return AuthenticationError(f"the broker refused the {name} login: {reason}")
