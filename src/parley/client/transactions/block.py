"""The block of a transaction: begun before it, committed after it, aborted if it raises.

One for producers that await and one for those that block, of rows and of records. The producer
says how it aborts because of what a block raised: it raises nothing for that, since the error that
led there says more.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Protocol, TypeVar


class Awaits(Protocol):
    """A transactional producer for an event loop."""

    async def begin_transaction(self) -> None: ...
    async def commit_transaction(self) -> None: ...


class Blocks(Protocol):
    """A transactional producer that blocks."""

    def begin_transaction(self) -> None: ...
    def commit_transaction(self) -> None: ...


A = TypeVar("A", bound=Awaits)
B = TypeVar("B", bound=Blocks)


@contextlib.asynccontextmanager
async def awaited_block(
    producer: A, abort: Callable[[BaseException], Awaitable[object]]
) -> AsyncIterator[A]:
    """Run a block in a transaction. `abort` gets what the block or its commit raised."""
    await producer.begin_transaction()
    try:
        yield producer
        await producer.commit_transaction()
    except BaseException as raised:
        await abort(raised)
        raise


@contextlib.contextmanager
def blocking_block(producer: B, abort: Callable[[BaseException], object]) -> Iterator[B]:
    """The same as `awaited_block`, for a producer that blocks."""
    begun = False
    try:
        producer.begin_transaction()
        begun = True
        yield producer
        producer.commit_transaction()
    except BaseException as raised:
        # Ctrl-C may come where the loop has begun it and this thread does not know yet.
        if begun or not isinstance(raised, Exception):
            abort(raised)
        raise
