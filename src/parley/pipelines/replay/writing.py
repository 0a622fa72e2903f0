"""Writing what comes out of a source, paced, in one transaction after the other.

A transaction has rows and the marks of where their partitions go on. It is open only while there is
something to write, at most for `commit_interval_ms`.
"""

from __future__ import annotations

import asyncio

import pyarrow as pa

from parley.pipelines.replay import marks, rows as columns
from parley.pipelines.replay.marks import Mark
from parley.pipelines.replay.options import ReplayOptions
from parley.pipelines.replay.pace import Due, Pace
from parley.pipelines.replay.sources import Rows
from parley.pipelines.replication import store
from parley.pipelines.replication.writers import Writer

_MOST_BYTES = 16 * 2**20
"""So much goes into one call: an abort waits for it."""


class Writing:
    """The state of a replay that is committed, and what the open transaction adds to it."""

    def __init__(self, writer: Writer, options: ReplayOptions, begun: dict[int, Mark]) -> None:
        self._writer, self._options = writer, options
        self.pace = Pace(options.bytes_per_second, options.speed)
        self.marks = begun
        self.records: dict[int, int] = {}
        """Records committed by this process, of each partition."""
        self.transactions = 0
        self._reached: dict[int, Mark] = {}
        self._written: dict[int, int] = {}
        self._due: float | None = None
        self._stopped = asyncio.Event()

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Let `write` return before its next row."""
        self._stopped.set()

    async def rewind(self) -> None:
        """Forget what is not committed."""
        self._reached, self._written, self._due = {}, {}, None
        await self._writer.abort()

    async def copy(self, source: Rows) -> None:
        """Write all that a source has, or until `stop`; what was written is committed."""
        while not (self.is_stopping or source.is_over):
            found = await source.rows(self._due)
            if found is not None:
                await self._write(found)
            await self._commit_if_due()
        await self.commit()

    async def commit(self, ends: dict[int, Mark] | None = None) -> None:
        """Commit the open transaction; with `ends` also that partitions are read to there."""
        reached = {**self._reached, **(ends or {})}
        if not reached:
            return
        if self._due is None:
            await self._writer.begin()
        found = store.rows_of(marks.mark_records(reached))
        await self._writer.produce(self._options.offsets_topic, found, 0)
        await self._writer.commit()
        self.transactions += 1
        self.marks |= reached
        for index, count in self._written.items():
            self.records[index] = self.records.get(index, 0) + count
        self._reached, self._written, self._due = {}, {}, None

    async def _write(self, rows: pa.RecordBatch) -> None:
        while rows.num_rows and not self.is_stopping:
            due = self._next(rows)
            if due.rows:
                await self._produce(rows.slice(0, due.rows))
                rows = rows.slice(due.rows)
            if rows.num_rows and due.wait_s:
                await self._wait(due.wait_s)
            await self._commit_if_due()

    def _next(self, rows: pa.RecordBatch) -> Due:
        most = max(1, rows.num_rows * _MOST_BYTES // max(1, rows.nbytes))
        rows = rows.slice(0, most)
        if self.pace.is_free:
            return Due(rows.num_rows, 0.0)
        now = asyncio.get_running_loop().time()
        return self.pace.due(now, rows.column(columns.TIME), rows.column(columns.SIZE))

    async def _produce(self, rows: pa.RecordBatch) -> None:
        if self._due is None:
            await self._writer.begin()
            interval_s = self._options.commit_interval_ms / 1000
            self._due = asyncio.get_running_loop().time() + interval_s
        # without a topic rows name theirs
        await self._writer.produce(self._options.to, columns.produced(rows), None)
        self._reached |= columns.marks_of(rows)
        for one in rows.column(columns.PARTITION).value_counts().to_pylist():
            index = one["values"]
            self._written[index] = self._written.get(index, 0) + one["counts"]

    async def _wait(self, seconds: float) -> None:
        """Wait for the next row, the end of the transaction, or `stop`."""
        until = asyncio.get_running_loop().time() + seconds
        try:
            async with asyncio.timeout_at(until if self._due is None else min(until, self._due)):
                await self._stopped.wait()
        except TimeoutError:
            pass

    async def _commit_if_due(self) -> None:
        if self._due is not None and asyncio.get_running_loop().time() >= self._due:
            await self.commit()
