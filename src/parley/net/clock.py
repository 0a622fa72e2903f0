"""The clock: whoever waits asks a clock, so that tests wait for nothing.

`LoopClock` is the running event loop's time, `AdvancingClock` too until it is moved on.
`ManualClock` stands still until `advance` is called.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol


class TimerHandle(Protocol):
    """A call that was planned and can be called off."""

    def cancel(self) -> None:
        """Call it off; nothing happens if it has run."""
        ...


class Clock(Protocol):
    """Milliseconds that only grow, and two ways to wait for them."""

    def now_ms(self) -> int:
        """Return the time; only differences mean something."""
        ...

    async def sleep_ms(self, duration_ms: int) -> None:
        """Return when the time has passed."""
        ...

    def call_at_ms(self, when_ms: int, callback: Callable[[], None]) -> TimerHandle:
        """Call back in the event loop at or after a moment."""
        ...


class LoopClock:
    """The time of the running event loop."""

    def now_ms(self) -> int:
        """Return the loop's time."""
        return int(asyncio.get_running_loop().time() * 1000)

    async def sleep_ms(self, duration_ms: int) -> None:
        """Sleep in the loop."""
        await asyncio.sleep(max(0, duration_ms) / 1000)

    def call_at_ms(self, when_ms: int, callback: Callable[[], None]) -> TimerHandle:
        """Plan a call in the loop."""
        # One more millisecond, because now_ms rounds down:
        # a deadline must have passed when it is checked.
        return asyncio.get_running_loop().call_at((when_ms + 1) / 1000, callback)


class AdvancingClock(LoopClock):
    """The event loop's time, moved on by `advance`: a wait of hours ends, the rest goes on."""

    def __init__(self) -> None:
        self._ahead_ms = 0
        self._timers: dict[_AdvancingTimer, None] = {}

    def now_ms(self) -> int:
        """Return the loop's time and what it was advanced by."""
        return super().now_ms() + self._ahead_ms

    def time_of_day_ms(self) -> int:
        """Return the time of day (milliseconds since 1970), which is moved on too."""
        return time.time_ns() // 1_000_000 + self._ahead_ms

    async def sleep_ms(self, duration_ms: int) -> None:
        """Return when the time has passed."""
        woken = asyncio.Event()
        timer = self.call_at_ms(self.now_ms() + max(0, duration_ms), woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    def call_at_ms(self, when_ms: int, callback: Callable[[], None]) -> TimerHandle:
        """Plan a call in the loop; `advance` may bring it forward."""
        timer = _AdvancingTimer(when_ms, callback, self._timers)
        self._timers[timer] = None
        timer.plan(self._ahead_ms)
        return timer

    async def advance(self, duration_ms: int) -> None:
        """Move the time on, run due calls in order, and let the tasks they wake run."""
        target_ms = self.now_ms() + duration_ms
        self._ahead_ms += duration_ms
        await settle()
        while due := min(
            (t for t in self._timers if t.when_ms <= target_ms),
            key=lambda t: t.when_ms,
            default=None,
        ):
            due.run()
            await settle()
        for timer in self._timers:
            timer.plan(self._ahead_ms)


class _AdvancingTimer:
    """A call planned in the loop, known to its clock until it has run or was called off."""

    __slots__ = ("_callback", "_known", "_planned", "when_ms")

    def __init__(
        self, when_ms: int, callback: Callable[[], None], known: dict[_AdvancingTimer, None]
    ) -> None:
        self.when_ms = when_ms
        self._callback = callback
        self._known = known
        self._planned: asyncio.TimerHandle | None = None

    def plan(self, ahead_ms: int) -> None:
        """Plan the call for its moment of a clock that is so far ahead of the loop's."""
        if self._planned is not None:
            self._planned.cancel()
        self._planned = asyncio.get_running_loop().call_at(
            (self.when_ms + 1 - ahead_ms) / 1000, self.run
        )

    def run(self) -> None:
        """Call back, once."""
        if self in self._known:
            self.cancel()
            self._callback()

    def cancel(self) -> None:
        """Call it off; nothing happens if it has run."""
        self._known.pop(self, None)
        if self._planned is not None:
            self._planned.cancel()


class _ManualTimer:
    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """A clock for tests: `await clock.advance(ms)` runs what falls due, in order."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms
        self._timers: list[tuple[int, int, _ManualTimer]] = []
        self._order = itertools.count()

    def now_ms(self) -> int:
        """Return the time it was advanced to."""
        return self._now_ms

    @property
    def waiting(self) -> int:
        """The number of planned calls and sleepers."""
        return sum(not timer.cancelled for _, _, timer in self._timers)

    @property
    def next_due_ms(self) -> int | None:
        """When the next planned call or sleeper is due, None when there is none."""
        return min(
            (when_ms for when_ms, _, timer in self._timers if not timer.cancelled), default=None
        )

    async def sleep_ms(self, duration_ms: int) -> None:
        """Return when the clock was advanced far enough."""
        if duration_ms <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        timer = self.call_at_ms(self._now_ms + duration_ms, wake)
        try:
            await woken
        finally:
            timer.cancel()

    def call_at_ms(self, when_ms: int, callback: Callable[[], None]) -> TimerHandle:
        """Plan a call for when the clock reaches that moment."""
        timer = _ManualTimer(callback)
        heapq.heappush(self._timers, (when_ms, next(self._order), timer))
        return timer

    async def advance(self, duration_ms: int) -> None:
        """Move the time on, run each planned call at its moment, and let the tasks it wakes run."""
        target_ms = self._now_ms + duration_ms
        await settle()
        while self._timers and self._timers[0][0] <= target_ms:
            when_ms, _, timer = heapq.heappop(self._timers)
            self._now_ms = max(self._now_ms, when_ms)
            if not timer.cancelled:
                timer.callback()
                await settle()
        self._now_ms = target_ms
        await settle()


async def settle(rounds: int = 20) -> None:
    """Let every task that can run without input or time run, some steps each. For tests."""
    for _ in range(rounds):
        await asyncio.sleep(0)


class Deadline:
    """`async with Deadline(clock, when_ms):` raises TimeoutError when the body takes longer.

    The same as `asyncio.timeout_at`, on the clock that is given. A cancellation from outside stays
    a cancellation, even when it meets the deadline.
    """

    def __init__(self, clock: Clock, when_ms: int) -> None:
        self._clock = clock
        self._when_ms = when_ms
        self._timer: TimerHandle | None = None
        self._expired = False
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0

    async def __aenter__(self) -> Deadline:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a deadline needs a task to interrupt")
        self._task = task
        self._cancelling = task.cancelling()
        if self._when_ms <= self._clock.now_ms():
            # Not at once: a body that waits for nothing would take the cancellation along, to its
            # next wait elsewhere.
            self._timer = asyncio.get_running_loop().call_soon(self._expire)
        else:
            self._timer = self._clock.call_at_ms(self._when_ms, self._expire)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._expired and self._task is not None:
            ours_only = self._task.uncancel() <= self._cancelling
            if ours_only and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def _expire(self) -> None:
        self._expired = True
        if self._task is not None:
            self._task.cancel()
