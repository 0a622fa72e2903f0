"""A world without real time: memory for a network, a clock
that moves on command, threads that do not run beside.

Everything that happens in it is decided by its seed: a failure comes back each time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from parley.net import ManualClock, MemoryBackend
from parley.net.blocking import Work
from parley.net.clock import settle

P = ParamSpec("P")
T = TypeVar("T")
ROUNDS = 60
"""Steps of the loop that count as "nothing more happens without time": a request
and its answer take about 20.
"""


class InlineExecutor(ThreadPoolExecutor):
    """Runs each call at once, where it is submitted."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Return a future that is done."""
        done: Future[T] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:
            done.set_exception(error)
        return done


class VirtualTime:
    """An event loop with its own clock and network. Use `clock`, `network` and `rng`
    for cluster and client alike.
    """

    def __init__(self, seed: int = 0) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(InlineExecutor(max_workers=1))
        self.clock = ManualClock()
        self.network = MemoryBackend(self.clock)
        self.random = random.Random(seed)
        self.rng = self.random.random

    def start(self, work: Work[T]) -> asyncio.Task[T]:
        """Begin something and let it run as far as it gets without time."""
        task = self.loop.create_task(work)
        self.loop.run_until_complete(settle(ROUNDS))
        return task

    def run(self, work: Work[T], *, limit_ms: int = 600_000) -> T:
        """Return what `work` returns, moving the clock on as far as that takes;
        TimeoutError beyond the limit.
        """
        task = self.start(work)
        self.until(task.done, limit_ms=limit_ms)
        return task.result()

    def until(self, condition: Callable[[], bool], *, limit_ms: int = 600_000) -> int:
        """Move the clock on, from one planned call to the next, until a condition
        holds; return how far that was.
        """
        began_ms = self.clock.now_ms()
        self.loop.run_until_complete(settle(ROUNDS))
        while not condition():
            due_ms = self.clock.next_due_ms
            if due_ms is None or due_ms > began_ms + limit_ms:
                raise TimeoutError(f"the condition does not hold after {limit_ms} ms of the clock")
            self.advance(max(0, due_ms - self.clock.now_ms()))
        return self.clock.now_ms() - began_ms

    def advance(self, duration_ms: int) -> None:
        """Move the clock on and let happen what falls due."""
        self.loop.run_until_complete(self._advance(duration_ms))

    async def _advance(self, duration_ms: int) -> None:
        await self.clock.advance(duration_ms)
        await settle(ROUNDS)

    def close(self) -> None:
        """End what still runs."""
        self.loop.run_until_complete(self._end())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
