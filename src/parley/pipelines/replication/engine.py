"""Copying, in one transaction after the other.

While a transaction is open the lanes write what was read. When it is due nothing new is begun, the
calls under way are waited for, the runs of offsets go into the same transaction, and it is
committed; reading goes on meanwhile, up to `buffer_bytes`. After trouble that may pass the
transaction is aborted and every lane read again from its committed position.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from parley.client import AsyncClient, FetchedBatch, FetchOptions, TopicPartition
from parley.errors import KafkaError
from parley.pipelines.attempts import Attempts
from parley.pipelines.replication import readers, store
from parley.pipelines.replication.clusters import ends_of
from parley.pipelines.replication.lane import Lane
from parley.pipelines.replication.options import ReplicationOptions
from parley.pipelines.replication.rows import Rewriting
from parley.pipelines.replication.writers import Writer

Ends = Mapping[TopicPartition, int]


class Engine:
    """Copies the records of some partitions. Belongs to the event loop."""

    def __init__(
        self,
        source: AsyncClient,
        writer: Writer,
        options: ReplicationOptions,
        rewriting: Rewriting,
        reading: FetchOptions,
    ) -> None:
        self._source, self._writer, self._options = source, writer, options
        self._rewriting, self._reading = rewriting, reading
        self.lanes: dict[TopicPartition, Lane] = {}
        self.transactions = 0
        self.retries = 0
        self._ends: Ends | None = None
        self._readers: list[asyncio.Task[None]] = []
        self._writes: dict[Lane, asyncio.Task[None]] = {}
        self._open = False
        self._stopping = False
        self._failure: BaseException | None = None
        self._buffered = 0
        self._news = asyncio.Event()
        self._room = asyncio.Event()

    def add(self, lanes: Iterable[Lane]) -> None:
        """Copy these partitions, too."""
        new = {lane.partition: lane for lane in lanes}
        self.lanes |= new
        if self._readers:
            self._read(new)

    def stop(self) -> None:
        """End after the open transaction, which is committed."""
        self._stopping = True
        self._news.set()

    def fail(self, error: BaseException) -> None:
        """Let an error of somebody else end the copying."""
        self._failure = self._failure or error
        self._news.set()

    def is_idle(self, lane: Lane) -> bool:
        """Return whether nothing of a partition is under way."""
        return not (lane.has_work or lane.moved or lane in self._writes)

    # -- the course of it --------------------------------------------------------------------------

    async def run(self, ends: Ends | None = None) -> None:
        """Copy up to these offsets, or until `stop`. Raises what ended it."""
        self._ends = ends
        attempts, caught_up = Attempts(self._options.name, self._options.patience_ms), 0
        while True:
            try:
                await self._writer.abort()  # what the attempt before has left open
                if self.retries:
                    caught_up += await self._is_caught_up()
                self._read(self.lanes)
                await self._copy()
                return
            except KafkaError as error:
                copied = sum(lane.records for lane in self.lanes.values())
                attempts.check(error, copied + caught_up)
            finally:
                await self._halt()
            self.retries += 1
            await attempts.pause()

    async def _is_caught_up(self) -> bool:
        """Ask the source whether it has anything that is not copied."""
        isolation = self._reading.isolation_level
        ends = await ends_of(self._source, self.lanes, isolation)
        behind = {
            tp: replace(lane.range(), end=ends[tp])
            for tp, lane in self.lanes.items()
            if ends[tp] > lane.position.next_offset
        }
        return not (behind and await readers.any_record(self._source, behind, isolation))

    async def _copy(self) -> None:
        while not self._stopping:
            self._check()
            if any(lane.has_work for lane in self.lanes.values()):
                await self._transaction()
            elif self._ends is not None and self._all_read():
                return
            else:
                await self._news_by(None)

    async def _transaction(self) -> None:
        loop = asyncio.get_running_loop()
        await self._writer.begin()
        due = loop.time() + self._options.commit_interval_ms / 1000
        self._open = True
        for lane in self.lanes.values():
            self._write(lane)
        while not (self._stopping or self._is_over()) and await self._news_by(due):
            self._check()
        self._open = False
        while self._writes:
            await asyncio.wait(self._writes.values())
            await asyncio.sleep(0)  # their ends are noted by callbacks
        self._check()
        outdated: dict[Lane, list[bytes]] = {}
        chunks = {lane: lane.chunks() for lane in list(self.lanes.values()) if lane.moved}
        if written := [chunk for found in chunks.values() for chunk in found]:
            outdated = {lane: lane.outdated() for lane in self.lanes.values()}
            keys = [key for found in outdated.values() for key in found]
            rows = store.of_chunks(written, keys)
            await self._writer.produce(self._options.offsets_topic, rows, 0)
        await self._writer.commit()
        self.transactions += 1
        for lane, deleted in outdated.items():
            lane.trimmed(len(deleted))
        for lane, found in chunks.items():
            lane.committed(found)

    def _is_over(self) -> bool:
        """Whether all that will be read is written: the end need not be waited for."""
        return self._ends is not None and self._all_read() and not self._writes

    def _all_read(self) -> bool:
        """Whether every reader came to its end."""
        return all(
            task.done() and not task.cancelled() and task.exception() is None
            for task in self._readers
        )

    async def _news_by(self, due: float | None) -> bool:
        """Wait for something to happen; return False when `due` has come instead."""
        loop = asyncio.get_running_loop()
        if self._news.is_set():
            self._news.clear()
            return due is None or loop.time() < due
        try:
            async with asyncio.timeout_at(due):
                await self._news.wait()
        except TimeoutError:
            return False
        self._news.clear()
        return True

    def _check(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    async def _halt(self) -> None:
        """Stop reading and writing; forget what is not committed."""
        self._open = False
        tasks, self._readers = self._readers, []
        await readers.stop(tasks)
        writes = list(self._writes.values())
        for task in writes:
            task.cancel()
        await asyncio.gather(*writes, return_exceptions=True)
        self._writes.clear()
        for lane in self.lanes.values():
            lane.rewind()
        self._buffered, self._failure = 0, None
        self._room.set()

    # -- reading -----------------------------------------------------------------------------------

    def _read(self, lanes: Mapping[TopicPartition, Lane]) -> None:
        ranges = {tp: lane.range() for tp, lane in lanes.items()}
        if self._ends is not None:
            ranges = {
                tp: replace(found, end=self._ends[tp])
                for tp, found in ranges.items()
                if self._ends.get(tp, 0) > found.start
            }
        tasks = readers.start(
            self._source, ranges, self._reading, self._deliver, self._options.readers
        )
        self._readers += tasks
        for task in tasks:
            task.add_done_callback(self._reader_ended)
        self._news.set()

    async def _deliver(self, found: FetchedBatch) -> None:
        while self._buffered >= self._options.buffer_bytes:
            self._room.clear()
            await self._room.wait()
        lane = self.lanes[found.partition]
        self._buffered += lane.put(found)
        if self._open:
            self._write(lane)
        else:
            self._news.set()

    def _reader_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)
        self._news.set()

    # -- writing -----------------------------------------------------------------------------------

    def _write(self, lane: Lane) -> None:
        if lane.has_work and lane not in self._writes:
            task = self._writes[lane] = asyncio.ensure_future(self._written(lane))
            task.add_done_callback(self._ended(lane))

    async def _written(self, lane: Lane) -> None:
        while self._open and lane.has_work:
            self._buffered -= await lane.write(self._writer, self._rewriting)
            self._room.set()

    def _ended(self, lane: Lane) -> Callable[[asyncio.Task[None]], None]:
        def ended(task: asyncio.Task[None]) -> None:
            if self._writes.get(lane) is task:
                del self._writes[lane]
            if not task.cancelled() and (error := task.exception()) is not None:
                self.fail(error)
            self._news.set()

        return ended
