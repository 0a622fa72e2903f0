"""The leader-epoch cache of one replica (KIP-101, KIP-279): which epoch wrote from which offset.

Rules of this file:
1. Entries rise strictly in epoch and never fall in start offset.
2. An epoch is entered when a leader begins, even before it has written anything.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

UNDEFINED = -1


class EpochEnd(NamedTuple):
    """The answer to "where does this epoch end": the epoch that was found, and its end offset."""

    epoch: int
    end_offset: int


class EpochCache:
    """Start offsets by leader epoch."""

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []

    def __len__(self) -> int:
        return len(self._epochs)

    @property
    def latest(self) -> int:
        """The highest epoch known, or -1."""
        return self._epochs[-1] if self._epochs else UNDEFINED

    def entries(self) -> list[tuple[int, int]]:
        """Return (epoch, start offset) pairs in order."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` writes from `start_offset` on. An epoch already known, or a
        lower one, changes nothing.
        """
        if epoch <= self.latest:
            return
        # An epoch that wrote nothing before the next one began leaves no trace (KIP-279).
        while self._starts and self._starts[-1] >= start_offset:
            self._starts.pop()
            self._epochs.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)

    def end_of(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Return where `epoch`, or the largest known below it, ends; (-1, -1) without one."""
        if not self._epochs or epoch == UNDEFINED or epoch > self.latest:
            return EpochEnd(UNDEFINED, UNDEFINED)
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        higher = bisect_right(self._epochs, epoch)
        found = self._epochs[higher - 1] if higher else epoch
        return EpochEnd(found, self._starts[higher])

    def epoch_at(self, offset: int) -> int:
        """Return the epoch that wrote `offset`, or -1."""
        which = bisect_right(self._starts, offset) - 1
        return self._epochs[which] if which >= 0 else UNDEFINED

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that begin at `end_offset` or behind it."""
        keep = bisect_left(self._starts, end_offset)
        del self._epochs[keep:], self._starts[keep:]

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget epochs that end before `start_offset`; the one that spans it begins there now."""
        keep = bisect_right(self._starts, start_offset) - 1
        if keep > 0:
            del self._epochs[:keep], self._starts[:keep]
        if self._starts and self._starts[0] < start_offset:
            self._starts[0] = start_offset
