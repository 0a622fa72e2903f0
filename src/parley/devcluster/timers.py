"""What happens later, by the cluster's clock.

`Timers` ends what has lasted too long: one timer, set to whatever is due next. What can be due is
the state's: transactions, members of groups. Each says when, and is asked to end it then. `Planned`
is what the cluster itself, and its scenes, will do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from parley.net import AdvancingClock, Clock
from parley.net.clock import TimerHandle


def time_of_day(clock: Clock, start_time_ms: int | None) -> Callable[[], int]:
    """Return the time of day as `clock` moves it, so that a manual clock moves timestamps too."""
    if isinstance(clock, AdvancingClock):
        return clock.time_of_day_ms
    first = time.time_ns() // 1_000_000 if start_time_ms is None else start_time_ms
    zero = clock.now_ms()
    return lambda: first + clock.now_ms() - zero


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


class Planned:
    """What is to be done later: one timer for each purpose and broker."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers: dict[tuple[str, int | None], TimerHandle] = {}

    def plan(
        self, what: str, delay_ms: int, then: Callable[[], None], *, broker_id: int | None = None
    ) -> None:
        """Do something after a delay, instead of what was planned for that purpose and broker."""
        self.call_off(what, broker_id)
        due_ms = self._clock.now_ms() + delay_ms
        self._timers[what, broker_id] = self._clock.call_at_ms(due_ms, then)

    def call_off(self, what: str | None = None, broker_id: int | None = None) -> None:
        """Do not do what is planned: for one purpose (None: for all), for one
        broker (None: for all).
        """
        for key in list(self._timers):
            if what in (None, key[0]) and broker_id in (None, key[1]):
                self._timers.pop(key).cancel()
