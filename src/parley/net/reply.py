"""What a caller gets for a request."""

from __future__ import annotations

from typing import Generic, TypeVar, cast

from parley.messages import Message
from parley.protocol import ResponseReceived

R = TypeVar("R", bound=Message)


class Reply(Generic[R]):
    """A broker's answer, and the version in which it was given."""

    __slots__ = ("api_key", "correlation_id", "message", "version")

    def __init__(self, event: ResponseReceived) -> None:
        self.correlation_id = event.correlation_id
        self.api_key = event.api_key
        self.version = event.version
        self.message = cast("R", event.message)  # None after acks=0, which nobody reads

    def release(self) -> None:
        """Forget the message. Its receive buffer is used again once no view of it is alive."""
        self.message = cast("R", None)

    def __repr__(self) -> str:
        return f"Reply(api_key={self.api_key}, version={self.version}, {self.message!r})"
