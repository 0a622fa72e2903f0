"""What every SASL mechanism is to the connection: bytes in, bytes out, no I/O.

Rules of these machines:
1. A client machine speaks first (`first`), then answers challenges (`step`) until `complete`.
2. A server machine answers each message (`step`); after the last one `complete` is true and
   `principal` names who logged in.
3. A refused login raises AuthenticationError. On the server its text is the same for an unknown user
   and a wrong password, so that nobody learns which names exist.
4. Nonces come from the caller: there are no dice here.
5. A machine is used by one thread at a time, which need not be the same one at each step.
"""

from __future__ import annotations

from typing import Protocol

REFUSED = "Authentication failed: invalid credentials"
"""The one text a server says, whatever was wrong."""


class ClientMechanism(Protocol):
    """The client's side of one login."""

    name: str
    complete: bool
    takes_long: bool
    """Whether a step keeps the processor busy for milliseconds, so that an event loop runs it in a thread."""

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
        """Take the client's message and return the challenge. Raises AuthenticationError to refuse."""
