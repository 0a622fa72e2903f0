"""Encoding of columns into batches of magic 2 and message sets of magic 0 and 1.

Layouts: magic2.py and legacy.py. Sizes are bounded before compression, so that a batch which the
codec makes larger is still of a known order; a codec never shortens what the bound admits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from parley.kernel.contract import (
    MAX_COLUMN_BYTES,
    Buffer,
    Codec,
    Columns,
    Encoded,
    EncodeOptions,
    HeadersColumn,
    KernelError,
    KernelErrorKind,
    VarColumn,
)
from parley.kernel.reference.columns import VarReader, selected
from parley.kernel.reference.compress import compress
from parley.kernel.reference.crc import crc32, crc32c
from parley.kernel.reference.magic2 import CRC_START, HEADER, HEADER_BYTES

_LOG_APPEND_TIME = 8
_TRANSACTIONAL = 16
_MESSAGE_HEAD = struct.Struct(">qiIbb")
_INT32 = struct.Struct(">i")
_NULL_FIELD = _INT32.pack(-1)

_ARGUMENT = KernelErrorKind.ARGUMENT


class _Row(NamedTuple):
    """One record to write."""

    at: int  # its position in the selection
    offset: int
    timestamp_ms: int
    key: memoryview | None
    value: memoryview | None
    headers: list[tuple[memoryview, memoryview | None]]


def encode(columns: Columns, rows: Buffer | None, start: int, options: EncodeOptions) -> Encoded:
    """Return one batch of the selected rows from position `start` on.

    Raises KernelError: ARGUMENT for columns that cannot be written, CODEC for a codec the format
    does not have, TOO_LARGE for a record that fits no batch.
    """
    check_format(options)
    if options.magic == 2:
        return _encode_magic2(_rows(columns, rows, start, options), options)
    return _encode_legacy(_rows(columns, rows, start, options), options)


def check_format(options: EncodeOptions) -> None:
    """Refuse a format that does not exist, and a codec that the format does not have."""
    if options.magic not in (0, 1, 2):
        raise KernelError(_ARGUMENT, f"magic {options.magic} does not exist")
    if not 0 <= options.codec <= (4 if options.magic == 2 else 3):
        raise KernelError(
            KernelErrorKind.CODEC, f"codec {options.codec} does not exist in magic {options.magic}"
        )


def _rows(
    columns: Columns, rows: Buffer | None, start: int, options: EncodeOptions
) -> Iterator[_Row]:
    selection = selected(rows, columns.rows)
    if not 0 <= start < len(selection):
        raise KernelError(
            _ARGUMENT, f"row {start} of {len(selection)} selected rows cannot begin a batch"
        )
    offsets = None if columns.offsets is None else memoryview(columns.offsets).cast("B").cast("q")
    timestamps = (
        None if columns.timestamps is None else memoryview(columns.timestamps).cast("B").cast("q")
    )
    key, value = _reader(columns.key), _reader(columns.value)
    headers = _HeaderReader(columns.headers) if columns.headers is not None else None
    stop = min(len(selection), start + options.max_records)
    for at in range(start, stop):
        row = selection[at]
        if not 0 <= row < columns.rows:
            raise KernelError(
                _ARGUMENT, f"row {row} is not among the {columns.rows} rows", record=at
            )
        try:
            yield _Row(
                at,
                options.base_offset + at - start if offsets is None else offsets[row],
                options.timestamp_ms if timestamps is None else timestamps[row],
                None if key is None else key[row],
                None if value is None else value[row],
                [] if headers is None else headers[row],
            )
        except IndexError as error:
            raise KernelError(_ARGUMENT, f"a column has no row {row}", record=at) from error


def _reader(column: VarColumn | None) -> VarReader | None:
    return None if column is None else VarReader(column)


class _HeaderReader:
    def __init__(self, column: HeadersColumn) -> None:
        self._offsets = memoryview(column.offsets).cast("B").cast("i")
        self._keys, self._values = VarReader(column.keys), VarReader(column.values)

    def __getitem__(self, row: int) -> list[tuple[memoryview, memoryview | None]]:
        found = []
        for at in range(self._offsets[row], self._offsets[row + 1]):
            key = self._keys[at]
            if key is None:
                raise KernelError(_ARGUMENT, "a header's key is null", record=row)
            found.append((key, self._values[at]))
        return found


def _encode_magic2(rows: Iterator[_Row], options: EncodeOptions) -> Encoded:
    body = bytearray()
    first: _Row | None = None
    last = first
    max_timestamp = -(2**63)
    limit = min(options.max_bytes, MAX_COLUMN_BYTES)
    count = 0
    for row in rows:
        if first is None or last is None:
            first = last = row
        elif row.offset <= last.offset:
            raise KernelError(
                _ARGUMENT, f"offset {row.offset} follows {last.offset}", record=row.at
            )
        elif row.offset - first.offset > 0x7FFFFFFF:
            break  # the delta is an int32: the next batch begins here
        record = _record(row, row.offset - first.offset, row.timestamp_ms - first.timestamp_ms)
        size = HEADER_BYTES + len(body) + len(record)
        if size > (limit if count else MAX_COLUMN_BYTES):
            if not count:
                raise KernelError(
                    KernelErrorKind.TOO_LARGE, "a record fits no batch", record=row.at
                )
            break
        body += record
        last = row
        count += 1
        max_timestamp = max(max_timestamp, row.timestamp_ms)
    if first is None or last is None:
        raise KernelError(_ARGUMENT, "a batch needs at least one record")
    attributes = options.codec | (_TRANSACTIONAL if options.transactional else 0)
    if options.log_append_time_ms is not None:
        attributes |= _LOG_APPEND_TIME
        max_timestamp = options.log_append_time_ms
    packed = compress(options.codec, body, options.level, 2)
    batch = bytearray(HEADER_BYTES + len(packed))
    batch[HEADER_BYTES:] = packed
    HEADER.pack_into(
        batch, 0, first.offset, len(batch) - 12, options.leader_epoch, 2, 0, attributes,
        last.offset - first.offset, first.timestamp_ms, max_timestamp,
        options.producer_id, options.producer_epoch, options.base_sequence, count,
    )  # fmt: skip
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[CRC_START:]))
    return Encoded(batch, last.at + 1, max_timestamp)


def _record(row: _Row, offset_delta: int, timestamp_delta: int) -> bytes:
    body = bytearray(1)  # attributes: no bit has a meaning yet
    body += _varint(_wrap64(timestamp_delta))
    body += _varint(offset_delta)
    _write_field(body, row.key)
    _write_field(body, row.value)
    body += _varint(len(row.headers))
    for key, value in row.headers:
        _write_field(body, key)
        _write_field(body, value)
    return _varint(len(body)) + body


def _write_field(body: bytearray, value: Buffer | None) -> None:
    if value is None:
        body += b"\x01"
    else:
        body += _varint(len(value))
        body += value


def _varint(value: int) -> bytes:
    """Return the zigzag varint of a 32- or 64-bit number."""
    folded = value << 1 if value >= 0 else (~value << 1) | 1
    if folded < 0x80:
        return bytes((folded,))
    out = bytearray()
    while folded >= 0x80:
        out.append(folded & 0x7F | 0x80)
        folded >>= 7
    out.append(folded)
    return bytes(out)


def _wrap64(value: int) -> int:
    value &= 2**64 - 1
    return value - 2**64 if value >> 63 else value


def _encode_legacy(rows: Iterator[_Row], options: EncodeOptions) -> Encoded:
    body = bytearray()
    first: _Row | None = None
    last = first
    max_timestamp = -(2**63)
    limit = min(options.max_bytes, MAX_COLUMN_BYTES)
    relative = options.magic == 1 and options.codec != Codec.NONE  # KIP-31
    for row in rows:
        if row.headers:
            raise KernelError(_ARGUMENT, "headers need magic 2 (Kafka 0.11)", record=row.at)
        if last is not None and row.offset <= last.offset:
            raise KernelError(
                _ARGUMENT, f"offset {row.offset} follows {last.offset}", record=row.at
            )
        timestamp = (
            row.timestamp_ms if options.log_append_time_ms is None else options.log_append_time_ms
        )
        start = row if first is None else first
        offset = row.offset - start.offset if relative else row.offset
        message = _message(offset, options, 0, timestamp, row.key, row.value)
        if len(body) + len(message) > (limit if last is not None else MAX_COLUMN_BYTES):
            if last is None:
                raise KernelError(
                    KernelErrorKind.TOO_LARGE, "a record fits no message set", record=row.at
                )
            break
        body += message
        first, last = start, row
        max_timestamp = max(max_timestamp, timestamp)
    if last is None:
        raise KernelError(_ARGUMENT, "a message set needs at least one record")
    if options.codec == Codec.NONE:
        return Encoded(body, last.at + 1, max_timestamp)
    packed = compress(options.codec, body, options.level, options.magic)
    wrapper = _message(last.offset, options, options.codec, max_timestamp, None, packed)
    return Encoded(wrapper, last.at + 1, max_timestamp)


def _message(
    offset: int,
    options: EncodeOptions,
    codec: int,
    timestamp_ms: int,
    key: Buffer | None,
    value: Buffer | None,
) -> bytearray:
    timestamp = b""
    if options.magic == 1:
        timestamp = struct.pack(">q", timestamp_ms)
        if options.log_append_time_ms is not None:
            codec |= _LOG_APPEND_TIME
    message = bytearray(_MESSAGE_HEAD.size) + timestamp
    for field in (key, value):
        message += _NULL_FIELD if field is None else _INT32.pack(len(field))
        if field is not None:
            message += field
    _MESSAGE_HEAD.pack_into(message, 0, offset, len(message) - 12, 0, options.magic, codec)
    struct.pack_into(">I", message, 12, crc32(memoryview(message)[16:]))
    return message
