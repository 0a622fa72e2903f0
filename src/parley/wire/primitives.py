"""Kafka's primitive types as struct formats and varint functions.

    type               bytes on the wire (all integers big-endian)
    bool               1: 0 is false, anything else true
    int8 … int64       1, 2, 4, 8, two's complement
    uint16, uint32     2, 4
    float64            8, IEEE 754
    uuid               16
    unsigned varint    1–5: seven bits per byte, lowest first, high bit = more follow
    varint, varlong    1–5, 1–10: zigzag, (n << 1) ^ (n >> 31 or 63), then as above
    string             int16 length, UTF-8; −1 is null
    compact string     unsigned varint length + 1, UTF-8; 0 is null      (KIP-482)
    bytes, records     int32 length; −1 is null
    compact bytes      unsigned varint length + 1; 0 is null
    array              int32 count; −1 is null
    compact array      unsigned varint count + 1; 0 is null
    tagged fields      unsigned varint count, then per field: tag, size, bytes; tags ascend

Apache Kafka never writes a varint longer than needed. parley refuses such ones: a value has one
encoding only, so what was decoded can be re-encoded to the same bytes.
"""

from __future__ import annotations

from struct import Struct

from parley.errors import LocalProtocolError, RemoteProtocolError

INT8 = Struct(">b")
INT16 = Struct(">h")
INT32 = Struct(">i")
INT64 = Struct(">q")
UINT16 = Struct(">H")
UINT32 = Struct(">I")
FLOAT64 = Struct(">d")

MAX_STRING_BYTES = 0x7FFF
"""The longest string, compact too: Kafka's generated code refuses longer ones."""

_SHORT_VARINTS = tuple(bytes([value]) for value in range(128))


def decode_unsigned_varint(data: bytes | memoryview, start: int) -> tuple[int, int]:
    """Return the unsigned varint that begins at `start`, and the position after it.

    Raises RemoteProtocolError when the bytes end too early, when the value does not fit 32 bits,
    and when it is written with more bytes than it needs.
    """
    value, position = _decode_groups(data, start, 5)
    if value > 0xFFFFFFFF:
        raise RemoteProtocolError(
            f"the varint at byte {start} does not fit 32 bits; the peer's bytes are damaged"
        )
    return value, position


def decode_unsigned_varlong(data: bytes | memoryview, start: int) -> tuple[int, int]:
    """Return the unsigned 64-bit varint that begins at `start`, and the position after it."""
    value, position = _decode_groups(data, start, 10)
    if value > 0xFFFFFFFFFFFFFFFF:
        raise RemoteProtocolError(
            f"the varint at byte {start} does not fit 64 bits; the peer's bytes are damaged"
        )
    return value, position


def _decode_groups(data: bytes | memoryview, start: int, longest: int) -> tuple[int, int]:
    value = 0
    for index in range(longest):
        try:
            group = data[start + index]
        except IndexError:
            raise RemoteProtocolError(
                f"the varint at byte {start} is cut off after {index} bytes; the message is "
                "truncated"
            ) from None
        value |= (group & 0x7F) << (7 * index)
        if group < 0x80:
            if group == 0 and index:
                raise RemoteProtocolError(
                    f"the varint at byte {start} is longer than its value needs"
                )
            return value, start + index + 1
    raise RemoteProtocolError(f"the varint at byte {start} is longer than {longest} bytes")


def encode_unsigned_varint(value: int) -> bytes:
    """Return the bytes of an unsigned varint. Raises LocalProtocolError outside 32 bits."""
    if 0 <= value < 128:
        return _SHORT_VARINTS[value]
    if not 0 <= value <= 0xFFFFFFFF:
        raise LocalProtocolError(f"{value} does not fit an unsigned varint of 32 bits")
    return _encode_groups(value)


def encode_varint(value: int) -> bytes:
    """Return the zigzag bytes of a signed 32-bit varint."""
    if not -0x80000000 <= value <= 0x7FFFFFFF:
        raise LocalProtocolError(f"{value} does not fit a varint of 32 bits")
    return _encode_groups((value << 1) ^ (value >> 31))


def encode_varlong(value: int) -> bytes:
    """Return the zigzag bytes of a signed 64-bit varint."""
    if not -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        raise LocalProtocolError(f"{value} does not fit a varint of 64 bits")
    return _encode_groups((value << 1) ^ (value >> 63))


def _encode_groups(value: int) -> bytes:
    groups = bytearray()
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def unzigzag(value: int) -> int:
    """Return the signed number that a zigzag value stands for.

    >>> [unzigzag(n) for n in (0, 1, 2, 3)]
    [0, -1, 1, -2]
    """
    return (value >> 1) ^ -(value & 1)
