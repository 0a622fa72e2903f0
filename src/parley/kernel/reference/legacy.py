"""Decoding of magic-0 and magic-1 messages (Kafka before 0.11).

Message, big-endian:

    at  bytes  field
     0      8  offset
     8      4  message size: bytes after this field
    12      4  CRC-32 of everything after this field
    16      1  magic
    17      1  attributes: 0-2 codec, 3 LogAppendTime (magic 1 only)
    18      8  timestamp (magic 1 only)
               int32 key length and key, int32 value length and value; -1 is null

A compressed message's value is a message set. Inner offsets are absolute for magic 0; for magic 1
(KIP-31) they are relative and the wrapper carries the last one, absolute. Its timestamp is the last
one's or, with LogAppendTime, that of all (KIP-32).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from parley.kernel.contract import (
    Buffer,
    DecodeOptions,
    KernelError,
    KernelErrorKind,
    LegacyRun,
    TimestampType,
    batch_limit,
)
from parley.kernel.reference.columns import ColumnsBuilder
from parley.kernel.reference.compress import decompress
from parley.kernel.reference.crc import crc32

_HEAD = struct.Struct(">qiIbb")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
LOG_OVERHEAD = 12  # offset and size, in front of every message
MIN_MESSAGE_BYTES = (14, 22)  # by magic: everything but key and value
MAGIC_AT = 16
_TIMESTAMP_AT = 18
_APPEND_TIME = 8  # of the attributes

_MALFORMED = KernelErrorKind.MALFORMED


class _Message(NamedTuple):
    offset: int
    magic: int
    codec: int
    append_time: bool
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    next: int


def scan_legacy(data: Buffer, start: int, max_entries: int) -> LegacyRun | None:
    """Return the span that begins at `start`, or None where no whole magic-0/1 message stands."""
    view = memoryview(data).cast("B")
    pos, entries, run_magic, run_codec, run_type = start, 0, 0, 0, 0
    first = last = 0
    max_timestamp = -1
    while entries < max_entries and len(view) - pos >= LOG_OVERHEAD + MIN_MESSAGE_BYTES[0]:
        offset, size, _crc, magic, attributes = _HEAD.unpack_from(view, pos)
        if (
            magic not in (0, 1)
            or size < MIN_MESSAGE_BYTES[magic]
            or size > len(view) - pos - LOG_OVERHEAD
        ):
            break
        codec = attributes & 7
        kind = -1 if magic == 0 else attributes >> 3 & 1
        if entries and (codec or magic != run_magic or kind != run_type):
            break
        if not entries:
            first, run_magic, run_codec, run_type = offset, magic, codec, kind
        last = offset
        entries += 1
        if magic == 1:
            max_timestamp = max(max_timestamp, _INT64.unpack_from(view, pos + 18)[0])
        pos += LOG_OVERHEAD + size
        if codec:
            break
    if not entries:
        return None
    return LegacyRun(pos, run_magic, run_codec, entries, first, last, max_timestamp, run_type)


def decode_legacy(
    data: memoryview,
    span: tuple[int, int],
    options: DecodeOptions,
    builder: ColumnsBuilder,
    room: int,
) -> int | None:
    """Add the records of one span to the builder; return how many bytes of messages were read.

    Returns None, with nothing added, where these are more than `room`.
    """
    plain = bytes(data[span[0] : span[1]])
    if len(plain) > room:
        return None
    messages = _messages(plain, check_crc=options.check_crc)
    first = next(messages, None)
    if first is None:
        raise KernelError(_MALFORMED, "an empty span")
    if first.codec:
        if first.next != len(plain):
            raise KernelError(_MALFORMED, "a compressed message must be a span of its own")
        return _decode_wrapper(first, options, builder, room)
    index = 0
    message: _Message | None = first
    while message is not None:
        if message.codec:
            raise KernelError(
                _MALFORMED, "a compressed message must be a span of its own", record=index
            )
        _append(builder, message, message.offset, message)
        index += 1
        message = next(messages, None)
    return len(plain)


def _decode_wrapper(
    wrapper: _Message, options: DecodeOptions, builder: ColumnsBuilder, room: int
) -> int | None:
    plain = _decompress_wrapper(wrapper, options)
    inner: list[_Message] = []
    count, base = _look_through(plain, wrapper, options, keep=inner)
    if count > options.max_span_rows:
        raise KernelError(KernelErrorKind.TOO_MANY, f"a set of {count} messages")
    if len(plain) > room:
        return None
    for index, message in enumerate(inner):
        _append(builder, message, _absolute(base, message, index), wrapper)
    return len(plain)


def _decompress_wrapper(wrapper: _Message, options: DecodeOptions) -> bytes:
    if wrapper.value is None:
        raise KernelError(_MALFORMED, "a compressed message has no value", record=0)
    if wrapper.codec > 3:  # zstd came with magic 2 (KIP-110)
        raise KernelError(
            KernelErrorKind.CODEC, f"codec {wrapper.codec} does not exist in magic {wrapper.magic}"
        )
    limit = batch_limit(len(wrapper.value), options.max_batch_bytes)
    return bytes(decompress(wrapper.codec, wrapper.value, limit, wrapper.magic))


def _look_through(
    plain: bytes, wrapper: _Message, options: DecodeOptions, keep: list[_Message]
) -> tuple[int, int]:
    """Check all messages of a set; return their count and what is to be added to their offsets.

    Those that a decode may return are kept: a set may hold millions.
    """
    count = last = 0
    for message in _messages(plain, check_crc=options.check_crc):
        if message.codec:
            raise KernelError(
                KernelErrorKind.NESTED, "a compressed set inside a compressed set", record=count
            )
        if count < options.max_span_rows:
            keep.append(message)
        last = message.offset
        count += 1
    if not count:
        raise KernelError(KernelErrorKind.COUNT, "a compressed set without messages")
    base = 0
    if wrapper.magic == 1 and wrapper.offset != 0:
        # 0 is what some releases of librdkafka produce
        # for any number of messages; Java reads it so.
        base = wrapper.offset - last
        if base < 0:
            raise KernelError(
                _MALFORMED, f"the set ends at {last}, behind its wrapper {wrapper.offset}"
            )
    return count, base


def _absolute(base: int, message: _Message, index: int) -> int:
    offset = base + message.offset
    if not -(2**63) <= offset < 2**63:
        raise KernelError(_MALFORMED, "an offset does not fit 64 bits", record=index)
    return offset


def cut_legacy(
    data: memoryview, start: int, end: int, options: DecodeOptions, most: int
) -> tuple[bytes, bytes]:
    """Return the messages of a compressed one as runs of at most `most` that stand for
    themselves, and their table.
    """
    span = bytes(data[start:end])
    # a span is never empty: it has a magic
    wrapper = next(_messages(span, check_crc=options.check_crc))
    if not wrapper.codec or wrapper.next != len(span):
        raise KernelError(KernelErrorKind.ARGUMENT, "only a compressed message can be cut")
    plain = _decompress_wrapper(wrapper, options)
    _, base = _look_through(plain, wrapper, replace(options, max_span_rows=0), keep=[])
    out, table = bytearray(plain), array("q")
    begin = at = 0
    passed = -(2**63)
    for index, message in enumerate(_messages(plain, check_crc=False)):
        offset = _absolute(base, message, index)
        if index and index % most == 0:
            table.extend((begin, at, passed, -1))
            begin = at
        _stand_alone(out, at, message, offset, wrapper)
        passed = max(passed, min(offset + 1, 2**63 - 1))
        at = message.next
    table.extend((begin, at, passed, -1))
    return bytes(out), table.tobytes()


def _stand_alone(
    out: bytearray, at: int, message: _Message, offset: int, wrapper: _Message
) -> None:
    """Give an inner message its offset, and the wrapper's time where that holds for all."""
    _INT64.pack_into(out, at, offset)
    if message.magic == 1:
        out[at + MAGIC_AT + 1] &= ~_APPEND_TIME & 0xFF
        if wrapper.append_time:
            out[at + MAGIC_AT + 1] |= _APPEND_TIME
            _INT64.pack_into(out, at + _TIMESTAMP_AT, wrapper.timestamp_ms)


def _append(builder: ColumnsBuilder, message: _Message, offset: int, outer: _Message) -> None:
    # LogAppendTime is set on the wrapper only; its timestamp is then that of all inner messages.
    if not builder.takes(offset):
        return
    kind, timestamp = TimestampType.CREATE_TIME, message.timestamp_ms
    if message.magic == 0:
        kind = TimestampType.NONE
    elif outer.magic == 1 and outer.append_time:
        kind, timestamp = TimestampType.LOG_APPEND_TIME, outer.timestamp_ms
    builder.append(offset, timestamp, kind, message.key, message.value, None)


def _messages(plain: bytes, *, check_crc: bool) -> Iterator[_Message]:
    pos = index = 0
    while pos < len(plain):
        try:
            message = _message(plain, pos, check_crc)
        except KernelError as error:
            error.record = index
            raise
        yield message
        pos = message.next
        index += 1


def _message(plain: bytes, pos: int, check_crc: bool) -> _Message:
    room = len(plain) - pos
    if room < LOG_OVERHEAD + MIN_MESSAGE_BYTES[0]:
        raise KernelError(_MALFORMED, f"a message is cut off: {room} bytes are left")
    offset, size, crc, magic, attributes = _HEAD.unpack_from(plain, pos)
    if magic not in (0, 1):
        raise KernelError(KernelErrorKind.MAGIC, f"magic {magic} in a set of magic 0 and 1")
    if size < MIN_MESSAGE_BYTES[magic] or size > room - LOG_OVERHEAD:
        raise KernelError(_MALFORMED, f"a message of {size} bytes does not fit")
    end = pos + LOG_OVERHEAD + size
    if check_crc and crc32(plain[pos + MAGIC_AT : end]) != crc:
        raise KernelError(KernelErrorKind.CRC, f"the message's CRC-32 is not {crc:#010x}")
    timestamp = _INT64.unpack_from(plain, pos + 18)[0] if magic == 1 else -1
    at = pos + (26 if magic == 1 else 18)
    key, at = _field(plain, at, end)
    value, at = _field(plain, at, end)
    if at != end:
        raise KernelError(_MALFORMED, f"{end - at} bytes of a message are left over")
    append_time = magic == 1 and bool(attributes & 8)
    return _Message(offset, magic, attributes & 7, append_time, timestamp, key, value, end)


def _field(plain: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    if end - at < 4:
        raise KernelError(_MALFORMED, "a length is cut off")
    length = _INT32.unpack_from(plain, at)[0]
    at += 4
    if length == -1:
        return None, at
    if length < 0 or length > end - at:
        raise KernelError(_MALFORMED, f"a field of {length} bytes does not fit its message")
    return plain[at : at + length], at + length
