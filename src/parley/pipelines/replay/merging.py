"""Reading the partitions of a topic, and handing their rows out in the order of their times.

Within a partition the order of offsets stays, whatever the timestamps: a row's time is the largest
timestamp up to it. A row goes out when no partition can have an older one still: each one that is
not at its end has shown a later time. Each partition has a buffer of its own, so that one that is
far ahead waits and does not keep the others from being read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import aclosing
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc

from parley.client import AsyncClient, FetchedBatch, FetchOptions, PartitionRange, TopicPartition
from parley.pipelines.replay.news import News
from parley.pipelines.replay.rows import TIME

Prepare = Callable[[FetchedBatch, int], pa.RecordBatch]
_LEAST_BYTES = 2**20
_NEVER = -(2**63)


class _Lane:
    """The rows of a partition that wait."""

    def __init__(self) -> None:
        self.waiting: deque[pa.RecordBatch] = deque()
        self.size = 0
        self.last_ms = _NEVER
        self.is_over = False
        self.room = asyncio.Event()

    def put(self, rows: pa.RecordBatch) -> None:
        self.waiting.append(rows)
        self.size += rows.nbytes
        self.last_ms = rows.column(TIME)[rows.num_rows - 1].as_py()

    def take(self, until_ms: int | None) -> list[pa.RecordBatch]:
        """Take the rows up to a time, which is included; None: all."""
        taken = []
        while self.waiting:
            rows = self.waiting[0]
            count = rows.num_rows
            if until_ms is not None:
                count = pc.less_equal(rows.column(TIME), until_ms).true_count
            if not count:
                break
            self.waiting.popleft()
            self.size -= rows.nbytes
            taken.append(rows.slice(0, count))
            if count < rows.num_rows:
                rest = rows.slice(count)
                self.waiting.appendleft(rest)
                self.size += rest.nbytes
                break
        self.room.set()
        return taken


class Merge:
    """Reads while it is open. Belongs to the event loop."""

    def __init__(
        self,
        source: AsyncClient,
        ranges: Mapping[TopicPartition, PartitionRange],
        reading: FetchOptions,
        prepare: Prepare,
        buffer_bytes: int,
    ) -> None:
        self._source, self._reading, self._prepare = source, reading, prepare
        self._ranges = {tp: found for tp, found in ranges.items() if _is_left(found)}
        self._lanes = {tp: _Lane() for tp in self._ranges}
        self._limit = max(_LEAST_BYTES, buffer_bytes // max(1, len(self._lanes)))
        self._news = News()
        self._failure: BaseException | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Merge:
        for tp in self._lanes:
            task = asyncio.ensure_future(self._read(tp))
            task.add_done_callback(self._ended)
            self._tasks.append(task)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def is_over(self) -> bool:
        """Whether every row was handed out."""
        return all(lane.is_over and not lane.waiting for lane in self._lanes.values())

    def wake(self) -> None:
        """Let `rows` return now."""
        self._news.wake()

    async def rows(self, until: float | None) -> pa.RecordBatch | None:
        """Return what comes next, in the order of times; None at the end, at the time `until` of
        the loop, or after `wake`. Raises what reading raises.
        """
        while True:
            if self._failure is not None:
                raise self._failure
            if (found := self._ready()) is not None or self.is_over:
                return found
            if not await self._news.wait(until):
                return None

    def _floor_ms(self) -> int | None:
        """Return the time up to which all rows are known, None where all are."""
        open_lanes = [lane.last_ms for lane in self._lanes.values() if not lane.is_over]
        return min(open_lanes, default=None)

    def _ready(self) -> pa.RecordBatch | None:
        floor = self._floor_ms()
        if floor == _NEVER:
            return None
        taken = [rows for lane in self._lanes.values() for rows in lane.take(floor)]
        if not taken:
            return None
        if len(taken) == 1:
            return taken[0]
        (joined,) = pa.Table.from_batches(taken).combine_chunks().to_batches()
        # stable: rows of one partition, and partitions of one time, stay as they are
        return joined.take(pc.sort_indices(joined.column(TIME)))

    async def _read(self, tp: TopicPartition) -> None:
        lane, wanted = self._lanes[tp], {tp: self._ranges[tp]}
        async with aclosing(self._source.fetch_many(wanted, self._reading)) as batches:
            async for found in batches:
                while lane.size >= self._limit:
                    lane.room.clear()
                    await lane.room.wait()
                rows = self._prepare(found, lane.last_ms)
                if rows.num_rows:
                    lane.put(rows)
                    self._news.come()
        lane.is_over = True
        self._news.come()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = self._failure or error
            self._news.come()


def _is_left(found: PartitionRange) -> bool:
    return found.end is not None and found.start < found.end
