"""What a broker reads of records, stored or just received: the headers, never the records.

Rules of this file:
1. It trusts nothing it reads: a header that does not fit its bytes ends the walk. Among stored
   bytes that is all there is to say; of received ones a tail that is cut off (`receive`'s `fault`
   is None) is distinguished from bytes that no batch can begin with.
2. It checks no CRC and opens no compressed block; `records` does, on append and on recovery.
3. The byte layout is `records.layout`'s. Unlike `records.split`, which gathers old messages into
   runs for the kernel, each message-set entry counts by itself here: a log is read from any of
   them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

from parley.errors.codes import CORRUPT_MESSAGE, UNKNOWN_SERVER_ERROR
from parley.records import layout

Bytes = bytes | bytearray | memoryview

LEADER_EPOCH_AT = layout.LEADER_EPOCH_AT
MAGIC_AT = layout.MAGIC_AT
TIME_IN_RECORD_AT = 2  # behind the record's length and attributes, in a record of few bytes
MAX_SIZE = 2**31 - 1 - layout.LOG_OVERHEAD
SMALLEST_ENTRY = layout.LOG_OVERHEAD + layout.MIN_SIZE[0]


class BatchFacts(NamedTuple):
    """The header of one stored batch (magic 2) or message-set entry (magic 0 and 1).

    `base_offset` of a compressed magic-0/1 wrapper is not in its header: it equals `last_offset`
    here, and the log fills the gap from the batch before. `control_type` and `coordinator_epoch`
    are those of a transaction's end marker, else -1.
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
        """The last record's sequence, wrapped at 2^31 as KIP-98 says; -1 without one."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset - self.base_offset) & 0x7FFFFFFF


class Fault(NamedTuple):
    """Why no batch can begin where one should, and the error code that brokers give for it.

    `inside` means that only the batch's own header shows it: its size would do for a batch of the
    oldest format.
    """

    code: int
    why: str
    inside: bool = False


class Received(NamedTuple):
    """A received record set's headers, where its last whole batch ends, and why the walk ended.

    Offsets are those that the producer wrote. Without a `fault` nothing is left, or the start of a
    batch.
    """

    headers: list[BatchFacts]
    end: int
    fault: Fault | None


def read_facts(data: Bytes, at: int = 0) -> BatchFacts | None:
    """Return the facts of the stored batch at `at`; None if no whole batch begins there."""
    facts = _read(data, at)
    return facts if facts is not None and 0 <= facts.base_offset <= facts.last_offset else None


def receive(data: Bytes | None, most: int = sys.maxsize) -> Received:
    """Return what a producer sent, up to `most` batches. Their offsets mean nothing yet."""
    headers: list[BatchFacts] = []
    at, end = 0, 0 if data is None else len(data)
    while data is not None and len(headers) < most and end - at >= layout.LOG_OVERHEAD:
        facts = _read(data, at)
        if facts is None:
            return Received(headers, at, _fault(data, at))
        headers.append(facts)
        at += facts.size
    return Received(headers, at, None)


def _fault(data: Bytes, at: int) -> Fault | None:
    """Return why no batch begins at `at`; None where one may, but is cut off."""
    (size,) = layout.INT32.unpack_from(data, at + layout.SIZE_AT)
    if size < layout.MIN_SIZE[0]:
        return Fault(CORRUPT_MESSAGE, f"a batch of {size} bytes is shorter than any header")
    if size > MAX_SIZE:  # brokers add to it what stands in front, and it becomes negative
        return Fault(
            UNKNOWN_SERVER_ERROR,
            f"a batch of {size} bytes and what stands in front of it cannot be",
        )
    if size > len(data) - at - layout.LOG_OVERHEAD:
        return None
    magic = data[at + layout.MAGIC_AT]
    if magic not in layout.MIN_SIZE:
        return Fault(CORRUPT_MESSAGE, f"magic {magic} does not exist")
    return Fault(
        CORRUPT_MESSAGE,
        f"a batch of {size} bytes is shorter than a header of magic {magic}",
        inside=True,
    )


def _read(data: Bytes, at: int) -> BatchFacts | None:
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
    (
        base,
        length,
        epoch,
        _,
        _,
        attributes,
        delta,
        _,
        max_timestamp,
        producer,
        producer_epoch,
        sequence,
        count,
    ) = layout.BATCH_HEADER.unpack_from(data, at)
    size = length + layout.LOG_OVERHEAD
    if size < layout.BATCH_HEADER_BYTES or size > remaining:
        return None
    control_type, coordinator = -1, -1
    if attributes & layout.CONTROL:
        control_type, coordinator = _read_marker(data, at + layout.BATCH_HEADER_BYTES, at + size)
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


def _read_marker(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return a transaction's end and its coordinator's epoch; -1 for any other control record.

    The time takes more than a byte where it is counted from a delete horizon.
    """
    while at < end - layout.MARKER_RECORD.size and data[at + TIME_IN_RECORD_AT] & 0x80:
        at += 1
    if end - at != layout.MARKER_RECORD.size:
        return -1, -1
    *_, control_type, _, _, coordinator, _ = layout.MARKER_RECORD.unpack_from(data, at)
    return int(control_type), int(coordinator)


def _read_entry(data: Bytes, at: int, remaining: int) -> BatchFacts | None:
    offset, length, _, magic = layout.ENTRY_HEAD.unpack_from(data, at)
    size = length + layout.LOG_OVERHEAD
    if length < layout.MIN_SIZE[magic] or size > remaining:
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
    """Yield each whole batch's position and facts; stop at the first that is not whole."""
    at = 0
    while (facts := read_facts(data, at)) is not None:
        yield at, facts
        at += facts.size
