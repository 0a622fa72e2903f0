"""Codecs: the framings that Kafka's clients write, and the bounds."""

from __future__ import annotations

import gzip
import struct

import cramjam
import pytest
import zstandard

from parley.kernel.contract import Codec, KernelError, KernelErrorKind
from parley.kernel.functions import Kernel
from parley.kernel.reference.lz4 import xxh32

RAW = b"".join(b"%d: the quick brown fox jumps over the lazy dog; " % n for n in range(5000))
BIG = 10**7


def kind_of(kernel: Kernel, codec: int, data: bytes, max_bytes: int = BIG, magic: int = 2) -> str:
    with pytest.raises(KernelError) as caught:
        kernel.decompress(codec, data, max_bytes, magic)
    return caught.value.kind.value


# ── gzip ─────────────────────────────────────────────────────────────────────


def test_gzip_members_are_joined_and_a_tail_is_ignored(kernel: Kernel) -> None:
    packed = gzip.compress(RAW[:1000]) + gzip.compress(RAW[1000:])
    assert bytes(kernel.decompress(1, packed, BIG, 2)) == RAW
    assert bytes(kernel.decompress(1, packed + b"\0\0junk", BIG, 2)) == RAW


def test_gzip_is_read_by_the_standard_library(kernel: Kernel) -> None:
    for level in (None, 1, 9):
        assert gzip.decompress(bytes(kernel.compress(1, RAW, level, 2))) == RAW


def test_gzip_checksum_is_checked(kernel: Kernel) -> None:
    packed = bytearray(gzip.compress(RAW))
    packed[-5] ^= 1
    assert kind_of(kernel, 1, bytes(packed)) == "compressed"
    assert kind_of(kernel, 1, gzip.compress(RAW)[:-3]) == "compressed"


# ── snappy ───────────────────────────────────────────────────────────────────

XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def raw_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def test_snappy_is_read_raw_and_framed(kernel: Kernel) -> None:
    assert bytes(kernel.decompress(2, raw_snappy(RAW), BIG, 2)) == RAW
    blocks = [raw_snappy(RAW[at : at + 5000]) for at in range(0, len(RAW), 5000)]
    framed = XERIAL + b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    assert bytes(kernel.decompress(2, framed, BIG, 2)) == RAW
    assert bytes(kernel.decompress(2, framed + framed, BIG, 2)) == RAW + RAW


def test_snappy_is_written_framed_as_java_does(kernel: Kernel) -> None:
    packed = bytes(kernel.compress(2, RAW, None, 2))
    assert packed.startswith(XERIAL)
    at, out = len(XERIAL), b""
    while at < len(packed):
        (size,) = struct.unpack_from(">i", packed, at)
        block = bytes(cramjam.snappy.decompress_raw(packed[at + 4 : at + 4 + size]))
        assert len(block) <= 32 * 1024
        out += block
        at += 4 + size
    assert out == RAW


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "compressed"),
        (b"\xff\xff\xff\xff\xff\x01", "compressed"),
        (b"\xff\xff\xff\xff\x7f", "compressed"),
        (b"\xff\xff\xff\xff\x0f" + b"a" * 50, "too large"),
        (b"\x80\x80\x40" + b"a" * 50, "compressed"),  # 1 MiB out of 50 bytes cannot be
        (XERIAL + struct.pack(">i", -5), "compressed"),
        (XERIAL + struct.pack(">i", 100) + b"abc", "compressed"),
        (XERIAL + b"\0\0", "compressed"),
        (XERIAL + XERIAL[:9], "compressed"),
    ],
)
def test_hostile_snappy(kernel: Kernel, data: bytes, kind: str) -> None:
    assert kind_of(kernel, 2, data) == kind


# ── lz4 ──────────────────────────────────────────────────────────────────────


def test_lz4_frames_have_independent_blocks(kernel: Kernel) -> None:
    """Java's reader refuses linked blocks; version 1, no checksums, 64 KiB."""
    packed = bytes(kernel.compress(3, RAW, None, 2))
    assert packed[:6] == bytes.fromhex("04224d186040")
    assert bytes(cramjam.lz4.decompress(packed)) == RAW


def test_lz4_linked_blocks_and_checksums_are_read(kernel: Kernel) -> None:
    packed = bytes(cramjam.lz4.compress(RAW * 3, level=1))
    assert packed[4] & 0x34 == 0x14  # linked, with block and content checksums
    assert bytes(kernel.decompress(3, packed, BIG, 2)) == RAW * 3
    broken = bytearray(packed)
    broken[-1] ^= 1
    assert kind_of(kernel, 3, bytes(broken)) == "compressed"


def test_kip57_header_checksum_both_ways(kernel: Kernel) -> None:
    """Before 0.10 the checksum was taken from the frame's magic on; only
    that may stand in magic 0.
    """
    old, new = bytes(kernel.compress(3, RAW, None, 0)), bytes(kernel.compress(3, RAW, None, 1))
    assert old[6] == xxh32(old[:6]) >> 8 & 0xFF
    assert new[6] == xxh32(new[4:6]) >> 8 & 0xFF
    assert old[:6] + old[7:] == new[:6] + new[7:]
    for magic in (0, 1):
        assert bytes(kernel.decompress(3, old, BIG, magic)) == RAW
        assert bytes(kernel.decompress(3, new, BIG, magic)) == RAW
    assert bytes(kernel.decompress(3, new, BIG, 2)) == RAW
    assert kind_of(kernel, 3, old) == "compressed"


def test_lz4_frames_are_joined_and_skippable_ones_skipped(kernel: Kernel) -> None:
    packed = bytes(kernel.compress(3, RAW, None, 2))
    skippable = struct.pack("<II", 0x184D2A53, 5) + b"hello"
    assert bytes(kernel.decompress(3, packed + skippable + packed, BIG, 2)) == RAW * 2


# ── zstd ─────────────────────────────────────────────────────────────────────


def test_zstd_with_and_without_size_and_several_frames(kernel: Kernel) -> None:
    sized = zstandard.ZstdCompressor(write_content_size=True).compress(RAW)
    streamer = zstandard.ZstdCompressor().compressobj()
    unsized = streamer.compress(RAW) + streamer.flush()
    assert zstandard.get_frame_parameters(unsized).content_size == zstandard.CONTENTSIZE_UNKNOWN
    assert bytes(kernel.decompress(4, unsized, BIG, 2)) == RAW
    assert bytes(kernel.decompress(4, sized + unsized + sized, BIG, 2)) == RAW * 3


def test_zstd_is_read_by_another_library(kernel: Kernel) -> None:
    for level in (None, -5, 1, 19):
        packed = bytes(kernel.compress(4, RAW, level, 2))
        assert zstandard.ZstdDecompressor().decompressobj().decompress(packed) == RAW


@pytest.mark.parametrize(
    "level",
    [
        # one level of each strategy in `make test`
        pytest.param(
            level, marks=[] if level in {1, 3, 5, 6, 8, 13, 16, 18, 22} else [pytest.mark.matrix]
        )
        for level in range(1, 23)
    ],
)
def test_every_level_of_zstd_finds_the_matches(kernel: Kernel, level: int) -> None:
    """The kernel is linked without zstd's match finders for dictionaries, which zstd
    names in the same tables.
    """
    for size in (len(RAW), 10_000, 100):  # from one context, and each from another place in memory
        packed = bytes(kernel.compress(4, RAW[:size], level, 2))
        assert zstandard.ZstdDecompressor().decompressobj().decompress(packed) == RAW[:size]
        assert len(packed) <= max(size // 5, 100)


# ── bounds ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_the_limit_is_exact(kernel: Kernel, codec: Codec) -> None:
    packed = kernel.compress(codec, RAW, None, 2)
    assert bytes(kernel.decompress(codec, packed, len(RAW), 2)) == RAW
    assert kind_of(kernel, codec, bytes(packed), len(RAW) - 1) == "too large"
    assert kind_of(kernel, codec, bytes(packed), 0) == "too large"


@pytest.mark.parametrize("codec", [5, 7, 99])
def test_unknown_codecs(kernel: Kernel, codec: int) -> None:
    assert kind_of(kernel, codec, b"abc") == "codec"
    with pytest.raises(KernelError) as caught:
        kernel.compress(codec, b"abc", None, 2)
    assert caught.value.kind is KernelErrorKind.CODEC


@pytest.mark.parametrize(
    ("codec", "level"), [(1, 0), (1, 10), (3, 0), (3, 18), (4, 23), (4, -131_073)]
)
def test_levels_outside_the_codecs_are_refused(kernel: Kernel, codec: int, level: int) -> None:
    with pytest.raises(KernelError) as caught:
        kernel.compress(codec, b"abc", level, 2)
    assert caught.value.kind is KernelErrorKind.ARGUMENT
