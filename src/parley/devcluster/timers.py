"""Ends what has lasted too long, by the cluster's clock: one timer, set to whatever is due next.

What can be due is the state's: transactions, members of groups. Each says when, and is asked to end
it then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from parley.net import Clock
from parley.net.clock import TimerHandle


class Timed(Protocol):
    """A part of the state in which time matters."""

    @property
    def next_due_ms(self) -> int | None:
        """When something is due, None if nothing is."""

    def expire(self, *, now_ms: int) -> None:
        """Do what is due."""


class Timers:
    """The timer of one cluster's coordinators."""

    def __init__(self, parts: Sequence[Timed], clock: Clock, now_ms: Callable[[], int]) -> None:
        self._parts = parts
        self._clock = clock
        self._now_ms = now_ms
        self._timer: TimerHandle | None = None
        self._due_ms: int | None = None

    def arm(self) -> None:
        """Set the timer to what is due next; called after whatever may have changed that."""
        due_ms = min(
            (due for part in self._parts if (due := part.next_due_ms) is not None), default=None
        )
        if due_ms == self._due_ms:
            return
        self.cancel()
        self._due_ms = due_ms
        if due_ms is not None:
            wait_ms = max(0, due_ms + 1 - self._now_ms())
            self._timer = self._clock.call_at_ms(self._clock.now_ms() + wait_ms, self._expire)

    def _expire(self) -> None:
        self._due_ms = None
        now_ms = self._now_ms()
        for part in self._parts:
            part.expire(now_ms=now_ms)
        self.arm()

    def cancel(self) -> None:
        """Set no timer."""
        timer, self._timer, self._due_ms = self._timer, None, None
        if timer is not None:
            timer.cancel()
