"""Which offset of the target has which record of the source. Pure.

Offsets of a partition are copied in their order, so that the map is a list of runs: neighbours in
the source that are neighbours in the target. A run ends where either log has a hole: what the
source compacted away or aborted, the control records of transactions on either side.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from parley.errors import KafkaError


class Run(NamedTuple):
    """`records` that are neighbours in both logs, and where the first of them is."""

    source: int
    target: int
    records: int


class Place(NamedTuple):
    """Where a reader of the source goes on in the target.

    `exact` is False where records between the newest run and the reader's offset are still to be
    copied: the offset is then lower than the reader's place, and it will see records again.
    """

    offset: int
    exact: bool


class PartitionMap:
    """The runs of one partition, oldest first, and the source's offset to be copied next."""

    def __init__(self, runs: Iterable[Run] = (), next_offset: int = 0) -> None:
        self._sources, self._targets, self._counts = array("q"), array("q"), array("q")
        self.next_offset = 0
        self.append(runs, next_offset)

    def __len__(self) -> int:
        return len(self._sources)

    def __iter__(self) -> Iterator[Run]:
        columns = zip(self._sources, self._targets, self._counts, strict=True)
        return (Run(*numbers) for numbers in columns)

    def append(self, runs: Iterable[Run], next_offset: int) -> None:
        """Add what was copied next. Raises KafkaError for offsets that are not behind the last."""
        for run in runs:
            if len(self._sources):
                last = self._run(-1)
                source, target = last.source + last.records, last.target + last.records
                if run.source < source or run.target < target:
                    raise KafkaError(
                        f"the map of offsets has source offset {run.source} at {run.target} after "
                        f"{source - 1} at {target - 1}: another replication wrote it, or another "
                        "topic of this name"
                    )
                if run.source == source and run.target == target:
                    self._counts[-1] += run.records
                    continue
            self._sources.append(run.source)
            self._targets.append(run.target)
            self._counts.append(run.records)
        self.next_offset = max(self.next_offset, next_offset)

    def place(self, offset: int) -> Place | None:
        """Return where a reader whose next offset is `offset` goes on; None before the first run.

        Between two runs that is the place of the next record that was copied.

        >>> found = PartitionMap([Run(0, 10, 3), Run(5, 14, 2)], 7)
        >>> [found.place(at).offset for at in (0, 2, 3, 5, 6, 7)]
        [10, 12, 14, 14, 15, 16]
        >>> found.place(9)
        Place(offset=16, exact=False)
        """
        if not len(self._sources):
            return None
        at = bisect_right(self._sources, offset) - 1
        if at >= 0:
            run = self._run(at)
            if offset < run.source + run.records:
                return Place(run.target + offset - run.source, True)
        if at + 1 < len(self._sources):
            return Place(self._targets[at + 1], True)
        last = self._run(-1)
        return Place(last.target + last.records, offset <= self.next_offset)

    def forget(self, offset: int) -> None:
        """Drop the runs that lie below an offset of the source."""
        count = bisect_right(self._sources, offset)
        while count and self._sources[count - 1] + self._counts[count - 1] > offset:
            count -= 1
        for column in (self._sources, self._targets, self._counts):
            del column[:count]

    def end(self) -> int:
        """Return the target's offset behind the last copied record, -1 where there is none."""
        if not len(self._sources):
            return -1
        last = self._run(-1)
        return last.target + last.records

    def _run(self, at: int) -> Run:
        return Run(self._sources[at], self._targets[at], self._counts[at])


def paired(sources: Iterable[tuple[int, int]], targets: Iterable[tuple[int, int]]) -> list[Run]:
    """Return the runs of records that were written in their order.

    `sources` are (first offset, count) of what was read, `targets` of the batches that the broker
    took: both have the same records, cut in different places.

    >>> paired([(0, 3), (7, 2)], [(10, 4), (14, 1)])
    [Run(source=0, target=10, records=3), Run(source=7, target=13, records=2)]
    """
    found: list[Run] = []
    left = iter(sources)
    source, source_count = 0, 0
    for target, target_count in targets:
        while target_count:
            if not source_count:
                source, source_count = next(left)
            count = min(source_count, target_count)
            _join(found, Run(source, target, count))
            source, source_count = source + count, source_count - count
            target, target_count = target + count, target_count - count
    return found


def _join(runs: list[Run], run: Run) -> None:
    last = runs[-1] if runs else None
    if last is not None and (last.source + last.records, last.target + last.records) == run[:2]:
        runs[-1] = Run(last.source, last.target, last.records + run.records)
    else:
        runs.append(run)
