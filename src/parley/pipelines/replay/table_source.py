"""A table as the source of a replay."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from parley.client import AsyncClient, ClusterMetadata, TopicPartition
from parley.errors import LakeError
from parley.pipelines.replay.marks import Mark, Settled
from parley.pipelines.replay.options import SOURCE_PARTITION, ReplayOptions
from parley.pipelines.replay.planning import plan_target
from parley.pipelines.replay.sources import Ranges
from parley.pipelines.replay.table_options import ReplayedTable
from parley.pipelines.replay.table_reading import SortedTable
from parley.pipelines.replay.table_rows import SCHEMAS, TableRecords, milliseconds
from parley.pipelines.replication.chunks import Position
from parley.pipelines.replication.clusters import check_ids
from parley.pipelines.replication.options import DROP
from parley.pipelines.replication.plan import MOST_REPLICAS, Plan, Topic
from parley.spark.lakes.options import Kind
from parley.spark.lakes.snapshots import Place, Snapshot, open_snapshot
from parley.types import ZERO_UUID


class TableSource:
    """A Delta or Iceberg table, at the version that it has when the replay begins.

    What it has are rows by their numbers, sorted: one partition.
    """

    def __init__(self, options: ReplayOptions, table: ReplayedTable) -> None:
        self._options, self._table = options, table
        lake = Kind.DELTA if table.delta else Kind.ICEBERG
        self._place = Place(lake, table.name, table.settings, table.catalog)
        self._opened: Snapshot | None = None
        self._records: TableRecords | None = None

    id: str | None = None
    """It has no cluster: `resume` compares the table's own id."""

    async def look(self) -> None:
        if self._opened is None:
            await self._open(self._table.version)

    async def plan(self, target: AsyncClient, there: ClusterMetadata, *, has_begun: bool) -> Plan:
        records = await asyncio.to_thread(TableRecords, self._options, self._snapshot, dry=True)
        options, to = self._options, str(self._options.to)
        held = there.topics.get(to)
        count = len(held.partitions) if held is not None else options.partitions or 1
        if options.partition_by == SOURCE_PARTITION and not has_begun:
            count = max(count, await asyncio.to_thread(self._partitions))
        oldest_ms = None if has_begun else await asyncio.to_thread(self._oldest_ms, records)
        replicas = min(MOST_REPLICAS, len(there.brokers))
        has_headers = options.headers != DROP
        wanted = Topic(to, count, replicas, {}, {}, oldest_ms, has_headers)
        return await plan_target(target, there, options, wanted, has_begun=has_begun)

    async def ranges(self) -> Ranges:
        count = await asyncio.to_thread(self._snapshot.count, self._table.where)
        return {0: (0, count)}

    async def settle(self, there: ClusterMetadata) -> Settled:
        found, ids = (await self._read_with()).settled(), (ZERO_UUID, self._target_id(there))
        return Settled.of(self._options, ids, await self.ranges(), found)

    async def resume(
        self,
        settled: Settled,
        held: Mapping[int, Mark],
        there: ClusterMetadata,
        *,
        dry: bool = False,
    ) -> Settled:
        settled.check(self._options)
        begun = settled.table or {}
        version = begun.get("version")
        if self._table.version is None and version != self._snapshot.version:
            await self._open(version if isinstance(version, int) else None)
        if begun.get("id") != self._snapshot.table_id:
            raise LakeError(
                f"the table {self._table.name} is another one than the replay "
                f'"{self._options.name}" was begun with: it was replaced. Replay it under another '
                "name, into another topic"
            )
        settled.check_table(self._options, await self._now(begun, dry=dry))
        at = Position(settled.start(0, held), -1, ZERO_UUID, settled.target_id)
        to = TopicPartition(str(self._options.to), 0)
        check_ids(to, at, (ZERO_UUID, self._target_id(there)))
        return settled

    def rows(self, settled: Settled, held: Mapping[int, Mark]) -> SortedTable:
        assert self._records is not None  # settled or resumed
        where, limit = self._table.where, self._options.buffer_bytes
        return SortedTable(self._snapshot, self._records, where, settled.start(0, held), limit)

    async def close(self) -> None:
        self._opened = self._records = None

    @property
    def _snapshot(self) -> Snapshot:
        assert self._opened is not None  # `look` has run
        return self._opened

    async def _open(self, version: int | None) -> None:
        self._opened = await asyncio.to_thread(open_snapshot, self._place, version)
        self._records = None

    async def _now(self, begun: Mapping[str, object], *, dry: bool) -> dict[str, object]:
        """Return what is settled by the options and the table of now; of a `dry` run without what
        a registry may be asked for.
        """
        if not dry:
            return (await self._read_with(begun)).settled()
        records = await asyncio.to_thread(
            TableRecords, self._options, self._snapshot, dry=True, begun=begun
        )
        return {name: one for name, one in records.settled().items() if name not in SCHEMAS}

    async def _read_with(self, begun: Mapping[str, object] | None = None) -> TableRecords:
        if self._records is None:
            self._records = await asyncio.to_thread(
                TableRecords, self._options, self._snapshot, begun=begun
            )
        return self._records

    def _target_id(self, there: ClusterMetadata) -> bytes:
        return there.topic_id(str(self._options.to))

    def _oldest_ms(self, records: TableRecords) -> int | None:
        """Return the oldest time of all rows, None where there is none."""
        if records.timestamp is None:
            return None
        found = (pc.min(milliseconds(times)) for times in self._column(records.timestamp))
        return min((one.cast(pa.int64()).as_py() for one in found if one.is_valid), default=None)

    def _partitions(self) -> int:
        """Return how many partitions the rows' numbers of them need."""
        found = (pc.max(numbers).as_py() for numbers in self._column("partition"))
        return 1 + max((one for one in found if one is not None), default=0)

    def _column(self, name: str) -> Iterator[pa.Array]:
        return (one.column(0) for one in self._snapshot.read((name,), self._table.where))
