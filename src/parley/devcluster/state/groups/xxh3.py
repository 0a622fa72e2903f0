"""XXH3, 64 bits wide, without a seed: the hash in which group coordinators keep what they know of
topics (KIP-1101). Kafka takes it from hash4j; this follows the description of xxHash's own format.

| bytes | how they are taken in |
|---|---|
| up to 16 | all at once, from both ends |
| up to 128 | pieces of 16 bytes, in pairs from both ends towards the middle |
| up to 240 | pieces of 16 bytes, from the front; the last ones once more |
| more | stripes of 64 bytes in eight lanes, which are scrambled after each 16 stripes |
"""

from __future__ import annotations

import struct

_MASK = 2**64 - 1
_LOW = 2**32 - 1
_P32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_P64 = (
    0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)  # fmt: skip
_MIX_1, _MIX_2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE, _LANES = 64, struct.Struct("<8Q")
_STRIPES_PER_BLOCK = (len(_SECRET) - _STRIPE) // 8
_LONGEST_MIDDLE = 240


def xxh3_64(data: bytes) -> int:
    """Return the hash of some bytes, without a sign.

    >>> hex(xxh3_64(b"")), hex(xxh3_64(b"parley"))
    ('0x2d06800538d394c2', '0x209cba81e5c23680')
    """
    size = len(data)
    if size <= 16:
        return _short(data, size)
    if size <= 128:
        return _up_to_128(data, size)
    return _up_to_240(data, size) if size <= _LONGEST_MIDDLE else _long(data, size)


def _read64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _read32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _swapped(number: int) -> int:
    return int.from_bytes(number.to_bytes(8, "little"), "big")


def _folded(one: int, other: int) -> int:
    """Return both halves of a product of 128 bits, one over the other."""
    product = one * other
    return (product & _MASK) ^ (product >> 64)


def _rotated(number: int, by: int) -> int:
    return ((number << by) | (number >> (64 - by))) & _MASK


def _avalanche(number: int) -> int:
    number = ((number ^ (number >> 37)) * _MIX_1) & _MASK
    return number ^ (number >> 32)


def _old_avalanche(number: int) -> int:
    """Spread the bits as XXH64 does, of which XXH3 has it for the shortest texts."""
    number = ((number ^ (number >> 33)) * _P64[1]) & _MASK
    number = ((number ^ (number >> 29)) * _P64[2]) & _MASK
    return number ^ (number >> 32)


def _short(data: bytes, size: int) -> int:
    if size > 8:
        low = _read64(data, 0) ^ _read64(_SECRET, 24) ^ _read64(_SECRET, 32)
        high = _read64(data, size - 8) ^ _read64(_SECRET, 40) ^ _read64(_SECRET, 48)
        return _avalanche((size + _swapped(low) + high + _folded(low, high)) & _MASK)
    if size >= 4:
        both = _read32(data, size - 4) + (_read32(data, 0) << 32)
        return _mixed_once(both ^ _read64(_SECRET, 8) ^ _read64(_SECRET, 16), size)
    if size:
        all_of_it = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        return _old_avalanche(all_of_it ^ _read32(_SECRET, 0) ^ _read32(_SECRET, 4))
    return _old_avalanche(_read64(_SECRET, 56) ^ _read64(_SECRET, 64))


def _mixed_once(number: int, size: int) -> int:
    number ^= _rotated(number, 49) ^ _rotated(number, 24)
    number = (number * _MIX_2) & _MASK
    number ^= (number >> 35) + size
    number = (number * _MIX_2) & _MASK
    return number ^ (number >> 28)


def _mixed(data: bytes, at: int, secret_at: int) -> int:
    low = _read64(data, at) ^ _read64(_SECRET, secret_at)
    high = _read64(data, at + 8) ^ _read64(_SECRET, secret_at + 8)
    return _folded(low, high)


def _up_to_128(data: bytes, size: int) -> int:
    found = size * _P64[0]
    for pair in range((size - 1) // 32 + 1):
        found += _mixed(data, 16 * pair, 32 * pair)
        found += _mixed(data, size - 16 * (pair + 1), 32 * pair + 16)
    return _avalanche(found & _MASK)


def _up_to_240(data: bytes, size: int) -> int:
    found = size * _P64[0] + sum(_mixed(data, at, at) for at in range(0, 128, 16))
    found = _avalanche(found & _MASK)
    found += sum(_mixed(data, at, at - 125) for at in range(128, size // 16 * 16, 16))
    found += _mixed(data, size - 16, 119)
    return _avalanche(found & _MASK)


def _long(data: bytes, size: int) -> int:
    lanes = [_P32[2], *_P64[:4], _P32[1], _P64[4], _P32[0]]
    for number in range((size - 1) // _STRIPE):
        place = number % _STRIPES_PER_BLOCK
        _take_in(lanes, data, number * _STRIPE, place * 8)
        if place == _STRIPES_PER_BLOCK - 1:
            _scramble(lanes)
    _take_in(lanes, data, size - _STRIPE, len(_SECRET) - _STRIPE - 7)
    found = size * _P64[0]
    for lane in range(0, 8, 2):
        secret_at = 11 + 8 * lane
        one = lanes[lane] ^ _read64(_SECRET, secret_at)
        found += _folded(one, lanes[lane + 1] ^ _read64(_SECRET, secret_at + 8))
    return _avalanche(found & _MASK)


def _take_in(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    read, secret = _LANES.unpack_from(data, at), _LANES.unpack_from(_SECRET, secret_at)
    for lane, (number, key) in enumerate(zip(read, secret, strict=True)):
        keyed = number ^ key
        lanes[lane ^ 1] = (lanes[lane ^ 1] + number) & _MASK
        lanes[lane] = (lanes[lane] + (keyed & _LOW) * (keyed >> 32)) & _MASK


def _scramble(lanes: list[int]) -> None:
    for lane, key in enumerate(_LANES.unpack_from(_SECRET, len(_SECRET) - _STRIPE)):
        number = lanes[lane]
        lanes[lane] = ((number ^ (number >> 47) ^ key) * _P32[0]) & _MASK
