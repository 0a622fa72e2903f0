"""The broker's side of Produce: check what a client sent, then give it offsets.

Checks (as Kafka's LogValidator)

1. The bytes are whole batches to the last byte; magic 2 comes as exactly one batch per partition.
2. CRC, codec, lengths and record counts are true; every record parses.
3. Offsets count up from the batch's own base by one, so that the broker may move them by their
   base.
4. Control batches are the broker's alone.
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import NamedTuple

from parley.kernel import (
    Buffer,
    DecodeOptions,
    EncodeOptions,
    KernelError,
    Want,
    active,
    span_table,
)
from parley.records import layout
from parley.records.columns import int64s, var_values
from parley.records.failures import corrupt, translate_decode, translate_encode
from parley.records.pieces import decode_all
from parley.records.split import RawBatch, split


class CheckedBatch(NamedTuple):
    """What a broker needs to know of one produced record set.

    `records` is the true count. `max_timestamp_offset` is the position, counted from the first
    record, of the first record with the largest timestamp.
    """

    batches: list[RawBatch]
    records: int
    max_timestamp_ms: int
    max_timestamp_offset: int

    @property
    def magic(self) -> int:
        """The format of the record set."""
        return self.batches[0].magic


def check_batch(
    data: Buffer, *, max_batch_bytes: int = 0, where: tuple[str, int] | None = None
) -> CheckedBatch:
    """Return the facts of a produced record set.

    Raises CorruptRecordError where any check fails (Kafka answers CORRUPT_MESSAGE or
    INVALID_RECORD).
    """
    batches = split(data, where)
    if not batches or batches[-1].end != memoryview(data).nbytes:
        raise corrupt("the record set is empty or its last batch is cut off", 0, where)
    first = batches[0]
    if any(batch.magic != first.magic for batch in batches):
        raise corrupt("the record set mixes formats", 0, where)
    if first.magic == 2 and len(batches) != 1:
        raise corrupt(f"a record set of magic 2 is one batch, this has {len(batches)}", 0, where)
    if first.is_control:
        raise corrupt("control batches are the broker's to write", 0, where)
    options = DecodeOptions(
        want=int(Want.OFFSETS | Want.TIMESTAMPS), max_batch_bytes=max_batch_bytes
    )
    rows, largest, largest_at, counted = 0, _NO_TIMESTAMP, -1, True
    try:
        for columns in decode_all(data, _spans(batches), options):
            if columns.rows == 0 or columns.offsets is None or columns.timestamps is None:
                continue
            counted = counted and bytes(columns.offsets) == _counted(
                first.base_offset + rows, columns.rows
            )
            latest = max(int64s(columns.timestamps))
            if latest > largest or largest_at < 0:
                largest, largest_at = latest, rows + _index(bytes(columns.timestamps), latest)
            rows += columns.rows
    except KernelError as error:
        raise translate_decode(error, 0, where) from error
    if rows == 0:
        raise corrupt("the record set has no records", 0, where)
    if first.magic == 2 and (first.last_offset != first.base_offset + rows - 1 or not counted):
        raise corrupt("the offsets of the batch do not count up by one", 0, where)
    return CheckedBatch(batches, rows, largest, largest_at)


_NO_TIMESTAMP = -(2**63)


def keyless_records(data: Buffer) -> list[int]:
    """Return the positions of records without a key in a checked set. Mutates nothing."""
    found, rows = [], 0
    for columns in decode_all(data, _spans(split(data)), DecodeOptions(want=int(Want.KEYS))):
        key = columns.key
        if key is not None and key.null_count:
            found += [rows + row for row, value in enumerate(var_values(key)) if value is None]
        rows += columns.rows
    return found


def records_outside(data: Buffer, earliest_ms: int, latest_ms: int) -> list[int]:
    """Return the positions of records of a checked set with a timestamp outside these bounds.

    A record without a timestamp (-1) is outside of none. Mutates nothing.
    """
    found, rows = [], 0
    for columns in decode_all(data, _spans(split(data)), DecodeOptions(want=int(Want.TIMESTAMPS))):
        if columns.timestamps is not None:
            found += [
                rows + row
                for row, at_ms in enumerate(int64s(columns.timestamps))
                if at_ms != NO_TIMESTAMP and not earliest_ms <= at_ms <= latest_ms
            ]
        rows += columns.rows
    return found


NO_TIMESTAMP = -1
_MAX_OFFSET = 2**63 - 1
_FROM_ZERO = array("q", range(16_384)).tobytes()


def _counted(first: int, rows: int) -> bytes:
    """Return `rows` int64 numbers from `first` on; mostly a cached slice, from 0.

    Returns nothing where there are not so many.
    """
    if first == 0 and 8 * rows <= len(_FROM_ZERO):
        return _FROM_ZERO[: 8 * rows]
    counted = range(first, first + rows)
    return array("q", counted).tobytes() if counted[-1] <= _MAX_OFFSET else b""


def _index(numbers: bytes, number: int) -> int:
    """Return where the number first stands among int64 numbers, found by its bytes."""
    wanted = array("q", (number,)).tobytes()
    at = numbers.find(wanted)
    while at % 8:  # across two neighbours: no number of the column
        at = numbers.find(wanted, at + 1)
    return at // 8


def _spans(batches: list[RawBatch]) -> bytes:
    return span_table((batch.start, batch.end) for batch in batches)


def assign_offsets(
    data: bytearray | memoryview,
    base_offset: int,
    leader_epoch: int = -1,
    log_append_time_ms: int | None = None,
) -> Buffer:
    """Return the checked set with offsets from `base_offset` (and LogAppendTime, if given).

    Magic 2 and uncompressed messages are changed in place and returned; a compressed message set
    keeps its bytes where relative offsets allow it (KIP-31) and is compressed again otherwise.
    Raises CorruptRecordError for bytes that check_batch would refuse.
    """
    view = memoryview(data).cast("B")
    batches = split(view)
    if not batches:
        raise corrupt("the record set is empty", base_offset)
    if batches[0].magic == 2:
        _assign_magic2(view, base_offset, leader_epoch, log_append_time_ms)
        return data
    if any(batch.codec for batch in batches):
        return _reencode(view, batches, base_offset, log_append_time_ms)
    _assign_messages(view, base_offset, log_append_time_ms)
    return data


def _assign_magic2(
    view: memoryview, base_offset: int, leader_epoch: int, log_append_time_ms: int | None
) -> None:
    layout.INT64.pack_into(view, 0, base_offset)
    layout.INT32.pack_into(view, layout.LEADER_EPOCH_AT, leader_epoch)
    if log_append_time_ms is not None:
        view[layout.ATTRIBUTES_AT + 1] |= layout.LOG_APPEND_TIME
        layout.INT64.pack_into(view, layout.MAX_TIMESTAMP_AT, log_append_time_ms)
        # Offsets and epoch stand in front of what the CRC covers; these two fields do not.
        layout.UINT32.pack_into(view, layout.CRC_AT, active.crc32c(view[layout.ATTRIBUTES_AT :]))


def _assign_messages(view: memoryview, base_offset: int, log_append_time_ms: int | None) -> None:
    pos = 0
    while pos < len(view):
        _, size, _, magic = layout.ENTRY_HEAD.unpack_from(view, pos)
        end = pos + layout.LOG_OVERHEAD + size
        layout.INT64.pack_into(view, pos, base_offset)
        if log_append_time_ms is not None and magic == 1:
            view[pos + layout.MAGIC_AT + 1] |= layout.LOG_APPEND_TIME
            layout.INT64.pack_into(view, pos + layout.LEGACY_TIMESTAMP_AT, log_append_time_ms)
            layout.UINT32.pack_into(
                view, pos + layout.LOG_OVERHEAD, active.crc32(view[pos + layout.MAGIC_AT : end])
            )
        base_offset += 1
        pos = end


def _reencode(
    view: memoryview, batches: list[RawBatch], base_offset: int, log_append_time_ms: int | None
) -> Buffer:
    codec = max(batch.codec for batch in batches)
    magic = batches[0].magic
    try:
        columns = active.decode(
            view,
            _spans(batches),
            DecodeOptions(want=int(Want.OFFSETS | Want.TIMESTAMPS | Want.KEYS | Want.VALUES)),
        ).columns
    except KernelError as error:
        raise translate_decode(error, base_offset, None) from error
    if len(batches) == 1 and magic == 1 and columns.offsets is not None:
        inner = int64s(columns.offsets).tolist()
        if inner[-1] - inner[0] == len(inner) - 1 and inner[0] == 0:
            _assign_wrapper(view, base_offset + len(inner) - 1, log_append_time_ms)
            return view
    try:
        options = EncodeOptions(
            magic=magic, codec=codec, base_offset=base_offset, log_append_time_ms=log_append_time_ms
        )
        return active.encode(replace(columns, offsets=None), None, 0, options).data
    except KernelError as error:
        raise translate_encode(error) from error


def _assign_wrapper(view: memoryview, last_offset: int, log_append_time_ms: int | None) -> None:
    layout.INT64.pack_into(view, 0, last_offset)
    if log_append_time_ms is not None:
        view[layout.MAGIC_AT + 1] |= layout.LOG_APPEND_TIME
        layout.INT64.pack_into(view, layout.LEGACY_TIMESTAMP_AT, log_append_time_ms)
        layout.UINT32.pack_into(view, layout.LOG_OVERHEAD, active.crc32(view[layout.MAGIC_AT :]))
