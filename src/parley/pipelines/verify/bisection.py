"""Where two sides first differ: from long runs to shorter ones, and to one record.

Plain functions: what has to be read again is asked for, and somebody else reads it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

from parley.pipelines.verify.results import DifferenceKind
from parley.pipelines.verify.runs import RUN_RECORDS, Run, RunTable


class Extent(NamedTuple):
    """Offsets of a partition: from `start` up to, not including, `end`."""

    start: int
    end: int


class Suspect(NamedTuple):
    """The first run that differs: the extent it has on each side, an empty one where a side ends
    before it; how many records come before it, and how many it has at most.
    """

    rank: int
    records: int
    left: Extent
    right: Extent


def first_suspect(left: RunTable, right: RunTable, ends: tuple[int, int]) -> Suspect | None:
    """Return the first run that differs, None where there is none. `ends` are those of the extents
    that the tables were made of.
    """
    records = max(left.run_records, right.run_records)
    ours, theirs = left.in_runs_of(records), right.in_runs_of(records)
    for at in range(max(len(ours), len(theirs))):
        if _digest(ours, at) != _digest(theirs, at):
            left_extent, right_extent = _extent(ours, at, ends[0]), _extent(theirs, at, ends[1])
            return Suspect(at * records, records, left_extent, right_extent)
    return None


def _digest(runs: Sequence[Run], at: int) -> object:
    return runs[at].digest if at < len(runs) else None


def _extent(runs: Sequence[Run], at: int, end: int) -> Extent:
    start = runs[at].start if at < len(runs) else end
    return Extent(start, runs[at + 1].start if at + 1 < len(runs) else end)


def narrowed(suspect: Suspect) -> Generator[Suspect, tuple[RunTable, RunTable], Suspect | None]:
    """Return the first differing run of at most RUN_RECORDS records inside a longer one.

    Yields what has to be read again, and wants its tables. Returns None where the sides no longer
    differ.
    """
    while suspect.records > RUN_RECORDS:
        left, right = yield suspect
        inner = first_suspect(left, right, (suspect.left.end, suspect.right.end))
        if inner is None:
            return None
        suspect = inner._replace(rank=suspect.rank + inner.rank)
    return suspect


def first_unequal(left: Sequence[int], right: Sequence[int]) -> int | None:
    """Return the first place where hashes differ, or where one side ends; None without one."""
    for at, (ours, theirs) in enumerate(zip(left, right, strict=False)):
        if ours != theirs:
            return at
    return None if len(left) == len(right) else min(len(left), len(right))


def kind_at(left: Sequence[int], right: Sequence[int], at: int) -> DifferenceKind:
    """Return what it is that differs, as far as the records that follow show it.

    >>> str(kind_at([1, 2, 3], [1, 3], 1)), str(kind_at([1, 2, 3], [2, 1, 3], 0))
    ('missing', 'order')
    """
    if at >= len(right):
        return DifferenceKind.MISSING
    if at >= len(left):
        return DifferenceKind.ADDED
    ours, theirs = list(left[at : at + 2]), list(right[at : at + 2])
    if len(ours) == 2 and ours == theirs[::-1]:
        return DifferenceKind.ORDER
    if ours[1:] == theirs[:1]:
        return DifferenceKind.MISSING
    if ours[:1] == theirs[1:]:
        return DifferenceKind.ADDED
    return DifferenceKind.DIFFERS
