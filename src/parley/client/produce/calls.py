"""The course of one produce call, for the asynchronous client and for the blocking one.

Both encode outside of the event loop: the one in a worker thread, the other in the thread that
called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Protocol, TypeVar, TypeVarTuple

from parley.client.results import ProduceResult
from parley.errors import KafkaError

if TYPE_CHECKING:
    from parley.client.options.client_options import ProduceOptions
    from parley.client.produce.producer import Producer, Writing
    from parley.client.produce.rows import Rows
    from parley.net.blocking import Work

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Loop(Protocol):
    """The thread whose event loop moves the bytes of blocking calls."""

    loop: asyncio.AbstractEventLoop

    def call(self, work: Work[T]) -> T:
        """Run a coroutine there and return what it returns."""

    def start(self, work: Work[T]) -> Future[T]:
        """Run a coroutine there, and do not wait for it."""


async def write(
    producer: Producer,
    topic: str | None,
    rows: Rows,
    partition: int | None,
    options: ProduceOptions,
) -> ProduceResult:
    """Write rows, return their acknowledgements; an error or cancellation gives up the unsent."""
    writing = producer.begin(topic, partition, options)
    try:
        for name, piece in producer.pieces(writing, rows):
            plan = await producer.turn(writing, name, piece)
            await producer.hand_over(
                writing, await _uninterrupted(producer.encode, writing, plan, piece)
            )
        return await producer.finish(writing)
    except BaseException as error:
        producer.give_up(writing, given_up(error))
        raise


def write_blocking(
    loop: Loop, begin: Callable[[], Work[tuple[Producer, Writing]]], rows: Rows
) -> ProduceResult:
    """Write rows from another thread than the loop's: it encodes while others are sent.

    One wait per piece of rows, for the turn: on a machine without an idle processor each costs two
    changes of thread. What a piece was handed over with is looked at after the next turn, which
    comes after it.
    """
    producer, writing = loop.call(begin())
    handed: Future[None] | None = None
    try:
        for name, piece in producer.pieces(writing, rows):
            plan = loop.call(producer.turn(writing, name, piece))
            if handed is not None:
                handed.result()
            handed = loop.start(producer.hand_over(writing, producer.encode(writing, plan, piece)))
        if handed is not None:
            handed.result()
        return loop.call(producer.finish(writing))
    except BaseException as error:
        loop.loop.call_soon_threadsafe(producer.give_up, writing, given_up(error))
        raise


def given_up(error: BaseException) -> KafkaError:
    """Return the error that the batches of a call that ended early get."""
    return error if isinstance(error, KafkaError) else KafkaError("the call was given up")


async def _uninterrupted(work: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """Run `work` in a thread and wait for its end even when cancelled: it holds numbers
    that must be used in order.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
