"""A replication as users have it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from parley.client import (
    EARLIEST,
    AsyncClient,
    ClientOptions,
    ClusterMetadata,
    TopicPartition,
)
from parley.errors import ConfigError, KafkaError, ProducerFencedError
from parley.pipelines.attempts import may_pass
from parley.pipelines.blocking import AsyncJob
from parley.pipelines.replication import readers, store
from parley.pipelines.replication.chunks import Position
from parley.pipelines.replication.clusters import (
    cluster_ids,
    ends_of,
    isolation_of,
    lanes_of,
    partitions_of,
    wanted_topics,
)
from parley.pipelines.replication.cutover import CutoverStep, steps
from parley.pipelines.replication.engine import Engine
from parley.pipelines.replication.groups import GroupOffset, groups_of, translate
from parley.pipelines.replication.lane import Lane
from parley.pipelines.replication.options import LATEST_START, ReplicationOptions
from parley.pipelines.replication.plan import Finding, Plan, not_empty, plan, refuse
from parley.pipelines.replication.proof import verify_copied
from parley.pipelines.replication.rows import Rewriting
from parley.pipelines.replication.status import PartitionStatus
from parley.pipelines.replication.topics import (
    carry_out,
    describe_target,
    describe_topics,
    offsets_in_use,
)
from parley.pipelines.replication.watching import Watching
from parley.pipelines.replication.writers import Writer, writer_of
from parley.pipelines.rights import GROWING, READING, WRITING, rights_of
from parley.pipelines.verify import Verification, VerifyOptions
from parley.types import Names, texts

Lanes = Mapping[TopicPartition, Lane]


class AsyncReplication(AsyncJob):
    """Copies topics of a source into a target, for one event loop.

    >>> async def copy(source: ClientOptions, target: ClientOptions) -> None:
    ...     options = ReplicationOptions(name="to-new", topics=["flights"])
    ...     async with AsyncReplication(source, target, options) as replication:
    ...         await replication.run(until_caught_up=True)

    Kept are topic, partition, key, value, headers, timestamp and the order in each partition; not
    kept are offsets (`<name>-offsets` has the map), batches, and the bounds of the source's
    transactions: their records become visible with the target's.

    One replication of a name copies at a time: `start` and `run` fence the one before, whose `run`
    raises ProducerFencedError. With delivery="at-least-once" nothing holds a second one off before
    the first has noticed it, when it has nothing to write.
    `plan`, `status` and `translate_groups` disturb nobody.
    """

    def __init__(
        self, source: ClientOptions, target: ClientOptions, options: ReplicationOptions
    ) -> None:
        self.options = options
        self.source, self.target = AsyncClient(source), AsyncClient(target)
        self._writer: Writer = writer_of(self.target, options)
        self._engine: Engine | None = None
        self._known = store.Known()
        self._alone_to, self._alone_at = 0, 0
        """Offset up to which no later start was found, and after how many transactions."""
        self._isolation = ""
        self._stopping = False

    # -- life --------------------------------------------------------------------------------------

    async def start(self) -> AsyncReplication:
        """Carry the plan out, fence a forerunner, and read where it was. `run` does it, too.

        Raises ConfigError for what the plan says cannot be, and for a name under which another
        source was copied, before anything is changed; TopicRecreatedError where a topic is another
        one than was copied, DataLossError where the source has deleted what was not copied yet,
        UnsupportedVersionError where the target has no transactions.
        """
        if self._engine is not None:
            return self
        source, target = await self._metadata()
        source_id, target_id = cluster_ids({"source": source, "target": target}, self.options)
        self._isolation = await isolation_of(self.source)
        wanted = wanted_topics(source, self.options)
        await self._read_known(target, source_id)
        await self._prepare(source, target, wanted)
        await store.ensure_topic(self.target, self.options.offsets_topic)
        known = await self._take_over(source_id)
        lanes = await self._lanes_of(source, partitions_of(source, wanted), known)
        if not known.is_settled:
            known = await self._settle(known, lanes)
        rewriting = Rewriting.of(self.options, source_id, target_id)
        reading = readers.fetch_options(self._isolation)
        engine = Engine(self.source, self._writer, self.options, rewriting, reading)
        engine.add(lanes)
        self._known, self._engine = known, engine
        return self

    async def _read_known(self, target: ClusterMetadata, source_id: str | None) -> store.Known:
        """Return what the target knows of this replication. Raises ConfigError where that is of
        another source.
        """
        topic = self.options.offsets_topic
        if topic not in target.topics:
            return store.Known()
        isolation = self._writer.isolation_level
        return await store.read_known(
            self.target, topic, isolation_level=isolation, source_id=source_id
        )

    async def _take_over(self, source_id: str | None) -> store.Known:
        """Be the only one of this name, and return what the forerunners did."""
        topic, isolation = self.options.offsets_topic, self._writer.isolation_level
        end = await store.take_over(self._writer, topic, source_id)
        if not isinstance(end, int):
            at = TopicPartition(topic, 0)
            end = (await self.target.list_offsets({at: end}))[at].offset
        self._alone_to = end
        return await store.read_known(
            self.target, topic, end=end, isolation_level=isolation, source_id=source_id
        )

    async def _settle(self, known: store.Known, lanes: Iterable[Lane]) -> store.Known:
        """Write down where partitions begin: it may be that nothing is copied of them before the
        next start.
        """
        begins: dict[TopicPartition, Position] = {}
        if self.options.start == LATEST_START:
            begins = {
                lane.partition: lane.position
                for lane in lanes
                if lane.partition not in known.copied
            }
        await self._writer.begin()
        await self._writer.produce(self.options.offsets_topic, store.settled(begins), 0)
        await self._writer.commit()
        return known._replace(is_settled=True, begins=begins)

    async def _metadata(self) -> tuple[ClusterMetadata, ClusterMetadata]:
        return await self.source.metadata(), await self.target.metadata()

    async def _lanes_of(
        self, source: ClusterMetadata, partitions: Iterable[TopicPartition], known: store.Known
    ) -> list[Lane]:
        both = (source, await self.target.metadata())
        return await lanes_of(self.source, both, partitions, known, self.options, self._isolation)

    async def close(self) -> None:
        """Stop, abort what is not committed, and close both clients. Idempotent."""
        self.stop()
        await self._writer.close()
        await self.source.close()
        await self.target.close()

    # -- topics ------------------------------------------------------------------------------------

    async def plan(self) -> Plan:
        """Return what would be created in the target, what cannot be, and which topics there have
        records of others. Changes nothing.

        Raises ConfigError for a topic that the source does not have.
        """
        source, target = await self._metadata()
        source_id, _ = cluster_ids({"source": source, "target": target}, self.options)
        wanted = wanted_topics(source, self.options)
        found = await self._plan(source, target, wanted)
        copied = {tp.topic for tp in (await self._read_known(target, source_id)).copied}
        others: list[Finding] = []
        for name in wanted if not self.options.two_way else ():
            if name in target.topics and name not in copied:
                others += not_empty(name, await offsets_in_use(self.target, target, name))
        return replace(found, findings=(*found.findings, *others))

    async def _plan(
        self, source: ClusterMetadata, target: ClusterMetadata, wanted: Iterable[str]
    ) -> Plan:
        wanted = list(wanted)
        probe = f"{self.options.name}-plan"
        found = plan(
            await describe_topics(self.source, source, wanted, sample=True),
            await describe_target(self.target, target, wanted, probe),
            self.options,
            time.time_ns() // 1_000_000,
        )
        writes = {
            name: GROWING if name in found.add_partitions else WRITING
            for name in wanted
            if name in target.topics
        }
        reads = dict.fromkeys(wanted, READING)
        return replace(found, rights=await rights_of(self.source, reads, self.target, writes))

    async def _prepare(
        self, source: ClusterMetadata, target: ClusterMetadata, wanted: Iterable[str]
    ) -> None:
        """Carry the plan for some topics out. Raises ConfigError for what stands in the way."""
        found = await self._plan(source, target, wanted)
        refuse(found, self.options.accept, "replicated")
        await carry_out(self.target, found)

    async def follow(self) -> list[TopicPartition]:
        """Copy the topics and partitions, too, that the source has by now; return those that are
        new. `run` does it every `refresh_interval_ms`.
        """
        engine = (await self.start())._started()
        source, target = await self._metadata()
        wanted = wanted_topics(source, self.options)
        new = [tp for tp in partitions_of(source, wanted) if tp not in engine.lanes]
        if new:
            await self._prepare(source, target, sorted({tp.topic for tp in new}))
            engine.add(await self._lanes_of(source, new, self._known))
        return new

    async def trim(self) -> None:
        """Let the map forget, with the next transaction, what the source has deleted. `run` does it
        every `trim_interval_ms`, and a start.
        """
        engine = (await self.start())._started()
        begins = await self.source.list_offsets(dict.fromkeys(engine.lanes, EARLIEST))
        for tp, begin in begins.items():
            engine.lanes[tp].begin = begin.offset

    async def stay_alone(self) -> None:
        """Raise ProducerFencedError where another replication of this name has begun. One that
        writes is fenced; `run` asks every `refresh_interval_ms` for one that has nothing to write.
        """
        engine = (await self.start())._started()
        if engine.transactions != self._alone_at:
            self._alone_at = engine.transactions
            return
        topic, isolation = self.options.offsets_topic, self._writer.isolation_level
        begun, self._alone_to = await store.started_since(
            self.target, topic, self._alone_to, isolation
        )
        if begun:
            raise ProducerFencedError(f'another replication named "{self.options.name}" has begun')

    # -- copying -----------------------------------------------------------------------------------

    async def run(self, *, until_caught_up: bool = False) -> None:
        """Copy until `stop`; or up to where the source ends now.

        Trouble that may pass (brokers away, leaders that move, a transaction that timed out) is met
        with another attempt from the last commit, for `patience_ms` without progress. Raises what
        `start` raises, and what does not pass: ProducerFencedError when another replication of this
        name has begun, the target's refusal of a record, TopicRecreatedError and DataLossError of
        the source.
        """
        engine = (await self.start())._started()
        ends = None
        if until_caught_up:
            ends = await ends_of(self.source, engine.lanes, self._isolation)
        if self._stopping:
            return
        async with Watching(self, engine, follows=not until_caught_up):
            await engine.run(ends)
        if self.options.translates_groups:
            await self.translate_groups()

    def stop(self) -> None:
        """Let `run` return after its open transaction, which is committed. For handlers of signals,
        too.
        """
        self._stopping = True
        if self._engine is not None:
            self._engine.stop()

    @property
    def records(self) -> int:
        """Records committed by this process."""
        lanes = tuple(self._engine.lanes.values()) if self._engine else ()
        return sum(lane.records for lane in lanes)

    async def status(self) -> list[PartitionStatus]:
        """Return how far each partition is: of this replication, or as the target has it."""
        lanes = await self._lanes()
        ends = await ends_of(self.source, lanes, self._isolation)
        for tp, lane in lanes.items():
            if ends[tp] > lane.position.next_offset and self._is_idle(lane):
                await self._pass_hole(lane, ends[tp])
        return [
            PartitionStatus(tp, lane.position.next_offset, ends[tp], lane.map.end(), lane.records)
            for tp, lane in sorted(lanes.items())
        ]

    async def translate_groups(
        self, groups: Names | None = None, *, write: bool = True
    ) -> list[GroupOffset]:
        """Set the offsets at which groups of the source go on in the target; return what became of
        each. With `write` False only that is returned.

        None stands for the `groups` of the options, or for all. Only groups without members in the
        target are touched, and no offset goes back.
        """
        named = self.options.groups if groups is None else texts("groups", groups, "groups")
        maps = {tp: lane.map for tp, lane in (await self._lanes()).items()}
        wanted = named or await groups_of(self.source)
        return await translate(self.source, self.target, wanted, maps, write=write)

    async def verify(self, options: VerifyOptions | None = None) -> Verification:
        """Compare what is copied with what it became, record by record, by hashes; no record is
        moved. A copy that runs is not disturbed: what it has committed counts.

        The map says which offsets belong together, so that neither what is written meanwhile nor
        what else is in the target counts as a difference. Raises as
        `parley.pipelines.verify.async_verify_topics`, and ConfigError with `two_way`, whose copies
        have a header more.
        """
        if self.options.two_way:
            raise ConfigError("with two_way copies have a header more, and are not equal")
        lanes = await self._lanes()
        return await verify_copied(self.source, self.target, lanes, options or VerifyOptions())

    async def cutover(self, *, quiet_ms: int = 2_000, execute: bool = False) -> list[CutoverStep]:
        """Go through the steps that lead from the source to the target; return how each stands, up
        to the first that is open.

        Looks whether the target has the topics, whether anybody wrote in `quiet_ms`, whether
        transactions are open, all is copied and equal, groups are empty and their offsets
        translated. With `execute` what is left is copied, which ends a copy that runs elsewhere,
        and offsets of groups are written; else nothing is changed.
        """
        return await steps(self, quiet_ms=quiet_ms, execute=execute)

    # -- inside ------------------------------------------------------------------------------------

    async def _lanes(self) -> Lanes:
        """Return all partitions: those that are being copied, or as the target has them."""
        if self._engine is not None:
            return dict(self._engine.lanes)
        source, target = await self._metadata()
        source_id, _ = cluster_ids({"source": source, "target": target}, self.options)
        self._isolation = await isolation_of(self.source)
        known = await self._read_known(target, source_id)
        partitions = partitions_of(source, wanted_topics(source, self.options))
        return {lane.partition: lane for lane in await self._lanes_of(source, partitions, known)}

    def _is_idle(self, lane: Lane) -> bool:
        return self._engine is None or self._engine.is_idle(lane)

    async def _pass_hole(self, lane: Lane, end: int) -> None:
        """Go over offsets at the end of the source that have no records: control records, aborted
        ones. Reading yields nothing for them.
        """
        before = lane.position
        wanted = {lane.partition: replace(lane.range(), end=end)}
        try:
            if await readers.any_record(self.source, wanted, self._isolation):
                return
        except KafkaError as error:
            if not may_pass(error):
                raise
            return
        if lane.position == before and self._is_idle(lane):
            # the epoch of a record before a hole says nothing about offsets behind it
            lane.passed(before._replace(next_offset=end, leader_epoch=-1))

    def _started(self) -> Engine:
        assert self._engine is not None  # `start` has run
        return self._engine
