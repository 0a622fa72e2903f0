"""Requests that wait for their answer: correlation ids, order, deadlines.

Rules:
1. A broker answers one connection's requests in the order in which they came; an answer out of
   order means that the stream cannot be trusted any more.
2. An abandoned request stays in the table, because its answer still comes and must be recognised.
3. Time is an argument (`now_ms`); the table never asks for it.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass

from parley.errors import RemoteProtocolError

_LAST_ID = 0x7FFFFFFF


class Purpose(enum.Enum):
    """Why a request was sent; only APPLICATION answers become events."""

    APPLICATION = "application"
    NEGOTIATION = "negotiation"
    LOGIN = "login"
    TOKEN = "token"  # of a login with SaslHandshake v0: a bare frame, no correlation id
    CANARY = "canary"  # ListGroups v0 behind ApiVersions, see negotiation.py


@dataclass(slots=True)
class Pending:
    """One request that waits for its answer."""

    correlation_id: int
    api_key: int
    version: int
    deadline_ms: int
    purpose: Purpose = Purpose.APPLICATION
    abandoned: bool = False


class InFlight:
    """The table of a client connection's unanswered requests, oldest first."""

    def __init__(self) -> None:
        self._waiting: deque[Pending] = deque()
        self._next_id = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def next_id(self) -> int:
        """Return a new correlation id. Mutates: after 2^31-1 it starts again at 0."""
        taken = self._next_id
        self._next_id = 0 if taken == _LAST_ID else taken + 1
        return taken

    def add(self, pending: Pending) -> None:
        """Append a request that was just sent."""
        self._waiting.append(pending)

    def head(self) -> Pending | None:
        """Return the request whose answer must come next."""
        return self._waiting[0] if self._waiting else None

    def take(self, correlation_id: int) -> Pending:
        """Remove and return the request that an answer belongs to.

        Raises RemoteProtocolError when it is not the oldest one; drop the connection then.
        """
        if self._waiting and self._waiting[0].correlation_id == correlation_id:
            return self._waiting.popleft()
        if not self._waiting:
            raise RemoteProtocolError(
                f"the broker answered correlation id {correlation_id}, but no request waits"
            )
        expected = self._waiting[0].correlation_id
        known = any(pending.correlation_id == correlation_id for pending in self._waiting)
        how = "out of order" if known else "which was never sent"
        raise RemoteProtocolError(
            f"the broker answered correlation id {correlation_id}, {how}; the oldest waiting "
            f"request has {expected}"
        )

    def put_back(self, pending: Pending) -> None:
        """Undo a `take`: the request was not answered after all."""
        self._waiting.appendleft(pending)

    def drop(self, purpose: Purpose) -> None:
        """Forget the requests of one purpose: their answers are known never to come."""
        self._waiting = deque(
            pending for pending in self._waiting if pending.purpose is not purpose
        )

    def abandon(self, correlation_id: int) -> None:
        """Mark a request whose answer nobody wants. Unknown ids are ignored: it was answered."""
        for pending in self._waiting:
            if pending.correlation_id == correlation_id:
                pending.abandoned = True
                return

    def expired(self, now_ms: int) -> list[int]:
        """Return the ids of the wanted requests whose deadline has passed. Does not remove them."""
        return [
            p.correlation_id for p in self._waiting if p.deadline_ms <= now_ms and not p.abandoned
        ]

    def next_deadline_ms(self) -> int | None:
        """Return the earliest deadline of a wanted request, None when nothing waits."""
        return min((p.deadline_ms for p in self._waiting if not p.abandoned), default=None)

    def clear(self) -> tuple[int, ...]:
        """Empty the table; return the ids of the application's requests still wanted."""
        lost = tuple(
            p.correlation_id
            for p in self._waiting
            if p.purpose is Purpose.APPLICATION and not p.abandoned
        )
        self._waiting.clear()
        return lost
