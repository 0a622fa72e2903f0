"""Compressed bytes that make a decompressor work: floods
of frames, members, blocks and tables that yield little.

Each maker takes about how many bytes to make. All of it is valid, but for floods of frames, which
are refused.
"""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Callable, Iterable

from parley.kernel.reference.compress import XERIAL_MAGIC, compress
from parley.kernel.reference.lz4 import xxh32

Maker = Callable[[int], bytes]
MIB = 1024 * 1024
GZIP_HEAD = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
EMPTY_MEMBER = gzip.compress(b"", mtime=0)
BYTE_MEMBER = gzip.compress(b"x", mtime=0)
FRAMES = 1_000
"""Just below what a batch may have."""


def ordinary(size: int) -> bytes:
    """Return text as records hold it."""
    rng = random.Random(size)
    row = '{{"id": {0}, "name": "user-{1}", "value": {1}.{0}, "tags": ["a", "b"]}}'
    return "".join(
        row.format(number, rng.randrange(10**6)) for number in range(size // 60 + 1)
    ).encode()[:size]


# -- gzip ------------------------------------------------------------------------------------------


def _bits(fields: Iterable[tuple[int, int]]) -> bytes:
    """Return (value, width) pairs as deflate packs them, the least significant bit first."""
    value = width = 0
    for field, bits in fields:
        value |= field << width
        width += bits
    return value.to_bytes((width + 7) // 8, "little")


def _dynamic_block() -> list[tuple[int, int]]:
    """A block with Huffman tables of its own and no byte of content: 91 bits."""
    lengths = {18: 1, 1: 1}  # of the alphabet of code lengths: 18 is a run of zeros
    order = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1)
    head = [(0, 1), (2, 2), (0, 5), (0, 5), (len(order) - 4, 4)]
    table = [(lengths.get(symbol, 0), 3) for symbol in order]
    one, zeros = (0, 1), (1, 1)
    coded = [one, zeros, (138 - 11, 7), zeros, (117 - 11, 7), one, one]
    return [*head, *table, *coded, (1, 1)]


def gzip_tables(size: int) -> bytes:
    """Return one member of blocks that are nothing but tables."""
    eight = _bits(_dynamic_block() * 8)  # 91 bytes: blocks need not begin at a byte
    return GZIP_HEAD + eight * max(1, size // len(eight)) + b"\x03\x00" + bytes(8)


def gzip_stored(size: int) -> bytes:
    """Return one member of empty stored blocks."""
    return GZIP_HEAD + b"\x00\x00\x00\xff\xff" * max(1, size // 5) + b"\x03\x00" + bytes(8)


def gzip_flood(size: int) -> bytes:
    """Return empty members."""
    return EMPTY_MEMBER * max(1, size // len(EMPTY_MEMBER))


def gzip_behind_much(size: int) -> bytes:
    """Return members of a byte behind one that yields much, before one that says that it will."""
    much = gzip.compress(bytes(size * 500), mtime=0)
    return much + BYTE_MEMBER * FRAMES + much


def gzip_zeros(size: int) -> bytes:
    """Return what yields a thousand times as much."""
    return gzip.compress(bytes(1_000 * size), mtime=0)


# -- snappy ----------------------------------------------------------------------------------------

XERIAL_HEAD = XERIAL_MAGIC + struct.pack(">ii", 1, 1)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def snappy_blocks(size: int) -> bytes:
    """Return a stream of empty blocks."""
    return XERIAL_HEAD + struct.pack(">iB", 1, 0) * max(1, size // 5)


def snappy_heads(size: int) -> bytes:
    """Return streams of nothing but their headers."""
    return XERIAL_HEAD * max(1, size // len(XERIAL_HEAD))


def snappy_literals(size: int) -> bytes:
    """Return a block of literals of a byte each."""
    return _varint(max(1, size // 2)) + b"\x00x" * max(1, size // 2)


def snappy_copies(size: int) -> bytes:
    """Return a block of the longest copies, a byte apart."""
    count = max(1, size // 3)
    return _varint(1 + 64 * count) + b"\x00x" + b"\xfe\x01\x00" * count


# -- lz4 -------------------------------------------------------------------------------------------


def lz4_head(flags: int = 0x60, block: int = 0x40) -> bytes:
    """Return a frame's header."""
    descriptor = bytes((flags, block))
    return b"\x04\x22\x4d\x18" + descriptor + bytes((xxh32(descriptor) >> 8 & 0xFF,))


END = bytes(4)


def lz4_matches(size: int) -> bytes:
    """Return blocks of 4 MiB, each one long match: a byte for each 255."""
    length = 4 * MIB - 5 - 1 - 19
    match = b"\x1f\0\x01\x00" + b"\xff" * (length // 255) + bytes((length % 255,)) + b"\x50abcde"
    return (
        lz4_head(block=0x70)
        + (struct.pack("<I", len(match)) + match) * max(1, size // len(match))
        + END
    )


def lz4_flood(size: int) -> bytes:
    """Return empty frames."""
    return (lz4_head() + END) * max(1, size // 11)


def lz4_behind_much(size: int) -> bytes:
    """Return frames of a byte, with room for 4 MiB, behind one that yields much."""
    tiny = lz4_head(block=0x70) + struct.pack("<I", 0x8000_0001) + b"x" + END
    return lz4_matches(size) + tiny * FRAMES


def lz4_blocks(size: int) -> bytes:
    """Return a frame of blocks of a byte, packed."""
    return lz4_head(block=0x70) + (struct.pack("<I", 2) + b"\x10x") * max(1, size // 6) + END


def lz4_linked(size: int) -> bytes:
    """Return the same, each block with those before it as its history."""
    return lz4_head(flags=0x40) + (struct.pack("<I", 2) + b"\x10x") * max(1, size // 6) + END


def lz4_stored(size: int) -> bytes:
    """Return a frame of stored blocks without a byte."""
    return lz4_head(block=0x70) + struct.pack("<I", 0x8000_0000) * max(1, size // 4) + END


# -- zstd ------------------------------------------------------------------------------------------

ZSTD_HEAD = b"\x28\xb5\x2f\xfd\x00\x58"  # no content size, a window of 2 MiB


def zstd_frames(size: int) -> bytes:
    """Return empty frames."""
    return (ZSTD_HEAD + b"\x01\0\0") * max(1, size // 9)


def zstd_skipped(size: int) -> bytes:
    """Return frames to be skipped, and one that is not."""
    return (b"\x50\x2a\x4d\x18" + END) * max(1, size // 8) + ZSTD_HEAD + b"\x01\0\0"


def zstd_blocks(size: int) -> bytes:
    """Return a frame of raw blocks without a byte."""
    return ZSTD_HEAD + bytes(3) * max(1, size // 3) + b"\x01\0\0"


def zstd_tables(size: int) -> bytes:
    """Return small frames, each with tables of its own."""
    out, rng = bytearray(), random.Random(1)
    while len(out) < size:
        out += bytes(
            compress(4, bytes(rng.choices(b"etaoinshrdlu", range(12, 0, -1), k=200)), 19, 2)
        )
    return bytes(out)


def zstd_zeros(size: int) -> bytes:
    """Return blocks that repeat a byte, 4 bytes for each 128 KiB: all that the least
    limit allows, and no more.
    """
    block = 128 * 1024
    repeated = struct.pack("<I", block << 3 | 1 << 1)[:3] + b"\0"
    return ZSTD_HEAD + repeated * max(1, min(size // 4, 500)) + b"\x01\0\0"


SHAPES: dict[str, tuple[int, Maker]] = {
    "gzip: nothing but tables": (1, gzip_tables),
    "gzip: empty stored blocks": (1, gzip_stored),
    "gzip: empty members": (1, gzip_flood),
    "gzip: members behind much": (1, gzip_behind_much),
    "gzip: zeros": (1, gzip_zeros),
    "snappy: empty blocks": (2, snappy_blocks),
    "snappy: headers": (2, snappy_heads),
    "snappy: literals of a byte": (2, snappy_literals),
    "snappy: copies": (2, snappy_copies),
    "lz4: long matches": (3, lz4_matches),
    "lz4: empty frames": (3, lz4_flood),
    "lz4: frames behind much": (3, lz4_behind_much),
    "lz4: blocks of a byte": (3, lz4_blocks),
    "lz4: linked blocks of a byte": (3, lz4_linked),
    "lz4: empty stored blocks": (3, lz4_stored),
    "zstd: empty frames": (4, zstd_frames),
    "zstd: skipped frames": (4, zstd_skipped),
    "zstd: empty blocks": (4, zstd_blocks),
    "zstd: small frames with tables": (4, zstd_tables),
    "zstd: zeros": (4, zstd_zeros),
}
"""Name → codec and maker."""
