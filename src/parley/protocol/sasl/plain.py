"""PLAIN (RFC 4616): one message, `authorization id NUL user NUL password`."""

from __future__ import annotations

import hmac
from collections.abc import Callable

from parley.errors import AuthenticationError
from parley.protocol.sasl.base import (
    REFUSED,
    ClientCredentials,
    Mechanism,
    ServerCredentials,
    ServerMaker,
    utf8,
)
from parley.types import Secret


class PlainClient:
    """The client's side. The password crosses the wire as it is: use it over TLS."""

    name = "PLAIN"
    takes_long = False
    refusal = None

    def __init__(self, username: str, password: Secret) -> None:
        if "\0" in username or "\0" in password.reveal():
            raise AuthenticationError(
                "PLAIN cannot carry a user name or password with a NUL character"
            )
        utf8(username + password.reveal())
        self._username, self._password = username, password
        self.complete = False

    def first(self) -> bytes:
        """Return the only message."""
        return utf8(f"\0{self._username}\0{self._password.reveal()}")

    def step(self, challenge: bytes) -> bytes | None:
        """Take the server's (empty) answer: the login is complete."""
        self.complete = True
        return None


class PlainServer:
    """The server's side. `password_of(user)`: the expected password, None for no such user."""

    name = "PLAIN"

    def __init__(self, password_of: Callable[[str], Secret | None]) -> None:
        self._password_of = password_of
        self.complete = False
        self.principal: str | None = None

    def step(self, message: bytes) -> bytes:
        """Check the credentials in constant time. Raises AuthenticationError."""
        parts = message.split(b"\0")
        if len(parts) != 3 or not parts[1] or not parts[2]:
            raise AuthenticationError(REFUSED)
        try:
            authorization, username = parts[0].decode(), parts[1].decode()
        except UnicodeDecodeError as error:
            raise AuthenticationError(REFUSED) from error
        known = self._password_of(username)
        expected = known.reveal().encode() if known is not None else b""
        equal = hmac.compare_digest(expected, parts[2])
        if known is None or not equal or authorization not in ("", username):
            raise AuthenticationError(REFUSED)
        self.principal = username
        self.complete = True
        return b""


def _client(given: ClientCredentials) -> PlainClient:
    return PlainClient(given.username, given.password)


def _server(known: ServerCredentials) -> ServerMaker:
    return lambda nonce, now_s: PlainServer(known.passwords.get)


PLAIN = Mechanism(
    name="PLAIN",
    first_release="0.10",
    login_module="plain.PlainLoginModule",
    strength=2,
    client=_client,
    server=_server,
    shows_password=True,
)
