"""Waiting for one task together: an opening connection, a metadata refresh."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from parley.errors import KafkaError, own_copy

T = TypeVar("T")


async def outcome(task: asyncio.Task[T]) -> T:
    """Return what a task returns that several callers wait for; a cancelled one leaves it alone.

    Of a KafkaError each caller gets a copy of its own: what one adds to it (notes, frames) the
    others do not see. Raises CancelledError when the task was cancelled.
    """
    await asyncio.wait([task])
    error = task.exception()
    if isinstance(error, KafkaError):
        raise own_copy(error) from error.__cause__
    return task.result()
