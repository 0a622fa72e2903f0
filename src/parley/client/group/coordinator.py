"""The broker that coordinates a group, asked on a connection of its own (G2).

A JoinGroup is answered when all members have joined: whatever stood behind it on its connection
would wait as long.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeVar

from parley.client.cluster.coordinators import MOVED, KeyType
from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline
from parley.client.cluster.routing import coordinator_of, forget_coordinator
from parley.errors import BrokerError, KafkaError, NetworkError, RequestTimedOut
from parley.messages import Request, Response
from parley.net import MAIN_LANE, BrokerConnection, Deadline as ClockDeadline, Reply
from parley.schema import ApiKey
from parley.versions import VersionRange

R = TypeVar("R", bound=Response)
LEAVE_TIMEOUT_MS = 5_000
_numbers = itertools.count(1)


class GroupCoordinator:
    """One member's way to the coordinator of its group."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self._cluster, self.group_id = cluster, group_id
        self._lane = f"group member {next(_numbers)}"
        self._asked: int | None = None

    async def connection(self, *, own: bool = True) -> BrokerConnection:
        """Return a connection to the coordinator, which is looked up where it is not known.

        With `own=False` one that other requests share: it is not behind a JoinGroup of this member.
        Raises what FindCoordinator answers, and what opening a connection raises.
        """
        cluster = self._cluster
        deadline = cluster.deadline(cluster.options.request_timeout_ms)
        node_id = await coordinator_of(cluster, KeyType.GROUP, self.group_id, deadline)
        self._asked = node_id
        try:
            return await cluster.connection(node_id, self._lane if own else MAIN_LANE)
        except NetworkError:
            self.forget()
            raise

    async def ask(
        self,
        api: ApiKey,
        make: Callable[[int], Request[R]],
        timeout_ms: int | None = None,
        *,
        own: bool = True,
        allowed: VersionRange | None = None,
    ) -> Reply[R]:
        """Ask the coordinator once; `make` gets the version. A coordinator that cannot be
        reached is forgotten (G3).
        """
        conn = await self.connection(own=own)
        message = make(conn.versions.choose(api, allowed))
        try:
            return await self._cluster.ask(
                conn, message, timeout_ms or self._cluster.options.request_timeout_ms, allowed
            )
        except NetworkError:
            self.forget()
            raise

    async def say_farewell(
        self, api: ApiKey, make: Callable[[int], Request[R]], deadline: Deadline
    ) -> Reply[R]:
        """Say farewell, on a connection that other requests share: on the member's own one a
        JoinGroup may still wait for its answer.

        Raises RequestTimedOut at the deadline, looking for the coordinator included; the answer is
        waited for LEAVE_TIMEOUT_MS at most.
        """
        timeout_ms = min(self._cluster.request_timeout_ms(deadline), LEAVE_TIMEOUT_MS)
        try:
            async with ClockDeadline(self._cluster.clock, deadline.at_ms):
                return await self.ask(api, make, timeout_ms, own=False)
        except TimeoutError:
            raise RequestTimedOut(
                f"the coordinator of group {self.group_id} did not answer in time", stage="request"
            ) from None

    def note(self, error: KafkaError) -> None:
        """Take an error that the coordinator answered: it may say that another
        broker coordinates the group.
        """
        if isinstance(error, BrokerError) and error.code in MOVED:
            self.forget()

    def forget(self) -> None:
        """Look the coordinator up before the next request, unless it has been since."""
        forget_coordinator(self._cluster, KeyType.GROUP, self.group_id, self._asked)
