"""Record bytes that a consumer has begun: decoded piece by piece, as records or as Arrow batches.

Decoding runs in the caller's thread; nothing here touches the event loop. How far a fetch was
consumed any thread may ask while another one takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from parley.client.consumer.deserializing import Deserializers, Piece
from parley.client.fetch.decode import decode
from parley.client.fetch.state import RawFetch
from parley.client.options.client_options import FetchOptions
from parley.client.results import FetchedBatch
from parley.errors import CorruptRecordError, RecordDeserializationError
from parley.records import (
    Buffer,
    Columns,
    ConsumerRecord,
    DecodedChunk,
    ReadOptions,
    RecordBytes,
    RecordCursor,
    decode_columns,
    first_records,
    int64s,
    record_cursor,
)

__all__ = ["NO_RECORDS", "ROWS_AT_ONCE", "CompletedFetch", "ConsumerRecord"]

ROWS_AT_ONCE = 2_000
"""Rows that are decoded at a time; a batch of more comes whole. They live as long as one of them is
kept.
"""
BYTES_AT_ONCE = 2**20
SMALL_BYTES, SMALL_BYTES_AT_ONCE = 2**16, 2**18
"""Fetches up to the first are decoded together, up to the second or so: a call of the kernel costs
more than such a fetch.
"""

NO_RECORDS: RecordCursor = record_cursor(Columns(rows=0), ("", 0), (), -1)
"""What is handed out where there is nothing."""

DeliveryCounts = Callable[[memoryview], Buffer]
"""Returns an int32 for each offset: how often its record was delivered, 0 where not to be shown."""


class CompletedFetch:
    """The bytes of one partition that are being consumed.

    `fill_rows` decodes the next piece, whose `records` can then be taken; `fill_batch` has `batch`
    to be taken. What was taken as records and what as batches may alternate: decoding begins again
    at the position.
    """

    def __init__(
        self,
        raw: RawFetch,
        options: FetchOptions,
        position: int = -1,
        counts: DeliveryCounts | None = None,
        deserializers: Deserializers | None = None,
    ) -> None:
        self.raw = raw
        self.records = NO_RECORDS
        self.batch: FetchedBatch | None = None
        self.error: CorruptRecordError | None = None
        self.exhausted = False
        self._position = max(position, raw.first_offset)
        self._moved = False
        self._rows_begun = False
        self._options, self._counts, self._deserializers = options, counts, deserializers
        self._piece: Piece | None = None
        self._chunks: Iterator[DecodedChunk] | None = None
        self._batches: Iterator[FetchedBatch] | None = None

    @property
    def position(self) -> int:
        """The offset after what was handed out, gaps included."""
        return max(self._position, self.records.position)

    def reached(self) -> tuple[int, int]:
        """Return the position with the leader epoch of the record before it; -1 where nothing was
        handed out.
        """
        position = self.position
        moved = self._moved or self.records.position >= 0
        return (position, self.raw.epoch_before(position)) if moved else (-1, -1)

    @property
    def done(self) -> bool:
        """Whether everything was handed out, up to the end or to `error`."""
        return self.exhausted and self.batch is None

    @property
    def failure(self) -> RecordDeserializationError | None:
        """Why the next record cannot be handed out, if it was tried and nothing is in front."""
        waiting = self._piece is not None and not len(self.records)
        return self._piece.failure if waiting and self._piece is not None else None

    @property
    def waiting(self) -> list[int]:
        """The offsets that were decoded, and wait to be deserialized."""
        return self._piece.offsets if self._piece is not None else []

    def skip_failure(self) -> None:
        """Leave the record that cannot be deserialized out."""
        assert self._piece is not None
        self._piece.skip()

    def fill_rows(self) -> None:
        """Have records to take, unless there are none left or the next one has a `failure`."""
        if len(self.records) or self.done:
            return
        try:
            self._fill_rows()
        except BaseException:
            self._begin_again()
            raise

    def _fill_rows(self) -> None:
        if self._piece:
            self._pass(self.position)
            self.records = self._piece.make()
            return
        if self.finish():
            return
        if self._chunks is None:
            self._begin_rows()
            self._chunks = self._decode_from(self._position)
        try:
            for chunk in self._chunks:
                if chunk.columns.rows:
                    self._show(self._records(chunk))
                    # what is behind the last rows, if anything, is found when they were taken
                    if len(self.records) or self._piece:
                        return
                self._pass(chunk.next_offset)
        except CorruptRecordError as error:
            self.error = error
        self._end()

    @property
    def is_small(self) -> bool:
        """Whether `fill_small` may decode what is next."""
        return (
            len(self.raw.data) <= SMALL_BYTES
            and self._chunks is None
            and self.raw.end_offset is None
            and not (self.done or self._piece or self.raw.aborted or self._counts)
            and not len(self.records)
        )

    def begin_with(self, records: RecordCursor) -> None:
        """Have the first records to take, which `fill_small` decoded."""
        try:
            self._begin_rows()
            self._show(records)
        except BaseException:
            self._begin_again()
            raise

    def _begin_again(self) -> None:
        """Let decoding begin at the position: Ctrl-C came into it, or a deserializer exits."""
        self._chunks, self._batches, self._piece, self._rows_begun = None, None, None, False

    def _begin_rows(self) -> None:
        self._pass(self.position)
        self._batches, self.batch, self.exhausted, self._rows_begun = None, None, False, True

    def _show(self, records: RecordCursor) -> None:
        made: RecordCursor = records
        if self._deserializers is not None:
            self._piece = Piece(self._deserializers, records)
            made = self._piece.make()
        self._pass(self.position)
        self.records = made

    def finish(self) -> bool:
        """End here if records were handed out to the last and nothing is behind them; return
        whether it is so. To find out by decoding would cost a call of the kernel.
        """
        if (
            not self._rows_begun
            or self._piece
            or len(self.records)
            or self.position < self.raw.next_offset
        ):
            return False
        self._end()
        return True

    def fill_batch(self) -> None:
        """Have a batch to take, unless there is none left."""
        if self.batch is not None or self.exhausted:
            return
        if self._batches is None:
            self._pass(self.position)
            raw = self.raw._replace(first_offset=self._position)
            self._batches, self._chunks, self.records = (
                decode(raw, self._options),
                None,
                NO_RECORDS,
            )
            self._piece, self._rows_begun = None, False
        try:
            self.batch = next(self._batches, None)
        except CorruptRecordError as error:
            self.error = error
        except BaseException:
            self._begin_again()
            raise
        if self.batch is None:
            self._end()
        elif self.batch.next_offset >= self.raw.next_offset:
            self.exhausted = True  # nothing is behind it: the bytes can go with it

    def take_batch(self) -> FetchedBatch | None:
        """Return the batch that was decoded; it counts as consumed."""
        batch, self.batch = self.batch, None
        if batch is not None:
            self._pass(batch.next_offset)
        return batch

    def _pass(self, position: int) -> None:
        if position > self._position:
            self._position, self._moved = position, True

    def _end(self) -> None:
        self._pass(self.position)
        if self.error is None:
            self._pass(self.raw.next_offset)
        self.exhausted = True
        self.records, self.batch, self._chunks, self._batches = NO_RECORDS, None, None, None
        self._piece, self._rows_begun = None, False

    def _decode_from(self, position: int) -> Iterator[DecodedChunk]:
        raw = self.raw
        return decode_columns(
            raw.data,
            first_offset=position,
            end_offset=raw.end_offset,
            aborted=raw.aborted or None,
            options=_reading(self._options),
            where=raw.tp,
        )

    def _records(self, chunk: DecodedChunk) -> RecordCursor:
        offsets = chunk.columns.offsets
        counts = None if self._counts is None or offsets is None else self._counts(int64s(offsets))
        return record_cursor(chunk.columns, self.raw.tp, self.raw.epochs, chunk.next_offset, counts)


def _reading(options: FetchOptions) -> ReadOptions:
    return ReadOptions(
        max_rows=min(options.max_batch_rows, ROWS_AT_ONCE),
        max_bytes=min(options.max_batch_bytes, BYTES_AT_ONCE),
        max_batch_bytes=options.max_decompressed_bytes or 0,
        check_crc=options.check_crcs,
    )


def fill_small(fetches: Sequence[CompletedFetch], options: FetchOptions) -> None:
    """Have records to take of small fetches, decoded in one call, until about ROWS_AT_ONCE are
    there.
    """
    asked = [
        RecordBytes(one.raw.data, one.position, (*one.raw.tp, one.raw.epochs)) for one in fetches
    ]
    for one, records in zip(fetches, first_records(asked, _reading(options)), strict=False):
        if records is None:
            one.fill_rows()
        else:
            one.begin_with(records)
