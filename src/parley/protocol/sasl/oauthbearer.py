"""OAUTHBEARER (RFC 7628, KIP-255): a bearer token in the first message.

client  n,[a=authzid],\\x01auth=Bearer TOKEN\\x01[name=value\\x01...]\\x01
server  empty: accepted; otherwise a JSON text with "status", which the client answers with \\x01
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from parley.errors import AuthenticationError, printable
from parley.protocol.sasl.base import (
    REFUSED,
    ClientCredentials,
    Mechanism,
    ServerCredentials,
    ServerMaker,
)
from parley.types import Secret

_MAX_REFUSAL_BYTES = 8 * 1024
_SEPARATOR = "\x01"
_KEY = re.compile(r"[A-Za-z]+")
_VALUE = re.compile(r"[\x21-\x7e \t\r\n]*")
_TOKEN = re.compile(r"[-_~+/.A-Za-z0-9]+=*")


class OAuthBearerClient:
    """The client's side: a token, fetched by the caller before, and extensions (KIP-342)."""

    name = "OAUTHBEARER"
    takes_long = False

    def __init__(self, token: Secret, extensions: Mapping[str, str] | None = None) -> None:
        if not _TOKEN.fullmatch(token.reveal()):
            raise AuthenticationError(
                "the OAUTHBEARER token has characters that no bearer token may have (RFC 6750)"
            )
        for key, value in (extensions or {}).items():
            if key == "auth" or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
                raise AuthenticationError(
                    f'the SASL extension "{key}" is not valid (letters only, and not "auth")'
                )
        self._token = token
        self._extensions = dict(extensions or {})
        self._refusal: str | None = None
        self.complete = False

    def first(self) -> bytes:
        """Return the message with the token."""
        fields = [
            f"auth=Bearer {self._token.reveal()}",
            *(f"{k}={v}" for k, v in self._extensions.items()),
        ]
        return (
            "n,," + "".join(f"{_SEPARATOR}{field}" for field in fields) + _SEPARATOR * 2
        ).encode()

    def step(self, challenge: bytes) -> bytes | None:
        """Take the server's answer. A refusal is acknowledged, then raised (RFC 7628, 3.2.3)."""
        if self._refusal is not None:
            raise AuthenticationError(f"the broker refused the OAUTHBEARER token: {self._refusal}")
        if not challenge:
            self.complete = True
            return None
        self._refusal = _status(challenge)
        return _SEPARATOR.encode()

    @property
    def refusal(self) -> str | None:
        """The server's reason, once it refused; the connection is about to be closed."""
        return self._refusal


def _status(challenge: bytes) -> str:
    """Return the reason in a server's JSON text: two or three short fields, whatever comes."""
    try:
        status = json.loads(challenge)["status"] if len(challenge) <= _MAX_REFUSAL_BYTES else None
    except (ValueError, KeyError, TypeError, RecursionError):
        status = None
    return printable(status, 200) if isinstance(status, str) and status else "no reason given"


class OAuthBearerServer:
    """The server's side. `principal_of(token)` returns whose token it is, or None to refuse."""

    name = "OAUTHBEARER"

    def __init__(self, principal_of: Callable[[str], str | None]) -> None:
        self._principal_of = principal_of
        self._refused = False
        self.complete = False
        self.principal: str | None = None

    def step(self, message: bytes) -> bytes:
        """Check the token; a bad one is answered with a JSON status first, then refused."""
        if self._refused:
            raise AuthenticationError(REFUSED)
        token = self._token_in(message)
        try:
            principal = self._principal_of(token)
        except Exception as error:  # of whoever checks tokens; a token may have caused it
            raise AuthenticationError(REFUSED) from error
        if principal is None:
            self._refused = True
            return b'{"status":"invalid_token"}'
        self.principal = principal
        self.complete = True
        return b""

    def _token_in(self, message: bytes) -> str:
        try:
            text = message.decode("utf-8")
        except UnicodeDecodeError as error:
            raise AuthenticationError(REFUSED) from error
        header, *fields = text.split(_SEPARATOR)
        if not re.fullmatch(r"n,(a=[^,]*)?,", header) or fields[-2:] != ["", ""]:
            raise AuthenticationError(REFUSED)
        for field in fields[:-2]:
            key, _, value = field.partition("=")
            kind, _, token = value.partition(" ")
            if key == "auth" and kind.lower() == "bearer" and _TOKEN.fullmatch(token):
                return token
        raise AuthenticationError(REFUSED)


def _client(given: ClientCredentials) -> OAuthBearerClient:
    return OAuthBearerClient(given.token, given.extensions)


def _server(known: ServerCredentials) -> ServerMaker:
    return lambda nonce, now_s: OAuthBearerServer(lambda token: known.principal_of(token, now_s))


OAUTHBEARER = Mechanism(
    name="OAUTHBEARER",
    first_release="2.0",
    login_module="oauthbearer.OAuthBearerLoginModule",
    strength=1,
    client=_client,
    server=_server,
    uses_token=True,
)
