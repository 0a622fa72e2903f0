"""Waiting for a change: tasks of one event loop look again whenever something may differ."""

from __future__ import annotations

import asyncio


class Change:
    """What tasks wait for that cannot go on as things are. Belongs to the event loop."""

    def __init__(self) -> None:
        self._next: asyncio.Future[None] | None = None

    def notify(self) -> None:
        """Wake everybody who waits now."""
        if self._next is not None and not self._next.done():
            self._next.set_result(None)

    async def wait(self) -> None:
        """Return when something has changed; the caller looks whether it was what it waits for."""
        if self._next is None or self._next.done():
            self._next = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._next)  # it is shared: one who gives up ends it for nobody else
