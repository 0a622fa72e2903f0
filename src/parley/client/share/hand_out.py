"""What polls of a share consumer hand out: records or batches, of what brokers gave it first.

Belongs to the event loop; decoding runs in another thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

import pyarrow as pa

from parley.client.consumer.records import ConsumerRecord
from parley.client.group.share.book import AcknowledgeType, Book
from parley.client.results import AcquiredBatch
from parley.client.share.exchange import ShareExchange
from parley.client.share.fetched import BatchRow, Row, SharedFetch
from parley.errors import RecordDeserializationError
from parley.types import TopicPartition

log = logging.getLogger("parley.client")
Rows = dict[TopicPartition, list[ConsumerRecord]]


class HandOut:
    """The way of records from what was fetched to the application, which the book takes note of."""

    def __init__(
        self,
        exchange: ShareExchange,
        book: Book[Row],
        now_ms: Callable[[], int],
        topics: Callable[[], Collection[str]],
    ) -> None:
        self._exchange, self._book, self._now_ms, self._topics = exchange, book, now_ms, topics

    async def rows(self, most: int) -> Rows:
        """Return at most so many records, those that were renewed first; none where none wait."""
        found: Rows = {}
        renewed = self._book.take_renewed(most, lambda row: isinstance(row, ConsumerRecord))
        for tp, row in renewed:
            if isinstance(row, ConsumerRecord):
                found.setdefault(tp, []).append(row)
        left = most - len(renewed)
        while left > 0 and (front := self._front()) is not None:
            if found and not front.ready:
                break
            await front.fill()
            if self._front() is not front:
                continue  # its session was lost meanwhile
            if found and front.failure is not None:
                break
            if (failure := front.take_failure()) is not None:
                self._release(front, failure)
                self._done_with(front)
                raise failure
            rows = front.take(left)
            for row in rows:
                self._book.hand_out(front.tp, row.offset, row, front.grant)
            if rows:
                found.setdefault(front.tp, []).extend(rows)
                left -= len(rows)
            self._done_with(front)
        return found

    def _release(self, front: SharedFetch, failure: RecordDeserializationError) -> None:
        """Let a record that cannot be deserialized be delivered again, unless the application,
        which has it with the error, says something else.
        """
        assert isinstance(failure.record, ConsumerRecord)
        self._book.hand_out(front.tp, failure.offset, failure.record, front.grant)
        self._book.acknowledge(front.tp, failure.offset, AcknowledgeType.RELEASE)

    async def batch(self) -> AcquiredBatch | None:
        """Return the next batch, of renewed rows first; None where nothing waits."""
        if (renewed := self._renewed()) is not None:
            return renewed
        while (front := self._front()) is not None:
            await front.fill_batch()
            if self._front() is not front:
                continue  # its session was lost meanwhile
            batch = front.take_batch()
            if batch is not None:
                for index, offset in enumerate(batch.column("offset").to_pylist()):
                    self._book.hand_out(front.tp, offset, BatchRow(batch, index), front.grant)
            self._done_with(front)
            if batch is not None:
                return AcquiredBatch(front.tp, batch)
        return None

    def _renewed(self) -> AcquiredBatch | None:
        """Return the renewed rows of one batch; those of others wait for the next poll."""
        of: list[pa.RecordBatch] = []

        def same(row: Row) -> bool:
            if not isinstance(row, BatchRow):
                return False
            of.append(row.batch)
            return row.batch is of[0]

        renewed = self._book.take_renewed(2**31 - 1, same)
        rows = sorted(row.at for _, row in renewed if isinstance(row, BatchRow))
        return AcquiredBatch(renewed[0][0], of[0].take(pa.array(rows))) if renewed else None

    def _front(self) -> SharedFetch | None:
        """Return what waits first, without what may not be handed out any more."""
        while waiting := self._exchange.fetched:
            if self._may_show(waiting[0]):
                return waiting[0]
            waiting.popleft()
        return None

    def _may_show(self, front: SharedFetch) -> bool:
        """Return whether records are still this member's; what nobody wants is given back."""
        if front.until_ms is not None and self._now_ms() >= front.until_ms:
            log.info("%s: the locks of records were over before a poll took them", front.tp)
            return False
        if front.tp.topic in self._topics():
            return True
        for kind, ranges in front.given_up():
            self._book.settle_unseen(front.tp, ranges, kind, front.grant)
        return False

    def _done_with(self, front: SharedFetch) -> None:
        if not front.exhausted:
            return
        self._exchange.fetched.popleft()
        for kind, ranges in front.settled():
            self._book.settle_unseen(front.tp, ranges, kind, front.grant)
        if front.error is not None:
            self._exchange.trouble = front.error
