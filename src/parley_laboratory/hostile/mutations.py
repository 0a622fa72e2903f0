"""How valid bytes are made hostile: the tricks that made Kafka clients and brokers
fall over, and plain noise.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random

LENGTHS = (-(2**31), -2, -1, 0, 1, 0x7F, 0x80, 0x7FFF, 0x8000, 10**6, 2**31 - 1)
"""Values for a field that may be a length or a count: below the least, edges of
types, and far above what came.
"""

OVERLONG_VARINTS = (
    b"\xff" * 4 + b"\x0f",
    b"\xff" * 4 + b"\x7f",
    b"\x80" * 9 + b"\x01",
    b"\xff" * 10,
)
SPAN = 40
"""At most so many bytes are cut out, doubled or filled at once."""


class Mutator:
    """Changes bytes by one to three tricks, each chosen at random.

    >>> Mutator(Random(1)).mutated(b"abcdefgh") == Mutator(Random(1)).mutated(b"abcdefgh")
    True
    """

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._tricks: tuple[Callable[[bytearray, int], None], ...] = (
            self._flip, self._length, self._short_length, self._varint, self._truncate,
            self._cut_out, self._double, self._fill, self._noise, self._bad_utf8, self._tag_flood,
        )  # fmt: skip

    def mutated(self, data: bytes) -> bytes:
        """Return other bytes made of these."""
        bent = bytearray(data)
        for _ in range(self._rng.choice((1, 1, 1, 2, 3))):
            at = self._rng.randrange(len(bent) + 1)
            self._rng.choice(self._tricks)(bent, at)
        return bytes(bent)

    def _flip(self, data: bytearray, at: int) -> None:
        if at < len(data):
            data[at] ^= 1 << self._rng.randrange(8)

    def _length(self, data: bytearray, at: int) -> None:
        data[at : at + 4] = struct.pack(">i", self._rng.choice(LENGTHS))

    def _short_length(self, data: bytearray, at: int) -> None:
        data[at : at + 2] = struct.pack(">h", self._rng.choice((-32768, -2, -1, 0, 1, 32767)))

    def _varint(self, data: bytearray, at: int) -> None:
        data[at : at + 1] = self._rng.choice(OVERLONG_VARINTS)

    def _truncate(self, data: bytearray, at: int) -> None:
        del data[at:]

    def _cut_out(self, data: bytearray, at: int) -> None:
        del data[at : at + self._rng.randrange(SPAN)]

    def _double(self, data: bytearray, at: int) -> None:
        data[at:at] = data[at : at + self._rng.randrange(SPAN)]

    def _fill(self, data: bytearray, at: int) -> None:
        count = min(self._rng.randrange(SPAN), len(data) - at)
        data[at : at + count] = self._rng.choice((b"\x00", b"\xff", b"\x7f", b"\x80")) * count

    def _noise(self, data: bytearray, at: int) -> None:
        data[at:at] = self._rng.randbytes(self._rng.randrange(SPAN))

    def _bad_utf8(self, data: bytearray, at: int) -> None:
        data[at : at + 2] = self._rng.choice((b"\xc0\x80", b"\xed\xa0", b"\xff\xfe", b"\xf5\x80"))

    def _tag_flood(self, data: bytearray, at: int) -> None:
        count = self._rng.choice((3, 50, 400))
        data[at : at + 1] = bytes([count & 0x7F | 0x80, count >> 7]) + b"".join(
            bytes([tag & 0x7F | 0x80, tag >> 7, 0]) for tag in range(count)
        )
