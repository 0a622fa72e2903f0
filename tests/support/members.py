"""Members of a group that poll in tasks of their own, and waiting until
they share its partitions.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from parley.client import AsyncConsumer, GroupHealth

from .patience import eventually_async


class Polling:
    """A member that polls in a task of its own and keeps what it read; what a poll
    raises comes out of `stop`.
    """

    def __init__(self, consumer: AsyncConsumer, poll_ms: int = 20) -> None:
        self.consumer, self.read = consumer, Counter[tuple[int, int]]()
        self._poll_ms = poll_ms
        self._task = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        while True:
            for records in (await self.consumer.getmany(timeout_ms=self._poll_ms)).values():
                self.read.update((record.partition, record.offset) for record in records)

    @property
    def owned(self) -> frozenset[int]:
        if self._task.done():
            self._task.result()
        return frozenset(tp.partition for tp in self.consumer.assignment())

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()


def health_of(consumer: AsyncConsumer) -> GroupHealth:
    """Return the health of a consumer that has subscribed."""
    health = consumer.health()
    assert health is not None, "it has not subscribed"
    return health


async def evenly_shared(
    partitions: int,
    *among: Polling,
    eventually: Callable[[Callable[[], bool], str], Awaitable[object]] = eventually_async,
) -> None:
    """Return when each partition is one member's, and no member has two more than another."""

    def found() -> bool:
        owned = [part for one in among for part in one.owned]
        counts = [len(one.owned) for one in among]
        return sorted(owned) == list(range(partitions)) and max(counts) - min(counts) < 2

    await eventually(found, "an even share")
