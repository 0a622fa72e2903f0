"""Writing rows: who may write (InitProducerId), and from rows to batches.

The pieces are meant for two callers: the asynchronous client encodes in a worker thread, the
blocking one in the thread that called it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from parley.arrow import columns_from_arrow
from parley.client.cluster.core import Cluster
from parley.client.cluster.refusals import refusal
from parley.client.cluster.retry import Deadline
from parley.client.cluster.routing import at_any
from parley.client.options.client_options import CODECS, ProduceOptions
from parley.client.produce import under_way
from parley.client.produce.plans import TopicPlans, check_guarantees
from parley.client.produce.rows import (
    Rows,
    Sticky,
    TopicPlan,
    assign,
    by_topic,
    check_columns,
    check_format,
    encode,
    format_for,
    highest_partition,
    slices,
)
from parley.client.produce.sender import Sender
from parley.client.produce.sequences import PartitionSequences
from parley.client.produce.state import InTransaction, OutBatch, ProduceCall
from parley.client.results import ProduceResult
from parley.errors import KafkaError, UnsupportedVersionError
from parley.messages import InitProducerIdRequest
from parley.net import BrokerConnection
from parley.net.shared import outcome
from parley.records import stamp_producer
from parley.types import TopicPartition
from parley.versions import Feature

NO_TRANSACTION_TIMEOUT_MS = 2**31 - 1
"""What Java's idempotent producer sends where there is no transaction."""


@dataclass(slots=True, eq=False)
class Writing:
    """One produce call under way."""

    call: ProduceCall
    sender: Sender
    options: ProduceOptions
    topic: str | None
    partition: int | None
    deadline_ms: int = 0
    """Of the rows being prepared, not of the call: an iterator of rows may go on for hours."""
    checked: list[TopicPlan] = field(default_factory=list)
    """Plans that can do what the options ask for."""
    has_turn: bool = False
    """Whether it holds the sender's lock: from its turn until its batches are handed over."""

    def unacknowledged(self) -> int:
        """Return how many records of its batches have no outcome yet."""
        return self.sender.open_records(self.call)


class Producer:
    """The writing side of a client: one producer id, a numbering per partition, for all calls."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.sender = Sender(cluster, self._renew)
        self._identity: tuple[int, int] | None = None
        self._identifying: asyncio.Task[None] | None = None
        self.plans = TopicPlans(cluster)
        self._sticky: dict[str, Sticky] = {}
        self.transaction: InTransaction | None = None
        self.ahead: list[Callable[[str], Awaitable[None]]] = []
        """What is handed over before a call's rows of a topic: records that were sent earlier."""

    def begin(self, topic: str | None, partition: int | None, options: ProduceOptions) -> Writing:
        """Return a new call; nothing is sent yet."""
        self._set_limits(options)
        writing = Writing(ProduceCall(), self.sender, options, topic, partition)
        under_way.begun(writing)
        return writing

    def _set_limits(self, options: ProduceOptions) -> None:
        self.sender.requests.max_in_flight = options.max_in_flight_requests_per_connection
        self.sender.requests.max_request_size = options.max_request_size
        self.sender.requests.batch_size = options.batch_size

    def pieces(self, writing: Writing, rows: Rows) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield what to encode at a time, with its topic."""
        for piece in slices(rows):
            yield from by_topic(piece, writing.topic)

    async def turn(self, writing: Writing, topic: str, rows: pa.RecordBatch) -> TopicPlan:
        """Find out what a topic's leaders take and who we are to them; await the turn to number.

        The turn lasts until `hand_over` or `give_up`. Where `rows` name a partition that is not
        known yet, metadata is asked for again for a moment. Raises the topic's error, and
        UnsupportedVersionError where a leader cannot do what was asked.
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
        under_way.ended(writing)
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
                newest_magic = self.sender.log(tp).newest_magic
                magic = format_for(plan, partition, newest_magic, writing.options)
                check_format(parsed.columns, plan, partition, magic, writing.options)
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
        under_way.ended(writing)
        if call.error is not None:
            acked = sum(ack.records for ack in call.acks().values())
            call.error.add_note(f"of this call {acked} records were acknowledged")
            raise call.error
        return ProduceResult(call.acks(), idempotent=call.idempotent)

    async def close(self) -> None:
        """Fail what is still open and stop."""
        self.plans.close()
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
        plan = await self.plans.of(topic, options, highest)
        if plan not in checked:
            check_guarantees(plan, options)
            checked.append(plan)
        if self._identity is None and options.wants_idempotence and 2 in plan.magics.values():
            await self._identify(options)
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
            for batch in batches:  # what was given up meanwhile takes no sequences
                self.sender.check_wanted(batch)
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

    async def _identify(self, options: ProduceOptions) -> None:
        """See to it that there is a producer id, where brokers have any. Thousands of topics ask
        for it at once, and share the one request.
        """
        deadline = self._cluster.deadline(options.max_block_ms)
        while self._identity is None:
            others = self._identifying
            if others is None:
                self._identifying = asyncio.create_task(self._first_identity(deadline))
                # retrieved: those who wait for it get it too, where any is left
                self._identifying.add_done_callback(
                    lambda done: done.cancelled() or done.exception()
                )
            try:
                assert self._identifying is not None
                await outcome(self._identifying)
            except UnsupportedVersionError:
                if options.enable_idempotence:
                    raise
                return
            except KafkaError:
                # another call's time may be over before this one's
                if others is None or deadline.passed(self._cluster.now_ms()):
                    raise

    async def _first_identity(self, deadline: Deadline) -> None:
        try:
            self._identity = await self._new_identity(deadline)
        finally:
            self._identifying = None

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
                raise refusal(reply, reply.message.error_code, conn=conn)
            return reply.message.producer_id, reply.message.producer_epoch

        what, feature = "getting a producer id", Feature.IDEMPOTENT_PRODUCER
        return await at_any(self._cluster, what, deadline, attempt, feature=feature)
