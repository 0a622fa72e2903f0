"""The kinds of flows at work, each by the job that it stands for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from parley.client import AsyncClient, ClientOptions, NewTopic
from parley.errors import KafkaError
from parley.pipelines.declared.declaration import Compared, Flow
from parley.pipelines.queries import AsyncQuery, QueryOptions, SharedSession
from parley.pipelines.replay import AsyncReplay, ReplayOptions
from parley.pipelines.replication import AsyncReplication, ReplicationOptions
from parley.pipelines.replication.plan import Plan
from parley.pipelines.rights import READING, rights_of
from parley.pipelines.verify import Verification, async_verify_topics
from parley.types import Names


class PlannedChange(NamedTuple):
    """What a flow would do, or what was found; with `stops` the pipeline is not begun."""

    flow: str
    kind: str
    topic: str | None
    change: str
    stops: bool
    what: str


class FlowStatus(NamedTuple):
    """How far a flow is. `state` is "running", or how its last run ended: "drained", "done",
    "failed", or "never ran". `lag` are the offsets that are left, None where nobody knows;
    `records` those of its last run. `error` is why the clusters did not say the lag.
    """

    flow: str
    kind: str
    state: str
    lag: int | None
    records: int
    error: KafkaError | None = None


Coming = dict[str, dict[str, int]]
"""Topics that flows would create and their partitions, by cluster."""


class Running(Protocol):
    """A flow that can be run."""

    async def plan(self, coming: Coming) -> list[PlannedChange]:
        """Return what would be done. Changes nothing. `coming` is what flows planned before this
        one create; what this one creates is added.
        """

    async def prepare(self) -> None:
        """Create the topics that flows read which are prepared later."""

    async def run(self) -> None:
        """Do it, to the end or until `stop`."""

    def stop(self) -> None:
        """Let `run` end in order."""

    async def lag(self) -> int | None:
        """Return the offsets that are left, None where that is not known."""

    @property
    def records(self) -> int:
        """Records written by this process."""

    async def close(self) -> None:
        """Let go of everything."""


class CopyFlow:
    """Topics replicated, until somebody ends it."""

    def __init__(
        self, flow: Flow, clusters: Mapping[str, ClientOptions], options: ReplicationOptions
    ) -> None:
        self._flow, self._options = flow, options
        self.replication = AsyncReplication(clusters[flow.source], clusters[flow.target], options)

    async def plan(self, coming: Coming) -> list[PlannedChange]:
        plan = await self.replication.plan()
        _expect(coming, self._flow.target, plan.create)
        return list(_changes(self._flow, plan, self._options.accept))

    async def prepare(self) -> None:
        await self.replication.start()

    async def run(self) -> None:
        await self.replication.run()

    def stop(self) -> None:
        self.replication.stop()

    async def lag(self) -> int | None:
        return sum(one.lag for one in await self.replication.status())

    @property
    def records(self) -> int:
        return self.replication.records

    async def close(self) -> None:
        await self.replication.close()


class ReplayFlow:
    """A topic's records, or a table's, once more, to their end."""

    def __init__(
        self, flow: Flow, clusters: Mapping[str, ClientOptions], options: ReplayOptions
    ) -> None:
        self._flow, self._options = flow, options
        self._replay = AsyncReplay(clusters.get(flow.source), clusters[flow.target], options)

    async def plan(self, coming: Coming) -> list[PlannedChange]:
        plan = await self._replay.plan()
        found = [
            PlannedChange(
                self._flow.name, self._flow.kind, tp.topic, "read", False,
                f"{end - start} rows from row {start} on" if self._options.table is not None
                else f"partition {tp.partition}, {end - start} offsets from {start} on",
            )
            for tp, (start, end) in (plan.ranges or {}).items()
        ]  # fmt: skip
        return [*found, *_changes(self._flow, plan, self._options.accept)]

    async def prepare(self) -> None:
        """Nothing: it reads what is there when it begins."""

    async def run(self) -> None:
        await self._replay.run()

    def stop(self) -> None:
        self._replay.stop()

    async def lag(self) -> int | None:
        if not await self._replay.has_begun():
            return None
        return sum(one.lag for one in await self._replay.status())

    @property
    def records(self) -> int:
        return self._replay.records

    async def close(self) -> None:
        await self._replay.close()


class QueryFlow:
    """Topics read by Spark, and written to a topic or a table."""

    def __init__(self, flow: Flow, options: QueryOptions, session: SharedSession) -> None:
        self._flow = flow
        self._query = AsyncQuery(options, session)

    async def plan(self, coming: Coming) -> list[PlannedChange]:
        plan = await self._query.plan(coming.get(self._flow.source, {}))
        _expect(coming, self._flow.target, plan.create)
        _expect(coming, self._flow.source, plan.create_at_source)
        name, kind = self._flow.name, self._flow.kind
        found = [
            PlannedChange(name, kind, topic, "read", False, f"{parts} partitions, {left} offsets")
            for topic, (parts, left) in plan.reads.items()
        ]
        found += _created(self._flow, plan.create_at_source)
        found += _changes(self._flow, plan)
        if plan.columns:
            found.append(PlannedChange(name, kind, None, "write", False, plan.columns))
        return found

    async def prepare(self) -> None:
        await self._query.prepare()

    async def run(self) -> None:
        await self._query.run()

    def stop(self) -> None:
        self._query.stop()

    async def lag(self) -> int | None:
        return await self._query.lag()

    @property
    def records(self) -> int:
        return self._query.records

    async def close(self) -> None:
        await self._query.close()


class VerifyFlow:
    """Topics compared. Raises nothing where they differ: `found` says it."""

    def __init__(
        self, flow: Flow, clusters: Mapping[str, ClientOptions], options: Compared, flows: Flows
    ) -> None:
        self._flow, self._options = flow, options
        self._copy: CopyFlow | None = None
        if options.flow is None:
            self._sides = AsyncClient(clusters[flow.source]), AsyncClient(clusters[flow.target])
        else:
            copied = flows[options.flow]
            assert isinstance(copied.options, ReplicationOptions)  # checked when the file was read
            self._copy = CopyFlow(copied, clusters, copied.options)
        self._task: asyncio.Task[Verification] | None = None
        self.found: Verification | None = None

    async def plan(self, coming: Coming) -> list[PlannedChange]:
        whole = f"what {self._options.flow} copied"
        topics = self._options.topics
        found = [
            PlannedChange(
                self._flow.name, self._flow.kind, topic, "compare", False,
                f"with {other}" if other != topic else "record by record",
            )
            for topic, other in (topics or {whole: whole}).items()
        ]  # fmt: skip
        if self._copy is None:  # else those of that flow
            left, right = self._sides
            reads, also = (dict.fromkeys(names, READING) for names in (topics, topics.values()))
            found += _changes(self._flow, Plan(rights=await rights_of(left, reads, right, also)))
        return found

    async def prepare(self) -> None:
        """Nothing: it only reads."""

    async def run(self) -> None:
        options = self._options.options
        if self._copy is not None:
            work = self._copy.replication.verify(options)
        else:
            work = async_verify_topics(*self._sides, self._options.topics, options)
        self._task = asyncio.ensure_future(work)
        try:
            self.found = await self._task
        except asyncio.CancelledError:
            if not self._task.cancelled() or asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def lag(self) -> int | None:
        return None

    @property
    def records(self) -> int:
        return sum(one.left_records for one in self.found.partitions) if self.found else 0

    async def close(self) -> None:
        if self._copy is not None:
            await self._copy.close()
            return
        for side in self._sides:
            await side.close()


Flows = Mapping[str, Flow]


def flow_at_work(
    flow: Flow, clusters: Mapping[str, ClientOptions], flows: Flows, session: SharedSession
) -> Running:
    """Return the job of a flow."""
    if isinstance(flow.options, QueryOptions):
        return QueryFlow(flow, flow.options, session)
    if isinstance(flow.options, ReplicationOptions):
        return CopyFlow(flow, clusters, flow.options)
    if isinstance(flow.options, ReplayOptions):
        return ReplayFlow(flow, clusters, flow.options)
    return VerifyFlow(flow, clusters, flow.options, flows)


def _expect(coming: Coming, cluster: str, topics: Iterable[NewTopic]) -> None:
    coming.setdefault(cluster, {}).update((one.name, one.num_partitions) for one in topics)


def _created(flow: Flow, topics: Iterable[NewTopic]) -> Iterator[PlannedChange]:
    for topic in topics:
        configs = "".join(f", {name}={value}" for name, value in topic.configs.items())
        what = f"{topic.num_partitions} partitions, {topic.replication_factor} replicas{configs}"
        yield PlannedChange(flow.name, flow.kind, topic.name, "create", False, what)


def _changes(flow: Flow, plan: Plan, accepted: Names = ()) -> Iterator[PlannedChange]:
    yield from _created(flow, plan.create)
    for name, count in plan.add_partitions.items():
        what = f"partitions up to {count}"
        yield PlannedChange(flow.name, flow.kind, name, "add-partitions", False, what)
    stopping = plan.stopping(accepted)
    for one in (*plan.rights, *plan.findings):
        stops = one in stopping
        yield PlannedChange(flow.name, flow.kind, one.topic, one.code, stops, one.text)
