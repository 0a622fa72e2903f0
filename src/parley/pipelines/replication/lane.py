"""One partition on its way: what was read and waits, what the open transaction has of it, and what
is committed.

At most one call to produce is under way for a partition, so that its order stays; it takes all that
waits, so that calls become larger where the target is slower than the source.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import takewhile
from typing import NamedTuple

import pyarrow as pa

from parley.client import FetchedBatch, PartitionRange, ProduceResult, TopicPartition
from parley.errors import KafkaError, NetworkError
from parley.pipelines.replication.chunks import Chunk, Position, grown
from parley.pipelines.replication.rows import Rewriting
from parley.pipelines.replication.runs import PartitionMap, Run, paired
from parley.pipelines.replication.writers import Writer

MOST_BYTES = 16 * 2**20
"""So much goes into one call: an abort waits for the calls under way."""


class Read(NamedTuple):
    """What of a partition was read and waits."""

    found: FetchedBatch
    size: int


class Lane:
    """The state of one partition. Belongs to the event loop."""

    def __init__(
        self,
        partition: TopicPartition,
        position: Position,
        known: PartitionMap | None = None,
        chunk: Chunk | None = None,
        closed: Iterable[tuple[bytes, int]] = (),
    ) -> None:
        self.partition = partition
        self.map = known if known is not None else PartitionMap(next_offset=position.next_offset)
        self.position = position
        """Where copying goes on, as it is committed."""
        self.begin = 0
        """Where the source begins: what lies below is no more, and the map may forget it."""
        self._chunk = chunk
        self._closed = deque(closed)
        self._waiting: deque[Read] = deque()
        self._written: list[Run] = []
        self._reached = position
        self.records = 0
        """Records committed by this process."""

    @property
    def has_work(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._waiting)

    @property
    def moved(self) -> bool:
        """Whether the open transaction has something of this partition."""
        return self._reached != self.position

    def range(self) -> PartitionRange:
        """Return what is to be read next, without an end."""
        at = self.position
        return PartitionRange(at.next_offset, None, at.leader_epoch, at.topic_id)

    def put(self, found: FetchedBatch) -> int:
        """Take what was read. Returns its bytes."""
        size = int(found.batch.nbytes)
        self._waiting.append(Read(found, size))
        return size

    async def write(self, writer: Writer, rewriting: Rewriting) -> int:
        """Write what waits, or a part of it. Returns the bytes that wait no more.

        Raises NetworkError where the broker does not say where records are: a retry that it knew
        already. They have to be written again, in another transaction.
        """
        taken: list[FetchedBatch] = []
        size = 0
        while self._waiting and (not taken or size + self._waiting[0].size <= MOST_BYTES):
            read = self._waiting.popleft()
            taken.append(read.found)
            size += read.size
        rows: list[pa.RecordBatch] = []
        sources: list[tuple[int, int]] = []
        for found in taken:
            batch, runs = rewriting.of_fetched(found.batch)
            if batch.num_rows:
                rows.append(batch)
                sources += runs
        if rows:
            tp = self.partition
            try:
                result = await writer.produce(tp.topic, rows, tp.partition)
            except KafkaError as error:
                (first, _), (last, count) = sources[0], sources[-1]
                error.add_note(f"these were offsets {first} to {last + count - 1} of {tp}")
                raise
            self._written += paired(sources, self._places(result))
        self._reached = self.position._replace(
            next_offset=taken[-1].next_offset, leader_epoch=taken[-1].leader_epoch
        )
        return size

    def _places(self, result: ProduceResult) -> list[tuple[int, int]]:
        batches = result.partitions[self.partition].batches
        if any(batch.base_offset < 0 for batch in batches):
            raise NetworkError(
                f"{self.partition}: the target has records already whose offsets it does not "
                "return; they are written again"
            )
        return [(batch.base_offset, batch.records) for batch in batches]

    def chunks(self) -> list[Chunk]:
        """Return what has to be written of the map with this transaction."""
        if self._written:
            return grown(self._chunk, self.partition, self._joined(), self._reached)
        if self.moved and self._chunk is not None:  # all that was read was left out
            return [self._chunk._replace(position=self._reached)]
        return []

    def outdated(self) -> list[bytes]:
        """Return the keys of chunks that only have what the source has no more."""
        return [key for key, _ in takewhile(lambda one: one[1] <= self.begin, self._closed)]

    def trimmed(self, count: int) -> None:
        """Take note that so many outdated chunks are deleted."""
        for _ in range(count):
            _, end = self._closed.popleft()
            self.map.forget(end)

    def committed(self, chunks: list[Chunk]) -> None:
        """Take note that the transaction with these chunks is committed."""
        held = [] if self._chunk is None else [self._chunk]
        newest = chunks[-1].key if chunks else None
        done = {one.key: one.end for one in (*held, *chunks) if one.key != newest}
        if chunks:
            self._closed += done.items()
        self.map.append(self._written, self._reached.next_offset)
        self.records += sum(run.records for run in self._written)
        self._chunk = chunks[-1] if chunks else self._chunk
        self._written, self.position = [], self._reached

    def rewind(self) -> None:
        """Forget what is not committed: it is read again."""
        self._waiting.clear()
        self._written, self._reached = [], self.position

    def passed(self, position: Position) -> bool:
        """Go over offsets that have no records, up to `position`, if nothing came in between."""
        if self._waiting or self.moved or position.next_offset <= self.position.next_offset:
            return False
        self.position = self._reached = position
        self.map.append((), position.next_offset)
        return True

    def _joined(self) -> list[Run]:
        return list(PartitionMap(self._written))
