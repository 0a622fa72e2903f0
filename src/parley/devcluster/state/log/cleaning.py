"""Cleaning the log of a replica: how far it may go, whether it pays, and the doing of it.

Rules of this file:
1. Whole segments, never the one that is written to, nor one that holds something undecided or not
   replicated, nor one with a record that `min.compaction.lag.ms` still spares.
2. Segments that are small together become one. What stays is written beside them, and takes their
   place when it is whole; where the disk refuses, the log is as it was before that segment.
3. Followers whose logs are the leader's, byte for byte, share what the leader's cleaning left.
   Others are cleaned by themselves, as every broker does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from parley.devcluster.state.log.batches import BatchFacts
from parley.devcluster.state.log.compaction import (
    CleanerRules,
    Compaction,
    Kept,
    LastOfProducer,
    Round,
    Stored,
    newest_offsets,
)
from parley.devcluster.state.log.replica import Cleaned, Replica
from parley.devcluster.state.log.segment import Segment
from parley.devcluster.state.log_settings import NO_LIMIT, LogSettings

CHUNK_BYTES = 1 << 20


class Dirt(NamedTuple):
    """What the cleaner finds in a log. `ratio` is the new part of what it may clean.

    `must`: max.compaction.lag.ms is over for some of it. `later_ms` is when that, or the end of
    min.compaction.lag.ms, comes; None if neither does. `waits`: something undecided is in the way.
    """

    first_dirty: int
    bound: int
    ratio: float
    must: bool
    later_ms: int | None
    waits: bool

    def is_due(self, settings: LogSettings) -> bool:
        """Whether a cleaner would begin with it."""
        return self.ratio > (0 if self.must else settings.min_cleanable_dirty_ratio)


def look_at(replica: Replica, settings: LogSettings, now_ms: int) -> Dirt:
    """Return how dirty a log is."""
    log, closed = replica.log, _closed(replica)
    first_dirty = replica.cleaned.first_dirty
    if not log.start_offset <= first_dirty <= log.end_offset:
        first_dirty = log.start_offset
    dirty = [one for one, end in closed if end > first_dirty]
    spared_ms = settings.min_compaction_lag_ms
    young = [one for one in dirty if spared_ms and _newest_ms(one) > now_ms - spared_ms]
    stable = replica.last_stable_offset
    limit = min(young[0].base_offset, stable) if young else stable
    bound = max([first_dirty, *(end for _, end in closed if end <= limit)])
    new_bytes = sum(one.size for one in dirty if one.base_offset < bound)
    all_bytes = sum(one.size for one, end in closed if end <= bound)
    later = _overdue_ms(dirty, settings)
    return Dirt(
        first_dirty=first_dirty,
        bound=bound,
        ratio=new_bytes / all_bytes if all_bytes else 0.0,
        must=later is not None and later <= now_ms,
        later_ms=min(
            (
                at_ms
                for at_ms in (later, _newest_ms(young[0]) + spared_ms if young else None)
                if at_ms is not None and at_ms > now_ms
            ),
            default=None,
        ),
        waits=bool(closed) and stable < closed[-1][1] and not young,
    )


def _overdue_ms(dirty: Sequence[Segment], settings: LogSettings) -> int | None:
    """Return from when on max.compaction.lag.ms demands a cleaning, None where it never does."""
    begun = [one.first_timestamp_ms for one in dirty if one.first_timestamp_ms > 0]
    if not begun or settings.max_compaction_lag_ms == NO_LIMIT:
        return None
    return min(begun) + settings.max_compaction_lag_ms + 1


def _closed(replica: Replica) -> list[tuple[Segment, int]]:
    """Return the segments that are not written to any more, with the offsets behind them."""
    return [(one, after.base_offset) for one, after in pairwise(replica.log.segments)]


def _newest_ms(segment: Segment) -> int:
    newest_ms = segment.max_timestamp_ms
    return newest_ms if newest_ms >= 0 else segment.written_ms


def round_of(
    replica: Replica, dirt: Dirt, settings: LogSettings, rules: CleanerRules, now_ms: int
) -> Round:
    """Return what a cleaning of a log is to do."""
    clean = [one for one, end in _closed(replica) if end <= dirt.first_dirty]
    producers = {
        state.producer_id: LastOfProducer(
            state.batches[-1].last_offset if state.batches else None, state.epoch
        )
        for state in replica.producers.states()
    }
    return Round(
        first_dirty=dirt.first_dirty,
        bound=dirt.bound,
        now_ms=now_ms,
        delete_retention_ms=settings.delete_retention_ms,
        undated_until_ms=clean[-1].written_ms - settings.delete_retention_ms if clean else None,
        is_whole=dirt.bound == replica.log.end_offset,
        producers=producers,
        aborted=replica.producers.transactions.aborted_before(dirt.bound),
        rules=rules,
    )


@dataclass(slots=True)
class Done:
    """What a cleaning did: records that went, and the base offsets of batches that stayed whole."""

    records_gone: int = 0
    untouched: set[int] = field(default_factory=set)


class Cleaning:
    """One round over the log of a replica, and over the logs of followers that are the same."""

    def __init__(self, replica: Replica, same: Sequence[Replica], todo: Round, name: str) -> None:
        self._replicas = [replica, *same]
        self._log, self._todo, self._name = replica.log, todo, name
        self._done = Done()

    def run(self, segment_bytes: int) -> Done:
        """Clean. Raises OSError; what was put in place until then stays."""
        todo = self._todo
        dirty = (
            batch
            for segment in self._segments()
            if segment.end_offset > todo.first_dirty
            for batch in _stored(segment)
        )
        compaction = Compaction(todo, newest_offsets(dirty, todo))
        first = 0
        try:
            while first < len(self._segments()):
                stop = self._group(first, segment_bytes)
                self._replace(first, stop, compaction)
                first += 1
        except OSError:
            for one in self._replicas:  # those replaced until then may be another one's old ones
                one.cleaned = one.cleaned.differing(todo.bound, f"{self._name}/{one.broker_id}")
            raise
        for one in self._replicas:
            one.producers.transactions.cleaned(todo.bound, compaction.aborted)
            one.cleaned = Cleaned(todo.bound, todo.bound, self._name)
        self._done.records_gone = compaction.records_gone
        return self._done

    def _segments(self) -> list[Segment]:
        return [one for one in self._log.segments if one.base_offset < self._todo.bound]

    def _group(self, first: int, segment_bytes: int) -> int:
        """Return where the segments end that are put together with the first one."""
        segments, size, stop = self._segments(), 0, first
        while stop < len(segments) and (
            stop == first or size + segments[stop].size <= segment_bytes
        ):
            size += segments[stop].size
            stop += 1
        return stop

    def _replace(self, first: int, stop: int, compaction: Compaction) -> None:
        made = [one.log.begin_cleaned(first) for one in self._replicas]
        try:
            for kept in self._chunks(first, stop, compaction):
                _append(made, kept)
            for one, cleaned in zip(self._replicas, made, strict=True):
                one.log.put_cleaned(cleaned, first, stop)
        except OSError:
            for cleaned, one in zip(made, self._replicas, strict=True):
                if cleaned not in one.log.segments:
                    cleaned.store.delete()
            raise

    def _chunks(self, first: int, stop: int, compaction: Compaction) -> Iterator[list[Kept]]:
        chunk: list[Kept] = []
        size = 0
        for segment in self._segments()[first:stop]:
            written_ms = segment.written_ms
            for batch in _stored(segment):
                kept = compaction.clean(batch, written_ms)
                if kept is None:
                    continue
                if kept.facts is batch.facts:
                    self._done.untouched.add(kept.facts.base_offset)
                chunk.append(kept)
                size += kept.facts.size
                if size >= CHUNK_BYTES:
                    yield chunk
                    chunk, size = [], 0
        if chunk:
            yield chunk


def _append(made: Sequence[Segment], kept: Sequence[Kept]) -> None:
    run: list[BatchFacts] = [one.facts for one in kept]
    base = run[0].base_offset if run[0].magic == 2 else made[0].end_offset
    shared = made[0].append(run, base, b"".join(one.data for one in kept))
    for segment in made[1:]:
        segment.append(run, base, shared)


def _stored(segment: Segment) -> Iterator[Stored]:
    return (Stored(*one) for one in segment.batches())


def shape_of(replica: Replica, bound: int) -> list[tuple[int, int]]:
    """Return what two logs have in common that may be cleaned together: their segments."""
    return [(one.base_offset, one.size) for one in replica.log.segments if one.base_offset < bound]
