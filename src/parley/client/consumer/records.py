"""Record bytes that a consumer has begun: decoded piece by piece, as records or as Arrow batches.

Decoding runs in the caller's thread; nothing here touches the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from parley.client.fetch.decode import decode
from parley.client.fetch.state import RawFetch
from parley.client.options.client_options import FetchOptions
from parley.client.results import FetchedBatch
from parley.errors import CorruptRecordError
from parley.records import DecodedChunk, ReadOptions, decode_columns, records

ROWS_AT_ONCE = 2_000
"""Rows that are made into Python objects at a time."""


class ConsumerRecord(NamedTuple):
    """One record. `timestamp` is in milliseconds since 1970; `timestamp_type` is 0 (create), 1
    (append) or -1 (none).

    `leader_epoch` is that of the record's batch, -1 before message format 2 (KIP-101).
    `delivery_count` says how often a share group has delivered the record, this time included;
    elsewhere it is None.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    leader_epoch: int = -1
    delivery_count: int | None = None


class CompletedFetch:
    """The bytes of one partition that are being consumed.

    `fill` decodes the next piece; then either `rows` from `at` on or `batch` wait to be taken. What
    was taken as records and what as batches may alternate: decoding begins again at the position.
    """

    def __init__(self, raw: RawFetch, options: FetchOptions) -> None:
        self.raw = raw
        self.rows: list[ConsumerRecord] = []
        self.at = 0
        self.batch: FetchedBatch | None = None
        self.next_offset = raw.first_offset
        self.error: CorruptRecordError | None = None
        self.exhausted = False
        self._options = options
        self._chunks: Iterator[DecodedChunk] | None = None
        self._batches: Iterator[FetchedBatch] | None = None

    def fill_rows(self, position: int) -> None:
        """Have rows to take, from `position` on, unless there are none left."""
        if self.at < len(self.rows) or self.exhausted:
            return
        if self._chunks is None:
            self._chunks, self._batches, self.batch = self._decode_from(position), None, None
        try:
            for chunk in self._chunks:
                self.next_offset = chunk.next_offset
                if chunk.columns.rows:
                    self.rows, self.at = self._records(chunk), 0
                    # what is behind the last rows, if anything, is found when they were taken
                    return
        except CorruptRecordError as error:
            self.error = error
        self._end()

    def fill_batch(self, position: int) -> None:
        """Have a batch to take, from `position` on, unless there is none left."""
        if self.batch is not None or self.exhausted:
            return
        if self._batches is None:
            raw = self.raw._replace(first_offset=max(position, self.raw.first_offset))
            self._batches, self._chunks, self.rows, self.at = (
                decode(raw, self._options),
                None,
                [],
                0,
            )
        try:
            self.batch = next(self._batches, None)
        except CorruptRecordError as error:
            self.error = error
        if self.batch is None:
            self._end()
        elif self.batch.next_offset >= self.raw.next_offset:
            self.exhausted = True  # nothing is behind it: the bytes can go with it

    def take_rows(self, most: int) -> list[ConsumerRecord]:
        """Return up to so many rows; `next_offset` is then the offset after them, gaps included."""
        taken = self.rows[self.at : self.at + most]
        self.at += len(taken)
        return taken

    @property
    def position_after(self) -> int:
        """The offset after what was taken last as rows."""
        return (
            self.rows[self.at - 1].offset + 1 if 0 < self.at < len(self.rows) else self.next_offset
        )

    def _end(self) -> None:
        self.exhausted = True
        self.rows, self.at, self.batch = [], 0, None
        self._chunks = self._batches = None
        if self.error is None:
            self.next_offset = self.raw.next_offset

    def _decode_from(self, position: int) -> Iterator[DecodedChunk]:
        raw, options = self.raw, self._options
        reading = ReadOptions(
            max_rows=min(options.max_batch_rows, ROWS_AT_ONCE),
            max_bytes=options.max_batch_bytes,
            max_batch_bytes=options.max_decompressed_bytes or 0,
            check_crc=options.check_crcs,
        )
        return decode_columns(
            raw.data,
            first_offset=max(position, raw.first_offset),
            end_offset=raw.end_offset,
            aborted=raw.aborted or None,
            options=reading,
            where=raw.tp,
        )

    def _records(self, chunk: DecodedChunk) -> list[ConsumerRecord]:
        tp, epochs = self.raw.tp, self.raw.epochs
        same = epochs[0][1] if len(epochs) == 1 else None
        return [
            ConsumerRecord(
                tp.topic,
                tp.partition,
                found.offset,
                found.timestamp_ms,
                found.timestamp_type,
                found.key,
                found.value,
                found.headers,
                same if same is not None else self.raw.epoch_before(found.offset + 1),
            )
            for found in records(chunk.columns)
        ]
