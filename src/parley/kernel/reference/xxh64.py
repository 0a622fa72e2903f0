"""XXH64, as the document doc/xxhash_spec.md of the xxHash project describes it, with the seed 0."""

from __future__ import annotations

from struct import Struct

_P1 = 0x9E3779B185EBCA87
_P2 = 0xC2B2AE3D27D4EB4F
_P3 = 0x165667B19E3779F9
_P4 = 0x85EBCA77C2B2AE63
_P5 = 0x27D4EB2F165667C5
_MASK = 0xFFFFFFFFFFFFFFFF
_STRIPE = Struct("<4Q")
_START = ((_P1 + _P2) & _MASK, _P2, 0, -_P1 & _MASK)


def _round(lane: int, word: int) -> int:
    lane = (lane + word * _P2) & _MASK
    return ((lane << 31 | lane >> 33) & _MASK) * _P1 & _MASK


def xxh64(data: bytes | bytearray) -> int:
    """Return the hash as an unsigned 64-bit number.

    >>> hex(xxh64(b"")), hex(xxh64(b"abc"))
    ('0xef46db3751d8e999', '0x44bc2cf5ad770999')
    """
    size = len(data)
    striped = size & ~31
    found = _stripes(data, striped) if striped else _P5
    found = (found + size) & _MASK
    at = striped
    while at + 8 <= size:
        found ^= _round(0, int.from_bytes(data[at : at + 8], "little"))
        found = (((found << 27 | found >> 37) & _MASK) * _P1 + _P4) & _MASK
        at += 8
    if at + 4 <= size:
        found ^= int.from_bytes(data[at : at + 4], "little") * _P1 & _MASK
        found = (((found << 23 | found >> 41) & _MASK) * _P2 + _P3) & _MASK
        at += 4
    for byte in data[at:]:
        found ^= byte * _P5 & _MASK
        found = ((found << 11 | found >> 53) & _MASK) * _P1 & _MASK
    found = (found ^ found >> 33) * _P2 & _MASK
    found = (found ^ found >> 29) * _P3 & _MASK
    return found ^ found >> 32


def _stripes(data: bytes | bytearray, end: int) -> int:
    """Return what the stripes of 32 bytes come to: four lanes, which take a word each."""
    one, two, three, four = _START
    for a, b, c, d in _STRIPE.iter_unpack(memoryview(data)[:end]):
        one, two = _round(one, a), _round(two, b)
        three, four = _round(three, c), _round(four, d)
    found = 0
    for lane, turn in ((one, 1), (two, 7), (three, 12), (four, 18)):
        found += lane << turn | lane >> (64 - turn)
    found &= _MASK
    for lane in (one, two, three, four):
        found = ((found ^ _round(0, lane)) * _P1 + _P4) & _MASK
    return found
