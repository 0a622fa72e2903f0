"""Waiting for rows that others bring. Belongs to the event loop."""

from __future__ import annotations

import asyncio


class News:
    """Lets one who waits look again."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._woken = False

    def come(self) -> None:
        """Let whoever waits look whether there is something."""
        self._event.set()

    def wake(self) -> None:
        """Let whoever waits, or waits next, give up."""
        self._woken = True
        self._event.set()

    async def wait(self, until: float | None) -> bool:
        """Return True when there may be something; False at a time of the loop, or after `wake`."""
        try:
            async with asyncio.timeout_at(until):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        woken, self._woken = self._woken, False
        return not woken
