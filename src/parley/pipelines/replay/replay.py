"""A replay as users have it."""

from __future__ import annotations

from parley.client import (
    LATEST,
    AsyncClient,
    ClientOptions,
    ClusterMetadata,
    OffsetSpec,
    TopicPartition,
)
from parley.errors import ConfigError, KafkaError
from parley.pipelines.attempts import Attempts
from parley.pipelines.blocking import AsyncJob
from parley.pipelines.replay import marks
from parley.pipelines.replay.bounds import partitions_of, ranges_of
from parley.pipelines.replay.marks import Mark, Settled
from parley.pipelines.replay.merging import Merge
from parley.pipelines.replay.options import ReplayOptions
from parley.pipelines.replay.planning import ReplayPlan, plan_replay
from parley.pipelines.replay.rows import Replayed
from parley.pipelines.replay.status import ReplayStatus
from parley.pipelines.replay.writing import Writing
from parley.pipelines.replication import readers, store
from parley.pipelines.replication.chunks import Position
from parley.pipelines.replication.clusters import check_same, isolation_of
from parley.pipelines.replication.plan import Plan, refuse
from parley.pipelines.replication.topics import carry_out
from parley.pipelines.replication.writers import Writer, writer_of
from parley.types import ZERO_UUID

Both = tuple[ClusterMetadata, ClusterMetadata]


class AsyncReplay(AsyncJob):
    """Writes the records of a topic into another one, for one event loop.

    >>> async def again(cluster: ClientOptions) -> None:
    ...     options = ReplayOptions(name="again", topic="flights", to="flights-again", speed=10)
    ...     async with AsyncReplay(cluster, cluster, options) as replay:
    ...         await replay.run()

    Source and target may be one cluster or two, of any releases. Kept are key, value, headers,
    timestamp and, of each partition, the order; the header `parley-replayed-from` says where a
    record was: topic/partition/offset. Partitions are merged by time: a record comes behind the
    older ones of the others, so that a target with one partition has the order of times, and one
    that is partitioned by key has it for each key.

    Each record arrives once where the target has transactions (Kafka 0.11): a replay that is killed
    goes on behind its last commit. One replay of a name runs at a time: `run` fences the one
    before, whose `run` raises ProducerFencedError.
    """

    def __init__(
        self, source: ClientOptions, target: ClientOptions, options: ReplayOptions
    ) -> None:
        self.options = options
        self.source, self.target = AsyncClient(source), AsyncClient(target)
        self._writer: Writer = writer_of(self.target, options)
        self._settled: Settled | None = None
        self._writing: Writing | None = None
        self._merge: Merge | None = None
        self._isolation = ""
        self._stopping = False

    # -- life --------------------------------------------------------------------------------------

    async def start(self) -> AsyncReplay:
        """Carry the plan out, fence a forerunner, and settle what is read. `run` does it, too.

        Raises ConfigError for what the plan says cannot be, before anything is changed, and for
        other options than the replay was begun with; TopicRecreatedError where a topic is another
        one by now, UnsupportedVersionError where the target has no transactions.
        """
        if self._writing is not None:
            return self
        both, topic = await self._metadata(), self.options.offsets_topic
        self._isolation = await isolation_of(self.source)
        begun = await self._known(both)
        plan = await self._plan(both, begun is not None)
        refuse(plan, self.options.accept, "replayed")
        await carry_out(self.target, plan)
        await store.ensure_topic(self.target, topic)
        end = await store.take_over(self._writer, topic, both[0].cluster_id)
        both = await self._metadata()
        known = await self._known(both, end)  # a forerunner goes on until it is fenced
        settled, held = known if known is not None else (await self._settle(both), {})
        self._check_same(settled, held, both)
        if known is not None and self.options.dead_letters:
            settled = settled.with_ranges(await self._ranges(both[0]))
            await self._write_down(settled)
        self._settled, self._writing = settled, Writing(self._writer, self.options, held)
        if self._stopping:
            self._writing.stop()
        return self

    async def close(self) -> None:
        """Stop, abort what is not committed, and close both clients. Idempotent."""
        self.stop()
        await self._writer.close()
        await self.source.close()
        await self.target.close()

    # -- what users ask for ------------------------------------------------------------------------

    async def plan(self) -> ReplayPlan:
        """Return what would be created in the target, what cannot be, and which offsets are read.
        Changes nothing.

        Raises ConfigError for a topic that the source does not have.
        """
        both = await self._metadata()
        self._isolation = await isolation_of(self.source)
        begun = await self._known(both)
        found = await self._plan(both, begun is not None)
        if begun is None or self.options.dead_letters:
            ranges = await self._ranges(both[0])
        else:
            ranges = dict(begun[0].ranges)
        by_partition = {
            TopicPartition(self.options.topic, index): (
                begun[1][index].next_offset if begun and index in begun[1] else start,
                end,
            )
            for index, (start, end) in sorted(ranges.items())
        }
        return ReplayPlan(
            found.create, found.add_partitions, found.findings, found.rights, by_partition
        )

    async def run(self) -> None:
        """Replay to the end, or until `stop`. Returns at once where it was at the end before.

        Trouble that may pass (brokers away, leaders that move, a transaction that timed out) is met
        with another attempt from the last commit, for `patience_ms` without progress. Raises what
        `start` raises, and what does not pass: ProducerFencedError when another replay of this name
        has begun, the target's refusal of a record, DataLossError where the source has deleted what
        was still to be replayed.
        """
        await self.start()
        writing = self._started()
        attempts = Attempts(self.options.name, self.options.patience_ms)
        while not writing.is_stopping:
            try:
                await writing.rewind()
                await self._attempt(writing)
                return
            except KafkaError as error:
                attempts.check(error, sum(writing.records.values()))
            await attempts.pause()

    def stop(self) -> None:
        """Let `run` commit what it has written, and return. For handlers of signals, too."""
        self._stopping = True
        if self._writing is not None:
            self._writing.stop()
        if self._merge is not None:
            self._merge.wake()

    @property
    def records(self) -> int:
        """Records committed by this process."""
        return sum(self._writing.records.values()) if self._writing is not None else 0

    async def has_begun(self) -> bool:
        """Return whether the target has anything of this replay."""
        return self._writing is not None or await self._known(await self._metadata()) is not None

    async def status(self) -> list[ReplayStatus]:
        """Return how far each partition is: of this replay, or as the target has it.

        Raises ConfigError where it has not begun.
        """
        records: dict[int, int] = {}
        if self._writing is not None and self._settled is not None:
            settled, held, records = self._settled, self._writing.marks, self._writing.records
        else:
            known = await self._known(await self._metadata())
            if known is None:
                raise ConfigError(f'the target has no replay "{self.options.name}"')
            settled, held = known
        return [
            ReplayStatus(
                TopicPartition(settled.topic, index),
                held[index].next_offset if index in held else start,
                end,
                records.get(index, 0),
            )
            for index, (start, end) in sorted(settled.ranges.items())
        ]

    # -- inside ------------------------------------------------------------------------------------

    async def _attempt(self, writing: Writing) -> None:
        settled = self._settled
        assert settled is not None  # `start` has run
        ranges = {
            tp: settled.range(tp.partition, writing.marks.get(tp.partition))
            for tp in settled.partitions
        }
        reading, prepare = readers.fetch_options(self._isolation), Replayed.of(self.options)
        merge = Merge(self.source, ranges, reading, prepare.of_fetched, self.options.buffer_bytes)
        self._merge = merge
        try:
            async with merge:
                await writing.copy(merge)
        finally:
            self._merge = None
        if not writing.is_stopping:  # what has no records at the end is passed, too
            ends = {index: end for index, (_, end) in settled.ranges.items()}
            held = {tp.partition: found.start for tp, found in ranges.items()}
            held |= {index: mark.next_offset for index, mark in writing.marks.items()}
            await writing.commit({at: Mark(end) for at, end in ends.items() if held[at] < end})

    async def _metadata(self) -> Both:
        return await self.source.metadata(), await self.target.metadata()

    async def _known(self, both: Both, end: int | OffsetSpec = LATEST) -> marks.Known | None:
        """Return what the target has of this replay, None where it has not begun."""
        topic = self.options.offsets_topic
        if topic not in both[1].topics:
            return None
        newest = await store.read_newest(
            self.target, topic, end=end, isolation_level=self._writer.isolation_level
        )
        store.check_source(topic, newest.pop(store.BEGUN, None), both[0].cluster_id)
        return marks.read(topic, newest)

    async def _plan(self, both: Both, has_begun: bool) -> Plan:
        partitions_of(both[0], self.options.topic)
        return await plan_replay(self.source, self.target, both, self.options, has_begun=has_begun)

    async def _ranges(self, source: ClusterMetadata) -> dict[int, tuple[int, int]]:
        partitions = partitions_of(source, self.options.topic)
        return await ranges_of(self.source, partitions, self.options, self._isolation)

    async def _settle(self, both: Both) -> Settled:
        """Settle what is replayed, and write it down."""
        settled = Settled.of(self.options, self._ids(both), await self._ranges(both[0]))
        await self._write_down(settled)
        return settled

    async def _write_down(self, settled: Settled) -> None:
        await self._writer.begin()
        found = store.rows_of([marks.settled_record(settled)])
        await self._writer.produce(self.options.offsets_topic, found, 0)
        await self._writer.commit()

    def _ids(self, both: Both) -> tuple[bytes, bytes]:
        to = self.options.to
        target_id = ZERO_UUID if to is None else both[1].topic_id(to)
        return both[0].topic_id(self.options.topic), target_id

    def _check_same(self, settled: Settled, held: dict[int, Mark], both: Both) -> None:
        settled.check(self.options)
        ids = (settled.topic_id, settled.target_id)
        for tp in settled.partitions:
            mark = held.get(tp.partition, Mark(settled.ranges[tp.partition][0]))
            check_same(tp, Position(*mark, *ids), both, self._ids(both))

    def _started(self) -> Writing:
        assert self._writing is not None  # `start` has run
        return self._writing
