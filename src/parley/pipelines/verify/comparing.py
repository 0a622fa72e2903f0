"""Both sides read at once, digested, and the first difference of each partition looked up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Generic, TypeVar

from parley.client import FetchedBatch
from parley.net.blocking import Work
from parley.pipelines.verify.bisection import (
    Extent,
    Suspect,
    first_suspect,
    first_unequal,
    kind_at,
    narrowed,
)
from parley.pipelines.verify.latest import KeyDifference, Latest, first_key_difference
from parley.pipelines.verify.planning import Pair
from parley.pipelines.verify.reading import Side, is_untimed, numbers
from parley.pipelines.verify.results import (
    ComparedRecord,
    Difference,
    DifferenceKind,
    VerifiedPartition,
)
from parley.pipelines.verify.runs import MOST_RUNS, RUN_RECORDS, RunTable
from parley.types import TopicPartition

MOST_RUNS_IN_ALL = 65_536
"""Runs of all partitions of a side together: about 13 MB."""

Kept = TypeVar("Kept", RunTable, Latest)
One = TypeVar("One")
Other = TypeVar("Other")


class Found(Generic[Kept]):
    """What reading one side gave: something for each partition, and which have no timestamps."""

    def __init__(self, kept: dict[TopicPartition, Kept]) -> None:
        self.kept: dict[TopicPartition, Kept] = kept
        self.untimed: set[TopicPartition] = set()


async def compare_records(
    left: Side, right: Side, pairs: Sequence[Pair], timestamps: bool
) -> list[VerifiedPartition]:
    """Compare records in their order."""
    most_runs = min(MOST_RUNS, MOST_RUNS_IN_ALL // max(1, len(pairs)))
    done = []
    for timed, group, tables in await _read_both(
        left, right, pairs, timestamps, lambda: RunTable(most_runs)
    ):
        comparison = _Comparison(left, right, timed)
        for pair in group:
            ours, theirs = tables[0][pair.left], tables[1][pair.right]
            difference = await comparison.difference(pair, ours, theirs)
            counts = ours.digest.records, theirs.digest.records
            done.append(_row(pair, counts, timed, difference))
    return done


async def compare_latest(
    left: Side, right: Side, pairs: Sequence[Pair], timestamps: bool, ignore_tombstones: bool
) -> list[VerifiedPartition]:
    """Compare the latest record of each key, one pair after the other: keys take memory."""
    done = []
    for pair in pairs:
        for timed, _, (ours, theirs) in await _read_both(
            left, right, [pair], timestamps, lambda: Latest(ignore_tombstones=ignore_tombstones)
        ):
            one, other = ours[pair.left], theirs[pair.right]
            found = first_key_difference(one, other)
            difference = None
            if found is not None:
                difference = await _key_difference(left, right, pair, found)
            done.append(_row(pair, (len(one), len(other)), timed, difference))
    return done


def _row(
    pair: Pair, counts: tuple[int, int], timed: bool, difference: Difference | None
) -> VerifiedPartition:
    return VerifiedPartition(
        pair.left,
        pair.right,
        (pair.left_extent.start, pair.left_extent.end),
        (pair.right_extent.start, pair.right_extent.end),
        *counts,
        timestamps_compared=timed,
        difference=difference,
    )


Group = tuple[
    bool, Sequence[Pair], tuple[Mapping[TopicPartition, Kept], Mapping[TopicPartition, Kept]]
]


async def _read_both(
    left: Side, right: Side, pairs: Sequence[Pair], timestamps: bool, make: Callable[[], Kept]
) -> list[Group[Kept]]:
    """Return what is kept of both sides, by whether timestamps counted.

    Pairs of which one side turns out to have records without timestamps are read once more.
    """
    ours, theirs = await _both(
        _collect(left, {pair.left: pair.left_extent for pair in pairs}, timestamps, make),
        _collect(right, {pair.right: pair.right_extent for pair in pairs}, timestamps, make),
    )
    untimed = [
        pair
        for pair in pairs
        if timestamps and (pair.left in ours.untimed or pair.right in theirs.untimed)
    ]
    again = {pair.left for pair in untimed}
    timed = [pair for pair in pairs if pair.left not in again]
    groups: list[Group[Kept]] = [(timestamps, timed, (ours.kept, theirs.kept))]
    if untimed:
        groups += await _read_both(left, right, untimed, False, make)
    return [group for group in groups if group[1]]


async def _collect(
    side: Side,
    extents: Mapping[TopicPartition, Extent],
    timestamps: bool,
    make: Callable[[], Kept],
) -> Found[Kept]:
    found = Found({tp: make() for tp in extents})
    keys = any(isinstance(kept, Latest) for kept in found.kept.values())
    async with aclosing(side.hashed(extents, timestamps=timestamps, keys=keys)) as batches:
        async for one in batches:
            if is_untimed(one.batch):
                found.untimed.add(one.partition)
            await asyncio.to_thread(_keep, found.kept[one.partition], one)
    return found


def _keep(kept: RunTable | Latest, one: FetchedBatch) -> None:
    hashes, offsets = numbers(one.batch, "hash"), numbers(one.batch, "offset")
    if isinstance(kept, RunTable):
        kept.add(hashes, offsets)
    else:
        present = one.batch.column("has_value").to_pylist()
        kept.add(numbers(one.batch, "key_hash"), hashes, offsets, present)


class _Comparison:
    """Looks up where the partitions of two sides first differ."""

    def __init__(self, left: Side, right: Side, timestamps: bool) -> None:
        self._left, self._right, self._timestamps = left, right, timestamps

    async def difference(self, pair: Pair, ours: RunTable, theirs: RunTable) -> Difference | None:
        suspect = first_suspect(ours, theirs, (pair.left_extent.end, pair.right_extent.end))
        if suspect is None:
            return None
        search = narrowed(suspect)
        try:
            asked = next(search)
            while True:
                asked = search.send(await self._tables(pair, asked))
        except StopIteration as end:
            suspect = end.value
        found = None if suspect is None else await self._record(pair, suspect)
        if found is None:
            return Difference(
                DifferenceKind.CHANGED,
                "the sides differed when they were first read, and not when the difference was "
                "looked up: retention, compaction or an election changed one; compare again",
            )
        digests = ours.digest, theirs.digest
        if digests[0][:2] == digests[1][:2]:  # as many records, with the same sum
            found = _difference(DifferenceKind.ORDER, found.rank, found.left, found.right)
        return found

    async def _tables(self, pair: Pair, suspect: Suspect) -> tuple[RunTable, RunTable]:
        ours, theirs = await _both(
            _collect(self._left, {pair.left: suspect.left}, self._timestamps, RunTable),
            _collect(self._right, {pair.right: suspect.right}, self._timestamps, RunTable),
        )
        return ours.kept[pair.left], theirs.kept[pair.right]

    async def _record(self, pair: Pair, suspect: Suspect) -> Difference | None:
        """Return the first difference of a short run, which is read record by record, with the two
        that follow it: they show what kind of difference it is.
        """
        most = RUN_RECORDS + 2
        left_extent = Extent(suspect.left.start, pair.left_extent.end)
        right_extent = Extent(suspect.right.start, pair.right_extent.end)
        ours, theirs = await _both(
            self._left.places(pair.left, left_extent, most, timestamps=self._timestamps),
            self._right.places(pair.right, right_extent, most, timestamps=self._timestamps),
        )
        left = [place.record_hash for place in ours]
        right = [place.record_hash for place in theirs]
        at = first_unequal(left, right)
        if at is None:
            return None
        one, other = await _both(
            _record(self._left, pair.left, ours[at].offset if at < len(ours) else -1),
            _record(self._right, pair.right, theirs[at].offset if at < len(theirs) else -1),
        )
        return _difference(kind_at(left, right, at), suspect.rank + at, one, other)


async def _key_difference(left: Side, right: Side, pair: Pair, found: KeyDifference) -> Difference:
    one, other = await _both(
        _record(left, pair.left, found.left_offset), _record(right, pair.right, found.right_offset)
    )
    made = _difference(found.kind, None, one, other)
    keys = "1 key differs" if found.keys == 1 else f"{found.keys} keys differ"
    return Difference(made.kind, f"{keys}; the first: {made.detail}", None, one, other)


async def _record(side: Side, tp: TopicPartition, offset: int) -> ComparedRecord | None:
    return None if offset < 0 else await side.record(tp, offset)


def _difference(
    kind: DifferenceKind,
    rank: int | None,
    left: ComparedRecord | None,
    right: ComparedRecord | None,
) -> Difference:
    if kind is DifferenceKind.MISSING and left is not None:
        detail = f"the right side lacks the record at {left.partition} offset {left.offset}"
    elif kind is DifferenceKind.ADDED and right is not None:
        detail = f"the right side has one more record, at {right.partition} offset {right.offset}"
    elif kind is DifferenceKind.ORDER:
        detail = "the same records stand in another order"
    else:
        detail = f"the records differ in {_differing(left, right)}"
    return Difference(kind, detail, rank, left, right)


def _differing(left: ComparedRecord | None, right: ComparedRecord | None) -> str:
    if left is None or right is None:
        return "everything: only one side still has one"
    names = ("key", "value", "headers", "timestamp_ms")
    found = [name for name in names if getattr(left, name) != getattr(right, name)]
    if found == ["timestamp_ms"]:
        return "their timestamps alone; leave those out where they may differ"
    return ", ".join(found).replace("timestamp_ms", "timestamp")


async def _both(one: Work[One], other: Work[Other]) -> tuple[One, Other]:
    """Return what both bring; where one fails the other is ended before that is raised."""
    tasks = asyncio.ensure_future(one), asyncio.ensure_future(other)
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
