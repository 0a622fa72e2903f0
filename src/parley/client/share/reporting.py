"""What came of acknowledgements, on its way to the application. Belongs to the event loop.

It comes out in calls of the application, nowhere else. A call that is cancelled leaves the callback
running, and the next one waits for it and goes on: each outcome is heard of once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from parley.client.consumer.listener import CallListener, call_here
from parley.client.group.share.book import Outcome
from parley.errors import KafkaError
from parley.types import TopicPartition

log = logging.getLogger("parley.client")
Offsets = dict[TopicPartition, tuple[int, ...]]
AcknowledgementCallback = Callable[[Offsets, KafkaError | None], Awaitable[None] | None]
"""Called with offsets that brokers have taken note of, or with the error that they failed with."""


class Reporting:
    """The callback of one share consumer, and what it is still to be called with."""

    def __init__(self) -> None:
        self.callback: AcknowledgementCallback | None = None
        self.call_listener: CallListener = call_here
        self._owed: deque[Outcome] = deque()
        self._calling: asyncio.Task[None] | None = None
        self._is_awaited = False
        self._raised: Exception | None = None

    async def report(self, outcomes: list[Outcome], *, raised: bool = False) -> None:
        """Call the callback with each of these outcomes, which are taken; without one, log what
        failed, unless it is `raised`. Raises what a callback raised, when all were called.

        Inside of a callback it takes nothing: who called that goes on.
        """
        if self._is_awaited or self._calling is asyncio.current_task():
            return
        self._is_awaited = True
        try:
            while self._calling is not None or outcomes or self._owed:
                self._owed += outcomes
                outcomes.clear()
                if self._calling is not None:
                    await asyncio.wait([self._calling])
                    self._calling = None
                elif self.callback is not None:
                    work = self._call(self.callback, self._owed.popleft())
                    self._calling = asyncio.get_running_loop().create_task(work)
                else:
                    self._log(self._owed.popleft(), raised=raised)
        finally:
            self._is_awaited = False
        failed, self._raised = self._raised, None
        if failed is not None:
            raise failed

    async def _call(self, callback: AcknowledgementCallback, found: Outcome) -> None:
        try:
            await self.call_listener(
                lambda: callback({found.partition: found.offsets}, found.error)
            )
        except Exception as error:
            self._raised = error

    @staticmethod
    def _log(found: Outcome, *, raised: bool) -> None:
        if found.error is not None and not raised:
            count = len(found.offsets)
            log.warning(
                "%s: %d records were not acknowledged: %s", found.partition, count, found.error
            )
