"""An answer that is not there yet: JoinGroup and SyncGroup wait for other members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

A = TypeVar("A")


class Parked(Generic[A]):
    """What one request waits for; `on_change` is called when it is there."""

    def __init__(self) -> None:
        self.answer: A | None = None
        self.on_change: list[Callable[[], None]] = []

    def give(self, answer: A) -> None:
        """Give the answer, once; later ones are dropped."""
        if self.answer is None:
            self.answer = answer
            for changed in list(self.on_change):
                changed()


def given(answer: A) -> Parked[A]:
    """Return an answer that is there already."""
    parked = Parked[A]()
    parked.give(answer)
    return parked
