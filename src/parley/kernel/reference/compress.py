"""Bounded compression and decompression; beside lz4.py the only importer of codec libraries.

What stands in a batch or wrapper message, by codec:

    gzip    one or more gzip members; bytes after the last that begin no other are ignored (Java)
    snappy  xerial framing of Java's producers, or one raw block (librdkafka)
                82 'SNAPPY' 00 | version int32 | compatible int32 | { size int32 | raw block }*
    lz4     LZ4 frames. Magic 0 carries a wrong header checksum (KIP-57): it is taken over the
            frame's magic number too. Written for magic 0, accepted for magic 0 and 1.
    zstd    zstd frames, with or without content size

What is damaged and too large at once: what a header announces (snappy's blocks, zstd's first frame)
counts first, then the headers of zstd's blocks. lz4 is read block by block, and what is wrong with
a block comes before its size. gzip and zstd are read up to 128 KiB beyond the limit, and damage
that is found by then is what is reported.
"""

from __future__ import annotations

import struct
import zlib

import cramjam

from parley.kernel.contract import (
    COMPRESSION_LEVELS,
    MAX_COLUMN_BYTES,
    MAX_FRAMES,
    Buffer,
    Codec,
    KernelError,
    KernelErrorKind,
)
from parley.kernel.reference import lz4

XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024  # snappy-java's default, which Java's producers keep
_XERIAL_MAGIC_INT = struct.unpack_from(">i", XERIAL_MAGIC)[0]

_SNAPPY_MAX_RATIO = 22  # a 3-byte copy element yields at most 64 bytes
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_MAX_WINDOW = 1 << 27  # the streaming decoder's own default bound
_ZSTD_MAX_EXPONENT = 21  # of a window of 2 GiB: no larger one can be named
_FIRST_GUESS_BYTES = 64 * 1024
_FIRST_SLICE_BYTES, _LARGEST_SLICE_BYTES = 512, 64 * 1024
_DAMAGE_BYTES = 128 * 1024  # a block of zstd: so far beyond the limit damage is looked for
_PIECE_BYTES = 1024 * 1024  # decompressed at a time, so that a bomb costs little memory


def compress(codec: int, data: Buffer, level: int | None, magic: int) -> Buffer:
    """Return the bytes compressed as the format wants them."""
    if codec == Codec.NONE:
        return data
    if codec == Codec.SNAPPY:
        return _compress_xerial(data)
    if codec not in COMPRESSION_LEVELS:
        raise KernelError(KernelErrorKind.CODEC, f"there is no compression codec {codec}")
    least, most, default = COMPRESSION_LEVELS[Codec(codec)]
    level = default if level is None else level
    if not least <= level <= most:
        raise KernelError(
            KernelErrorKind.ARGUMENT, f"{Codec(codec).name} has levels {least}..{most}, not {level}"
        )
    if codec == Codec.GZIP:
        packer = zlib.compressobj(level, zlib.DEFLATED, 31)
        return packer.compress(data) + packer.flush()
    if codec == Codec.ZSTD:
        return bytes(cramjam.zstd.compress(bytes(data), level=level))
    return lz4.compress(data, level, magic)


def decompress(codec: int, data: Buffer, max_bytes: int, magic: int) -> Buffer:
    """Return the decompressed bytes.

    Raises KernelError: TOO_LARGE beyond `max_bytes`, COMPRESSED where the bytes are damaged, CODEC
    where there is no such codec.
    """
    max_bytes = min(max_bytes, MAX_COLUMN_BYTES)
    if codec == Codec.NONE:
        return data
    raw = bytes(data)
    if codec == Codec.GZIP:
        return _decompress_gzip(raw, max_bytes)
    if codec == Codec.SNAPPY:
        return _decompress_snappy(raw, max_bytes)
    if codec == Codec.LZ4:
        return lz4.decompress(raw, max_bytes, magic)
    if codec == Codec.ZSTD:
        return _decompress_zstd(raw, max_bytes)
    raise KernelError(KernelErrorKind.CODEC, f"there is no compression codec {codec}")


def _too_large(max_bytes: int) -> KernelError:
    return KernelError(KernelErrorKind.TOO_LARGE, f"decompresses to more than {max_bytes} bytes")


def _damaged(codec: str, why: object) -> KernelError:
    return KernelError(KernelErrorKind.COMPRESSED, f"damaged {codec} data: {why}")


def _decompress_gzip(raw: bytes, max_bytes: int) -> bytes:
    view, out, at = memoryview(raw), bytearray(), 0
    for _ in range(MAX_FRAMES):
        at = _decompress_member(view, at, out, max_bytes + _DAMAGE_BYTES)
        if len(out) > max_bytes:
            raise _too_large(max_bytes)
        if bytes(view[at : at + 2]) != b"\x1f\x8b":
            return bytes(out)
    raise _damaged("gzip", f"more than {MAX_FRAMES} members")


def _decompress_member(view: memoryview, at: int, out: bytearray, most: int) -> int:
    """Add one member to `out` and return where it ends.

    What zlib has not taken yet it copies at each call: it is fed in slices, and one slice with what
    a long one becomes.
    """
    member = zlib.decompressobj(31)
    size, rest = _FIRST_SLICE_BYTES, b""
    while not member.eof:
        if not rest:
            rest = bytes(view[at : at + size])
            at, size = at + len(rest), min(4 * size, _LARGEST_SLICE_BYTES)
        room = most + 1 - len(out)
        before = member.copy() if room <= _PIECE_BYTES else None
        try:
            piece = member.decompress(rest, min(_PIECE_BYTES, room))
        except zlib.error as error:
            # zlib looks at what comes behind the last byte that it was asked for.
            if before is not None and _yields(before, rest, room - 1):
                raise _too_large(most - _DAMAGE_BYTES) from error
            raise _damaged("gzip", error) from error
        if not piece and not member.eof and at >= len(view):
            raise _damaged("gzip", "it ends early")
        out += piece
        if len(out) > most:
            raise _too_large(most - _DAMAGE_BYTES)
        rest = member.unconsumed_tail
    return at - len(member.unused_data)


def _yields(member: zlib._Decompress, rest: bytes, size: int) -> bool:
    """Return whether so many bytes come before anything that is wrong."""
    try:
        return size > 0 and len(member.decompress(rest, size)) == size
    except zlib.error:
        return False


def _compress_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for at in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(bytes(view[at : at + _XERIAL_BLOCK_BYTES])))
        parts += (struct.pack(">i", len(block)), block)
    return b"".join(parts)


def _decompress_snappy(raw: bytes, max_bytes: int) -> bytes:
    if not raw.startswith(XERIAL_MAGIC):
        return _decompress_snappy_block(raw, max_bytes, max_bytes)
    out = bytearray()
    at = 0
    while at < len(raw):
        if len(raw) - at < 4:
            raise _damaged("snappy", "a block size is cut off")
        size = struct.unpack_from(">i", raw, at)[0]
        if size == _XERIAL_MAGIC_INT:  # streams may be concatenated, each with its header
            if len(raw) - at < len(_XERIAL_HEADER):
                raise _damaged("snappy", "a stream header is cut off")
            at += len(_XERIAL_HEADER)
            continue
        at += 4
        if size < 0 or size > len(raw) - at:
            raise _damaged("snappy", "a block does not fit")
        out += _decompress_snappy_block(raw[at : at + size], max_bytes - len(out), max_bytes)
        at += size
    return bytes(out)


def _decompress_snappy_block(block: bytes, room: int, max_bytes: int) -> bytes:
    # The announced length is checked before it is believed: a header may claim 4 GiB.
    announced = 0
    for at in range(5):
        if at >= len(block):
            raise _damaged("snappy", "the length is cut off")
        announced |= (block[at] & 0x7F) << (7 * at)
        if block[at] < 0x80:
            break
    else:
        raise _damaged("snappy", "the length has more than 5 bytes")
    if announced > 0xFFFFFFFF:
        raise _damaged("snappy", "the length has more than 32 bits")
    if announced > room:
        raise _too_large(max_bytes)
    if announced > len(block) * _SNAPPY_MAX_RATIO:
        raise _damaged("snappy", "the announced length cannot be reached")
    try:
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _damaged("snappy", error) from error


def _decompress_zstd(raw: bytes, max_bytes: int) -> bytes:
    declared = _zstd_declared(raw)
    if declared > max_bytes:
        raise _too_large(max_bytes)
    # `*_into` a buffer of known size is the only bounded
    # call cramjam has; 4 x steps keep the sum small.
    most = max_bytes + _DAMAGE_BYTES
    size = min(max(declared, _FIRST_GUESS_BYTES, 4 * len(raw)), most)
    while True:
        out = bytearray(size)
        try:
            written: int = cramjam.zstd.decompress_into(raw, out)
        except cramjam.DecompressionError as error:
            text = str(error)
            if "requires too much memory" in text:
                raise _too_large(max_bytes) from error
            if "write whole buffer" not in text or not _zstd_whole(raw):
                raise _damaged("zstd", text) from error
            if size >= most:
                raise _too_large(max_bytes) from error
            size = min(4 * size, most)
            continue
        if written > max_bytes:
            raise _too_large(max_bytes)
        return bytes(memoryview(out)[:written])


def _zstd_declared(raw: bytes) -> int:
    """Return the content size in the first frame's header, or its window if past all bounds."""
    if len(raw) < 6 or not raw.startswith(_ZSTD_MAGIC):
        return 0
    descriptor = raw[4]
    single_segment = bool(descriptor & 0x20)
    dictionary_bytes = (0, 1, 2, 4)[descriptor & 3]
    at = 5
    if not single_segment:
        exponent, mantissa = raw[at] >> 3, raw[at] & 7
        window = (1 << (10 + exponent)) // 8 * (8 + mantissa)
        if window > _ZSTD_MAX_WINDOW:
            return MAX_COLUMN_BYTES + 1
        at += 1
    at += dictionary_bytes
    size_bytes = (1 if single_segment else 0, 2, 4, 8)[descriptor >> 6]
    if not size_bytes or len(raw) < at + size_bytes:
        return 0
    declared = int.from_bytes(raw[at : at + size_bytes], "little")
    return declared + 256 if size_bytes == 2 else declared


def _zstd_whole(raw: bytes) -> bool:
    """Return whether the headers of all frames and blocks can be, and lead to the end."""
    at = 0
    while 0 <= at < len(raw):
        # skippable
        if at + 8 <= len(raw) and raw[at + 1 : at + 4] == b"\x2a\x4d\x18" and raw[at] >> 4 == 5:
            at += 8 + int.from_bytes(raw[at + 4 : at + 8], "little")
        else:
            at = _zstd_frame_end(raw, at)
    return at == len(raw)


def _zstd_frame_end(raw: bytes, start: int) -> int:
    """Return where a frame ends, -1 where it cannot be."""
    if len(raw) < start + 6 or not raw.startswith(_ZSTD_MAGIC, start):
        return -1
    descriptor = raw[start + 4]
    single_segment = descriptor >> 5 & 1
    if descriptor & 0x08 or (not single_segment and raw[start + 5] >> 3 > _ZSTD_MAX_EXPONENT):
        return -1
    at = (
        start
        + 6
        - single_segment
        + (0, 1, 2, 4)[descriptor & 3]
        + (single_segment, 2, 4, 8)[descriptor >> 6]
    )
    last = 0
    while not last:
        if at + 3 > len(raw):
            return -1
        block = int.from_bytes(raw[at : at + 3], "little")
        last, kind = block & 1, block >> 1 & 3
        if kind == 3:
            return -1
        at += 3 + (1 if kind == 1 else block >> 3)  # one byte stands for many
    return at + (4 if descriptor & 0x04 else 0)
