"""Waiting for one task, or one thread, together: an opening connection, a token."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TypeVar

from parley.errors import KafkaError, own_copy

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


async def result_of(pending: Future[T]) -> T:
    """Return what a thread sets; one who is cancelled leaves it alone."""
    waited = asyncio.wrap_future(pending)
    # retrieved: where nobody waits any more it concerns nobody
    waited.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await outcome(waited)
