"""What a SASL mechanism is to the connection: bytes in, bytes out, no I/O; and its row.

Rules of these machines:
1. A client machine speaks first (`first`), then answers challenges (`step`) until `complete`.
2. A server machine answers each message (`step`); after the last one `complete` is true and
   `principal` names who logged in.
3. A refused login raises AuthenticationError. On the server its text is the same for an unknown
   user and a wrong password, so that nobody learns which names exist.
4. Nonces come from the caller: nothing here is random.
5. A machine is used by one thread at a time, which need not be the same one at each step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from parley.errors import AuthenticationError
from parley.types import Secret

NO_SECRET = Secret("")
REFUSED = "Authentication failed: invalid credentials"
"""The one text a server says, whatever was wrong."""


def utf8(text: str) -> bytes:
    """Return a user name or password as it crosses the wire. Raises AuthenticationError for what
    UTF-8 has no bytes for.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise AuthenticationError(
            "the user name or the password is no text that UTF-8 can write: it has half of a "
            "surrogate pair, as Python makes of bytes in an environment variable or a file that "
            "are not UTF-8; give it in UTF-8"
        ) from None


class ClientMechanism(Protocol):
    """The client's side of one login."""

    name: str
    complete: bool
    takes_long: bool
    """Whether a step takes milliseconds of the processor, so that it belongs in a thread."""

    @property
    def refusal(self) -> str | None:
        """The server's reason, where the mechanism carries one and the server refused."""

    def first(self) -> bytes:
        """Return the first message to send. Called once."""

    def step(self, challenge: bytes) -> bytes | None:
        """Take the server's message; return the answer, or None when nothing is left to say.

        Raises AuthenticationError when the server refused or could not prove itself.
        """


class ServerMechanism(Protocol):
    """The server's side of one login."""

    name: str
    complete: bool
    principal: str | None

    def step(self, message: bytes) -> bytes:
        """Take the client's message, return the challenge; AuthenticationError to refuse."""


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """What one login of a client may need; `nonce` is fresh for each."""

    username: str = ""
    password: Secret = NO_SECRET
    token: Secret = NO_SECRET
    extensions: Mapping[str, str] = field(default_factory=dict)
    nonce: str = ""
    token_auth: bool = False
    """Name and password are those of a delegation token (KIP-48)."""


@dataclass(frozen=True, slots=True)
class ServerCredentials:
    """What a broker knows of its users.

    `principal_of(token, now_s)` returns whose token it is, or None to refuse it. `new_salt` returns
    16 random bytes.
    """

    passwords: Mapping[str, Secret]
    principal_of: Callable[[str, int], str | None]
    new_salt: Callable[[], bytes]


ServerMaker: TypeAlias = Callable[[str, int], ServerMechanism]
"""Makes the machine of one login, of a fresh nonce and the time in seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """All that parley knows of a SASL mechanism: a new one is a row here and two machines."""

    name: str
    first_release: str
    """The first Kafka release whose brokers offer it."""
    login_module: str
    """Java's class for `sasl.jaas.config`, below `org.apache.kafka.common.security`."""
    strength: int
    """Which one a client takes that may choose: the highest that all brokers offer."""
    client: Callable[[ClientCredentials], ClientMechanism]
    server: Callable[[ServerCredentials], ServerMaker]
    uses_token: bool = False
    """It logs in by a token, not by name and password."""
    shows_password: bool = False
    """The password crosses the wire as it is."""
