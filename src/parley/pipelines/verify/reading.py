"""One side of a verification: what its client is asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Literal, NamedTuple

from parley.client import (
    EARLIEST,
    LATEST,
    AsyncClient,
    BatchShape,
    FetchedBatch,
    FetchOptions,
    Timestamp,
    digest_shape,
)
from parley.errors import DataLossError
from parley.pipelines.verify.bisection import Extent
from parley.pipelines.verify.results import ComparedRecord
from parley.types import TopicPartition
from parley.versions import Feature

if TYPE_CHECKING:
    import pyarrow

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
_ANSWER_BYTES = 8 * 2**20
"""Of one answer, and of what waits while another is decoded: this, and not the topic, is what a
side takes in memory.
"""


class Place(NamedTuple):
    """A record's offset, timestamp and hash. The timestamp is -1 where it was not read."""

    offset: int
    timestamp_ms: int
    record_hash: int


class Side:
    """A client, and how it reads."""

    def __init__(self, client: AsyncClient, isolation_level: str, has_timestamps: bool) -> None:
        self._client = client
        self._isolation_level = isolation_level
        self.has_timestamps = has_timestamps
        """Whether all its brokers know timestamps (0.10 and later)."""

    @classmethod
    async def of(cls, client: AsyncClient, isolation_level: str) -> Side:
        """Return the side. Brokers before 0.11 have no transactions: all that they have is
        committed, and they cannot be asked for it by that name.
        """
        if not await client.supports(Feature.READ_COMMITTED):
            isolation_level = READ_UNCOMMITTED
        return cls(client, isolation_level, await client.supports(Feature.RECORD_TIMESTAMPS))

    async def partitions(self) -> dict[str, frozenset[int]]:
        """Return the partitions of all topics that the client may see."""
        topics = (await self._client.metadata()).topics
        return {name: frozenset(topic.partitions) for name, topic in topics.items()}

    async def extents(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Extent]:
        """Return where partitions begin and end now."""
        wanted = list(partitions)
        if not wanted:
            return {}
        last = await self._client.list_offsets(
            dict.fromkeys(wanted, LATEST), isolation_level=self._isolation_level
        )
        first = await self._client.list_offsets(dict.fromkeys(wanted, EARLIEST))
        return {
            tp: Extent(first[tp].offset, max(first[tp].offset, last[tp].offset)) for tp in wanted
        }

    async def from_time(self, tp: TopicPartition, extent: Extent, timestamp_ms: int) -> Extent:
        """Return the extent from the first record on that is not older."""
        if timestamp_ms < 0 or not await self._client.supports(Feature.OFFSETS_BY_TIME):
            return extent
        found = (await self._client.list_offsets({tp: Timestamp(timestamp_ms)}))[tp].offset
        if found < 0:
            return Extent(extent.end, extent.end)
        return Extent(min(max(extent.start, found), extent.end), extent.end)

    def hashed(
        self, extents: Mapping[TopicPartition, Extent], *, timestamps: bool, keys: bool = False
    ) -> AsyncGenerator[FetchedBatch, None]:
        """Yield batches with a hash for each record (`parley.arrow.to_digest_batch`)."""
        return self._read(extents, digest_shape(timestamps=timestamps, keys=keys))

    async def places(
        self, tp: TopicPartition, extent: Extent, most: int, *, timestamps: bool
    ) -> list[Place]:
        """Return up to so many of the first records."""
        found: list[Place] = []
        async with aclosing(self.hashed({tp: extent}, timestamps=timestamps)) as batches:
            async for one in batches:
                rows = one.batch.slice(0, most - len(found))
                offsets, hashes = numbers(rows, "offset"), numbers(rows, "hash")
                times = numbers(rows, "timestamp_ms") if timestamps else [-1] * len(offsets)
                found.extend(map(Place, offsets, times, hashes))
                if len(found) >= most:
                    break
        return found

    async def record(self, tp: TopicPartition, offset: int) -> ComparedRecord | None:
        """Return a record, None where it is gone."""
        async with aclosing(self._read({tp: Extent(offset, offset + 1)})) as batches:
            async for one in batches:
                row = one.batch.slice(0, 1)
                (cells,) = row.drop_columns(["timestamp"]).to_pylist()
                headers = tuple((pair["key"], pair["value"]) for pair in cells["headers"])
                times = row.column("timestamp").cast("int64").to_pylist()
                return ComparedRecord(tp, offset, times[0], cells["key"], cells["value"], headers)
        return None

    async def _read(
        self, extents: Mapping[TopicPartition, Extent], shape: BatchShape | None = None
    ) -> AsyncGenerator[FetchedBatch, None]:
        ranges = {tp: (extent.start, extent.end) for tp, extent in extents.items() if _any(extent)}
        if not ranges:
            return
        options = FetchOptions(
            isolation_level=self._isolation_level,
            shape=shape,
            fetch_max_bytes=_ANSWER_BYTES,
            prefetch_max_bytes=_ANSWER_BYTES,
        )
        try:
            async with aclosing(self._client.fetch_many(ranges, options)) as batches:
                async for found in batches:
                    yield found
        except DataLossError as error:
            error.add_note(
                "Records were deleted while they were compared (retention, DeleteRecords): "
                "compare again, or raise retention.ms for so long."
            )
            raise


def _any(extent: Extent) -> bool:
    return extent.start < extent.end


_FORMATS: dict[str, Literal["i", "q", "Q"]] = {
    "offset": "q",
    "timestamp_ms": "q",
    "timestamp_type": "i",
    "hash": "Q",
    "key_hash": "Q",
}


def numbers(batch: pyarrow.RecordBatch, name: str) -> memoryview:
    """Return a view of a column of a digest batch."""
    array, kind = batch.column(name), _FORMATS[name]
    view = memoryview(array.buffers()[1]).cast("B").cast(kind)
    return view[array.offset : array.offset + len(array)]


def is_untimed(batch: pyarrow.RecordBatch) -> bool:
    """Return whether a record of a digest batch is of format 0, which has no timestamps."""
    # The types are -1, 0 and 1 as int32: only -1 has a byte of this kind.
    return b"\xff" in bytes(numbers(batch, "timestamp_type"))
