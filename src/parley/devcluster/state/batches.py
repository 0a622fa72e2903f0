"""What a broker reads of stored records: the headers, never the records.

Rules of this file:
1. It trusts nothing it reads: a header that does not fit its bytes ends the walk.
2. It checks no CRC and opens no compressed block; `records` does, on append and on recovery.
3. The byte layout is `records.layout`'s. Unlike `records.split`, which gathers old messages into
   runs for the kernel, each message-set entry counts by itself here: a log is read from any of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from parley.records import layout

Bytes = bytes | bytearray | memoryview

LEADER_EPOCH_AT = layout.LEADER_EPOCH_AT
MAGIC_AT = layout.MAGIC_AT
NO_MARKER = (-1, -1, -1, -1, -1)
SMALLEST_ENTRY = layout.LOG_OVERHEAD + layout.MIN_SIZE[0]


class BatchFacts(NamedTuple):
    """The header of one stored batch (magic 2) or message-set entry (magic 0 and 1).

    `base_offset` of a compressed magic-0/1 wrapper is not in its header: it equals `last_offset`
    here, and the log fills the gap from the batch before. `control_type` and `coordinator_epoch` are
    those of a transaction's end marker, else -1.
    """

    size: int
    magic: int
    base_offset: int
    last_offset: int
    leader_epoch: int = -1
    max_timestamp_ms: int = -1
    codec: int = 0
    log_append_time: bool = False
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    record_count: int = 1
    is_transactional: bool = False
    is_control: bool = False
    control_type: int = -1
    coordinator_epoch: int = -1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, wrapped at 2^31 as KIP-98 says; -1 without a sequence."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset - self.base_offset) & 0x7FFFFFFF


def read_facts(data: Bytes, at: int = 0) -> BatchFacts | None:
    """Return the facts of the batch that begins at `at`, or None when no whole batch begins there."""
    remaining = len(data) - at
    if remaining < SMALLEST_ENTRY:
        return None
    magic = data[at + layout.MAGIC_AT]
    if magic == 2:
        return _read_batch(data, at, remaining)
    return _read_entry(data, at, remaining) if magic < 2 else None


def _read_batch(data: Bytes, at: int, remaining: int) -> BatchFacts | None:
    if remaining < layout.BATCH_HEADER_BYTES:
        return None
    base, length, epoch, _, _, attributes, delta, _, max_timestamp, producer, producer_epoch, sequence, count = (
        layout.BATCH_HEADER.unpack_from(data, at)
    )
    size = length + layout.LOG_OVERHEAD
    if size < layout.BATCH_HEADER_BYTES or size > remaining or delta < 0 or base < 0:
        return None
    ends = attributes & layout.CONTROL and size == layout.MARKER_BYTES
    *_, control_type, _, _, coordinator, _ = (
        layout.MARKER_RECORD.unpack_from(data, at + layout.BATCH_HEADER_BYTES) if ends else NO_MARKER
    )
    return BatchFacts(
        size,
        2,
        base,
        base + delta,
        epoch,
        max_timestamp,
        attributes & layout.CODEC_MASK,
        bool(attributes & layout.LOG_APPEND_TIME),
        producer,
        producer_epoch,
        sequence,
        count,
        bool(attributes & layout.TRANSACTIONAL),
        bool(attributes & layout.CONTROL),
        control_type,
        coordinator,
    )


def _read_entry(data: Bytes, at: int, remaining: int) -> BatchFacts | None:
    offset, length, _, magic = layout.ENTRY_HEAD.unpack_from(data, at)
    size = length + layout.LOG_OVERHEAD
    if length < layout.MIN_SIZE[magic] or size > remaining or offset < 0:
        return None
    attributes = data[at + layout.MAGIC_AT + 1]
    timestamp = -1
    if magic == 1:
        (timestamp,) = layout.INT64.unpack_from(data, at + layout.LEGACY_TIMESTAMP_AT)
    return BatchFacts(
        size,
        magic,
        offset,
        offset,
        max_timestamp_ms=timestamp,
        codec=attributes & layout.CODEC_MASK,
        log_append_time=magic == 1 and bool(attributes & layout.LOG_APPEND_TIME),
    )


def walk(data: Bytes) -> Iterator[tuple[int, BatchFacts]]:
    """Yield the position and the facts of each whole batch, and stop at the first that is not whole."""
    at = 0
    while (facts := read_facts(data, at)) is not None:
        yield at, facts
        at += facts.size
