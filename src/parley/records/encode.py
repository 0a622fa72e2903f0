"""Columns → batches for producing, of the format that the broker takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from parley.errors import LocalProtocolError
from parley.kernel import Buffer, Columns, EncodeOptions, KernelError, VarColumn, active
from parley.records import layout
from parley.records.columns import int32s
from parley.records.failures import translate_encode
from parley.records.info import warn_if_pure


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The format and bounds of the batches to write.

    `max_batch_bytes` bounds a batch before compression; a single larger record makes a batch of its
    own, which the caller compares with the broker's limit. `timestamp_ms` serves where the columns
    have no timestamps. `producer_id` and the fields beside it are those of an idempotent producer
    (magic 2); `base_sequence` counts on from batch to batch.
    """

    magic: int = 2
    codec: int = 0
    level: int | None = None
    max_batch_bytes: int = 1_000_000
    max_records: int = 2**31 - 1
    timestamp_ms: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False


class EncodedBatch(NamedTuple):
    """One batch (or magic-0/1 message set) of the selected rows [start, stop)."""

    data: Buffer
    start: int
    stop: int
    max_timestamp_ms: int

    @property
    def records(self) -> int:
        """How many records it holds."""
        return self.stop - self.start


_DEFAULT = WriteOptions()


def encode_batches(
    columns: Columns, rows: Buffer | None = None, options: WriteOptions = _DEFAULT
) -> list[EncodedBatch]:
    """Return the batches of the selected rows (int32 indexes; None = all), in order.

    Raises LocalProtocolError, naming the row, for what the format cannot hold (headers before
    magic 2, zstd before magic 2, a record beyond 2 GiB). No rows give no batches.
    """
    warn_if_pure()
    total = columns.rows if rows is None else len(int32s(rows))
    wanted = unnumbered(options) if options.base_sequence < 0 else _kernel_options(options)
    batches: list[EncodedBatch] = []
    start = 0
    while start < total:
        try:
            encoded = active.encode(columns, rows, start, wanted)
        except KernelError as error:
            raise translate_encode(error) from error
        batches.append(
            EncodedBatch(encoded.data, start, encoded.next_start, encoded.max_timestamp_ms)
        )
        if wanted.base_sequence >= 0:
            wanted = replace(
                wanted,
                base_sequence=next_sequence(wanted.base_sequence, encoded.next_start - start),
            )
        start = encoded.next_start
    return batches


def _kernel_options(options: WriteOptions) -> EncodeOptions:
    return EncodeOptions(
        magic=options.magic,
        codec=options.codec,
        level=options.level,
        max_bytes=options.max_batch_bytes,
        max_records=options.max_records,
        timestamp_ms=options.timestamp_ms,
        producer_id=options.producer_id,
        producer_epoch=options.producer_epoch,
        base_sequence=options.base_sequence,
        transactional=options.transactional,
    )


unnumbered = lru_cache(maxsize=16)(_kernel_options)
"""The same, remembered: batches of thousands of partitions are made with equal options."""


def next_sequence(sequence: int, records: int) -> int:
    """Return the sequence number after `records` more; it wraps to 0 behind 2^31 - 1 (KIP-98)."""
    return (sequence + records) & 0x7FFFFFFF


def stamp_producer(
    batch: bytearray | memoryview,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    *,
    transactional: bool,
) -> None:
    """Set the producer's fields of a magic-2 batch and its CRC. Mutates the batch.

    Raises LocalProtocolError for other formats: they have no such fields.
    """
    view = memoryview(batch).cast("B")
    if len(view) < layout.BATCH_HEADER_BYTES or view[layout.MAGIC_AT] != 2:
        raise LocalProtocolError(
            "only batches of magic 2 carry a producer; this one has another format"
        )
    attributes = view[layout.ATTRIBUTES_AT + 1] & ~layout.TRANSACTIONAL
    view[layout.ATTRIBUTES_AT + 1] = attributes | (layout.TRANSACTIONAL if transactional else 0)
    layout.PRODUCER_FIELDS.pack_into(
        view, layout.PRODUCER_ID_AT, producer_id, producer_epoch, base_sequence
    )
    layout.UINT32.pack_into(view, layout.CRC_AT, active.crc32c(view[layout.ATTRIBUTES_AT :]))


def partition_keys(
    key: VarColumn, partitions: int, *, count: int, rows: Buffer | None = None
) -> memoryview:
    """Return Java's default partition (murmur2) of each key as int32 numbers, -1 for null keys.

    `count` is the rows of the column, `rows` an int32 selection of them.
    """
    try:
        return int32s(active.murmur2_partitions(key, rows, count, partitions))
    except KernelError as error:
        raise translate_encode(error) from error


def group_rows(targets: Buffer, partitions: int) -> list[tuple[int, memoryview]]:
    """Return the rows (int32 indexes, in their order) of each partition that has any, by partition.

    `targets` holds the partition of each row as int32. Raises LocalProtocolError for one that does
    not exist.
    """
    try:
        order, counts = active.group_rows(targets, partitions)
    except KernelError as error:
        raise translate_encode(error) from error
    rows = memoryview(order).cast("B")
    found, start = [], 0
    for partition, count in enumerate(int32s(counts).tolist()):
        if count:
            found.append((partition, rows[4 * start : 4 * (start + count)]))
            start += count
    return found
