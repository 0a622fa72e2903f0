"""The start of a client: its first calls share one, and none of them takes it along when it ends.

1. Who waits for the start of another call waits no longer than its own time, and begins another one
   where the other call's time was over first.
2. A call that is cancelled leaves the start to the others; where there are none, nothing is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from parley.client.cluster.call_deadline import without_connection, working_until
from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline
from parley.errors import LocalProtocolError, RequestTimedOut
from parley.net import Deadline as ClockDeadline
from parley.net.shared import SharedWork


class _UnderWay(NamedTuple):
    work: SharedWork[None]
    deadline: Deadline
    """Of the call that began it."""


class Start:
    """The cluster of one client, from its first call on. Belongs to the event loop.

    `require` raises where the cluster cannot do what the client needs.
    """

    def __init__(
        self, make: Callable[[], Cluster], require: Callable[[Cluster], Awaitable[None]]
    ) -> None:
        self._make, self._require = make, require
        self._under_way: _UnderWay | None = None
        self.cluster: Cluster | None = None
        """None before the first call, and after `close`."""
        self.closed = False

    async def begun(self, timeout_ms: int | None) -> tuple[Cluster, Deadline]:
        """Return the cluster, reached, and the deadline of a call, which reaching it is part of."""
        deadline: Deadline | None = None
        while True:
            if self.closed:
                raise closed_error()
            cluster, begins = self.cluster, self.cluster is None
            if cluster is None:
                cluster = self.cluster = self._make()
            deadline = deadline or cluster.deadline(timeout_ms)
            if begins:
                self._under_way = _UnderWay(SharedWork(self._run(cluster, deadline)), deadline)
            if (under_way := self._under_way) is None:
                return cluster, deadline
            try:
                await _joined(cluster, under_way, deadline)
            except RequestTimedOut:
                if begins or under_way.deadline.at_ms >= deadline.at_ms:
                    raise
            except asyncio.CancelledError:
                caller = asyncio.current_task()
                if self.closed and caller is not None and not caller.cancelling():
                    raise closed_error() from None
                raise

    async def close(self) -> None:
        """End the start that is under way, and close every connection."""
        self.closed = True
        cluster, under_way = self.cluster, self._under_way
        self.leave_behind()
        if under_way is not None:
            await under_way.work.cancel()
        if cluster is not None:
            await cluster.close()

    def leave_behind(self) -> None:
        """Forget what belongs to an event loop that is closed."""
        self.cluster = self._under_way = None

    async def _run(self, cluster: Cluster, deadline: Deadline) -> None:
        try:
            await cluster.reach(deadline)
            with working_until(deadline):
                await self._require(cluster)
        except BaseException:
            if self.cluster is cluster:
                self.leave_behind()
            await cluster.close()
            raise
        self._under_way = None


async def _joined(cluster: Cluster, under_way: _UnderWay, deadline: Deadline) -> None:
    if under_way.deadline.at_ms <= deadline.at_ms:
        await under_way.work.outcome()  # which ends in time by itself, and says what was wrong
        return
    try:
        async with ClockDeadline(cluster.clock, deadline.at_ms):
            await under_way.work.outcome()
    except TimeoutError:
        raise without_connection(cluster.pool, None) from None


def closed_error() -> LocalProtocolError:
    """Return the error of a call of a client that was closed."""
    return LocalProtocolError("this client is closed; make a new one")
