"""Batches and messages made by hand, with any field wrong."""

from __future__ import annotations

import struct
from typing import Any

from parley.kernel.reference.crc import crc32, crc32c
from parley.kernel.reference.magic2 import HEADER


def varint(value: int) -> bytes:
    folded = value << 1 if value >= 0 else (-value << 1) - 1
    out = b""
    while folded >= 0x80:
        out += bytes((folded & 0x7F | 0x80,))
        folded >>= 7
    return out + bytes((folded,))


def record(
    offset: int = 0,
    timestamp: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: bytes = b"\0",
) -> bytes:
    """Return one record; `headers` is raw, count included."""
    body = b"\0" + varint(timestamp) + varint(offset)
    for field in (key, value):
        body += varint(-1) if field is None else varint(len(field)) + field
    return varint(len(body + headers)) + body + headers


def batch(*bodies: bytes, **changes: Any) -> bytes:
    """Return a batch of magic 2 around raw records; `changes` set fields of its header."""
    raw = b"".join(bodies)
    fields = {
        "offset": 10, "size": 49 + len(raw), "epoch": 5, "magic": 2, "crc": None, "attributes": 0,
        "last": len(bodies) - 1, "first_ms": 1000, "max_ms": 2000, "pid": -1, "pepoch": -1,
        "sequence": -1, "count": len(bodies),
    }  # fmt: skip
    fields |= changes
    crc = fields["crc"]
    fields["crc"] = 0
    data = bytearray(HEADER.pack(*fields.values()) + raw)
    struct.pack_into(">I", data, 17, crc32c(data[21:]) if crc is None else crc)
    return bytes(data)


def message(
    offset: int = 3,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    magic: int = 1,
    attributes: int = 0,
    timestamp: int = 77,
    crc: int | None = None,
    tail: bytes = b"",
) -> bytes:
    """Return one message of magic 0 or 1."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for field in (key, value):
        body += b"\xff\xff\xff\xff" if field is None else struct.pack(">i", len(field)) + field
    body += tail
    return struct.pack(">qiI", offset, 4 + len(body), crc32(body) if crc is None else crc) + body
