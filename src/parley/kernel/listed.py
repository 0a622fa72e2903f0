"""Records that are made already, handed out one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parley.kernel.record import ConsumerRecord


class ListedRecords:
    """A cursor of a list of records: what was not handed out, and the offset after the last."""

    __slots__ = ("_at", "_next_offset", "_records")

    def __init__(self, records: list[ConsumerRecord], next_offset: int) -> None:
        self._records, self._at, self._next_offset = records, 0, next_offset

    def __len__(self) -> int:
        return len(self._records) - self._at

    def take_one(self) -> ConsumerRecord | None:
        """Return the next record, None where none is left."""
        taken = self.take(1)
        return taken[0] if taken else None

    def take(self, most: int) -> list[ConsumerRecord]:
        """Return up to so many records."""
        taken = self._records[self._at : self._at + most]
        self._at += len(taken)
        return taken

    @property
    def position(self) -> int:
        """The offset after what was handed out, gaps included; -1 before the first."""
        if self._at == len(self._records):
            return self._next_offset
        return self._records[self._at - 1].offset + 1 if self._at else -1
