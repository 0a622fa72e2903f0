"""Decompression bombs fail within a second and within
bounded memory, in both kernels and all formats.

Each kernel runs in a process of its own, so that its largest memory can be asked for: first those
bombs that may take least, for what was once taken counts for all that follow.
"""

from __future__ import annotations

import importlib.util
import json
import pickle
import struct
import subprocess
import sys
import zlib
from typing import Any

import pytest

from parley.kernel.reference.crc import crc32, crc32c
from parley.kernel.reference.magic2 import HEADER

CAP = 64 * 1024 * 1024
MIB = 1024 * 1024

PROBE = """
import importlib, json, pickle, resource, sys, time
kernel = importlib.import_module("parley.kernel." + sys.argv[1])
from parley.kernel.contract import DecodeOptions, KernelError, span_table
bombs = pickle.load(sys.stdin.buffer)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for name, data in bombs:
    start = time.process_time()
    try:
        kernel.decode(data, span_table([(0, len(data))]), DecodeOptions())
        kind = "decoded"
    except KernelError as error:
        kind = error.kind.value
    elapsed = time.process_time() - start
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps([name, {"kind": kind, "seconds": elapsed, "grown_bytes": grown * 1024}]))
"""


def gzip_bomb(size: int) -> bytes:
    """Zeros: deflate repeats a flushed block as often as one likes, 1 KiB for each MiB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    first = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    return first + again * (size // MIB)


def zstd_bomb(size: int) -> bytes:
    """One frame without content size, of blocks that repeat a byte: 4 bytes for each 128 KiB."""
    block = 128 * 1024
    frame = b"\x28\xb5\x2f\xfd\x00\x58"
    repeated = (struct.pack("<I", block << 3 | 1 << 1)[:3] + b"\0") * (size // block)
    return frame + repeated + b"\x01\0\0"


def zstd_declaring(size: int) -> bytes:
    return b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", size) + b"\x01\0\0"


def lz4_bomb(size: int) -> bytes:
    """4 MiB blocks of one long match each: a byte for each 255."""
    block = 4 * MIB
    length = block - 5 - 1 - 19
    match = b"\x1f\0\x01\x00" + b"\xff" * (length // 255) + bytes((length % 255,)) + b"\x50abcde"
    return (
        bytes.fromhex("04224d186070")
        + b"\x73"
        + (struct.pack("<I", len(match)) + match) * (size // block)
    )


BOMBS = {
    "gzip of 1 GiB": (1, gzip_bomb(1024 * MIB)),
    "gzip of 96 MiB": (1, gzip_bomb(96 * MIB)),
    "zstd of 4 GiB without its size": (4, zstd_bomb(4096 * MIB)),
    "zstd declaring 64 GiB": (4, zstd_declaring(64 << 30)),
    "zstd declaring 16 EiB": (4, zstd_declaring(2**64 - 1)),
    "zstd with a window of 2 TiB": (4, b"\x28\xb5\x2f\xfd\x00\xf8" + bytes(16)),
    "snappy declaring 4 GiB": (2, b"\xff\xff\xff\xff\x0f" + bytes(100)),
    "snappy framed, declaring 4 GiB": (
        2,
        b"\x82SNAPPY\0\0\0\0\1\0\0\0\1\0\0\0\x64\xff\xff\xff\xff\x0f" + bytes(95),
    ),
    "lz4 of 1 GiB": (3, lz4_bomb(1024 * MIB)),
}


def magic2(codec: int, packed: bytes) -> bytes:
    batch = bytearray(61) + packed
    HEADER.pack_into(batch, 0, 0, len(batch) - 12, 0, 2, 0, codec, 0, 0, 0, -1, -1, -1, 1)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return bytes(batch)


def magic1(codec: int, packed: bytes) -> bytes:
    body = struct.pack(">bbqii", 1, codec, 0, -1, len(packed)) + packed
    return struct.pack(">qiI", 0, len(body) + 4, crc32(body)) + body


SETS = {f"magic 2, {name}": magic2(codec, packed) for name, (codec, packed) in BOMBS.items()} | {
    f"magic 1, {name}": magic1(codec, packed)
    for name, (codec, packed) in BOMBS.items()
    if codec != 4
}


def most_bytes(data: bytes) -> int:
    """The cap is the larger of 64 MiB and 64 times what came in; twice that is the
    most that may be touched.
    """
    return 2 * max(CAP, 64 * len(data))


@pytest.fixture(scope="module", params=["reference", "native"])
def found(request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    """What became of each bomb in a kernel, by its name."""
    if request.param == "native" and importlib.util.find_spec("parley.kernel._native") is None:
        pytest.skip("the compiled kernel is not built")
    bombs = pickle.dumps(sorted(SETS.items(), key=lambda bomb: most_bytes(bomb[1])))
    done = subprocess.run(
        [sys.executable, "-c", PROBE, request.param], input=bombs, capture_output=True, check=True
    )
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", SETS)
def test_a_bomb_fails_soon_and_small(found: dict[str, dict[str, Any]], name: str) -> None:
    assert found[name]["kind"] == "too large"
    assert found[name]["seconds"] < 1
    assert found[name]["grown_bytes"] < most_bytes(SETS[name]), (
        f"{found[name]['grown_bytes'] / MIB:.0f} MiB"
    )
