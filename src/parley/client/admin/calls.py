"""An administrative call is a function of whatever starts the client; `of_client` binds it.

    class AsyncClient:
        list_groups = of_client(groups.list_groups)

What the call takes, checks, returns and raises stands at the function.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar

from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline
from parley.net.blocking import Work

T = TypeVar("T")
P = ParamSpec("P")
Begin: TypeAlias = Callable[[int | None], Awaitable[tuple[Cluster, Deadline]]]
"""Starts the client within `timeout_ms` of a call; returns its cluster and the deadline."""


class Startable(Protocol):
    """A client that its first call starts."""

    async def _begin(self, timeout_ms: int | None) -> tuple[Cluster, Deadline]:
        """Return the cluster, started, and the deadline of a call."""


def of_client(
    function: Callable[Concatenate[Begin, P], Work[T]],
) -> Callable[Concatenate[Startable, P], Work[T]]:
    """Return the method of a client that calls this function."""

    @wraps(function)
    async def call(client: Startable, /, *arguments: P.args, **named: P.kwargs) -> T:
        return await function(client._begin, *arguments, **named)

    return call
