"""How many bytes wait or are in flight, and who waits for a change of that."""

from __future__ import annotations

import threading

from parley.client.cluster.change import Change
from parley.client.produce.state import OutBatch


class Room:
    """The account of `buffer_memory`; a batch counts once.

    Belongs to the event loop, but for `reserve` and `release`, which any thread may call.
    """

    def __init__(self) -> None:
        self.used_bytes = 0
        self._change = Change()
        self._counting = threading.Lock()

    def reserve(self, size: int, limit: int | None = None) -> bool:
        """Count bytes that are gathered, unless they would pass `limit`; return whether it did.

        Into an empty account goes what is larger than the limit, too.
        """
        with self._counting:
            if limit is not None and self.used_bytes and self.used_bytes + size > limit:
                return False
            self.used_bytes += size
            return True

    def release(self, size: int) -> None:
        """Count bytes no more. Wakes nobody: `notify` does."""
        with self._counting:
            self.used_bytes -= size

    def take(self, batch: OutBatch) -> None:
        """Count a batch."""
        if not batch.counted:
            batch.counted = True
            self.reserve(batch.size)

    def give(self, batch: OutBatch) -> None:
        """Count a batch no more, and wake who waits."""
        if batch.counted:
            batch.counted = False
            self.release(batch.size)
        self.notify()

    def notify(self) -> None:
        """Wake everybody who waits in `change`."""
        self._change.notify()

    async def change(self) -> None:
        """Return when something has changed; the caller looks whether it was what it waits for."""
        await self._change.wait()
