"""The block of a transaction: begun before it, committed after it, aborted if it raises.

One for producers that await and one for those that block, of rows and of records.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Protocol, TypeVar

from parley.errors import KafkaError


class Awaits(Protocol):
    """A transactional producer for an event loop."""

    async def begin_transaction(self) -> None: ...
    async def commit_transaction(self) -> None: ...
    async def abort_transaction(self) -> None: ...


class Blocks(Protocol):
    """A transactional producer that blocks."""

    def begin_transaction(self) -> None: ...
    def commit_transaction(self) -> None: ...
    def abort_transaction(self) -> None: ...


A = TypeVar("A", bound=Awaits)
B = TypeVar("B", bound=Blocks)


@contextlib.asynccontextmanager
async def awaited_block(producer: A, can_abort: Callable[[], bool]) -> AsyncIterator[A]:
    """Run a block in a transaction. `can_abort` says whether there is one to abort when it raises.

    Raises what the block or the calls raise; that an abort fails as well is not reported.
    """
    await producer.begin_transaction()
    try:
        yield producer
        await producer.commit_transaction()
    except BaseException:
        if can_abort():
            with contextlib.suppress(KafkaError):  # the error that led here says more
                await producer.abort_transaction()
        raise


@contextlib.contextmanager
def blocking_block(producer: B, can_abort: Callable[[], bool]) -> Iterator[B]:
    """The same as `awaited_block`, for a producer that blocks."""
    producer.begin_transaction()
    try:
        yield producer
        producer.commit_transaction()
    except BaseException:
        if can_abort():
            with contextlib.suppress(KafkaError):  # the error that led here says more
                producer.abort_transaction()
        raise
