"""How many encoded bytes wait or are in flight, and who waits for a change of that."""

from __future__ import annotations

import asyncio

from parley.client.produce.state import OutBatch


class Room:
    """The account of `buffer_memory`. Belongs to the event loop; a batch counts once, however often it is told."""

    def __init__(self) -> None:
        self.used_bytes = 0
        self._changed: asyncio.Future[None] | None = None

    def take(self, batch: OutBatch) -> None:
        """Count a batch."""
        if not batch.counted:
            batch.counted = True
            self.used_bytes += batch.size

    def give(self, batch: OutBatch) -> None:
        """Count a batch no more, and wake who waits."""
        if batch.counted:
            batch.counted = False
            self.used_bytes -= batch.size
        self.notify()

    def notify(self) -> None:
        """Wake everybody who waits in `change`."""
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    async def change(self) -> None:
        """Return when something has changed; the caller looks whether it was what it waits for."""
        if self._changed is None or self._changed.done():
            self._changed = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._changed)
