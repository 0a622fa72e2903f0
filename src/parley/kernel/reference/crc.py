"""Checksums of the record formats: CRC-32 (magic 0 and 1) and CRC-32C (magic 2)."""

from __future__ import annotations

import zlib

import crc32c as _crc32c

from parley.kernel.contract import Buffer


def crc32c(data: Buffer) -> int:
    """Return the CRC-32C (Castagnoli) of the bytes.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    return int(_crc32c.crc32c(data))


def crc32(data: Buffer) -> int:
    """Return the CRC-32 of the bytes.

    >>> hex(crc32(b"123456789"))
    '0xcbf43926'
    """
    return zlib.crc32(data)
