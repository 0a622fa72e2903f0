"""What a partition has to send again, rewritten first where it cannot go as it is.

Splitting, converting and stamping touch every byte: `produce.rebatch` does them in a thread, and
the partition is locked meanwhile. What comes out stands in the queue before everything that waits
there. What goes in is open until then: it is given up like any other batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from parley.client.produce.buffer_memory import Room
from parley.client.produce.rebatch import rebatch
from parley.client.produce.state import OutBatch, PartitionLog
from parley.errors import KafkaError


def goes_as_it_is(log: PartitionLog) -> bool:
    """Return whether what is to be sent again needs no work before it is put back."""
    return not log.restamp and not any(batch.needs_work for batch in log.to_retry)


class Resend:
    """Rewrites batches for another attempt, in the event loop of the sender with this `memory`.

    `lock` is held while batches are numbered; `renew_identity` returns a new producer id and epoch
    when those of a partition are used up.
    """

    def __init__(
        self,
        memory: Room,
        lock: asyncio.Lock,
        renew_identity: Callable[[], Awaitable[tuple[int, int]]],
    ) -> None:
        self._memory = memory
        self._lock = lock
        self._renew_identity = renew_identity

    async def write(
        self, log: PartitionLog, fail: Callable[[PartitionLog, OutBatch, KafkaError], None]
    ) -> None:
        """Put back, rewritten, what is sent again. `fail` gets batches where it cannot be done.

        Call when `log` has begun rewriting; its lock is open when this returns or raises.
        """
        waiting: list[OutBatch] = []
        try:
            async with self._lock:  # nobody numbers a batch of this partition meanwhile
                # a later wish stays a wish
                numbers, log.restamp = log.numbers if log.restamp else None, False
                if numbers is not None and not numbers.start_over():
                    numbers.renew(*await self._renew_identity())
                waiting = list(log.queue) if numbers is not None else []
                todo = [*log.rewriting, *waiting]
                made = await asyncio.to_thread(rebatch, todo, numbers)
                if numbers is not None:
                    log.numbered_again()
                self._replace(log, todo, made)
        except KafkaError as error:
            for batch in [*log.rewriting, *waiting]:
                fail(log, batch, error)
        finally:
            log.locked = False

    def _replace(self, log: PartitionLog, old: list[OutBatch], new: list[list[OutBatch]]) -> None:
        kept: list[OutBatch] = []
        for batch, pieces in zip(old, new, strict=True):
            self._memory.give(batch)
            batch.call.replaced(pieces)
            wanted = [piece for piece in pieces if piece.call.error is None]  # given up meanwhile
            batch.settled = batch not in wanted
            kept += wanted
        for piece in kept:
            self._memory.take(piece)
        log.put_back(kept)
