"""Record sets as foreign producers write them, whole and malformed, byte by byte: no
encoder of parley has a part.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Sequence

GZIP, SNAPPY, LZ4 = 1, 2, 3
COMPRESSIONS = {"none": 0, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4}
LZ4_HEADER_CHECKSUM = {0: 0x1A, 1: 0x82}
"""Of the flags 0x60 0x40; before KIP-57 (magic 0) it wrongly covered the
frame's magic number too.
"""
SMALLEST, LARGEST = -(2**63), 2**63 - 1


def message(
    value: bytes | None,
    *,
    magic: int,
    offset: int,
    codec: int = 0,
    key: bytes | None = b"key",
    timestamp_ms: int = 1_700_000_000_000,
    attributes: int | None = None,
) -> bytes:
    """Return one entry of a message set of format 0 or 1."""
    body = struct.pack(">bb", magic, codec if attributes is None else attributes)
    if magic == 1:
        body += struct.pack(">q", timestamp_ms)
    for part in (key, value):
        body += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def compress(data: bytes, codec: int, magic: int) -> bytes:
    """Return data as the codec's container with one block, stored as it is but for gzip."""
    if codec == GZIP:
        return gzip.compress(data, mtime=0)
    if codec == SNAPPY:
        length, sizes = len(data), b""
        while length > 0x7F:
            sizes += bytes([length & 0x7F | 0x80])
            length >>= 7
        literal = b"\xf4" + struct.pack("<H", len(data) - 1) + data
        block = sizes + bytes([length]) + literal
        return b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block)) + block
    head = b"\x04\x22\x4d\x18\x60\x40" + bytes([LZ4_HEADER_CHECKSUM[magic]])
    return head + struct.pack("<I", len(data) | 0x80000000) + data + bytes(4)


def plain_set(magic: int, offsets: Sequence[int]) -> bytes:
    """Return uncompressed messages with these offsets."""
    return b"".join(
        message(b"value-%d" % number, magic=magic, offset=o) for number, o in enumerate(offsets)
    )


def wrapped_set(magic: int, codec: int, wrapper: int, offsets: Sequence[int]) -> bytes:
    """Return messages with these offsets in a compressed message with the offset `wrapper`."""
    return message(
        compress(plain_set(magic, offsets), codec, magic),
        magic=magic,
        offset=wrapper,
        codec=codec,
        key=None,
    )


def values_in(data: bytes) -> list[bytes | None]:
    """Return the values of all messages of a whole set made here, those in
    compressed messages too.
    """
    found: list[bytes | None] = []
    while data:
        end = 12 + struct.unpack_from(">i", data, 8)[0]
        magic, codec = data[16], data[17] & 7
        rest = data[26 if magic else 18 : end]
        for _ in ("key", "value"):
            (length,) = struct.unpack_from(">i", rest)
            part, rest = (
                (None, rest[4:]) if length < 0 else (rest[4 : 4 + length], rest[4 + length :])
            )
        if codec == 0:
            found.append(part)
        elif part is not None:
            found += values_in(expand(part, codec))
        data = data[end:]
    return found


def expand(data: bytes, codec: int) -> bytes:
    """Undo `compress`."""
    if codec == GZIP:
        return gzip.decompress(data)
    if codec == LZ4:
        return data[11:-4]
    literal = data.index(b"\xf4", 20)  # behind the container's head and the block's length
    return data[literal + 3 :]


SINGLE_OFFSETS = (-1, 0, 5, -2, SMALLEST, LARGEST)
SEVERAL_OFFSETS = ((-1, -1, -1), (0, 0, 0), (0, 1, 2), (5, 6, 7), (2, 1, 0), (-1, 0, 1), (0, -1, 7))
WRAPPERS = (-1, 0, 2, 7, -2, LARGEST)


def whole_sets(magic: int) -> dict[str, bytes]:
    """Return sets that differ in compression and offsets only, by what they are."""
    found = {f"none {o}": plain_set(magic, [o]) for o in SINGLE_OFFSETS}
    found |= {f"none {of}": plain_set(magic, of) for of in SEVERAL_OFFSETS}
    for name, codec in COMPRESSIONS.items():
        if codec:
            found |= {
                f"{name} {w} of 0 1 2": wrapped_set(magic, codec, w, (0, 1, 2)) for w in WRAPPERS
            }
            found |= {
                f"{name} 2 of {of}": wrapped_set(magic, codec, 2, of) for of in SEVERAL_OFFSETS
            }
            found[f"{name} -1 of -1s"] = wrapped_set(magic, codec, -1, (-1, -1, -1))
            found[f"{name} 0 of one -1"] = wrapped_set(magic, codec, 0, (-1,))
    found["gzip twice"] = wrapped_set(magic, GZIP, 2, (0, 1, 2)) + wrapped_set(
        magic, GZIP, 2, (0, 1, 2)
    )
    found["gzip, then none"] = wrapped_set(magic, GZIP, 2, (0, 1, 2)) + plain_set(magic, [-1])
    found["none, then gzip"] = plain_set(magic, [0]) + wrapped_set(magic, GZIP, 2, (0, 1, 2))
    found["no value"] = message(None, magic=magic, offset=-1)
    found["no key"] = message(b"v", magic=magic, offset=-1, key=None)
    return found


def odd_sets(magic: int) -> dict[str, bytes]:
    """Return sets that are cut off or malformed, by what they are."""
    good, behind = plain_set(magic, [0]), plain_set(magic, [-1])

    def size(wanted: int) -> bytes:
        return good[:8] + struct.pack(">i", wanted) + good[12:]

    least = 14 if magic == 0 else 22
    damaged = bytearray(good)
    damaged[-1] ^= 1
    return {
        "nothing": b"",
        "cut in the value": good[:-3],
        "cut in the head": good[:10],
        "whole, then cut": good + good[:-3],
        "offset -1, whole, then cut": behind + behind[:-3],
        "whole, then cut in the head": good + good[:10],
        "whole, then zeros": good + bytes(40),
        "size 0": size(0),
        "size -1": size(-1),
        "size too small by one": size(least - 1),
        "offset -1, size 0": behind[:8] + bytes(4) + behind[12:],
        "whole, then size 0": good + size(0),
        "whole, then size -1": good + size(-1),
        "whole, then size of a head less one": good + size(least - 1),
        "size far too large": size(2**31 - 1),
        "damaged": bytes(damaged),
        "whole, then damaged": good + bytes(damaged),
        "magic 3": good[:16] + b"\x03" + good[17:],
        "magic -1": good[:16] + b"\xff" + good[17:],
        "whole, then magic 3": good + good[:16] + b"\x03" + good[17:],
        "the other format": plain_set(1 - magic, [0]),
        "both formats": good + plain_set(1 - magic, [0]),
        **odd_wrappers(magic),
        "codec 4": message(b"zstd", magic=magic, offset=0, codec=4, key=None),
        "codec 7": message(b"none", magic=magic, offset=0, codec=7, key=None),
        "attributes 0x40": message(b"v", magic=magic, offset=0, attributes=0x40),
    }


def odd_wrappers(magic: int) -> dict[str, bytes]:
    """Return messages that say they wrap a compressed set, and do not, by what they are."""
    inner = plain_set(magic, (0, 1, 2))
    damaged = bytearray(inner)
    damaged[-1] ^= 1

    def gzip(value: bytes | None, offset: int) -> bytes:
        return message(value, magic=magic, offset=offset, codec=GZIP, key=None)

    return {
        "gzip of nothing": gzip(compress(b"", GZIP, magic), 0),
        "gzip without a value": gzip(None, 0),
        "gzip that is none": gzip(b"no gzip at all", 0),
        "gzip of damaged": gzip(compress(bytes(damaged), GZIP, magic), 2),
        "gzip of cut off": gzip(compress(inner[:-3], GZIP, magic), 2),
        "gzip in gzip": gzip(compress(wrapped_set(magic, GZIP, 0, (0,)), GZIP, magic), 0),
    }


# -- format 2 --------------------------------------------------------------------------------------


def crc32c(data: bytes) -> int:
    """Return the CRC-32C (Castagnoli), bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def varint(number: int) -> bytes:
    """Return a number as a zigzag varint."""
    left, out = (number << 1) ^ (number >> 63), b""
    while left > 0x7F:
        out += bytes([left & 0x7F | 0x80])
        left >>= 7
    return out + bytes([left])


def record(value: bytes, offset_delta: int, key: bytes | None = b"key") -> bytes:
    """Return one record of format 2 without headers."""
    keyed = varint(-1) if key is None else varint(len(key)) + key
    body = b"\0" + varint(0) + varint(offset_delta) + keyed + varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def batch(deltas: Sequence[int] = (0,), **of: int) -> bytes:
    """Return a batch of format 2 with records at these offset deltas; `of`
    overrides what its header says.
    """
    records = b"".join(record(b"value-%d" % number, delta) for number, delta in enumerate(deltas))
    codec = of.get("codec", 0)
    reported = {"count": len(deltas), "last_delta": len(deltas) - 1, **of}
    return headed(
        compress(records, codec, 2) if codec in (GZIP, SNAPPY, LZ4) else records, **reported
    )


def headed(records: bytes, **of: int) -> bytes:
    """Return the batch of these bytes of records, one unless its header is
    to say another number.
    """
    stamp = 1_700_000_000_000
    covered = struct.pack(
        ">hiqqqhii",
        of.get("codec", 0) | of.get("attributes", 0),
        of.get("last_delta", 0),
        of.get("base_timestamp", stamp),
        of.get("max_timestamp", stamp),
        -1,
        -1,
        -1,
        of.get("count", 1),
    )
    covered += records
    size = of.get("size", 9 + len(covered))
    head = struct.pack(">qiib", of.get("base", 0), size, of.get("epoch", -1), of.get("magic", 2))
    return head + struct.pack(">I", crc32c(covered)) + covered


def batches() -> dict[str, bytes]:
    """Return what Produce v3+ may bring, whole and malformed, by what it is."""
    good, behind = batch((0, 1, 2)), batch((0, 1, 2), base=-1)
    found = {f"base {base}": batch((0, 1, 2), base=base) for base in SINGLE_OFFSETS}
    found |= {
        f"gzip base {base}": batch((0, 1, 2), base=base, codec=GZIP) for base in SINGLE_OFFSETS
    }
    found |= {
        f"deltas {of}": batch(of) for of in ((0, 0, 0), (5, 6, 7), (2, 1, 0), (-1, 0, 1), (0, 2, 4))
    }
    found |= {
        f"gzip deltas {of}": batch(of, codec=GZIP)
        for of in ((0, 0, 0), (5, 6, 7), (2, 1, 0), (-1, 0, 1))
    }
    return found | {
        "epoch 7": batch((0, 1), epoch=7),
        "last delta 5": batch((0, 1), last_delta=5),
        "last delta -1": batch((0, 1), last_delta=-1),
        "base MAX, last delta 2": batch((0, 1, 2), base=LARGEST),
        "count 0": batch((0, 1), count=0),
        "count 3 of 2": batch((0, 1), count=3),
        "count and last delta of 3 for 2": batch((0, 1), count=3, last_delta=2),
        "count -1": batch((0, 1), count=-1),
        "no records": batch(()),
        "control": batch((0,), attributes=0x20),
        "attributes 0x80": batch((0,), attributes=0x80),
        "base -1, then cut": behind + behind[:-3],
        "two": good + good,
        "two of base -1": behind + behind,
        "whole, then cut": good + good[:-3],
        "whole, then cut in the head": good + good[:10],
        "whole, then zeros": good + bytes(40),
        "whole, then size 0": good + batch((0,), size=0),
        "whole, then magic 3": good + batch((0,), magic=3),
        "whole, then an old message": good + message(b"v", magic=1, offset=0),
        "cut": good[:-3],
        "base -1, cut": behind[:-3],
        "size 0": batch((0,), size=0),
        "size -1": batch((0,), size=-1),
        "size of a head less one": batch((0,), size=48),
        "size far too large": batch((0,), size=2**31 - 1),
        "magic 3": batch((0,), magic=3),
        "magic -1": batch((0,), magic=-1),
        "an old message": message(b"v", magic=1, offset=0),
        "damaged": good[:-1] + bytes([good[-1] ^ 1]),
        "records longer than the batch": headed(record(b"v", 0)[:-2]),
        "gzip that is none": headed(b"no gzip at all", codec=GZIP),
        "gzip of nothing": headed(compress(b"", GZIP, 2), codec=GZIP),
        "codec 5": headed(record(b"v", 0), codec=5),
        "codec 7": headed(record(b"v", 0), codec=7),
        "nothing": b"",
    }
