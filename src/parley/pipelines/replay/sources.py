"""What a replay reads, behind one face: a topic, or (in `table_source`) a table."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self

import pyarrow as pa

from parley.client import AsyncClient, ClusterMetadata
from parley.pipelines.replay.bounds import partitions_of, ranges_of
from parley.pipelines.replay.marks import Mark, Settled
from parley.pipelines.replay.merging import Merge
from parley.pipelines.replay.options import ReplayOptions
from parley.pipelines.replay.planning import plan_replay
from parley.pipelines.replay.rows import Replayed
from parley.pipelines.replication import readers
from parley.pipelines.replication.chunks import Position
from parley.pipelines.replication.clusters import check_same, isolation_of
from parley.pipelines.replication.plan import Plan
from parley.types import ZERO_UUID

Ranges = dict[int, tuple[int, int]]


class Rows(Protocol):
    """Rows that come in order, while it is open."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    @property
    def is_over(self) -> bool:
        """Whether every row was handed out."""

    async def rows(self, until: float | None) -> pa.RecordBatch | None:
        """Return what comes next; None at the end, at the time `until` of the loop, or after
        `wake`. Raises what reading raises.
        """

    def wake(self) -> None:
        """Let `rows` return now."""


class Source(Protocol):
    """Where the records of a replay are."""

    @property
    def id(self) -> str | None:
        """The id of its cluster, once it was looked at; None where that is not known."""

    async def look(self) -> None:
        """Look at it as it is now."""

    async def plan(self, target: AsyncClient, there: ClusterMetadata, *, has_begun: bool) -> Plan:
        """Return what the target needs, of which `there` is the metadata. Changes nothing."""

    async def ranges(self) -> Ranges:
        """Return first and last offset (not included) of each partition."""

    async def settle(self, there: ClusterMetadata) -> Settled:
        """Return what is replayed, from now on."""

    async def resume(
        self,
        settled: Settled,
        held: Mapping[int, Mark],
        there: ClusterMetadata,
        *,
        dry: bool = False,
    ) -> Settled:
        """Return what is replayed of what was settled before; with `dry` nothing is registered.
        Raises what says that it cannot be gone on with.
        """

    def rows(self, settled: Settled, held: Mapping[int, Mark]) -> Rows:
        """Return what is left behind the marks."""

    async def close(self) -> None:
        """Let go of everything."""


class TopicSource:
    """A topic of a cluster."""

    def __init__(self, source: AsyncClient, options: ReplayOptions, topic: str) -> None:
        self._source, self._options, self._topic = source, options, topic
        self._metadata: ClusterMetadata | None = None
        self._isolation = ""

    @property
    def id(self) -> str | None:
        return self._known.cluster_id

    async def look(self) -> None:
        self._metadata = await self._source.metadata()
        self._isolation = await isolation_of(self._source)

    async def plan(self, target: AsyncClient, there: ClusterMetadata, *, has_begun: bool) -> Plan:
        partitions_of(self._known, self._topic)
        return await plan_replay(
            self._source, target, (self._known, there), self._options, self._topic,
            has_begun=has_begun,
        )  # fmt: skip

    async def ranges(self) -> Ranges:
        partitions = partitions_of(self._known, self._topic)
        return await ranges_of(self._source, partitions, self._options, self._isolation)

    async def settle(self, there: ClusterMetadata) -> Settled:
        return Settled.of(self._options, self._ids(there), await self.ranges())

    async def resume(
        self,
        settled: Settled,
        held: Mapping[int, Mark],
        there: ClusterMetadata,
        *,
        dry: bool = False,
    ) -> Settled:
        settled.check(self._options)
        ids = (settled.topic_id, settled.target_id)
        for tp in settled.partitions:
            mark = held.get(tp.partition, Mark(settled.ranges[tp.partition][0]))
            check_same(tp, Position(*mark, *ids), (self._known, there), self._ids(there))
        return settled.with_ranges(await self.ranges()) if self._options.dead_letters else settled

    def rows(self, settled: Settled, held: Mapping[int, Mark]) -> Merge:
        left = {
            tp: settled.range(tp.partition, held.get(tp.partition)) for tp in settled.partitions
        }
        reading, prepare = readers.fetch_options(self._isolation), Replayed.of(self._options)
        buffer_bytes = self._options.buffer_bytes
        return Merge(self._source, left, reading, prepare.of_fetched, buffer_bytes)

    async def close(self) -> None:
        await self._source.close()

    @property
    def _known(self) -> ClusterMetadata:
        assert self._metadata is not None  # `look` has run
        return self._metadata

    def _ids(self, there: ClusterMetadata) -> tuple[bytes, bytes]:
        to = self._options.to
        return self._known.topic_id(self._topic), ZERO_UUID if to is None else there.topic_id(to)
