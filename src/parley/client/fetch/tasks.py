"""The tasks of one fetcher. What goes wrong in them unexpectedly is the reader's to hear."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Tasks:
    """What runs beside the loop's other work, until its owner closes it.

    `on_end` is called at the end of each task, with what it raised.
    """

    def __init__(self, on_end: Callable[[BaseException | None], None]) -> None:
        self._on_end = on_end
        self._running: set[asyncio.Task[None]] = set()
        self.closed = False

    def spawn(
        self, then: Callable[[T], None] | None, work: Callable[[*Ts], Awaitable[T]], *arguments: *Ts
    ) -> None:
        """Do some work, and then something with what it returns, unless all is closed by then."""

        async def guarded() -> None:
            found = await work(*arguments)
            if then is not None and not self.closed:
                then(found)

        task = asyncio.get_running_loop().create_task(guarded())
        self._running.add(task)
        task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Cancel all, and return when they have ended."""
        self.closed = True
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._on_end(None if task.cancelled() else task.exception())
