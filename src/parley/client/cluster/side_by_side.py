"""The same work for many, a limited number at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

K = TypeVar("K")
T = TypeVar("T")


async def side_by_side(
    work: Callable[[K], Awaitable[T]], keys: Iterable[K], at_once: int
) -> list[T]:
    """Return what `work` returns for each key, in order. Every key is tried; then the error of the
    first that failed is raised.
    """
    slots = asyncio.Semaphore(at_once)

    async def one(key: K) -> T:
        async with slots:
            return await work(key)

    tasks = [asyncio.ensure_future(one(key)) for key in keys]
    await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() for task in tasks]
