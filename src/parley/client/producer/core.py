"""What both producers share: options made into decisions, records put into chunks, life and death.

Belongs to the event loop, but for `take`, which any thread may call.
"""

from __future__ import annotations

import asyncio
import logging
import time

from parley.client.async_client import AsyncClient
from parley.client.cluster.core import Cluster
from parley.client.cluster.overdue import no_such_partition
from parley.client.produce.chunk import OnDelivery, RecordChunk
from parley.client.produce.partitioners import KEY_HASHES
from parley.client.produce.record_batches import BatchPolicy
from parley.client.produce.record_topics import RecordPolicy
from parley.client.produce.record_writer import Observer, RecordWriter
from parley.client.produce.rows import TopicPlan, no_headers
from parley.client.producer.failures import FailureObserver, OnError
from parley.client.producer.options import ProducerOptions
from parley.client.producer.record import (
    Checked,
    ProducerRecord,
    acknowledged,
    checked,
    intercepted,
)
from parley.client.producer.transaction import TransactionObserver
from parley.client.results import RecordMetadata
from parley.client.transactions.async_producer import (
    CLOSING_TIMEOUT_MS,
    AsyncTransactionProducer,
)
from parley.errors import ConfigError, KafkaError, LocalProtocolError, RequestTimedOut
from parley.net import Deadline as ClockDeadline
from parley.serdes import Serializer
from parley.types import TopicPartition, shown

log = logging.getLogger("parley.client")
Taken = tuple[RecordChunk, int]
"""Where a record was put: its chunk, and its row there."""


class ProducerCore:
    """The state of one producer."""

    writer: RecordWriter
    _cluster: Cluster

    def __init__(
        self, client: AsyncClient, options: ProducerOptions, on_error: OnError | None
    ) -> None:
        self.client, self.options = client, options
        self._on_error = on_error
        self._max_bytes = min(options.max_request_size, options.buffer_memory)
        self._choose = options.partitioner if callable(options.partitioner) else None
        self.transactions: AsyncTransactionProducer | None = None
        self.started = self.closed = False
        self._starting = asyncio.Lock()

    # -- life --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Reach a broker; take the transactional id over. Raises as AsyncClient.start does."""
        if self.started and not self.closed:
            self.check_loop()
            return
        async with self._starting:  # of several tasks, or threads, one starts for all
            if self.closed:
                raise closed_error()
            if not self.started:
                await self._start()

    async def _start(self) -> None:
        await self._prepare()
        cluster = self._cluster = await self.client._started()
        observer: Observer = FailureObserver(self._on_error)
        transactions: AsyncTransactionProducer | None = None
        if self.options.transactional_id is not None:
            transactions = self.client.transactions.producer(
                self.options.transactional_id,
                transaction_timeout_ms=self.options.transaction_timeout_ms,
                options=self.options,
            )
            await transactions.start()
        if self.closed:  # meanwhile
            if transactions is not None:
                await transactions.close()
            raise closed_error()
        if transactions is None:
            producer = self.client._producing()
        else:
            producer, observer = transactions._writer, TransactionObserver(transactions, observer)
        self.transactions = transactions
        self.writer = RecordWriter(cluster, producer, self._policy(), observer)
        self.started = True

    async def _prepare(self) -> None:
        """Let serializers ask their registries, in a thread: none asks when records are sent."""
        for one in (self.options.key_serializer, self.options.value_serializer):
            if isinstance(one, Serializer):
                await asyncio.to_thread(one.prepare)

    def _policy(self) -> RecordPolicy:
        options = self.options
        timeout_ms = options.request_timeout_ms or self.client.options.request_timeout_ms
        named = options.partitioner if isinstance(options.partitioner, str) else "murmur2"
        if named == "random" and not options.partitioner_ignore_keys:
            options = options.replace(partitioner_ignore_keys=True)
        return RecordPolicy(
            BatchPolicy(options, KEY_HASHES.get(named), timeout_ms),
            options.linger_ms,
            options.partitioner_adaptive_partitioning_enable,
            options.partitioner_availability_timeout_ms,
            in_loop_only=options.transactional_id is not None,
        )

    def check_close(self) -> None:
        """Raise LocalProtocolError in another event loop, unless the producer's is closed."""
        if self.started and not self._cluster.is_left_behind:
            self.check_loop()

    def check_loop(self) -> None:
        """Raise LocalProtocolError in another event loop than the producer's."""
        if self.started:
            self._cluster.check_loop("producer")

    async def flush(self, timeout_ms: int | None) -> None:
        """Return when the outcome of every record that was sent before this call is known. Raises
        RequestTimedOut after `timeout_ms`.
        """
        if not self.started:
            return
        self.check_loop()
        try:
            await self._settled(timeout_ms)
        except TimeoutError:
            raise RequestTimedOut(
                f"not all records were acknowledged within {timeout_ms} ms; they are still on "
                "their way",
                stage="request",
            ) from None

    async def _settled(self, timeout_ms: int | None) -> None:
        """Return when the outcome of every record is known. Raises TimeoutError after a time."""
        if timeout_ms is None:
            await self.writer.flush()
            return
        cluster = self._cluster
        async with ClockDeadline(cluster.clock, cluster.now_ms() + timeout_ms):
            await self.writer.flush()

    async def close(self, timeout_ms: int | None) -> None:
        """Take no more records, wait for the outcome of the others, give up those that have none in
        time.
        """
        if self.closed:
            return
        if self.started and self._cluster.is_left_behind:
            self.closed = True
            self.writer.leave_behind()
            return
        self.closed = True
        if not self.started:
            return
        in_transaction = self.transactions is not None and self.transactions.can_abort
        try:
            if not in_transaction and timeout_ms != 0:
                await self._settled(timeout_ms)
        except TimeoutError:
            pass
        finally:
            self.writer.abandon(
                KafkaError(
                    "the producer was closed before the record was acknowledged"
                    + ("" if timeout_ms is None else f" (after timeout_ms={timeout_ms})")
                )
            )
            await self.writer.close()
            if self.transactions is not None:
                await self.transactions._close(
                    CLOSING_TIMEOUT_MS if timeout_ms is None else timeout_ms
                )

    # -- records -----------------------------------------------------------------------------------

    @property
    def is_plain(self) -> bool:
        """Whether bytes may be put into a chunk as they are, without `prepared` and `take`."""
        options = self.options
        return (
            options.key_serializer is None
            and options.value_serializer is None
            and not options.interceptors
            and self._choose is None
            and options.transactional_id is None
            and self._max_bytes > 2**18
        )

    def prepared(self, record: ProducerRecord) -> tuple[ProducerRecord, Checked]:
        """Return a record as interceptors leave it, and its parts as bytes. Raises what `checked`
        does, and LocalProtocolError where the producer takes nothing.
        """
        if self.closed:
            raise closed_error()
        if not self.started:
            raise LocalProtocolError(
                "the producer is not started: use it in a with block, or start"
            )
        if self.transactions is not None:
            self.transactions._check_open("send")
        options = self.options
        changed = intercepted(record, options.interceptors) if options.interceptors else record
        try:
            return changed, checked(
                changed, options.key_serializer, options.value_serializer, self._max_bytes
            )
        except Exception as error:
            self.not_taken(changed, error)
            raise

    def not_taken(self, record: ProducerRecord, error: Exception) -> None:
        """Let interceptors know of a record that a call raised for."""
        if self.options.interceptors:
            known = error if isinstance(error, KafkaError) else ConfigError(str(error))
            where = RecordMetadata(str(record.topic), -1, -1, -1)
            acknowledged(self.options.interceptors, known, where)

    def take(
        self,
        record: ProducerRecord,
        parts: Checked,
        callback: OnDelivery | None = None,
        *,
        unheld: bool = False,
    ) -> Taken | None:
        """Put a record into its topic's chunk; None where that has to be waited for. `unheld`:
        nobody holds its acknowledgement. Raises for what the topic's leaders cannot store, and what
        the partitioner raises.
        """
        try:
            return self._take(record, parts, callback, unheld=unheld)
        except Exception as error:
            self.not_taken(record, error)
            raise

    def _take(
        self, record: ProducerRecord, parts: Checked, callback: OnDelivery | None, *, unheld: bool
    ) -> Taken | None:
        writer, topic = self.writer, record.topic
        plan = writer.plan(topic)
        if plan is None:
            return None
        _, key, headers, size = parts
        partition = record.partition
        if partition is not None:
            if partition >= plan.partition_count:
                return None
        elif self._choose is not None:
            partition = self._chosen(topic, key, plan)
        if headers:
            _check_headers(plan, partition)
        if self.options.interceptors:
            callback = self._informing(callback)
        while (chunk := writer.room(topic, size)) is not None:
            chunk.unheld = chunk.unheld or unheld
            row = _put(chunk, record, parts, partition, callback)
            if row >= 0:  # else others took the room, or closed the chunk
                return chunk, row
        return None

    async def take_in_turn(
        self,
        record: ProducerRecord,
        parts: Checked,
        callback: OnDelivery | None = None,
    ) -> Taken:
        """Put a record into its topic's chunk, after waiting for topic and room. Raises the topic's
        error, and BufferExhaustedError; then the record is not taken. Neither is it when cancelled.
        """
        while (taken := self.take(record, parts, callback)) is None:
            try:
                await self.writer.wait_for_room(record.topic, record.partition, parts[3])
                if self.closed:
                    raise closed_error()
            except Exception as error:
                self.not_taken(record, error)
                raise
        return taken

    def take_now(self, record: ProducerRecord, parts: Checked) -> None:
        """Put a record into its topic's chunk without waiting. Raises BufferExhaustedError."""
        if self.take(record, parts, unheld=True) is not None:
            return
        writer, topic, size = self.writer, record.topic, parts[3]
        plan = writer.plan(topic)
        chunk: RecordChunk | None = None
        error: KafkaError | None = None
        if plan is None and self._choose is None:
            chunk = writer.gather_unprepared(topic, size)
        elif plan is None:
            error = LocalProtocolError(
                f"nothing is known of {topic} yet, and the partitioner wants its partitions: call "
                "partitions_for first, or send"
            )
        elif record.partition is not None and record.partition >= plan.partition_count:
            tp = TopicPartition(topic, record.partition)
            error = no_such_partition(tp, plan.partition_count)
        if chunk is not None:
            chunk.unheld = True
            callback = self._informing(None) if self.options.interceptors else None
            if _put(chunk, record, parts, record.partition, callback) >= 0:
                return
        error = error or writer.exhausted(topic, size, 0)
        self.not_taken(record, error)
        raise error

    def _informing(self, callback: OnDelivery | None) -> OnDelivery:
        """Return a callback that calls interceptors first."""

        def inform(error: KafkaError | None, metadata: RecordMetadata) -> None:
            acknowledged(self.options.interceptors, error, metadata)
            if callback is not None:
                callback(error, metadata)

        return inform

    def _chosen(self, topic: str, key: bytes | None, plan: TopicPlan) -> int:
        assert self._choose is not None
        partitions = range(plan.partition_count)
        found = self._choose(topic, key, list(partitions), list(plan.available))
        if isinstance(found, bool) or not isinstance(found, int) or found not in partitions:
            raise ConfigError(
                f"the partitioner returned {shown(found)} for {topic}, which has "
                f"{plan.partition_count} partitions: a number from 0 to "
                f"{plan.partition_count - 1} is wanted; the record was not taken"
            )
        return found


def closed_error() -> LocalProtocolError:
    """Return the error for what comes after `close`."""
    return LocalProtocolError("this producer is closed; make a new one")


def _check_headers(plan: TopicPlan, partition: int | None) -> None:
    """Refuse headers where no leader that may get the record can store them."""
    magics = plan.magics.values() if partition is None else (plan.magic(partition),)
    if magics and max(magics) < 2:
        raise no_headers(plan, min(plan.magics) if partition is None else partition)


def _put(
    chunk: RecordChunk,
    record: ProducerRecord,
    parts: Checked,
    partition: int | None,
    callback: OnDelivery | None,
) -> int:
    """Append a record to a chunk; return its row, -1 where it has no room."""
    value, key, headers, size = parts
    time_ms = record.timestamp_ms
    if time_ms is None:
        time_ms = int(time.time() * 1000)
    where = -1 if partition is None else partition
    return chunk.append(value, key, headers, where, time_ms, callback, size)
