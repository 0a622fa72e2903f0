"""Bounded compression and decompression; the only importer of zstd, lz4 and snappy libraries.

What stands in a batch or wrapper message, by codec:

    gzip    one or more gzip members; bytes after the last that do not begin another are ignored (Java)
    snappy  xerial framing of Java's producers, or one raw block (librdkafka)
                82 'SNAPPY' 00 | version int32 | compatible int32 | { size int32 | raw block }*
    lz4     LZ4 frames. Magic 0 carries a wrong header checksum (KIP-57): it is taken over the frame's
            magic number too. Written for magic 0, accepted for magic 0 and 1.
    zstd    zstd frames, with or without content size
"""

from __future__ import annotations

import struct
import zlib

import cramjam

from parley.kernel.contract import (
    COMPRESSION_LEVELS,
    MAX_COLUMN_BYTES,
    Buffer,
    Codec,
    KernelError,
    KernelErrorKind,
)

XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024  # snappy-java's default, which Java's producers keep
_XERIAL_MAGIC_INT = struct.unpack_from(">i", XERIAL_MAGIC)[0]

_SNAPPY_MAX_RATIO = 22  # a 3-byte copy element yields at most 64 bytes
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_FLAGS = 0x60  # version 1, independent blocks: all that Java's reader takes
_LZ4_BLOCK_64K = 0x40
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED = 0x8000_0000  # set in the size of a block that did not shrink
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_MAX_WINDOW = 1 << 27  # the streaming decoder's own default bound
_FIRST_GUESS_BYTES = 64 * 1024
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
        raise KernelError(KernelErrorKind.ARGUMENT, f"{Codec(codec).name} has levels {least}..{most}, not {level}")
    if codec == Codec.GZIP:
        packer = zlib.compressobj(level, zlib.DEFLATED, 31)
        return packer.compress(data) + packer.flush()
    if codec == Codec.ZSTD:
        return bytes(cramjam.zstd.compress(bytes(data), level=level))
    return _compress_lz4(data, level, magic)


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
        return _decompress_lz4(raw, max_bytes, magic)
    if codec == Codec.ZSTD:
        return _decompress_zstd(raw, max_bytes)
    raise KernelError(KernelErrorKind.CODEC, f"there is no compression codec {codec}")


def _too_large(max_bytes: int) -> KernelError:
    return KernelError(KernelErrorKind.TOO_LARGE, f"decompresses to more than {max_bytes} bytes")


def _damaged(codec: str, why: object) -> KernelError:
    return KernelError(KernelErrorKind.COMPRESSED, f"damaged {codec} data: {why}")


def _decompress_gzip(raw: bytes, max_bytes: int) -> bytes:
    out = bytearray()
    while True:
        member = zlib.decompressobj(31)
        rest = raw
        while not member.eof:
            try:
                piece = member.decompress(rest, _PIECE_BYTES)
            except zlib.error as error:
                raise _damaged("gzip", error) from error
            if not piece and not member.eof:
                raise _damaged("gzip", "it ends early")
            out += piece
            if len(out) > max_bytes:
                raise _too_large(max_bytes)
            rest = member.unconsumed_tail
        raw = member.unused_data
        if raw[:2] != b"\x1f\x8b":
            return bytes(out)


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


def _compress_lz4(data: Buffer, level: int, magic: int) -> bytes:
    # cramjam's own frames link their blocks, which Java's reader refuses.
    view = memoryview(data)
    descriptor = bytes((_LZ4_FLAGS, _LZ4_BLOCK_64K))
    checked = _LZ4_MAGIC + descriptor if magic == 0 else descriptor  # KIP-57
    parts = [_LZ4_MAGIC, descriptor, bytes(((xxh32(checked) >> 8) & 0xFF,))]
    for at in range(0, len(view), _LZ4_BLOCK_BYTES):
        plain = bytes(view[at : at + _LZ4_BLOCK_BYTES])
        block = _compress_lz4_block(plain, level)
        if len(block) < len(plain):
            parts += (struct.pack("<I", len(block)), block)
        else:
            parts += (struct.pack("<I", len(plain) | _LZ4_STORED), plain)
    parts.append(bytes(4))
    return b"".join(parts)


def _compress_lz4_block(plain: bytes, level: int) -> bytes:
    if level > 1:
        packed = cramjam.lz4.compress_block(plain, mode="high_compression", compression=level, store_size=False)
    else:
        packed = cramjam.lz4.compress_block(plain, store_size=False)
    return bytes(packed)


def _decompress_lz4(raw: bytes, max_bytes: int, magic: int) -> bytes:
    framed = bytearray(raw)
    if magic < 2:
        _mend_lz4_header_checksum(framed)
    return _decompress_growing("lz4", cramjam.lz4, bytes(framed), max_bytes)


def _decompress_zstd(raw: bytes, max_bytes: int) -> bytes:
    declared = _zstd_declared(raw)
    if declared > max_bytes:
        raise _too_large(max_bytes)
    return _decompress_growing("zstd", cramjam.zstd, raw, max_bytes, declared)


def _decompress_growing(name: str, library: object, raw: bytes, max_bytes: int, first: int = 0) -> bytes:
    # `*_into` a buffer of known size is the only bounded call cramjam has; 4 x steps keep the sum small.
    size = min(max(first, _FIRST_GUESS_BYTES, 4 * len(raw)), max_bytes)
    while True:
        out = bytearray(size)
        try:
            written: int = library.decompress_into(raw, out)  # type: ignore[attr-defined]
        except cramjam.DecompressionError as error:
            text = str(error)
            if "requires too much memory" in text:
                raise _too_large(max_bytes) from error
            if "write whole buffer" not in text:
                raise _damaged(name, text) from error
            if size >= max_bytes:
                raise _too_large(max_bytes) from error
            size = min(4 * size, max_bytes)
            continue
        return bytes(memoryview(out)[:written])


def _zstd_declared(raw: bytes) -> int:
    """Return the content size in the first frame's header, or its window where that is beyond all bounds."""
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


def _lz4_header_end(framed: bytearray) -> int:
    """Return where the header checksum stands, or 0 where there is no whole header."""
    if len(framed) < 7 or framed[:4] != _LZ4_MAGIC:
        return 0
    flags = framed[4]
    end = 6 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    return end if len(framed) > end else 0


def _mend_lz4_header_checksum(framed: bytearray) -> None:
    end = _lz4_header_end(framed)
    if end and framed[end] == (xxh32(bytes(framed[:end])) >> 8) & 0xFF:
        framed[end] = (xxh32(bytes(framed[4:end])) >> 8) & 0xFF


_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393


def xxh32(data: bytes) -> int:
    """Return the XXH32 (seed 0) of a few bytes; LZ4 frame headers are at most 19 long.

    >>> hex(xxh32(b""))
    '0x2cc5d05'
    """
    mask = 0xFFFFFFFF

    def rotate(value: int, bits: int) -> int:
        return ((value << bits) | (value >> (32 - bits))) & mask

    at = 0
    if len(data) >= 16:
        lanes = [(_P1 + _P2) & mask, _P2, 0, (-_P1) & mask]
        while at + 16 <= len(data):
            for lane in range(4):
                word = int.from_bytes(data[at : at + 4], "little")
                lanes[lane] = rotate((lanes[lane] + word * _P2) & mask, 13) * _P1 & mask
                at += 4
        result = sum(rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & mask
    else:
        result = _P5
    result = (result + len(data)) & mask
    while at + 4 <= len(data):
        result = rotate((result + int.from_bytes(data[at : at + 4], "little") * _P3) & mask, 17) * _P4 & mask
        at += 4
    for byte in data[at:]:
        result = rotate((result + byte * _P5) & mask, 11) * _P1 & mask
    result = (result ^ (result >> 15)) * _P2 & mask
    result = (result ^ (result >> 13)) * _P3 & mask
    return result ^ (result >> 16)
