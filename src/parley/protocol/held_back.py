"""Requests that wait while a login is repeated (KIP-368): they go out in order once it is done."""

from __future__ import annotations

from collections.abc import Sequence

from parley.protocol.connection import Segment
from parley.protocol.inflight import Pending

Request = tuple[Pending | None, Sequence[Segment]]
"""Its bytes, and what waits for its answer; None where there will be none."""


class HeldBack:
    """Requests held back, in order. Their deadlines pass as those of the others do."""

    def __init__(self) -> None:
        self._requests: list[Request] = []

    def __len__(self) -> int:
        """The number of those that an answer is expected for."""
        return sum(pending is not None for pending, _ in self._requests)

    def add(self, pending: Pending | None, segments: Sequence[Segment]) -> None:
        """Hold a request back, behind the others."""
        self._requests.append((pending, segments))

    def take_all(self) -> list[Request]:
        """Return all of them, in order, and hold none back any more."""
        found, self._requests = self._requests, []
        return found

    def abandon(self, correlation_id: int) -> None:
        """Drop the answer of this request unread when it comes. Unknown ids are ignored."""
        for pending, _ in self._requests:
            if pending is not None and pending.correlation_id == correlation_id:
                pending.abandoned = True

    def awaited(self) -> list[Pending]:
        """Return those whose answer somebody waits for."""
        return [one for one, _ in self._requests if one is not None and not one.abandoned]
