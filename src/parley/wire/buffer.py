"""A growing write buffer: the mirror of `Cursor`.

Small values are copied into one growing block. Large payloads (record batches) are kept by
reference, so that a Produce request or a Fetch response is never copied on its way to the socket.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error as StructError

from parley.errors import LocalProtocolError
from parley.wire import primitives
from parley.wire.primitives import (
    MAX_STRING_BYTES,
    encode_unsigned_varint,
    encode_varint,
    encode_varlong,
)

RawData = bytes | bytearray | memoryview

REFERENCE_FROM_BYTES = 1024
"""Payloads this large are kept by reference; below, a copy is cheaper than a segment."""


class WriteBuffer:
    """Collects the bytes of one message.

    `segments()` gives them as a list in which large payloads are the caller's own objects: they
    must not change until the message is on its way. Values that do not fit raise
    LocalProtocolError.
    """

    __slots__ = ("_done", "_done_bytes", "tail")

    def __init__(self) -> None:
        self._done: list[bytes | bytearray | memoryview] = []
        self._done_bytes = 0
        self.tail = bytearray()
        """The block that small values are appended to; compiled encoders append to it directly."""

    def __len__(self) -> int:
        return self._done_bytes + len(self.tail)

    def segments(self) -> list[bytes | memoryview]:
        """Return what was written, in order, large payloads by reference; the buffer stays."""
        parts = [*self._done, self.tail] if self.tail else self._done
        return [bytes(part) if isinstance(part, bytearray) else part for part in parts]

    def getvalue(self) -> bytes:
        """Return what was written as one bytes object."""
        return b"".join([*self._done, self.tail])

    def _pack(self, layout: Struct, value: float) -> None:
        try:
            self.tail += layout.pack(value)
        except StructError as error:
            raise LocalProtocolError(
                f"{value!r} cannot be written as {layout.format}: {error}"
            ) from error

    def write_int8(self, value: int) -> None:
        """Write a signed 8-bit integer."""
        self._pack(primitives.INT8, value)

    def write_int16(self, value: int) -> None:
        """Write a signed 16-bit integer."""
        self._pack(primitives.INT16, value)

    def write_int32(self, value: int) -> None:
        """Write a signed 32-bit integer."""
        self._pack(primitives.INT32, value)

    def write_int64(self, value: int) -> None:
        """Write a signed 64-bit integer."""
        self._pack(primitives.INT64, value)

    def write_uint16(self, value: int) -> None:
        """Write an unsigned 16-bit integer."""
        self._pack(primitives.UINT16, value)

    def write_uint32(self, value: int) -> None:
        """Write an unsigned 32-bit integer."""
        self._pack(primitives.UINT32, value)

    def write_float64(self, value: float) -> None:
        """Write an IEEE 754 number of 64 bits."""
        self._pack(primitives.FLOAT64, value)

    def write_bool(self, value: bool) -> None:
        """Write a byte, 1 for true and 0 for false."""
        self.tail.append(1 if value else 0)

    def write_uuid(self, value: bytes) -> None:
        """Write the 16 bytes of a UUID."""
        if len(value) != 16:
            raise LocalProtocolError(f"a UUID has 16 bytes, not {len(value)}")
        self.tail += value

    def write_unsigned_varint(self, value: int) -> None:
        """Write an unsigned varint."""
        self.tail += encode_unsigned_varint(value)

    def write_varint(self, value: int) -> None:
        """Write a zigzag varint of 32 bits."""
        self.tail += encode_varint(value)

    def write_varlong(self, value: int) -> None:
        """Write a zigzag varint of 64 bits."""
        self.tail += encode_varlong(value)

    def write_raw(self, data: RawData) -> None:
        """Write bytes without a length, by reference when they are many."""
        size = len(data) if isinstance(data, bytes | bytearray) else data.nbytes
        if size < REFERENCE_FROM_BYTES or isinstance(data, bytearray):
            self.tail += data
            return
        if self.tail:
            self._done_bytes += len(self.tail)
            self._done.append(self.tail)
            self.tail = bytearray()
        self._done.append(data)
        self._done_bytes += size

    # Strings and bytes: a length of −1 (compact: 0) is null.

    def write_nullable_string(self, text: str | None) -> None:
        """Write a string with an int16 length, or null."""
        if text is None:
            self.tail += b"\xff\xff"
        else:
            self.write_string(text)

    def write_string(self, text: str) -> None:
        """Write a string with an int16 length."""
        data = _encode_text(text)
        self.tail += primitives.INT16.pack(len(data))
        self.tail += data

    def write_compact_nullable_string(self, text: str | None) -> None:
        """Write a string with a varint length, or null."""
        if text is None:
            self.tail.append(0)
        else:
            self.write_compact_string(text)

    def write_compact_string(self, text: str) -> None:
        """Write a string with a varint length."""
        data = _encode_text(text)
        self.tail += encode_unsigned_varint(len(data) + 1)
        self.tail += data

    def write_nullable_bytes(self, data: RawData | Sequence[RawData] | None) -> None:
        """Write bytes with an int32 length, or null. A list of pieces is written as one."""
        if data is None:
            self.tail += b"\xff\xff\xff\xff"
        else:
            self.write_bytes(data)

    def write_bytes(self, data: RawData | Sequence[RawData]) -> None:
        """Write bytes with an int32 length. A list of pieces is written as one."""
        pieces, size = _pieces(data)
        self.write_int32(size)
        for piece in pieces:
            self.write_raw(piece)

    def write_compact_nullable_bytes(self, data: RawData | Sequence[RawData] | None) -> None:
        """Write bytes with a varint length, or null. A list of pieces is written as one."""
        if data is None:
            self.tail.append(0)
        else:
            self.write_compact_bytes(data)

    def write_compact_bytes(self, data: RawData | Sequence[RawData]) -> None:
        """Write bytes with a varint length. A list of pieces is written as one."""
        pieces, size = _pieces(data)
        self.tail += encode_unsigned_varint(size + 1)
        for piece in pieces:
            self.write_raw(piece)

    def write_array_count(self, count: int) -> None:
        """Write an int32 count of an array; −1 is null."""
        self._pack(primitives.INT32, count)

    def write_compact_array_count(self, count: int) -> None:
        """Write a varint count of an array; −1 is null."""
        self.tail += encode_unsigned_varint(count + 1)

    def write_tagged_fields(self, fields: dict[int, bytes]) -> None:
        """Write a section of tagged fields, in ascending order of their tags (KIP-482)."""
        self.tail += encode_unsigned_varint(len(fields))
        for tag in sorted(fields):
            data = fields[tag]
            self.tail += encode_unsigned_varint(tag)
            self.tail += encode_unsigned_varint(len(data))
            self.write_raw(data)

    # Length fields that are known only after what they measure.

    def reserve_int32(self) -> tuple[bytearray, int]:
        """Leave room for an int32 and return the mark that `patch_int32` takes."""
        mark = (self.tail, len(self.tail))
        self.tail += bytes(4)
        return mark

    def patch_int32(self, mark: tuple[bytearray, int], value: int) -> None:
        """Fill the room that `reserve_int32` left."""
        block, offset = mark
        primitives.INT32.pack_into(block, offset, value)


def _encode_text(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"{text!r} has no UTF-8 form: {error.reason}") from error
    if len(data) > MAX_STRING_BYTES:
        raise LocalProtocolError(
            f"a string of {len(data)} bytes: Kafka's strings have at most {MAX_STRING_BYTES}"
        )
    return data


def _pieces(data: RawData | Sequence[RawData]) -> tuple[Sequence[RawData], int]:
    pieces: Sequence[RawData]
    if isinstance(data, bytes | bytearray | memoryview):
        pieces = (data,)
    else:
        pieces = data
    size = sum(piece.nbytes if isinstance(piece, memoryview) else len(piece) for piece in pieces)
    if size > 0x7FFFFFFE:
        raise LocalProtocolError(f"{size} bytes in one field: Kafka's limit is 2 GiB")
    return pieces, size
