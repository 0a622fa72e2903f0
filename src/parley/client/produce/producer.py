"""Writing rows: who may write (InitProducerId), what a topic takes, and from rows to batches.

The pieces are meant for two callers: the asynchronous client encodes in a worker thread, the
blocking one in the thread that called it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from parley.arrow import columns_from_arrow
from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline
from parley.client.cluster.routing import at_any
from parley.client.cluster.wanted_topics import ensure_topics
from parley.client.options.client_options import CODECS, ProduceOptions
from parley.client.produce.rows import (
    Rows,
    Sticky,
    TopicPlan,
    assign,
    by_topic,
    check_columns,
    check_format,
    encode,
    highest_partition,
    no_such_partition,
    slices,
)
from parley.client.produce.sender import Sender
from parley.client.produce.sequences import PartitionSequences
from parley.client.produce.state import InTransaction, OutBatch, ProduceCall
from parley.client.produce.wire import BATCHES_VERSION, ZSTD_VERSION, magic_for
from parley.client.results import ProduceResult
from parley.errors import KafkaError, UnsupportedVersionError, broker_error
from parley.errors.codes import LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION
from parley.messages import InitProducerIdRequest
from parley.net import BrokerConnection
from parley.records import stamp_producer
from parley.schema import ApiKey
from parley.types import TopicPartition
from parley.versions import Feature, VersionRange

NO_TRANSACTION_TIMEOUT_MS = 2**31 - 1
"""What Java's idempotent producer sends where there is no transaction."""


@dataclass(slots=True)
class Writing:
    """One produce call under way."""

    call: ProduceCall
    options: ProduceOptions
    topic: str | None
    partition: int | None
    deadline_ms: int = 0
    """Of the rows being prepared, not of the call: an iterator of rows may go on for hours."""
    checked: list[TopicPlan] = field(default_factory=list)
    """Plans that can do what the options ask for."""
    has_turn: bool = False
    """Whether it holds the sender's lock: from its turn until its batches are handed over."""


class Producer:
    """The writing side of a client: one producer id, a numbering per partition, for all calls."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.sender = Sender(cluster, self._renew)
        self._identity: tuple[int, int] | None = None
        self._plans: dict[str, TopicPlan] = {}
        self._sticky: dict[str, Sticky] = {}
        self._cares = contextlib.ExitStack()
        self.transaction: InTransaction | None = None
        self.ahead: list[Callable[[str], Awaitable[None]]] = []
        """What is handed over before a call's rows of a topic: records that were sent earlier."""

    def begin(self, topic: str | None, partition: int | None, options: ProduceOptions) -> Writing:
        """Return a new call; nothing is sent yet."""
        self._set_limits(options)
        return Writing(ProduceCall(), options, topic, partition)

    def _set_limits(self, options: ProduceOptions) -> None:
        self.sender.max_in_flight = options.max_in_flight_requests_per_connection
        self.sender.max_request_size = options.max_request_size
        self.sender.batch_size = options.batch_size

    def pieces(self, writing: Writing, rows: Rows) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield what to encode at a time, with its topic."""
        for piece in slices(rows):
            yield from by_topic(piece, writing.topic)

    async def turn(self, writing: Writing, topic: str, rows: pa.RecordBatch) -> TopicPlan:
        """Find out what a topic's leaders take and who we are to them; await the turn to number.

        The turn lasts until `hand_over` or `give_up`. Where `rows` name a partition that is not
        known yet, metadata is asked for until it is, for at most `max_block_ms`. Raises the topic's
        error, and UnsupportedVersionError where a leader cannot do what was asked.
        """
        for hand_over in self.ahead:
            await hand_over(topic)
        plan = await self._prepare(writing, topic, highest_partition(rows, writing.partition))
        await self.sender.lock.acquire()
        writing.has_turn = True
        return plan

    async def hand_over(self, writing: Writing, batches: list[OutBatch]) -> None:
        """Give encoded batches to the sender, and end the turn."""
        try:
            await self._add(batches)
        finally:
            self._end_turn(writing)

    def give_up(self, writing: Writing, error: KafkaError) -> None:
        """Drop what was not sent of a call that ended early, and its turn."""
        self.sender.abandon(writing.call, error)
        self._end_turn(writing)

    def encode(self, writing: Writing, plan: TopicPlan, rows: pa.RecordBatch) -> list[OutBatch]:
        """Return the batches of some rows of a topic. Call in one's turn, in the caller's thread.

        Mutates: reserves sequences, so the batches must be handed over before anything else is
        encoded.
        """
        now_ms = int(time.time() * 1000)
        parsed = columns_from_arrow(rows, now_ms=now_ms)
        check_columns(rows)
        sticky = self._sticky.setdefault(plan.topic, Sticky(self._cluster.rng))
        made: list[OutBatch] = []
        undo: list[tuple[PartitionSequences, int]] = []
        try:
            for partition, chosen in assign(
                parsed, plan, writing.partition, sticky, writing.options
            ):
                tp = TopicPartition(plan.topic, partition)
                magic = min(plan.magic(partition), self.sender.log(tp).newest_magic)
                check_format(parsed.columns, plan, partition, magic)
                numbers = self._numbers(tp, magic, writing.options)
                if numbers is not None:
                    undo.append((numbers, numbers.next))
                made += self._encode_one(
                    writing, tp, magic, numbers, parsed.columns, chosen, now_ms
                )
        except BaseException:
            for numbers, before in undo:
                numbers.next = before
            raise
        return made

    async def finish(self, writing: Writing) -> ProduceResult:
        """Return the acknowledgements of a call when all are there.

        Raises the first error, with a note of what was acknowledged all the same.
        """
        call = writing.call
        await self.sender.settled(call)
        if call.error is not None:
            acked = sum(ack.records for ack in call.acks().values())
            call.error.add_note(f"of this call {acked} records were acknowledged")
            raise call.error
        return ProduceResult(call.acks(), idempotent=call.idempotent)

    async def close(self) -> None:
        """Fail what is still open and stop."""
        self._cares.close()
        await self.sender.close()

    # -- inside ------------------------------------------------------------------------------------

    async def _prepare(self, writing: Writing, topic: str, highest: int) -> TopicPlan:
        options = writing.options
        await self.sender.room(writing.call, options.buffer_memory)
        plan = await self.prepare(topic, options, highest, writing.checked)
        writing.deadline_ms = self._cluster.now_ms() + options.delivery_timeout_ms
        return plan

    async def prepare(
        self, topic: str, options: ProduceOptions, highest: int, checked: list[TopicPlan]
    ) -> TopicPlan:
        """Return what a topic's leaders take, and see to it that there is a producer id if they
        take one. Raises as `turn` does. Mutates: `checked`, plans that can do what is asked for.
        """
        plan = self._plans.get(topic)
        if plan is None or not self.is_fresh(plan) or highest >= plan.partition_count:
            deadline = self._cluster.deadline(options.max_block_ms)
            plan = await self._plan(topic, options, deadline, highest)
            before, self._plans[topic] = self._plans.get(topic), plan
            self._care_for(plan, 0 if before is None else before.partition_count)
        if plan not in checked:
            _check_guarantees(plan, options)
            checked.append(plan)
        if self._identity is None and options.wants_idempotence and 2 in plan.magics.values():
            await self._identify(options, self._cluster.deadline(options.max_block_ms))
        return plan

    # -- batches that were encoded before they have numbers ----------------------------------------

    def hand_over_now(self, batches: list[OutBatch], options: ProduceOptions) -> bool:
        """Number batches and give them to the sender; False where a turn must be awaited first."""
        if self.sender.lock.locked():
            return False
        self._set_limits(options)
        self._number(batches, options)
        self.sender.add(batches)
        return True

    async def hand_over_in_turn(self, batches: list[OutBatch], options: ProduceOptions) -> None:
        """The same, after waiting for the turn."""
        async with self.sender.lock:
            self._set_limits(options)
            self._number(batches, options)
            await self._add(batches)

    def _number(self, batches: list[OutBatch], options: ProduceOptions) -> None:
        for batch in batches:
            numbers = self._numbers(batch.tp, batch.magic, options)
            if numbers is None:
                continue
            batch.producer_id, batch.epoch = numbers.producer_id, numbers.epoch
            batch.base_sequence = numbers.reserve(batch.records)
            batch.transaction = self.transaction
            if memoryview(batch.data).readonly:
                batch.data = bytearray(batch.data)
            stamp_producer(
                batch.data,  # type: ignore[arg-type]  # which is no bytes now
                batch.producer_id,
                batch.epoch,
                batch.base_sequence,
                transactional=self.transaction is not None,
            )

    def _end_turn(self, writing: Writing) -> None:
        if writing.has_turn:
            writing.has_turn = False
            self.sender.lock.release()

    async def _add(self, batches: list[OutBatch]) -> None:
        self.sender.add(batches)

    def _care_for(self, plan: TopicPlan, known: int) -> None:
        """Be interested in all partitions of a topic written to, as KIP-232 asks: in those from
        `known` on, for the others are counted already.
        """
        new = [TopicPartition(plan.topic, index) for index in range(known, plan.partition_count)]
        if new:
            self._cares.enter_context(self._cluster.interested(new))

    def _encode_one(
        self,
        writing: Writing,
        tp: TopicPartition,
        magic: int,
        numbers: PartitionSequences | None,
        columns: object,
        chosen: object,
        now_ms: int,
    ) -> list[OutBatch]:
        options = writing.options
        first = -1 if numbers is None else numbers.next
        batches = encode(
            columns,  # type: ignore[arg-type]
            chosen,  # type: ignore[arg-type]
            magic,
            options,
            now_ms=now_ms,
            numbers=numbers,
            transactional=self.transaction is not None,
        )
        timeout_ms = options.request_timeout_ms or self._cluster.options.request_timeout_ms
        made = []
        for batch in batches:
            made.append(
                OutBatch(
                    tp=tp,
                    data=batch.data,
                    records=batch.records,
                    magic=magic,
                    codec=CODECS.index(options.compression_type),
                    call=writing.call,
                    acks=options.required_acks,
                    deadline_ms=writing.deadline_ms,
                    timeout_ms=timeout_ms,
                    needs_idempotence=bool(options.enable_idempotence),
                    producer_id=-1 if numbers is None else numbers.producer_id,
                    epoch=-1 if numbers is None else numbers.epoch,
                    base_sequence=-1 if numbers is None else (first + batch.start) & 0x7FFFFFFF,
                    transaction=self.transaction,
                )
            )
        return made

    def _numbers(
        self, tp: TopicPartition, magic: int, options: ProduceOptions
    ) -> PartitionSequences | None:
        if self._identity is None or magic < 2 or not options.wants_idempotence:
            return None
        log = self.sender.log(tp)
        log.see_topic(self._cluster.view.topic_id(tp.topic))
        if log.numbers is None:
            log.numbers = PartitionSequences(*self._identity)
        elif log.is_empty and self.transaction is None:
            log.begin_again()
        return log.numbers

    def is_fresh(self, plan: TopicPlan) -> bool:
        """Return whether a plan has all partitions of its topic, each with a leader."""
        topic = self._cluster.view.topics.get(plan.topic)
        if topic is None or len(topic.partitions) != plan.partition_count:
            return False
        return len(plan.available) == plan.partition_count

    async def _known_partition(self, topic: str, highest: int, deadline: Deadline) -> None:
        """Ask for metadata until a partition is there, as Java does: it may be just added."""
        began, attempt = self._cluster.now_ms(), 0
        while True:
            known = self._cluster.view.topics.get(topic)
            if highest < 0 or (known is not None and highest in known.partitions):
                return
            if deadline.passed(self._cluster.now_ms()):
                count = 0 if known is None else len(known.partitions)
                raise no_such_partition(topic, highest, count, self._cluster.now_ms() - began)
            if attempt:
                await self._cluster.pause(attempt - 1, deadline)
            attempt += 1
            self._cluster.schedule.hurry()
            await self._cluster.refresh_quietly(deadline)

    async def _plan(
        self, topic: str, options: ProduceOptions, deadline: Deadline, highest: int
    ) -> TopicPlan:
        """Ask the leaders of a topic what they take."""
        await ensure_topics(
            self._cluster, [topic], deadline, auto_create=options.allow_auto_create_topics
        )
        await self._known_partition(topic, highest, deadline)

        async def attempt() -> TopicPlan:
            found = self._cluster.view.topics.get(topic)
            if found is None:
                raise broker_error(UNKNOWN_TOPIC_OR_PARTITION, topic=topic)
            leaders = {
                index: self._cluster.leader(TopicPartition(topic, index)).node
                for index in found.partitions
            }
            magics: dict[int, int] = {}
            conns: dict[int, BrokerConnection] = {}
            trouble: KafkaError | None = None
            for index, node in sorted(leaders.items()):
                if node is None:
                    continue
                try:
                    if node.id not in conns:
                        conns[node.id] = await self._cluster.connection(node.id)
                    magics[index] = magic_for(conns[node.id].versions)
                except KafkaError as error:
                    if not error.retriable:
                        raise
                    trouble = error
            if not magics:
                raise trouble or broker_error(
                    LEADER_NOT_AVAILABLE, "no partition has a leader", topic=topic
                )
            versions = {
                index: conns[node.id].versions
                for index, node in leaders.items()
                if node and node.id in conns
            }
            return TopicPlan(topic, len(found.partitions), tuple(sorted(magics)), magics, versions)

        return await self._cluster.retrying(f"finding the leaders of {topic}", deadline, attempt)

    async def _identify(self, options: ProduceOptions, deadline: Deadline) -> None:
        try:
            self._identity = await self._new_identity(deadline)
        except UnsupportedVersionError:
            if options.enable_idempotence:
                raise

    async def _renew(self) -> tuple[int, int]:
        """Return a new producer id: the epochs of the old one are used up."""
        self._identity = await self._new_identity(self._cluster.deadline())
        return self._identity

    async def _new_identity(self, deadline: Deadline) -> tuple[int, int]:
        """Return a producer id and epoch from any broker that has them (InitProducerId, 0.11)."""

        async def attempt(conn: BrokerConnection) -> tuple[int, int]:
            message = InitProducerIdRequest(
                transactional_id=None, transaction_timeout_ms=NO_TRANSACTION_TIMEOUT_MS
            )
            reply = await self._cluster.ask(
                conn, message, self._cluster.request_timeout_ms(deadline)
            )
            if reply.message.error_code:
                raise broker_error(
                    reply.message.error_code, api="INIT_PRODUCER_ID", version=reply.version
                )
            return reply.message.producer_id, reply.message.producer_epoch

        what, feature = "getting a producer id", Feature.IDEMPOTENT_PRODUCER
        return await at_any(self._cluster, what, deadline, attempt, feature=feature)


def _check_guarantees(plan: TopicPlan, options: ProduceOptions) -> None:
    """Refuse, before anything is sent, a codec or a guarantee that a leader does not have."""
    for versions in plan.versions.values():
        if options.compression_type == "zstd":
            allowed = VersionRange(ZSTD_VERSION, 2**15 - 1)
            versions.choose(ApiKey.PRODUCE, allowed, feature=Feature.ZSTD)
        if options.enable_idempotence:
            allowed = VersionRange(BATCHES_VERSION, 2**15 - 1)
            versions.choose(ApiKey.PRODUCE, allowed, feature=Feature.IDEMPOTENT_PRODUCER)
            versions.choose(ApiKey.INIT_PRODUCER_ID, feature=Feature.IDEMPOTENT_PRODUCER)
