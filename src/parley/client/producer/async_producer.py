"""The asynchronous producer: one record at a time, sent in batches."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Unpack

from parley.client.async_client import AsyncClient
from parley.client.options import arguments
from parley.client.options.client_options import ClientOptions, shown_client
from parley.client.options.fields import split_named
from parley.client.produce.calls import write
from parley.client.produce.chunk import AsyncAcknowledgement, RecordChunk
from parley.client.produce.record_writer import RecordWriter
from parley.client.producer.core import ProducerCore
from parley.client.producer.failures import OnError
from parley.client.producer.option_values import ProducerClientOptionValues
from parley.client.producer.options import ProducerOptions
from parley.client.producer.record import ProducerRecord, RecordHeaders
from parley.client.results import ConsumerGroupMetadata, ProduceResult, RecordMetadata
from parley.client.transactions.async_producer import AsyncTransactionProducer
from parley.client.transactions.block import awaited_block
from parley.errors import LocalProtocolError, TransactionAbortableError
from parley.records import gather, row_handle

if TYPE_CHECKING:
    from parley.client.produce.rows import Rows

_SMALL_BYTES = 2**16
"""Records up to here are within every limit that `ProducerCore.is_plain` admits."""
_NOW: Callable[[], float] = time.time


class AsyncProducer:
    """Sends records one by one, for one event loop; they travel in batches.

    >>> async def work() -> None:
    ...     async with AsyncProducer(bootstrap_servers="localhost:9092") as producer:
    ...         acknowledgement = await producer.send("arrivals", b"SK4035", key=b"OSL")
    ...         metadata = await acknowledgement  # or: await producer.send_and_wait(...)
    ...         print(metadata.topic, metadata.partition, metadata.offset)
    >>> asyncio.run(work())
    arrivals 0 0

    Options are those of ClientOptions and ProducerOptions, by name; with `client` given only the
    latter, and that client stays open. Records of one partition keep the order in which they were
    sent, also with the Arrow rows of `send_batch` and of the same client's `produce`. Where brokers
    can (Kafka 0.11), retries make no duplicates. `on_error` is called in the loop, with each error
    and the records that failed with it, whether somebody awaits their acknowledgements or not.
    """

    def __init__(
        self,
        client: AsyncClient | None = None,
        *,
        on_error: OnError | None = None,
        **named: Unpack[ProducerClientOptionValues],
    ) -> None:
        self._own: AsyncClient | None = None
        arguments.optional("client", client, AsyncClient)
        arguments.listener("on_error", on_error)
        if client is None:
            client_options, options = split_named(named, ClientOptions, ProducerOptions)
            client = self._own = AsyncClient(client_options)
        else:
            options = ProducerOptions.of(named)
        self._core = ProducerCore(client, options, on_error)
        self._open: dict[str, RecordChunk] = {}
        """The chunks that plain bytes go into without a detour; empty where all take one."""
        self._writer: RecordWriter | None = None
        """What has room for them; None where all take the detour."""

    def __repr__(self) -> str:
        return shown_client(self, self._core.client.options, closed=self._core.closed)

    @property
    def options(self) -> ProducerOptions:
        """The options in use."""
        return self._core.options

    # -- life --------------------------------------------------------------------------------------

    async def start(self) -> AsyncProducer:
        """Reach a broker; with `transactional_id`, fence its former producer. `async with` does it.

        Raises BrokersUnreachable, and UnsupportedVersionError where brokers have no transactions.
        """
        await self._core.start()
        if self._core.is_plain:
            self._writer = self._core.writer
            self._open = self._writer.open
        return self

    async def close(self, timeout_ms: int | None = None) -> None:
        """Take no more records and wait until the outcome of all others is known, or `timeout_ms`.

        What has no outcome then fails: its acknowledgement says whether it may have been written.
        0 gives up at once. An open transaction is aborted, without waiting for its records: for
        that the coordinator gets `timeout_ms` (10 s without one, a second at least), and then it is
        left to `transaction_timeout_ms`. Idempotent. Raises LocalProtocolError in another event
        loop than the producer's; if that is closed it logs how many records are lost.
        """
        arguments.timeout(timeout_ms)
        self._core.check_close()
        self._open, self._writer = {}, None
        try:
            await self._core.close(timeout_ms)
        finally:
            if self._own is not None:
                await self._own.close()

    async def stop(self) -> None:
        """The same as `close`, under the name that aiokafka's producer has for it."""
        await self.close()

    async def __aenter__(self) -> AsyncProducer:
        try:
            return await self.start()
        except BaseException:
            await self.close()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # -- records -----------------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        value: object = None,
        key: object = None,
        headers: RecordHeaders | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> AsyncAcknowledgement:
        """Take a record; return its acknowledgement, which can be awaited. Does not wait for that.

        Value and key are bytes or None, unless there are serializers. Waits only while the topic is
        not known or `buffer_memory` is full, for `max_block_ms`, and gives others a turn under
        load; cancelled meanwhile, the record is not sent. Raises at once for what cannot be sent:
        ConfigError for a value of another type, MessageTooLargeError beyond max_request_size,
        UnsupportedVersionError for headers where brokers have none (before Kafka 0.11),
        UnknownTopicOrPartitionError, BufferExhaustedError, LocalProtocolError after `close` and
        outside of a transaction.
        """
        while True:
            taken = gather(
                self._open,
                AsyncAcknowledgement,
                _NOW(),
                topic,
                value,
                key,
                headers,
                partition,
                timestamp_ms,
                None,
            )
            if type(taken) is AsyncAcknowledgement:
                return taken
            if type(taken) is not int or not self._has_room(topic, taken):
                break
        return await self._send(ProducerRecord(topic, value, key, headers, partition, timestamp_ms))

    def _has_room(self, topic: str, size: int) -> bool:
        """Make room for a record that needs no detour; False where it takes one all the same."""
        writer = self._writer
        if writer is None or writer.owes_turn or size > _SMALL_BYTES:
            return False
        self._core.check_loop()
        chunk = writer.room(topic, size)
        return chunk is not None and chunk.room >= size

    async def _send(self, record: ProducerRecord) -> AsyncAcknowledgement:
        core = self._core
        if core.started:
            core.check_loop()
        else:
            await self.start()
        if core.writer.owes_turn:
            # Under load others, and what sends the batches, have their turn. Before anything else:
            # who is cancelled here knows that the record was not sent, and one of the others may
            # close the producer.
            core.writer.owes_turn = False
            await asyncio.sleep(0)
        record, parts = core.prepared(record)
        chunk, row = core.take(record, parts) or await core.take_in_turn(record, parts)
        return row_handle(AsyncAcknowledgement, chunk, row)

    async def send_and_wait(
        self,
        topic: str,
        value: object = None,
        key: object = None,
        headers: RecordHeaders | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send a record and return where it is. Cancelled while it waits, the record is on its way.

        Raises as `send` and its acknowledgement do.
        """
        return await (await self.send(topic, value, key, headers, partition, timestamp_ms))

    def send_nowait(
        self,
        topic: str,
        value: object = None,
        key: object = None,
        headers: RecordHeaders | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Take a record without an acknowledgement; `on_error` is called if it fails.

        Waits for nothing: raises BufferExhaustedError where there is no room, and otherwise what
        `send` raises. A topic that nothing is known of yet is asked for afterwards.
        """
        self._core.check_loop()
        record = ProducerRecord(topic, value, key, headers, partition, timestamp_ms)
        self._core.take_now(*self._core.prepared(record))

    async def send_batch(
        self, topic: str | None, rows: Rows, partition: int | None = None
    ) -> ProduceResult:
        """Write Arrow rows behind the records that were sent before, and return when they are
        acknowledged; see `AsyncClient.produce`.
        """
        await self.start()
        transactions = self._core.transactions
        if transactions is not None:
            return await transactions.produce(topic, rows, partition, self.options)
        options = arguments.writing(topic, partition, self.options)
        return await write(self._core.client._producing(), topic, rows, partition, options)

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Return when the outcome of every record that was sent before this call is known.

        Does not wait for `linger_ms`, and does not raise for records that failed. Raises
        RequestTimedOut after `timeout_ms`: what has no outcome then is still on its way.
        """
        arguments.timeout(timeout_ms)
        await self._core.flush(timeout_ms)

    async def partitions_for(self, topic: str) -> frozenset[int]:
        """Return the partitions of a topic. Raises the topic's error."""
        await self.start()
        plan = await self._core.writer.prepare(arguments.topic_name(topic))
        return frozenset(range(plan.partition_count))

    # -- transactions ------------------------------------------------------------------------------

    def transaction(self) -> contextlib.AbstractAsyncContextManager[AsyncProducer]:
        """Begin a transaction, commit it at the end of the block; abort it if the block raises.

        A block that is cancelled waits 10 s at most for its abort; what is left of that is done by
        the next `begin_transaction`, or by `close`.
        """
        return awaited_block(self, self._abort_block)

    async def begin_transaction(self) -> None:
        """Open a transaction: what is sent from now on appears together, or not at all.

        An abort that was cancelled, or got no answer, comes first. Raises LocalProtocolError
        without `transactional_id`, TransactionFatalError where this producer is done for: close it.
        """
        await self.start()
        await self._transactions().begin_transaction()

    async def commit_transaction(self) -> None:
        """Wait for all records, then make them and the offsets visible. Raises
        TransactionAbortableError where one of them failed: abort, and begin again.
        """
        transactions = self._transactions()
        self._core.check_loop()
        self._core.writer.hand_over_all()
        await transactions.commit_transaction()

    async def abort_transaction(self) -> None:
        """Discard the records and offsets of the open transaction; their acknowledgements fail."""
        transactions = self._transactions()
        self._core.check_loop()
        self._give_up(transactions)
        await transactions.abort_transaction()

    async def send_offsets_to_transaction(
        self, offsets: arguments.OffsetsToCommit, group: str | ConsumerGroupMetadata
    ) -> None:
        """Commit a group's offsets (the *next* to be read) with the open transaction.

        `group` is what `group_metadata` of the consumer returns; see
        `AsyncTransactionProducer.send_offsets_to_transaction`.
        """
        await self._transactions().send_offsets_to_transaction(offsets, group)

    async def _abort_block(self, raised: BaseException) -> None:
        """Abort because of what a block raised; see `AsyncTransactionProducer._abort_block`."""
        transactions = self._core.transactions
        if transactions is not None and transactions.can_abort:
            self._give_up(transactions)
            await transactions._abort_block(raised)

    def _give_up(self, transactions: AsyncTransactionProducer) -> None:
        """Let the records fail that have no outcome yet."""
        self._core.writer.abandon(
            TransactionAbortableError(
                f"the transaction of {transactions.transactional_id!r} is being aborted",
                transactional_id=transactions.transactional_id,
            )
        )

    def _transactions(self) -> AsyncTransactionProducer:
        found = self._core.transactions
        if found is None:
            raise LocalProtocolError(
                "this producer has no transactions: make it with transactional_id, and start it"
            )
        return found
