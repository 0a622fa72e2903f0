"""Stored batches with fewer records: what a broker's log cleaner makes of them.

Rules

1. Records keep their offsets and times. A batch of magic 2 keeps its own base and last offset,
   sequence and codec, so that offsets have gaps and a producer's sequence goes on.
2. A compressed message of magic 0 and 1 is written again around what is left in it.
3. A delete horizon (KIP-534) stands where the base timestamp did; the records' times are counted
   from it.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator
from typing import NamedTuple

from parley.kernel import (
    Buffer,
    Columns,
    DecodeOptions,
    EncodeOptions,
    KernelError,
    Want,
    active,
    batch_limit,
    span_table,
)
from parley.records import layout
from parley.records.columns import int64s, var_values
from parley.records.failures import translate_decode, translate_encode
from parley.records.pieces import decode_all

_KEYED = int(Want.OFFSETS | Want.KEYS | Want.VALUES)
_MESSAGE = int(Want.OFFSETS | Want.TIMESTAMPS | Want.KEYS | Want.VALUES)
_LEAST_OFFSET = -(2**63)


class KeyedRow(NamedTuple):
    """What decides whether a record of a compacted log stays."""

    offset: int
    key: bytes | None
    has_value: bool


def keyed_rows(batch: Buffer) -> Iterator[KeyedRow]:
    """Yield offset, key and whether there is a value of each record of a stored batch, or of a
    message with those in it. Raises CorruptRecordError.
    """
    view = memoryview(batch).cast("B")
    try:
        for columns in decode_all(view, _span(view), _options(_KEYED)):
            yield from _keyed(columns)
    except KernelError as error:
        raise translate_decode(error, _base_of(view), None) from error


def _keyed(columns: Columns) -> Iterator[KeyedRow]:
    offsets, key, value = columns.offsets, columns.key, columns.value
    if offsets is None or key is None or value is None:  # an empty batch
        return
    keys = var_values(key)
    if not value.null_count:
        for offset, one in zip(int64s(offsets), keys, strict=True):
            yield KeyedRow(offset, one, True)
        return
    for offset, one, content in zip(int64s(offsets), keys, var_values(value), strict=True):
        yield KeyedRow(offset, one, content is not None)


def retain(batch: Buffer, offsets: Collection[int], delete_horizon_ms: int | None = None) -> bytes:
    """Return a stored batch with the records at these offsets only, at least one.

    `delete_horizon_ms` becomes the batch's (magic 2 only); one that it has stays. Raises
    CorruptRecordError.
    """
    view = memoryview(batch).cast("B")
    try:
        if view[layout.MAGIC_AT] == 2:
            return _retain_magic2(view, offsets, delete_horizon_ms)
        return _retain_messages(view, offsets)
    except KernelError as error:
        raise translate_decode(error, _base_of(view), None) from error


def emptied(batch: Buffer) -> bytes:
    """Return a stored batch of magic 2 without records: what its producer wrote last stays known.

    Codec and delete horizon go, the largest timestamp stays.
    """
    head = bytearray(memoryview(batch).cast("B")[: layout.BATCH_HEADER_BYTES])
    fields = list(layout.BATCH_HEADER.unpack_from(head, 0))
    fields[_LENGTH] = layout.BATCH_HEADER_BYTES - layout.LOG_OVERHEAD
    fields[_ATTRIBUTES] &= ~(layout.CODEC_MASK | layout.DELETE_HORIZON)
    fields[_BASE_TIMESTAMP], fields[_COUNT] = -1, 0
    return _with_header(head, fields)


def delete_horizon(batch: Buffer) -> int | None:
    """Return the delete horizon of a stored batch of magic 2, None without one."""
    view = memoryview(batch).cast("B")
    if not view[layout.ATTRIBUTES_AT + 1] & layout.DELETE_HORIZON:
        return None
    return int(layout.BATCH_HEADER.unpack_from(view, 0)[_BASE_TIMESTAMP])


# places in BATCH_HEADER
_LENGTH, _ATTRIBUTES, _BASE_TIMESTAMP, _MAX_TIMESTAMP, _COUNT = 1, 5, 7, 8, 12


def _span(view: memoryview) -> bytes:
    return span_table([(0, len(view))])


def _options(want: int) -> DecodeOptions:
    return DecodeOptions(first_offset=_LEAST_OFFSET, want=want, check_crc=False)


def _base_of(view: memoryview) -> int:
    return int(layout.INT64.unpack_from(view, 0)[0])


def _retain_magic2(
    view: memoryview, offsets: Collection[int], delete_horizon_ms: int | None
) -> bytes:
    fields = list(layout.BATCH_HEADER.unpack_from(view, 0))
    attributes, base_timestamp = fields[_ATTRIBUTES], fields[_BASE_TIMESTAMP]
    codec, packed = attributes & layout.CODEC_MASK, view[layout.BATCH_HEADER_BYTES :]
    body: Buffer = packed
    if codec:
        body = active.decompress(codec, packed, batch_limit(len(packed), 0), 2)
    kept = [
        (base_timestamp + one.timestamp_delta, one)
        for one in _records(memoryview(body).cast("B"), fields[_COUNT])
        if fields[0] + one.offset_delta in offsets
    ]
    if attributes & layout.LOG_APPEND_TIME:
        kept = [(fields[_MAX_TIMESTAMP], one) for _, one in kept]
    if not attributes & layout.DELETE_HORIZON:
        if delete_horizon_ms is not None:
            fields[_ATTRIBUTES] |= layout.DELETE_HORIZON
        base_timestamp = kept[0][0] if delete_horizon_ms is None else delete_horizon_ms
    out = bytearray()
    for timestamp_ms, one in kept:
        times = _zigzag(timestamp_ms - base_timestamp) + _zigzag(one.offset_delta)
        out += _zigzag(1 + len(times) + len(one.rest))
        out += one.attributes
        out += times
        out += one.rest
    content: Buffer = active.compress(codec, out, None, 2) if codec else out
    data = bytearray(layout.BATCH_HEADER_BYTES) + content
    fields[_LENGTH] = len(data) - layout.LOG_OVERHEAD
    fields[_BASE_TIMESTAMP], fields[_COUNT] = base_timestamp, len(kept)
    fields[_MAX_TIMESTAMP] = max(timestamp_ms for timestamp_ms, _ in kept)
    return _with_header(data, fields)


def _with_header(data: bytearray, fields: list[int]) -> bytes:
    layout.BATCH_HEADER.pack_into(data, 0, *fields)
    crc = active.crc32c(memoryview(data)[layout.ATTRIBUTES_AT :])
    layout.UINT32.pack_into(data, layout.CRC_AT, crc)
    return bytes(data)


class _Raw(NamedTuple):
    """A record of magic 2: its deltas, and the bytes around them."""

    attributes: memoryview
    timestamp_delta: int
    offset_delta: int
    rest: memoryview


def _records(body: memoryview, count: int) -> Iterator[_Raw]:
    """Yield the records of a batch that was checked when it was appended."""
    at = 0
    for _ in range(count):
        size, at = _read_zigzag(body, at)
        end = at + size
        timestamp_delta, after = _read_zigzag(body, at + 1)
        offset_delta, after = _read_zigzag(body, after)
        yield _Raw(body[at : at + 1], timestamp_delta, offset_delta, body[after:end])
        at = end


def _read_zigzag(data: memoryview, at: int) -> tuple[int, int]:
    """Return a varint, and the position behind it."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7


def _zigzag(number: int) -> bytes:
    left, found = (number << 1) ^ (number >> 63), bytearray()
    left &= 2**64 - 1
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


def _retain_messages(view: memoryview, offsets: Collection[int]) -> bytes:
    magic, attributes = view[layout.MAGIC_AT], view[layout.MAGIC_AT + 1]
    append_time = magic == 1 and attributes & layout.LOG_APPEND_TIME
    stamp = layout.INT64.unpack_from(view, layout.LEGACY_TIMESTAMP_AT)[0] if append_time else None
    columns = active.decode(view, _span(view), _options(_MESSAGE)).columns
    rows = [row for row, at in enumerate(int64s(columns.offsets or b"")) if at in offsets]
    options = EncodeOptions(
        magic=magic, codec=attributes & layout.CODEC_MASK, log_append_time_ms=stamp
    )
    try:
        chosen = memoryview(_int32(rows))
        return bytes(active.encode(columns, chosen, 0, options).data)
    except KernelError as error:
        raise translate_encode(error) from error


def _int32(rows: list[int]) -> bytes:
    return array("i", rows).tobytes()
