"""LZ4 frames: Java's subset is written, the whole format is read. The library does the blocks.

    magic 04 22 4d 18 | flags | block size | content size u64? | dictionary u32? | header checksum
    { size u32, top bit: stored | block | checksum u32? }* | 0 u32 | content checksum u32?

KIP-57: Kafka before 0.10 (magic 0) took the header checksum over the frame's magic, too. Frames are
taken apart here, as the compiled kernel does, so that both find the same thing wrong first.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import cramjam

from parley.kernel.contract import MAX_FRAMES, Buffer, KernelError, KernelErrorKind

_MAGIC = b"\x04\x22\x4d\x18"
_SKIPPABLE = 0x184D2A50  # and the 15 numbers behind it
_FLAGS = 0x60  # version 1, independent blocks: all that Java's reader takes
_BLOCK_64K = 0x40
_BLOCK_BYTES = 64 * 1024
_STORED = 0x8000_0000  # set in the size of a block that did not shrink
_HISTORY_BYTES = 64 * 1024
_UINT32 = struct.Struct("<I")


def compress(data: Buffer, level: int, magic: int) -> bytes:
    """Return one frame. Level 1 is the fast compressor, above it the high-compression one."""
    # cramjam's own frames link their blocks, which Java's reader refuses.
    view = memoryview(data)
    descriptor = bytes((_FLAGS, _BLOCK_64K))
    checked = _MAGIC + descriptor if magic == 0 else descriptor  # KIP-57
    parts = [_MAGIC, descriptor, bytes((_header_byte(checked),))]
    for at in range(0, len(view), _BLOCK_BYTES):
        plain = bytes(view[at : at + _BLOCK_BYTES])
        block = _compress_block(plain, level)
        if len(block) < len(plain):
            parts += (_UINT32.pack(len(block)), block)
        else:
            parts += (_UINT32.pack(len(plain) | _STORED), plain)
    parts.append(bytes(4))
    return b"".join(parts)


def _compress_block(plain: bytes, level: int) -> bytes:
    if level > 1:
        packed = cramjam.lz4.compress_block(
            plain, mode="high_compression", compression=level, store_size=False
        )
    else:
        packed = cramjam.lz4.compress_block(plain, store_size=False)
    return bytes(packed)


def decompress(raw: bytes, max_bytes: int, magic: int) -> bytes:
    """Return the content of all frames. Raises KernelError COMPRESSED or TOO_LARGE."""
    if not raw:
        raise _damaged("there is none")
    reader, at = _Reader(raw, max_bytes), 0
    for _ in range(MAX_FRAMES):
        if at >= len(raw):
            return bytes(reader.out)
        number = reader.uint32(at)
        if number & 0xFFFF_FFF0 == _SKIPPABLE:
            at += 8 + reader.uint32(at + 4)
            if at > len(raw):
                raise _damaged("a skippable frame is cut off")
        elif raw[at : at + 4] == _MAGIC:
            at = reader.frame(_header(raw, at, magic))
        else:
            raise _damaged("bytes that are no frame")
    if at < len(raw):
        raise _damaged(f"more than {MAX_FRAMES} frames")
    return bytes(reader.out)


def _damaged(why: str) -> KernelError:
    return KernelError(KernelErrorKind.COMPRESSED, f"damaged lz4 data: {why}")


class _Frame(NamedTuple):
    blocks_at: int
    block_bytes: int
    flags: int
    content_size: int

    @property
    def linked(self) -> bool:
        return not self.flags & 0x20


def _header(raw: bytes, start: int, magic: int) -> _Frame:
    frame = raw[start : start + 19]  # the longest
    if len(frame) < 7:
        raise _damaged("a frame header is cut off")
    flags, block = frame[4], frame[5]
    if flags >> 6 != 1 or flags & 0x02 or block & 0x8F or block >> 4 < 4:
        raise _damaged("a frame header has unknown bits")
    end = 6 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    if end >= len(frame):
        raise _damaged("a frame header is cut off")
    if frame[end] != _header_byte(frame[4:end]) and (
        magic > 1 or frame[end] != _header_byte(frame[:end])
    ):
        raise _damaged("the frame header's checksum does not match")
    content_size = int.from_bytes(frame[6:14], "little") if flags & 0x08 else -1
    return _Frame(start + end + 1, 1 << (8 + 2 * (block >> 4)), flags, content_size)


class _Reader:
    """Collects the content of frames; `out` is what there is."""

    def __init__(self, raw: bytes, max_bytes: int) -> None:
        self.out = bytearray()
        self._raw, self._view, self._max = raw, memoryview(raw), max_bytes
        self._room = bytearray()

    def uint32(self, at: int) -> int:
        """Return the number at a place."""
        if at + 4 > len(self._raw):
            raise _damaged("a frame is cut off")
        number: int = _UINT32.unpack_from(self._raw, at)[0]
        return number

    def frame(self, frame: _Frame) -> int:
        """Add the content of one frame and return where it ends."""
        at, start = frame.blocks_at, len(self.out)
        while size := self.uint32(at):
            at += 4
            length = size & ~_STORED
            if length > frame.block_bytes:
                raise _damaged("a block is larger than its frame allows")
            block = self._view[at : at + length]
            if len(block) < length:
                raise _damaged("a block is cut off")
            at += length
            if frame.flags & 0x10:
                _compare_checksum(block, self.uint32(at), "a block")
                at += 4
            if size & _STORED:
                self.out += block
            else:
                history = (
                    self.out[max(start, len(self.out) - _HISTORY_BYTES) :] if frame.linked else b""
                )
                self._add_block(bytes(block), frame.block_bytes, history)
            if len(self.out) > self._max:
                raise KernelError(
                    KernelErrorKind.TOO_LARGE, f"decompresses to more than {self._max} bytes"
                )
        at += 4
        if frame.content_size not in (-1, len(self.out) - start):
            raise _damaged("a frame's content size is not true")
        if frame.flags & 0x04:
            with memoryview(self.out) as content:
                _compare_checksum(content[start:], self.uint32(at), "a frame")
            at += 4
        return at

    def _add_block(self, block: bytes, most: int, history: Buffer) -> None:
        size = len(history)
        if size:
            block = _behind(block, bytes(history))
        if len(self._room) < size + most:
            self._room = bytearray(size + most)
        try:
            written = cramjam.lz4.decompress_block_into(block, self._room, output_len=size + most)
        except cramjam.DecompressionError as error:
            raise _damaged(str(error)) from error
        self.out += memoryview(self._room)[size:written]


def _behind(block: bytes, history: bytes) -> bytes:
    """Return a block with its history in front, as literals: the library takes none."""
    literals, at = block[0] >> 4, 1
    if literals == 15:
        while True:
            if at >= len(block):
                raise _damaged("a block is cut off")
            literals += block[at]
            at += 1
            if block[at - 1] < 255:
                break
    if literals > len(block) - at:
        raise _damaged("a block is cut off")
    literals += len(history)
    head = bytes((min(15, literals) << 4 | block[0] & 15,))
    if literals >= 15:
        more = literals - 15
        head += b"\xff" * (more // 255) + bytes((more % 255,))
    return head + history + block[at:]


def _compare_checksum(content: memoryview, says: int, what: str) -> None:
    # The library has the checksum in its frames only:
    # stored blocks, which cost no more than a copy.
    most = 4 * 1024 * 1024
    frame = bytearray(_MAGIC + _CHECKED + bytes((_header_byte(_CHECKED),)))
    for at in range(0, len(content), most):
        piece = content[at : at + most]
        frame += _UINT32.pack(len(piece) | _STORED)
        frame += piece
    frame += bytes(4) + _UINT32.pack(says)
    try:
        cramjam.lz4.decompress_into(bytes(frame), bytearray(len(content) + 1))
    except cramjam.DecompressionError as error:
        raise _damaged(f"the checksum of {what} does not match") from error


_CHECKED = b"\x64\x70"  # independent blocks of at most 4 MiB, and a checksum of the content


def _header_byte(data: bytes) -> int:
    return xxh32(data) >> 8 & 0xFF


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
        result = (
            sum(rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & mask
        )
    else:
        result = _P5
    result = (result + len(data)) & mask
    while at + 4 <= len(data):
        result = (
            rotate((result + int.from_bytes(data[at : at + 4], "little") * _P3) & mask, 17) * _P4
            & mask
        )
        at += 4
    for byte in data[at:]:
        result = rotate((result + byte * _P5) & mask, 11) * _P1 & mask
    result = (result ^ (result >> 15)) * _P2 & mask
    result = (result ^ (result >> 13)) * _P3 & mask
    return result ^ (result >> 16)
