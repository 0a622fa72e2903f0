"""How many of the rows that wait are due. Pure: the time is given.

`bytes_per_second` is a bucket that fills with time, a twentieth of a second deep; a row that is
larger than what is in it goes out and leaves a debt. `speed` lets the clock of the records run on
from the first row, so many times as fast as the clock on the wall.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

DEPTH_S = 0.05
LEAST_WAIT_S = 0.001
"""Clocks are not finer, and a sum of small waits would be no wait."""


class Due(NamedTuple):
    """So many rows are due, and the next one in so many seconds."""

    rows: int
    wait_s: float


class Pace:
    """What is due of rows in the order of their times."""

    def __init__(self, bytes_per_second: float | None, speed: float | None) -> None:
        self._rate, self._speed = bytes_per_second, speed
        self._tokens: float | None = None
        self._filled_s = 0.0
        self._begun: tuple[float, int] | None = None

    @property
    def is_free(self) -> bool:
        """Whether everything is due at once."""
        return self._rate is None and self._speed is None

    def due(self, now_s: float, times_ms: pa.Array, sizes: pa.Array) -> Due:
        """Return how many of these rows may go now; they are taken to go.

        `times_ms` (int64) does not fall, `sizes` (int64) are bytes.
        """
        rows, wait_s = len(times_ms), 0.0
        if rows and self._speed is not None:
            rows, wait_s = self._by_time(now_s, times_ms, self._speed)
        if rows and self._rate is not None:
            allowed, empty_s = self._by_bytes(now_s, sizes.slice(0, rows), self._rate)
            if allowed < rows:
                rows, wait_s = allowed, empty_s
        return Due(rows, wait_s)

    def _by_time(self, now_s: float, times_ms: pa.Array, speed: float) -> tuple[int, float]:
        if self._begun is None:
            self._begun = now_s, times_ms[0].as_py()
        begun_s, first_ms = self._begun
        reached_ms = first_ms + (now_s - begun_s) * speed * 1000
        rows = pc.less_equal(times_ms.cast(pa.float64(), safe=False), reached_ms).true_count
        if rows == len(times_ms):
            return rows, 0.0
        wait_s = (times_ms[rows].as_py() - reached_ms) / (speed * 1000)
        return rows, max(LEAST_WAIT_S, wait_s)

    def _by_bytes(self, now_s: float, sizes: pa.Array, rate: float) -> tuple[int, float]:
        depth = rate * DEPTH_S
        tokens = depth if self._tokens is None else self._tokens
        tokens = min(depth, tokens + (now_s - self._filled_s) * rate)
        self._filled_s = now_s
        rows = 0
        if tokens > 0:
            before = pc.subtract(pc.cumulative_sum(sizes), sizes)
            rows = pc.less(before.cast(pa.float64(), safe=False), tokens).true_count
            tokens -= pc.sum(sizes.slice(0, rows)).as_py() or 0
        self._tokens = tokens
        return rows, (depth / 2 - tokens) / rate  # many small calls cost more than a few
