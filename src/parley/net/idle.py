"""Which of a server's connections are ended because nothing moves on them: by the clock, in sweeps.

Rules of this file:
1. A connection is idle when nothing was received for the whole time, and it waits for a request.
2. One whose answers are not taken is idle as well, unless some bytes left since the last sweep.
3. One timer for all connections, running only while there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from parley.net.clock import Clock, TimerHandle

SWEEPS_PER_TIMEOUT = 4
"""A connection is ended after its time, and at most a quarter of it later."""


class Activity:
    """When something last moved on one connection."""

    __slots__ = ("at_ms", "unsent_bytes")

    def __init__(self, now_ms: int) -> None:
        self.at_ms = now_ms
        self.unsent_bytes = 0

    def is_over(self, now_ms: int, timeout_ms: int, unsent_bytes: int, *, serving: bool) -> bool:
        """Return whether nothing moved for too long; takes note of bytes that left since."""
        moved, self.unsent_bytes = unsent_bytes != self.unsent_bytes, unsent_bytes
        if moved or (serving and not unsent_bytes):
            self.at_ms = now_ms
        return now_ms - self.at_ms >= timeout_ms


class Sweepable(Protocol):
    """A connection, as the sweeps see it."""

    def end_if_idle(self, now_ms: int, timeout_ms: int) -> None:
        """End it when nothing moved on it for so long."""
        ...


class IdleSweeps:
    """The timer of one server."""

    def __init__(
        self, clock: Clock, timeout_ms: int, connections: Callable[[], Collection[Sweepable]]
    ) -> None:
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._connections = connections
        self._timer: TimerHandle | None = None

    def arm(self) -> None:
        """See to it that a sweep comes. Called when a connection was accepted."""
        if self._timeout_ms and self._timer is None:
            pause_ms = max(1, self._timeout_ms // SWEEPS_PER_TIMEOUT)
            self._timer = self._clock.call_at_ms(self._clock.now_ms() + pause_ms, self._sweep)

    def cancel(self) -> None:
        """Sweep no more."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _sweep(self) -> None:
        self._timer = None
        now_ms = self._clock.now_ms()
        for connection in tuple(self._connections()):
            connection.end_if_idle(now_ms, self._timeout_ms)
        if self._connections():
            self.arm()
