"""The asynchronous client: every operation of parley behind one object."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar, Unpack

from parley.client.admin.methods import AsyncAdministration
from parley.client.cluster import abilities
from parley.client.cluster.call_deadline import working_until
from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline
from parley.client.cluster.starting import Start
from parley.client.cluster.view import ClusterMetadata
from parley.client.cluster.wanted_topics import ensure_topics
from parley.client.events import Listener
from parley.client.fetch.ranges import Range, open_read
from parley.client.offsets import committed
from parley.client.offsets.leader_epochs import Asked, offsets_for_leader_epochs
from parley.client.offsets.list_offsets import Spec, list_offsets
from parley.client.options import arguments
from parley.client.options.client_options import (
    READ_UNCOMMITTED,
    ClientOptions,
    FetchOptions,
    ProduceOptions,
    client_options,
    shown_client,
)
from parley.client.options.values import ClientOptionValues, SchemaOptionValues
from parley.client.results import (
    ConsumerGroupMetadata,
    EpochEndOffset,
    FetchedBatch,
    OffsetAndTimestamp,
    ProduceResult,
)
from parley.client.transactions.calls import AsyncTransactions
from parley.messages import Message, Request
from parley.net import Backend, Clock
from parley.net.http_client import in_thread
from parley.schema import ApiKey
from parley.types import Names, OffsetAndMetadata, Several, TopicPartition, text
from parley.versions import BrokerVersions, Feature, VersionRange

if TYPE_CHECKING:
    import pyarrow

    from parley.client.produce.producer import Producer
    from parley.client.produce.rows import Rows

R = TypeVar("R", bound=Message)


class AsyncClient(AsyncAdministration):
    """A client of one cluster, for one event loop.

    >>> async def rows() -> None:
    ...     async with AsyncClient(bootstrap_servers="localhost:9092") as client:
    ...         async for batch in client.fetch(TopicPartition("flights", 0), 0, 2):
    ...             print(batch.num_rows)
    >>> asyncio.run(rows())
    2

    Options are those of ClientOptions, given as one or by name. `require` names the features that
    every broker must have; `start` checks them. `on_event` is called in the loop with each event
    (`PossibleDataLoss`, `TopicRecreated`) and must not block. Raises ConfigError for unknown
    options and features.
    """

    def __init__(
        self,
        options: ClientOptions | None = None,
        *,
        require: Several[Feature | str] = (),
        on_event: Listener | None = None,
        backend: Backend | None = None,
        clock: Clock | None = None,
        rng: Callable[[], float] | None = None,
        **named: Unpack[ClientOptionValues],
    ) -> None:
        self.options = client_options(options, named)
        arguments.listener("on_event", on_event)
        self._make = partial(
            Cluster, self.options, backend=backend, clock=clock, rng=rng, on_event=on_event
        )
        self._require = abilities.named_features(require)
        self._start = Start(self._make, partial(abilities.require, features=self._require))
        self._producer: Producer | None = None
        self._closed = self._left_behind = False
        self.transactions = AsyncTransactions(self._begin)
        """Transactional producers, and what else concerns transactions."""

    def __repr__(self) -> str:
        return shown_client(self, self.options, closed=self._closed)

    # -- life --------------------------------------------------------------------------------------

    async def start(self) -> AsyncClient:
        """Reach a broker, learn about the cluster; `async with` or the first call do it, too.

        Raises BrokersUnreachable, naming each address and the stage it failed in (at once, or after
        `bootstrap_timeout_ms`; a client that has once started keeps trying until the deadline of
        each call), and UnsupportedVersionError where a broker lacks a feature that `require` names.
        """
        await self._begin(None)
        return self

    async def close(self) -> None:
        """Close every connection. Records not yet acknowledged fail. Idempotent.

        Raises LocalProtocolError in another event loop than the client's, unless that is closed.
        """
        is_alive = self._is_alive()
        self._closed = True
        if not is_alive:
            self._left_behind = True
            self._producer = None  # its sockets close with it
            self._start.leave_behind()
            self.transactions.leave_behind()
        await self.transactions.close()
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.close()
        await self._start.close()

    async def __aenter__(self) -> AsyncClient:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _is_alive(self) -> bool:
        """Return False where its event loop is closed. Raises LocalProtocolError in another loop
        than its own.
        """
        cluster = self._cluster
        if cluster is None:
            return not self._left_behind
        if not cluster.is_left_behind:
            cluster.check_loop()
        return not cluster.is_left_behind

    @property
    def _cluster(self) -> Cluster | None:
        return self._start.cluster

    async def _started(self) -> Cluster:
        return (await self._begin(None))[0]

    async def _begin(self, timeout_ms: int | None) -> tuple[Cluster, Deadline]:
        """Return the started client's state and a call's deadline: starting is part of the call."""
        return await self._start.begun(timeout_ms)

    # -- the cluster -------------------------------------------------------------------------------

    async def metadata(self, topics: Names | None = None) -> ClusterMetadata:
        """Return brokers, leaders and partitions of some topics (none named: of all). Always asks.

        Creates no topic. Raises the error of a topic that is missing or may not be seen.
        """
        names = None if topics is None else arguments.topic_names("topics", topics)
        cluster = await self._started()
        deadline = cluster.deadline()
        if names is None:
            return await cluster.describe_all(deadline)
        if cluster.schedule.want(names):
            return await ensure_topics(cluster, names, deadline)
        cluster.schedule.hurry()
        await cluster.refresh_until(deadline)
        return await ensure_topics(cluster, names, deadline)

    async def api_versions(self, node_id: int | None = None) -> BrokerVersions:
        """Return what a broker can do, as it said on the connection in use (None: any broker)."""
        arguments.broker_id(node_id)
        cluster, deadline = await self._begin(None)
        with working_until(deadline):
            return await cluster.versions(node_id)

    async def supports(self, feature: Feature | str, broker: int | None = None) -> bool:
        """Return whether a broker, or with None each known one, has a feature now.

        Connects where needed. Raises NetworkError where a broker cannot be reached.
        """
        (wanted,) = abilities.named_features([feature])
        arguments.broker_id(broker, "broker")
        cluster, deadline = await self._begin(None)
        with working_until(deadline):
            return await abilities.supports(cluster, wanted, broker)

    def versions_in_use(self) -> dict[int, dict[ApiKey, int]]:
        """Return the version of each API last spoken with each broker."""
        return self._cluster.versions_in_use() if self._cluster is not None else {}

    async def request(
        self,
        node_id: int | None,
        message: Request[R],
        timeout_ms: int | None = None,
        *,
        feature: Feature | None = None,
        allowed: VersionRange | None = None,
    ) -> R:
        """Send any request to a broker (None: any) in the negotiated version; return the answer.

        Error codes inside the answer are the caller's to read. `allowed` narrows the versions,
        `feature` says what the request is for. `timeout_ms` (else `request_timeout_ms`) includes
        connecting. Raises UnsupportedVersionError, before a byte is sent, where the broker does not
        have the API, none of these versions, or not the feature; RequestTimedOut at the deadline.
        """
        arguments.broker_id(node_id)
        arguments.request(message)
        arguments.timeout(timeout_ms)
        arguments.optional("feature", feature, Feature)
        arguments.optional("allowed", allowed, VersionRange)
        cluster, deadline = await self._begin(
            self.options.request_timeout_ms if timeout_ms is None else timeout_ms
        )
        with working_until(deadline):
            conn = await cluster.connection(node_id)
        if feature is not None:
            conn.versions.require(feature)
        left_ms = max(1, deadline.remaining_ms(cluster.now_ms()))
        return (await cluster.ask(conn, message, left_ms, allowed)).message

    # -- offsets -----------------------------------------------------------------------------------

    async def list_offsets(
        self,
        specs: Mapping[TopicPartition, Spec],
        *,
        isolation_level: str = READ_UNCOMMITTED,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the offset of each place: EARLIEST, LATEST, MAX_TIMESTAMP, or the first
        at or after Timestamp(ms).
        """
        FetchOptions(isolation_level=isolation_level)
        wanted = arguments.by_partition("specs", specs, 'TopicPartition("flights", 0): EARLIEST')
        arguments.timeout(timeout_ms)
        cluster, deadline = await self._begin(timeout_ms)
        return await list_offsets(cluster, wanted, isolation_level, deadline)

    async def offsets_for_leader_epochs(
        self, epochs: Mapping[TopicPartition, Asked], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, EpochEndOffset]:
        """Return where leader epochs end in the leaders' logs (OffsetForLeaderEpoch v3+, KIP-320).

        A position whose epoch ends below it was truncated: its records belong to another history.
        An epoch is given as `epoch`, `(epoch,)` or `(epoch, current_leader_epoch)`. Where a leader
        cannot be asked the answer has `available=False`; nothing is raised for that.
        """
        wanted = arguments.by_partition("epochs", epochs, 'TopicPartition("flights", 0): 3')
        arguments.timeout(timeout_ms)
        cluster, deadline = await self._begin(timeout_ms)
        return await offsets_for_leader_epochs(cluster, wanted, deadline)

    async def commit_offsets(self, group_id: str, offsets: arguments.OffsetsToCommit) -> None:
        """Commit offsets (the *next* to be read) for a group that has no active members.

        An offset is a number, (offset, metadata) or an OffsetAndMetadata.
        """
        text("group_id", group_id)
        wanted = arguments.offsets_to_commit(offsets)
        cluster = await self._started()
        await committed.commit_offsets(
            cluster, ConsumerGroupMetadata(group_id), wanted, cluster.deadline()
        )

    async def committed_offsets(
        self, group_id: str, partitions: Several[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offset of each partition, None where the group has committed none.

        Where a transaction that is not ended yet has offsets of these partitions, the answer waits
        for its end (KIP-447, brokers from 2.5 on; older ones return the offset before). Raises
        RequestTimedOut at the deadline.
        """
        text("group_id", group_id)
        wanted = arguments.partitions(partitions)
        cluster = await self._started()
        return await committed.committed_offsets(cluster, group_id, wanted, cluster.deadline())

    # -- reading -----------------------------------------------------------------------------------

    async def fetch(
        self,
        tp: TopicPartition,
        start: int | Spec,
        end: int | Spec | None = None,
        options: FetchOptions | None = None,
        **schemas: Unpack[SchemaOptionValues],
    ) -> AsyncGenerator[pyarrow.RecordBatch, None]:
        """Yield a partition's records from `start` up to, not including, `end` (None: forever).

        See `fetch_many` for what is raised, and for `schemas`. Close the iterator (`aclosing`) when
        leaving it early.
        """
        reading = self.fetch_many({arguments.partition(tp): (start, end)}, options, **schemas)
        try:
            async for found in reading:
                yield found.batch
        finally:
            await reading.aclose()

    async def fetch_many(
        self,
        ranges: Mapping[TopicPartition, Range],
        options: FetchOptions | None = None,
        **schemas: Unpack[SchemaOptionValues],
    ) -> AsyncGenerator[FetchedBatch, None]:
        """Yield the records of several partitions as they come: in order only within each.

        A range is `start`, `(start, end)` or a PartitionRange; ends may be places such as EARLIEST.
        Follows leaders as they move. Raises DataLossError where promised offsets are gone,
        CorruptRecordError where records are damaged, the broker's error otherwise; in each case
        after everything in front was yielded, and fetching again from there meets the same.

        `value_format` or `key_format` (avro, json) makes typed columns of values or keys, by the
        schemas of `schema_registry_url`: `SchemaOptions` has all options. Raises SchemaDecodeError
        for a message that cannot be decoded, unless on_schema_error="null".
        """
        options = options if options is not None else FetchOptions()
        from parley.client.fetch.decode import decode

        typed = None
        if schemas:
            from parley.client.fetch.typed import typed_for

            typed = await in_thread(partial(typed_for, ranges, **schemas))
        reading = await open_read(await self._started(), ranges, options)
        try:
            while (raw := await reading.next()) is not None:
                batches = decode(raw, options, typed)
                del raw  # it holds the receive buffer
                while (found := await asyncio.to_thread(next, batches, None)) is not None:
                    yield found
        finally:
            await reading.close()

    # -- writing -----------------------------------------------------------------------------------

    async def produce(
        self,
        topic: str | None,
        rows: Rows,
        partition: int | None = None,
        options: ProduceOptions | None = None,
    ) -> ProduceResult:
        """Write rows and return when all are acknowledged, with their offsets.

        `rows` is a RecordBatch, a Table or an iterable of RecordBatches with a column `value` or
        `key`, and optionally `headers`, `timestamp`, `partition` and (with `topic=None`) `topic`.
        Rows of one partition keep their order. Raises the first error; a note on it says how many
        rows were written.
        """
        options = arguments.writing(topic, partition, options)
        await self._started()
        from parley.client.produce.calls import write

        return await write(self._producing(), topic, rows, partition, options)

    def _producing(self) -> Producer:
        if self._producer is None:
            from parley.client.produce.producer import Producer

            assert self._cluster is not None  # the caller started the client
            self._producer = Producer(self._cluster)
        return self._producer
