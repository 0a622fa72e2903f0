"""Waking one task that waits for news or for a moment, whichever comes first."""

from __future__ import annotations

import asyncio

from parley.net import Clock, Deadline


class Bell:
    """What one task waits at; anybody may ring it. A ring before the wait counts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """End the wait."""
        self._rung.set()

    async def wait(self, until_ms: int | None) -> None:
        """Return when the bell has been rung, or at that time of the clock (None: never)."""
        try:
            if until_ms is None:
                await self._rung.wait()
            elif not self._rung.is_set():
                async with Deadline(self._clock, until_ms):
                    await self._rung.wait()
        except TimeoutError:
            pass
        self._rung.clear()
