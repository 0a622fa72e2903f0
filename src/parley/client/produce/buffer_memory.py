"""How many encoded bytes wait or are in flight, and who waits for a change of that."""

from __future__ import annotations

from parley.client.cluster.change import Change
from parley.client.produce.state import OutBatch


class Room:
    """The account of `buffer_memory`. Belongs to the event loop; a batch counts once."""

    def __init__(self) -> None:
        self.used_bytes = 0
        self._change = Change()

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
        self._change.notify()

    async def change(self) -> None:
        """Return when something has changed; the caller looks whether it was what it waits for."""
        await self._change.wait()
