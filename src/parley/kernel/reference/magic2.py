"""Decoding of magic-2 batches (Kafka 0.11 and later, KIP-98).

Batch header, 61 bytes, big-endian:

    at  bytes  field
     0      8  base offset
     8      4  batch length: bytes after this field
    12      4  partition leader epoch
    16      1  magic (2)
    17      4  CRC-32C of everything after this field
    21      2  attributes: 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control, 6 delete horizon
    23      4  last offset delta
    27      8  base timestamp (the delete horizon where bit 6 is set, KIP-534)
    35      8  max timestamp
    43      8  producer id
    51      2  producer epoch
    53      4  base sequence
    57      4  record count
    61         records, compressed together where a codec is set

Record: varint length, int8 attributes (unused), varlong timestamp delta, varint offset delta,
varint key length and key, varint value length and value, varint header count, per header
varint key length and key, varint value length and value. Varints are zigzag; -1 is null.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from typing import TypeAlias

from parley.kernel.contract import (
    MAX_CONTROL_RECORDS,
    MAX_SPAN_HEADERS,
    Buffer,
    DecodeOptions,
    KernelError,
    KernelErrorKind,
    batch_limit,
)
from parley.kernel.reference.columns import INT64_MAX, INT64_MIN, ColumnsBuilder
from parley.kernel.reference.compress import decompress
from parley.kernel.reference.crc import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = 61
CRC_START = 21  # the checksum covers everything from the attributes on
MIN_RECORD_BYTES = 7  # seven fields of at least one byte each
INT64_MASK = 2**64 - 1
_CONTROL_KEY = struct.Struct(">hh")  # version and type

_MALFORMED = KernelErrorKind.MALFORMED

_Headers: TypeAlias = list[tuple[bytes, Buffer | None]]
_Record: TypeAlias = tuple[int, int, bytes | None, bytes | None, _Headers]
"""Offset, timestamp delta, key, value, headers."""


class _Records:
    """Reads records out of one batch's decompressed bytes; every read is bounded by `end`."""

    __slots__ = ("data", "end", "pos")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pos = 0
        self.end = len(data)

    def varint(self, max_bytes: int = 5) -> int:
        # 5 bytes hold 32 bits and 10 hold 64: the last byte has 4 bits or 1 bit left.
        data, pos = self.data, self.pos
        if pos < self.end and (byte := data[pos]) < 0x80:  # as nearly always
            self.pos = pos + 1
            return (byte >> 1) ^ -(byte & 1)
        value = shift = 0
        while True:
            if pos >= self.end:
                raise KernelError(_MALFORMED, "a varint is cut off")
            byte = data[pos]
            pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift == 7 * max_bytes:
                raise KernelError(_MALFORMED, f"a varint has more than {max_bytes} bytes")
        if value >> (32 if max_bytes == 5 else 64):
            raise KernelError(_MALFORMED, "a varint does not fit its type")
        self.pos = pos
        return (value >> 1) ^ -(value & 1)

    def nullable(self) -> bytes | None:
        length = self.varint()
        if length == -1:
            return None
        start = self.pos
        end = start + length
        if length < 0 or end > self.end:
            raise KernelError(_MALFORMED, f"a field of {length} bytes does not fit its record")
        self.pos = end
        return self.data[start:end]

    def headers(self) -> _Headers:
        count = self.varint()
        if not count:
            return []
        if count < 0 or count > (self.end - self.pos) // 2:
            raise KernelError(_MALFORMED, f"{count} headers do not fit their record")
        if count > MAX_SPAN_HEADERS:
            raise KernelError(KernelErrorKind.TOO_LARGE, f"a record has {count} headers")
        found: _Headers = []
        for _ in range(count):
            name = self.nullable()
            if name is None:
                raise KernelError(_MALFORMED, "a header has no key")
            found.append((name, self.nullable()))
        return found


def decompress_batch(
    data: memoryview, start: int, end: int, options: DecodeOptions
) -> tuple[bytes, int]:
    """Check the header of one batch; return its decompressed records and their count."""
    if end - start < HEADER_BYTES:
        raise KernelError(_MALFORMED, f"a batch of {end - start} bytes is shorter than its header")
    header = HEADER.unpack_from(data, start)
    length, crc, attributes, count = header[1], header[4], header[5], header[12]
    if length + 12 != end - start:
        raise KernelError(
            _MALFORMED, f"the batch length says {length + 12} bytes, the span has {end - start}"
        )
    if options.check_crc and crc32c(data[start + CRC_START : end]) != crc:
        raise KernelError(KernelErrorKind.CRC, f"the batch's CRC-32C is not {crc:#010x}")
    if count < 0:
        raise KernelError(KernelErrorKind.COUNT, f"a batch of {count} records cannot be")
    if count > options.max_span_rows:
        raise KernelError(KernelErrorKind.TOO_MANY, f"a batch of {count} records")
    if count == 0:  # compaction leaves such batches for their producer's sequence
        return b"", 0
    packed = data[start + HEADER_BYTES : end]
    plain = bytes(
        decompress(attributes & 7, packed, batch_limit(len(packed), options.max_batch_bytes), 2)
    )
    if count > len(plain) // MIN_RECORD_BYTES:
        raise KernelError(KernelErrorKind.COUNT, f"{count} records do not fit {len(plain)} bytes")
    return plain, count


def decode_batch(
    data: memoryview, start: int, plain: bytes, count: int, builder: ColumnsBuilder
) -> None:
    """Add the records of one batch (already decompressed) to the builder."""
    header = HEADER.unpack_from(data, start)
    attributes, base_timestamp, max_timestamp = header[5], header[7], header[8]
    append_time = attributes >> 3 & 1
    for index, (offset, delta, key, value, headers) in enumerate(
        _iterate(_Records(plain), header[0], count)
    ):
        if builder.takes(offset):
            timestamp = max_timestamp if append_time else _wrap64(base_timestamp + delta)
            try:
                builder.append(offset, timestamp, append_time, key, value, headers)
            except KernelError as error:
                error.record = index
                raise


def control_type(data: memoryview, start: int, end: int) -> int | None:
    """Return the type in a control batch's first record; None if damaged or empty."""
    try:
        plain, count = decompress_batch(
            data, start, end, DecodeOptions(max_span_rows=MAX_CONTROL_RECORDS)
        )
        keys = [
            key
            for _, _, key, _, _ in _iterate(
                _Records(plain), HEADER.unpack_from(data, start)[0], count
            )
        ]
    except KernelError:
        return None
    if not keys or keys[0] is None or len(keys[0]) < _CONTROL_KEY.size:
        return None
    kind: int = _CONTROL_KEY.unpack_from(keys[0])[1]
    return kind


def cut_magic2(
    data: memoryview, start: int, end: int, options: DecodeOptions, most: int
) -> tuple[bytes, bytes]:
    """Return a batch's records as uncompressed batches of up to `most`, and their table."""
    plain, count = decompress_batch(data, start, end, options)
    header = list(HEADER.unpack_from(data, start))
    out, table = bytearray(), array("q")
    begin = stop = records = held = 0
    passed = -(2**63)

    def close() -> None:
        header[1], header[5], header[12] = HEADER_BYTES - 12 + stop - begin, header[5] & ~7, records
        at = len(out)
        out.extend(HEADER.pack(*header))
        out.extend(plain[begin:stop])
        table.extend((at, len(out), passed, -1))

    reader = _Records(plain)
    for offset, _, _, _, headers in _iterate(reader, header[0], count):
        if records == most or held + len(headers) > MAX_SPAN_HEADERS:
            close()
            begin, records, held = stop, 0, 0
        passed = max(passed, min(offset + 1, 2**63 - 1))
        stop, records, held = reader.pos, records + 1, held + len(headers)
    close()
    return bytes(out), table.tobytes()


def _iterate(records: _Records, base_offset: int, count: int) -> Iterator[_Record]:
    """Yield the records of one batch; what is wrong with one is raised in its place."""
    size = len(records.data)
    for index in range(count):
        try:
            records.end = size
            length = records.varint()
            if length < 0 or length > records.end - records.pos:
                raise KernelError(_MALFORMED, f"a record of {length} bytes does not fit its batch")
            records.end = records.pos + length
            if length == 0:
                raise KernelError(_MALFORMED, "a record is empty")
            records.pos += 1  # attributes: no bit has a meaning yet
            timestamp_delta = records.varint(10)
            offset = base_offset + records.varint()
            key, value, headers = records.nullable(), records.nullable(), records.headers()
            if records.pos != records.end:
                raise KernelError(
                    _MALFORMED, f"{records.end - records.pos} bytes of a record are left over"
                )
            if not INT64_MIN <= offset <= INT64_MAX:
                raise KernelError(_MALFORMED, "an offset does not fit 64 bits")
        except KernelError as error:
            error.record = index
            raise
        yield offset, timestamp_delta, key, value, headers
    if records.pos != size:
        raise KernelError(
            KernelErrorKind.COUNT, f"{size - records.pos} bytes are left over after {count} records"
        )


def _wrap64(value: int) -> int:
    # Java adds longs, so a hostile delta wraps; so does this.
    value &= INT64_MASK
    return value - 2**64 if value >> 63 else value
