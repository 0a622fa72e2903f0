"""The states of a share partition's records in flight, as runs of offsets that are alike.

Rules of this file:
1. Runs are in order and touch each other: every offset in flight is in exactly one run.
2. Runs do not change. A change makes a new list, so that whoever refuses half-way has changed
   nothing.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class RecordState(enum.Enum):
    """The state of a record in flight; the values are those of Kafka's share-group state."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        """Whether the record is never delivered again."""
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class Run(NamedTuple):
    """Offsets from `first` to `last` in one state, delivered `deliveries` times.

    `batch` is the range that they were acquired in first. Acquired ones have a member, and a time
    at which its lock is over.
    """

    first: int
    last: int
    state: RecordState
    deliveries: int
    batch: tuple[int, int]
    member: str = ""
    due_ms: int = -1

    @property
    def size(self) -> int:
        """How many offsets it has."""
        return self.last - self.first + 1

    def free(self, state: RecordState) -> Run:
        """Return the run in a state in which nobody holds it."""
        return self._replace(state=state, member="", due_ms=-1)


def changed(runs: Sequence[Run], first: int, last: int, change: Callable[[Run], Run]) -> list[Run]:
    """Return the runs with `change` applied to the offsets from `first` to `last`.

    >>> all_of = Run(0, 9, RecordState.AVAILABLE, 1, (0, 9))
    >>> found = changed([all_of], 2, 4, lambda run: run.free(RecordState.ARCHIVED))
    >>> [(run.first, run.last, run.state.name) for run in found]
    [(0, 1, 'AVAILABLE'), (2, 4, 'ARCHIVED'), (5, 9, 'AVAILABLE')]
    """
    begin = bisect_left(runs, first, key=lambda run: run.last)
    found: list[Run] = []
    end = begin
    for run in runs[begin:]:
        if run.first > last:
            break
        end += 1
        if run.first < first:
            found.append(run._replace(last=first - 1))
        found.append(change(run._replace(first=max(run.first, first), last=min(run.last, last))))
        if run.last > last:
            found.append(run._replace(first=last + 1))
    return [*runs[:begin], *found, *runs[end:]]


def merged(runs: Iterable[Run]) -> list[Run]:
    """Return the runs with neighbours that are alike as one."""
    found: list[Run] = []
    for run in runs:
        before = found[-1] if found else None
        if before is not None and before[2:] == run[2:]:
            found[-1] = before._replace(last=run.last)
        else:
            found.append(run)
    return found
