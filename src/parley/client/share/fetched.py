"""Records of one partition that a broker gave this consumer, and that wait to be handed out."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa

from parley.client.consumer.records import CompletedFetch, ConsumerRecord
from parley.client.fetch.state import RawFetch
from parley.client.fetch.wire import find_tails
from parley.client.group.share.acquired import Acquired, AcquiredRange
from parley.client.group.share.book import GAP, AcknowledgeType, Grant
from parley.client.share.options import ShareConsumerOptions
from parley.errors import CorruptRecordError, RecordDeserializationError
from parley.types import TopicPartition

DELIVERY_COUNT = pa.field("delivery_count", pa.int32(), nullable=False)
Settled = list[tuple[int, list[tuple[int, int]]]]
"""Ways to acknowledge, each with ranges of offsets that the application never sees."""


class BatchRow(NamedTuple):
    """A record that was handed out as a row of a batch."""

    batch: pa.RecordBatch
    at: int


Row = ConsumerRecord | BatchRow
"""What the application has of a record."""


class SharedFetch:
    """The bytes of one partition, what was acquired of them, and until when."""

    def __init__(
        self,
        tp: TopicPartition,
        grant: Grant,
        data: memoryview,
        ranges: Sequence[AcquiredRange],
        until_ms: int | None,
        options: ShareConsumerOptions,
    ) -> None:
        self.tp, self.grant, self.until_ms = tp, grant, until_ms
        self._acquired = Acquired(ranges)
        self._first = self._acquired.first or 0
        (tail,) = find_tails([data])
        self._after = tail.next_offset
        end = max((found.last for found in ranges), default=-1) + 1
        raw = RawFetch(tp, self._first, end, data, (), tail.next_offset, tail.epochs)
        self._completed = CompletedFetch(
            raw, options.decoding, counts=self._meet, deserializers=options.deserializers
        )
        self._filling: asyncio.Future[None] | None = None
        self._batch: pa.RecordBatch | None = None
        self._by_rows = True

    @property
    def error(self) -> CorruptRecordError | None:
        """What is wrong with the bytes behind the last record, if anything."""
        return self._completed.error

    @property
    def exhausted(self) -> bool:
        """Whether every record was taken."""
        return self._completed.done

    @property
    def left(self) -> int:
        """How many offsets were acquired and not handed out, gaps included."""
        return self._acquired.left(self._completed.position)

    @property
    def ready(self) -> bool:
        """Whether records can be taken without decoding."""
        return self._by_rows and bool(len(self._completed.records))

    async def fill(self) -> None:
        """Have records to take, unless there are none left. Decodes in another thread.

        A poll that is cancelled meanwhile leaves the decoding to the next one.
        """
        if not self.ready:
            await self._in_thread(self._fill_rows)

    async def fill_batch(self) -> None:
        """Have a batch to take, unless there is none left. Decodes in another thread."""
        if self._batch is None or self._by_rows:
            await self._in_thread(self._fill_batch)

    async def _in_thread(self, decode: Callable[[], None]) -> None:
        if self._filling is not None:
            await self._filled(self._filling)  # of a poll that was cancelled
        if not self._completed.done:
            self._filling = asyncio.ensure_future(asyncio.to_thread(self._decode, decode))
            await self._filled(self._filling)

    async def _filled(self, filling: asyncio.Future[None]) -> None:
        try:
            await asyncio.shield(filling)
        finally:
            if filling.done():
                self._filling = None

    def _decode(self, decode: Callable[[], None]) -> None:
        try:
            decode()
        except BaseException:  # what was decoded and met is not taken: it comes again
            self._batch = None
            self._acquired.meet_again(self._completed.position)
            raise

    def _fill_rows(self) -> None:
        self._decode_by(rows=True)
        self._completed.fill_rows()

    def _fill_batch(self) -> None:
        self._decode_by(rows=False)
        while self._batch is None:
            self._completed.fill_batch()
            if self._completed.batch is None:
                return
            self._batch = self._of_this_member(self._completed.batch.batch)
            if self._batch is None:
                self._completed.take_batch()

    def _decode_by(self, *, rows: bool) -> None:
        """Decode again, as records or as batches, what was decoded as the other and not taken."""
        if self._by_rows is not rows:
            self._by_rows, self._batch = rows, None
            self._acquired.meet_again(self._completed.position)

    def _of_this_member(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Return the rows that were acquired, with their delivery counts; None without any."""
        meet = self._acquired.meet
        counts = pa.array(
            [meet(offset) for offset in batch.column("offset").to_pylist()], pa.int32()
        )
        made = batch.append_column(DELIVERY_COUNT, counts)
        mine = [at for at, count in enumerate(counts.to_pylist()) if count]
        if len(mine) < made.num_rows:
            made = made.take(pa.array(mine, pa.int64()))
        return made if made.num_rows else None

    def _meet(self, offsets: memoryview) -> bytes:
        meet = self._acquired.meet
        return array("i", [meet(offset) for offset in offsets]).tobytes()

    def take(self, most: int) -> list[ConsumerRecord]:
        """Return up to so many records."""
        return self._completed.records.take(most)

    @property
    def failure(self) -> RecordDeserializationError | None:
        """Why the next record cannot be handed out, if that is so."""
        return self._completed.failure

    def take_failure(self) -> RecordDeserializationError | None:
        """Return why the next record cannot be handed out, if that is so, and pass it."""
        found = self._completed.failure
        if found is not None:
            self._completed.skip_failure()
        return found

    def take_batch(self) -> pa.RecordBatch | None:
        """Return the batch that was decoded, None where there was none left."""
        batch, self._batch = self._batch, None
        if batch is not None:
            self._completed.take_batch()
        return batch

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
        taken = [row.offset for row in self.take(len(self._completed.records))]
        rows = [(offset, offset) for offset in (*taken, *self._completed.waiting)]
        if self._batch is not None:
            rows = [(offset, offset) for offset in self._batch.column("offset").to_pylist()]
        passed, rest = self._acquired.take_gaps(), self._acquired.take_rest()
        return [(GAP, passed), (AcknowledgeType.RELEASE, rows + rest)]
