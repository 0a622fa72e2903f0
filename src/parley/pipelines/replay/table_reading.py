"""A table's rows in their order, for the event loop: read and sorted in a thread, then handed out
like the rows of a merge.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import TracebackType

import pyarrow as pa

from parley.pipelines.replay.news import News
from parley.pipelines.replay.rows import TIME
from parley.pipelines.replay.sorting import Sorter
from parley.pipelines.replay.table_rows import TableRecords
from parley.spark.lakes.snapshots import Snapshot


class SortedTable:
    """Reads while it is open, from a row on. Belongs to the event loop."""

    def __init__(
        self,
        snapshot: Snapshot,
        records: TableRecords,
        where: str | None,
        first: int,
        buffer_bytes: int,
    ) -> None:
        self._snapshot, self._records, self._where = snapshot, records, where
        self._next, self._last_ms = first, 0
        self._passed = 0
        """Rows that came out of the sorting."""
        # a run is sorted as a copy, and what is encoded is as large again
        self._sorter = Sorter(records.sorted_by, max(1, buffer_bytes // 4))
        self._sorted: Iterator[pa.RecordBatch] | None = None
        self._work: asyncio.Task[pa.RecordBatch | None] | None = None
        self._news = News()
        self._stopped = False
        self.is_over = False
        """Whether every row was handed out."""

    async def __aenter__(self) -> SortedTable:
        self._begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped = True
        if self._work is not None:
            await asyncio.gather(self._work, return_exceptions=True)
        self._sorter.close()

    def wake(self) -> None:
        """Let `rows` return now."""
        self._news.wake()

    async def rows(self, until: float | None) -> pa.RecordBatch | None:
        """Return what comes next; None at the end, at the time `until` of the loop, or after
        `wake`. Raises what reading raises.
        """
        while not self.is_over:
            if self._work is not None and self._work.done():
                found = self._work.result()
                self._work = None
                if found is None:
                    self.is_over = True
                    return None
                self._begin()
                return found
            if not await self._news.wait(until):
                return None
        return None

    def _begin(self) -> None:
        self._work = asyncio.ensure_future(asyncio.to_thread(self._following))
        self._work.add_done_callback(lambda _: self._news.come())

    # -- in a thread -------------------------------------------------------------------------------

    def _following(self) -> pa.RecordBatch | None:
        """Return the next rows from the first wanted one on, None at the end."""
        if self._sorted is None:
            self._sort()
            self._sorted = self._sorter.rows()
        for rows in self._sorted:
            if self._stopped:
                return None
            first, self._passed = self._passed, self._passed + rows.num_rows
            if self._passed > self._next:
                return self._finished(rows.slice(self._next - first))
        return None

    def _sort(self) -> None:
        for batch in self._snapshot.read(self._records.reads, self._where):
            if self._stopped:
                return
            if batch.num_rows:
                self._sorter.add(self._records.of(batch))

    def _finished(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        made = self._records.finished(rows, self._next, self._last_ms)
        self._next += rows.num_rows
        self._last_ms = made.column(TIME)[rows.num_rows - 1].as_py()
        return made
