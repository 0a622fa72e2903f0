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
from parley.pipelines.replay.marks import Mark, Settled
from parley.pipelines.replay.options import ReplayOptions
from parley.pipelines.replay.planning import ReplayPlan
from parley.pipelines.replay.sources import Rows, Source, TopicSource
from parley.pipelines.replay.status import ReplayStatus
from parley.pipelines.replay.writing import Writing
from parley.pipelines.replication import store
from parley.pipelines.replication.plan import refuse
from parley.pipelines.replication.topics import carry_out
from parley.pipelines.replication.writers import Writer, writer_of


class AsyncReplay(AsyncJob):
    """Writes the records of a topic, or of a table, into another topic, for one event loop.

    >>> async def again(cluster: ClientOptions) -> None:
    ...     options = ReplayOptions(name="again", topic="flights", to="flights-again", speed=10)
    ...     async with AsyncReplay(cluster, cluster, options) as replay:
    ...         await replay.run()

    Source and target may be one cluster or two, of any releases. Kept are key, value, headers,
    timestamp and, of each partition, the order; the header `parley-replayed-from` says where a
    record was: topic/partition/offset. Partitions are merged by time: a record comes behind the
    older ones of the others, so that a target with one partition has the order of times, and one
    that is partitioned by key has it for each key.

    A table needs no source: give None. Its rows are read at one version and sorted, and are records
    as `ReplayedTable` says; the header names topic/partition/offset where the table has these
    columns, else table@version/row.

    Each record arrives once where the target has transactions (Kafka 0.11): a replay that is killed
    goes on behind its last commit. One replay of a name runs at a time: `run` fences the one
    before, whose `run` raises ProducerFencedError.
    """

    def __init__(
        self, source: ClientOptions | None, target: ClientOptions, options: ReplayOptions
    ) -> None:
        self.options = options
        self.target = AsyncClient(target)
        self._source = _source_of(source, options)
        self._writer: Writer = writer_of(self.target, options)
        self._settled: Settled | None = None
        self._writing: Writing | None = None
        self._rows: Rows | None = None
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
        there, topic = await self._look(), self.options.offsets_topic
        begun = await self._known(there)
        plan = await self._source.plan(self.target, there, has_begun=begun is not None)
        refuse(plan, self.options.accept, "replayed")
        await carry_out(self.target, plan)
        await store.ensure_topic(self.target, topic)
        end = await store.take_over(self._writer, topic, self._source.id)
        there = await self._look()
        known = await self._known(there, end)  # a forerunner goes on until it is fenced
        before, held = known if known is not None else (None, {})
        if before is None:
            settled = await self._source.settle(there)
        else:
            settled = await self._source.resume(before, held, there)
        if settled != before:
            await self._write_down(settled)
        self._settled, self._writing = settled, Writing(self._writer, self.options, held)
        if self._stopping:
            self._writing.stop()
        return self

    async def close(self) -> None:
        """Stop, abort what is not committed, and close both clients. Idempotent."""
        self.stop()
        await self._writer.close()
        await self._source.close()
        await self.target.close()

    # -- what users ask for ------------------------------------------------------------------------

    async def plan(self) -> ReplayPlan:
        """Return what would be created in the target, what cannot be, and which offsets are read.
        Changes nothing.

        Raises ConfigError for a topic that the source does not have and, where the replay has
        begun, what `run` would raise for other options or another topic or table.
        """
        there = await self._look()
        begun = await self._known(there)
        if begun is not None:
            await self._source.resume(*begun, there, dry=True)
        found = await self._source.plan(self.target, there, has_begun=begun is not None)
        if begun is None or self.options.dead_letters:
            ranges = await self._source.ranges()
        else:
            ranges = dict(begun[0].ranges)
        by_partition = {
            TopicPartition(self.options.source_name, index): (
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
        if self._rows is not None:
            self._rows.wake()

    @property
    def records(self) -> int:
        """Records committed by this process."""
        return sum(tuple(self._writing.records.values())) if self._writing is not None else 0

    async def has_begun(self) -> bool:
        """Return whether the target has anything of this replay."""
        return self._writing is not None or await self._held() is not None

    async def status(self) -> list[ReplayStatus]:
        """Return how far each partition is: of this replay, or as the target has it.

        Raises ConfigError where it has not begun.
        """
        records: dict[int, int] = {}
        if self._writing is not None and self._settled is not None:
            settled, held, records = self._settled, self._writing.marks, self._writing.records
        else:
            known = await self._held()
            if known is None:
                raise ConfigError(f'the target has no replay "{self.options.name}"')
            settled, held = known
        return [
            ReplayStatus(
                TopicPartition(settled.topic, index),
                settled.start(index, held),
                end,
                records.get(index, 0),
            )
            for index, (_, end) in sorted(settled.ranges.items())
        ]

    # -- inside ------------------------------------------------------------------------------------

    async def _attempt(self, writing: Writing) -> None:
        settled = self._settled
        assert settled is not None  # `start` has run
        rows = self._source.rows(settled, writing.marks)
        self._rows = rows
        try:
            async with rows:
                await writing.copy(rows)
        finally:
            self._rows = None
        if not writing.is_stopping:  # what has no records at the end is passed, too
            ends = {
                index: Mark(end)
                for index, (_, end) in settled.ranges.items()
                if settled.start(index, writing.marks) < end
            }
            await writing.commit(ends)

    async def _look(self) -> ClusterMetadata:
        """Look at the source; return the target's metadata."""
        await self._source.look()
        return await self.target.metadata()

    async def _held(self) -> marks.Known | None:
        """Return what the target has of this replay, whatever it reads."""
        return marks.read(*await self._newest(await self.target.metadata(), LATEST))

    async def _known(
        self, there: ClusterMetadata, end: int | OffsetSpec = LATEST
    ) -> marks.Known | None:
        """Return the same, None where it has not begun; it has to be of this source."""
        topic, newest = await self._newest(there, end)
        store.check_source(topic, newest.get(store.BEGUN), self._source.id)
        return marks.read(topic, newest)

    async def _newest(
        self, there: ClusterMetadata, end: int | OffsetSpec
    ) -> tuple[str, dict[bytes, bytes | None]]:
        topic, isolation = self.options.offsets_topic, self._writer.isolation_level
        if topic not in there.topics:
            return topic, {}
        return topic, await store.read_newest(
            self.target, topic, end=end, isolation_level=isolation
        )

    async def _write_down(self, settled: Settled) -> None:
        await self._writer.begin()
        found = store.rows_of([marks.settled_record(settled)])
        await self._writer.produce(self.options.offsets_topic, found, 0)
        await self._writer.commit()

    def _started(self) -> Writing:
        assert self._writing is not None  # `start` has run
        return self._writing


def _source_of(source: ClientOptions | None, options: ReplayOptions) -> Source:
    if options.table is not None:
        from parley.pipelines.replay.table_source import TableSource

        return TableSource(options, options.table)
    if source is None or options.topic is None:
        raise ConfigError(f"source is missing: which cluster has the topic {options.topic}?")
    return TopicSource(AsyncClient(source), options, options.topic)
