"""The Rabin fingerprint (CRC-64-AVRO) of a schema's canonical form, as Avro defines it."""

from __future__ import annotations

_EMPTY = 0xC15D213AA4D7A795


def _table() -> tuple[int, ...]:
    entries = []
    for entry in range(256):
        for _ in range(8):
            entry = (entry >> 1) ^ (_EMPTY if entry & 1 else 0)
        entries.append(entry)
    return tuple(entries)


_TABLE = _table()


def rabin(data: bytes) -> int:
    """Return the fingerprint of bytes; those of a schema are its canonical form's.

    >>> hex(rabin(b'"int"'))
    '0x7275d51a3f395c8f'
    """
    found = _EMPTY
    for byte in data:
        found = (found >> 8) ^ _TABLE[(found ^ byte) & 0xFF]
    return found
