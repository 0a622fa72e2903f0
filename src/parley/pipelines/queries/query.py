"""A streaming query as a job: planned, run, ended in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from parley.client import EARLIEST, LATEST, AsyncClient, ClusterMetadata, NewTopic, TopicPartition
from parley.errors import DataLossError, DiskFullError, JobError, KafkaError
from parley.pipelines.blocking import AsyncJob
from parley.pipelines.queries.checkpoint import committed
from parley.pipelines.queries.failures import (
    clearest_line,
    failure_text,
    in_keys,
    is_data_loss,
    is_disk_full,
    remedy,
)
from parley.pipelines.queries.following import follow, started
from parley.pipelines.queries.frames import check_output_mode, rows_of, writer_of
from parley.pipelines.queries.options import COMPLETE, ISOLATION, QueryOptions
from parley.pipelines.queries.session import SharedSession
from parley.pipelines.replication.clusters import isolation_of
from parley.pipelines.replication.plan import MOST_REPLICAS, Finding, Plan, refuse
from parley.pipelines.replication.topics import carry_out
from parley.pipelines.rights import READING, WRITING, rights_of
from parley.spark.lakes.options import LakeOptions
from parley.spark.options.schema_table import DEAD_LETTER_TOPIC
from parley.spark.options.subscription import select_partitions
from parley.spark.options.table import TOPIC as TOPIC_OPTION
from parley.spark.values.arrow_batches import record_columns
from parley.spark.write.options import SinkOptions
from parley.versions import Feature

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Positions = Mapping[TopicPartition, int]
NOTHING: Mapping[str, int] = {}
LATER = "later"
"""A topic that is still to be created by another."""


@dataclass(frozen=True, slots=True)
class QueryPlan(Plan):
    """What would be created in the target, what was found, what is read, and what is written."""

    reads: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Partitions and offsets that are left, of each topic."""
    create_at_source: tuple[NewTopic, ...] = ()
    columns: str = ""
    """Of the rows that are written."""


class AsyncQuery(AsyncJob):
    """One streaming query, from topics to a topic or a table, in a session that may be shared."""

    def __init__(self, options: QueryOptions, session: SharedSession) -> None:
        self._options, self._session = options, session
        self._reads = options.reads()
        self._writes = options.writes()
        self._source = AsyncClient(self._reads.client)
        self._target = (
            AsyncClient(self._writes.client) if isinstance(self._writes, SinkOptions) else None
        )
        self._stopping = threading.Event()
        self._is_prepared = False
        self.records = 0
        """Rows read by this process, in batches that are done."""

    # -- verbs -------------------------------------------------------------------------------------

    async def plan(self, coming: Mapping[str, int] = NOTHING) -> QueryPlan:
        """Return what is read, what would be created and written, and what is in the way. Starts
        Spark, and changes nothing. `coming` are topics that others create before this runs, with
        their partitions.
        """
        found = await self._plan_topics(await self._looked(), coming)
        if any(one.stops for one in found.findings):
            return found
        columns, findings = await asyncio.to_thread(self._plan_rows)
        return replace(found, columns=columns, findings=(*found.findings, *findings))

    async def prepare(self) -> None:
        """Create the topics that are missing; `run` does it, too.

        Raises ConfigError where something stands in the way, before anything is changed.
        """
        if self._is_prepared:
            return
        plan = await self._plan_topics(await self._looked())
        refuse(plan, (), "run")
        if plan.create and self._target is not None:
            await carry_out(self._target, plan)
        if plan.create_at_source:
            await carry_out(self._source, Plan(create=plan.create_at_source))
        self._is_prepared = True

    async def run(self) -> None:
        """Run the query: to the end of what is there, or until `stop`.

        Raises what `prepare` raises, DataLossError for records that are gone, JobError for all else
        that Spark fails with, and DiskFullError.
        """
        await self.prepare()
        self._is_prepared = False  # the next run looks again
        work = asyncio.ensure_future(asyncio.to_thread(self._work))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            self.stop()
            await asyncio.wait([work])
            raise

    def stop(self) -> None:
        """Let `run` return when the batch that the query is at is done."""
        self._stopping.set()

    async def lag(self) -> int | None:
        """Return the offsets that are left; None before the first batch."""
        found = committed(self._options.checkpoint)
        if found is None:
            return None
        ends = await self._ends(await self._looked())
        return _left(found.positions, ends)

    async def close(self) -> None:
        """Close clients. Idempotent."""
        self.stop()
        await self._source.close()
        if self._target is not None:
            await self._target.close()

    # -- planning ----------------------------------------------------------------------------------

    async def _looked(self) -> ClusterMetadata:
        """Return the source's metadata, with what it can settled."""
        metadata = await self._source.metadata()
        if ISOLATION not in self._options.source:
            level = {ISOLATION: await isolation_of(self._source)}
            self._options = replace(self._options, source={**self._options.source, **level})
            self._reads = self._options.reads()
        return metadata

    async def _plan_topics(
        self, metadata: ClusterMetadata, coming: Mapping[str, int] = NOTHING
    ) -> QueryPlan:
        reads = self._reads.subscription
        partitions = select_partitions(reads, metadata)
        there = {tp.topic for tp in partitions}
        later = sorted(
            one for one in coming if one not in there and reads.matches(one, is_internal=False)
        )
        missing = sorted(set(reads.wanted_topics() or ()) - there - set(later))
        findings = [Finding(one, "no-topic", True, "it does not exist") for one in missing]
        findings += [Finding(one, LATER, False, "it is read when it is there") for one in later]
        if not partitions and not findings:
            text = f"no topic is there that it reads: {reads}"
            findings.append(Finding(None, "no-topic", True, text))
        widths = [*(tp.partition + 1 for tp in partitions), *(coming[one] for one in later)]
        widest = max(widths, default=1)
        letters = self._reads.own[DEAD_LETTER_TOPIC]
        create = await self._missing_target(widest, findings)
        create_at_source = _missing(metadata, letters, widest)
        needed = dict.fromkeys([*sorted(there), *missing], READING)
        if letters is not None and not create_at_source:
            needed[letters] = WRITING
        writes = {} if self._sink_topic is None or create else {self._sink_topic: WRITING}
        return QueryPlan(
            create=create,
            create_at_source=create_at_source,
            reads=await self._reading(metadata, partitions),
            findings=tuple(findings),
            rights=await rights_of(self._source, needed, self._target, writes),
        )

    @property
    def _sink_topic(self) -> str | None:
        """The topic that all rows are written to; None where each row names one, and for tables."""
        return self._writes.own[TOPIC_OPTION] if isinstance(self._writes, SinkOptions) else None

    async def _reading(
        self, metadata: ClusterMetadata, partitions: tuple[TopicPartition, ...]
    ) -> dict[str, tuple[int, int]]:
        ends = await self._ends(metadata, partitions)
        done = committed(self._options.checkpoint)
        positions: dict[TopicPartition, int] = dict(done.positions) if done is not None else {}
        new = dict.fromkeys((tp for tp in partitions if tp not in positions), EARLIEST)
        positions |= {tp: one.offset for tp, one in (await self._source.list_offsets(new)).items()}
        if done is None and self._reads.start.everywhere == LATEST:
            positions = ends
        found = {}
        for topic in sorted({tp.topic for tp in partitions}):
            own = {tp: end for tp, end in ends.items() if tp.topic == topic}
            found[topic] = (len(own), _left(positions, own))
        return found

    async def _ends(
        self, metadata: ClusterMetadata, partitions: tuple[TopicPartition, ...] | None = None
    ) -> dict[TopicPartition, int]:
        wanted = partitions or select_partitions(self._reads.subscription, metadata)
        level = self._reads.fetch.isolation_level
        ends = await self._source.list_offsets(dict.fromkeys(wanted, LATEST), isolation_level=level)
        return {tp: one.offset for tp, one in ends.items()}

    async def _missing_target(self, widest: int, findings: list[Finding]) -> tuple[NewTopic, ...]:
        if self._target is None:
            return ()
        assert isinstance(self._writes, SinkOptions)
        can = await self._target.supports(Feature.IDEMPOTENT_PRODUCER)
        if self._writes.transactions is not None and not can:
            text = 'the target has no transactions (Kafka 0.11): only "at-least-once" is left'
            findings.append(Finding(None, "exactly-once", True, text))
        count = self._options.sink.partitions
        return _missing(
            await self._target.metadata(),
            self._sink_topic,
            widest if count < 1 else count,
        )

    # -- Spark, in a thread ------------------------------------------------------------------------

    def _plan_rows(self) -> tuple[str, list[Finding]]:
        try:
            rows = self._rows()
            schema = record_columns(rows.schema)
            self._check_columns(schema)
            check_output_mode(rows, self._options.output_mode)
        except KafkaError as error:
            return "", [Finding(None, "rows", True, str(error))]
        return ", ".join(f"{one.name} {one.dataType.simpleString()}" for one in schema), []

    def _rows(self) -> DataFrame:
        try:
            return rows_of(self._session.new(), self._options)
        except KafkaError:
            raise
        except Exception as error:
            raise self._explained(error) from error

    def _check_columns(self, schema: StructType) -> None:
        """Raise ConfigError for rows that do not go where they should."""
        if isinstance(self._writes, LakeOptions):
            from parley.spark.lakes.writer import LakeStreamWriter

            overwrite = self._options.output_mode == COMPLETE
            LakeStreamWriter(self._writes, schema, overwrite).plan()
        else:
            from parley.spark.write.writer import columns_to_write

            columns_to_write(schema, self._writes)

    def _work(self) -> None:
        rows = self._rows()
        before = self.records
        try:
            query = started(writer_of(rows, self._options).start)
            follow(query, self._stopping.is_set, lambda done: self._count(before + done))
        except Exception as error:
            raise self._explained(error) from error

    def _count(self, rows: int) -> None:
        self.records = rows

    def _explained(self, error: Exception) -> KafkaError:
        text = failure_text(error)
        name, log = self._options.name, self._session.log
        if is_data_loss(text):
            return DataLossError(f"{name}: {in_keys(clearest_line(text))}")
        if is_disk_full(text):
            return DiskFullError(f"{name}: a disk is full; {clearest_line(text)}")
        why = clearest_line(text) + remedy(text)
        return JobError(f"{name} failed: {why} (Spark's messages are in {log})")


def _left(positions: Positions, ends: Positions) -> int:
    return sum(max(0, end - positions.get(tp, 0)) for tp, end in ends.items())


def _missing(metadata: ClusterMetadata, topic: str | None, partitions: int) -> tuple[NewTopic, ...]:
    """Return what creates a topic, if it is not there."""
    if topic is None:
        return ()
    if topic in metadata.topics and metadata.topics[topic].partitions:
        return ()
    return (NewTopic(topic, partitions, min(MOST_REPLICAS, len(metadata.brokers))),)
