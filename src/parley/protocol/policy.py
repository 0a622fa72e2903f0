"""What a broker does with a request, decided from its key and version before its body is read.

A release of Kafka differs from the next one also in how it refuses: some close the connection, 0.9
stays silent, ApiVersions is answered in a shape of its own. The
connection knows the five things that can be done; its profile says which one a release does,
through `BrokerPolicy`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from parley.frames import EmptyFrames
from parley.messages import Message


@dataclass(frozen=True, slots=True)
class Serve:
    """Decode the request and hand it to the broker.

    With `as_version`, request and answer have that version's shape whatever the header says: 0.9
    answers Metadata v99 as v0.
    """

    as_version: int | None = None


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection without an answer. `reason` is for the broker's own journal."""

    reason: str


@dataclass(frozen=True, slots=True)
class Swallow:
    """Say nothing, keep the connection open and usable (0.9).

    With `needs_client_id`, only where the header is whole and names a client; else the connection
    is closed.
    """

    needs_client_id: bool = False


@dataclass(frozen=True, slots=True)
class Respond:
    """Answer with `message` in `version`, body unread (ApiVersions error 35 in v0 shape).

    The request's header must be readable as one of `header_version`; 0 looks at no more of it than
    is needed for the answer.
    """

    message: Message
    version: int
    header_version: int = 0


@dataclass(frozen=True, slots=True)
class RespondBytes:
    """Answer with the correlation id and these bytes behind it, whatever was asked."""

    body: bytes


class Translator(Protocol):
    """Turns one foreign request into a real one of version `as_version`, and its answer back."""

    as_version: int

    def request(self, frame: memoryview) -> Message:
        """Return the real request's message. Raises RemoteProtocolError for a malformed frame."""
        ...

    def response(self, message: Message, correlation_id: int) -> list[bytes | memoryview]:
        """Return the whole answer, header included, to the real response `message`."""
        ...


@dataclass(frozen=True, slots=True)
class Translate:
    """Serve a request of a dialect: one that no release of Kafka ever had."""

    translator: Translator


Decision = Serve | Close | Swallow | Respond | RespondBytes | Translate


class Dialect(Protocol):
    """What a broker speaks besides its release; None leaves a request to the release."""

    def decide(self, api_key: int, api_version: int) -> Decision | None:
        """Return what becomes of a request, before its body is read."""
        ...


class BrokerPolicy(Protocol):
    """The profile of a release, as far as the connection asks it."""

    @property
    def empty_frames(self) -> EmptyFrames:
        """What a frame of size 0 does: IGNORE up to 0.11, REJECT from 1.0 on."""
        ...

    def decide(self, api_key: int, api_version: int) -> Decision:
        """Return what becomes of a request, before its body is read."""
        ...

    def malformed(self, api_key: int, api_version: int) -> Decision:
        """Return Close or Swallow for a request that does not decode; -1, -1 without a header."""
        ...


class ServeAll:
    """A policy that serves whatever the schema can decode, and closes on anything else."""

    empty_frames = EmptyFrames.REJECT

    def decide(self, api_key: int, api_version: int) -> Decision:
        """Return Serve; decoding decides."""
        return Serve()

    def malformed(self, api_key: int, api_version: int) -> Decision:
        """Return Close."""
        return Close(f"request {api_key} v{api_version} does not decode")
