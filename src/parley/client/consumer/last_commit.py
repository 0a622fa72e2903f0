"""The commit before partitions go to other members: no poll waits for it beyond its own time-out.

It goes on between polls, which hand out nothing meanwhile: what it commits stays what was consumed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline
from parley.client.consumer.commits import Commits, Offsets
from parley.net import Deadline as ClockDeadline


class LastCommit:
    """At most one such commit. Belongs to the event loop."""

    def __init__(
        self, cluster: Cluster, commits: Commits, longest_ms: int, on_end: Callable[[], None]
    ) -> None:
        self._cluster, self._commits, self._longest_ms = cluster, commits, longest_ms
        self._on_end = on_end
        self._task: asyncio.Task[None] | None = None

    async def done(self, positions: Offsets, deadline: Deadline | None) -> bool:
        """Commit, or wait on; return whether that is over at the deadline of a poll."""
        if not self._commits.regular:
            return True
        task = self._task = self._task or self._begin(positions)
        if deadline is None:
            await asyncio.wait([task])
        else:
            try:
                async with ClockDeadline(self._cluster.clock, deadline.at_ms):
                    await asyncio.wait([task])
            except TimeoutError:
                if not task.done():
                    return False
        self._task = None
        task.result()
        return True

    def _begin(self, positions: Offsets) -> asyncio.Task[None]:
        cluster = self._cluster
        deadline = cluster.deadline().earlier(cluster.now_ms(), self._longest_ms)
        task = asyncio.get_running_loop().create_task(self._commits.finish(positions, deadline))
        task.add_done_callback(lambda _: self._on_end())
        return task

    async def drop(self) -> None:
        """Give up the commit under way."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
