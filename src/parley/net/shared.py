"""Waiting for one task, or one thread, together: a start, an opening connection, a token."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Generic, TypeVar

from parley.errors import KafkaError, own_copy
from parley.net.blocking import Work

T = TypeVar("T")


async def outcome(task: asyncio.Future[T]) -> T:
    """Return what a task returns that several callers wait for; a cancelled one leaves it alone.

    Of a KafkaError each caller gets a copy of its own: what one adds to it (notes, frames) the
    others do not see. Raises CancelledError when the task was cancelled.
    """
    await asyncio.wait([task])
    error = task.exception()
    if isinstance(error, KafkaError):
        raise own_copy(error) from error.__cause__
    if error is not None:
        raise error  # `result` shows the first caller alone where it was raised
    return task.result()


class SharedWork(Generic[T]):
    """Work that several callers wait for. One who is cancelled leaves it to the others; where none
    is left it is cancelled.
    """

    def __init__(self, work: Work[T]) -> None:
        self._task = asyncio.get_running_loop().create_task(work)
        # retrieved: those who wait for it get it too
        self._task.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._waiting = 0

    async def outcome(self) -> T:
        """Return or raise what it does; CancelledError where it was cancelled."""
        self._waiting += 1
        try:
            return await outcome(self._task)
        except asyncio.CancelledError:
            if self._waiting == 1:
                await self.cancel()
            raise
        finally:
            self._waiting -= 1

    async def cancel(self) -> None:
        """Cancel it, and return when it has ended."""
        self._task.cancel()
        await asyncio.wait([self._task])


async def result_of(pending: Future[T]) -> T:
    """Return what a thread sets; one who is cancelled leaves it alone."""
    waited = asyncio.wrap_future(pending)
    # retrieved: where nobody waits any more it concerns nobody
    waited.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await outcome(waited)
