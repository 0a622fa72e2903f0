"""Records of one partition that a broker gave this consumer, and that wait to be handed out."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Sequence

from parley.client.consumer.records import CompletedFetch, ConsumerRecord
from parley.client.fetch.state import RawFetch
from parley.client.fetch.wire import find_tail
from parley.client.group.share.acquired import Acquired, AcquiredRange
from parley.client.group.share.book import GAP, AcknowledgeType, Grant
from parley.client.options.client_options import FetchOptions
from parley.errors import CorruptRecordError
from parley.types import TopicPartition

Settled = list[tuple[int, list[tuple[int, int]]]]
"""Ways to acknowledge, each with ranges of offsets that the application never sees."""


class SharedFetch:
    """The bytes of one partition, what was acquired of them, and until when."""

    def __init__(
        self,
        tp: TopicPartition,
        grant: Grant,
        data: memoryview,
        ranges: Sequence[AcquiredRange],
        until_ms: int | None,
        options: FetchOptions,
    ) -> None:
        self.tp, self.grant, self.until_ms = tp, grant, until_ms
        self._acquired = Acquired(ranges)
        self._first = self._acquired.first or 0
        tail = find_tail(data)
        self._after = tail.next_offset
        end = max((found.last for found in ranges), default=-1) + 1
        raw = RawFetch(tp, self._first, end, data, (), tail.next_offset, tail.epochs)
        self._completed = CompletedFetch(raw, options, counts=self._meet)
        self._filling: asyncio.Future[None] | None = None

    @property
    def error(self) -> CorruptRecordError | None:
        """What is wrong with the bytes behind the last record, if anything."""
        return self._completed.error

    @property
    def exhausted(self) -> bool:
        """Whether every record was taken."""
        return self._completed.done

    @property
    def ready(self) -> bool:
        """Whether records can be taken without decoding."""
        return bool(len(self._completed.records))

    async def fill(self) -> None:
        """Have records to take, unless there are none left. Decodes in another thread.

        A poll that is cancelled meanwhile leaves the decoding to the next one.
        """
        if self.ready or self._completed.done:
            return
        if self._filling is None:
            self._filling = asyncio.ensure_future(asyncio.to_thread(self._completed.fill_rows))
        await asyncio.shield(self._filling)
        self._filling = None

    def _meet(self, offsets: memoryview) -> bytes:
        meet = self._acquired.meet
        return array("i", [meet(offset) for offset in offsets]).tobytes()

    def take(self, most: int) -> list[ConsumerRecord]:
        """Return up to so many records."""
        return self._completed.records.take(most)

    def settled(self) -> Settled:
        """Return what is settled without the application, once every record was taken.

        There are gaps as far as the whole batches go. What lies behind, or behind damage, is
        released: it was not read.
        """
        passed, rest = self._acquired.take_gaps(), self._acquired.take_rest()
        until = self.error.offset if self.error is not None else self._after
        until = -1 if until is None else until
        gaps = [(first, min(last, until - 1)) for first, last in rest if first < until]
        unread = [(max(first, until), last) for first, last in rest if last >= until]
        return [(GAP, passed + gaps), (AcknowledgeType.RELEASE, unread)]

    def given_up(self) -> Settled:
        """Return what is settled where the rest is not handed out any more. Nothing is left."""
        rows = [(row.offset, row.offset) for row in self.take(len(self._completed.records))]
        passed, rest = self._acquired.take_gaps(), self._acquired.take_rest()
        return [(GAP, passed), (AcknowledgeType.RELEASE, rows + rest)]
