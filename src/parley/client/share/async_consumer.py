"""The asynchronous share consumer."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Unpack, overload

from parley.client.async_client import AsyncClient
from parley.client.consumer.closing import CLOSE_TIMEOUT_MS, after_body, close_consumer
from parley.client.consumer.polls import check_getmany
from parley.client.consumer.records import ConsumerRecord
from parley.client.consumer.subscription import names_to_subscribe
from parley.client.group.share.book import AcknowledgeType
from parley.client.options import arguments
from parley.client.options.client_options import ClientOptions, shown_client
from parley.client.options.fields import split_named
from parley.client.results import AcquiredBatch
from parley.client.share.core import ShareCore, ShareGroupHealth
from parley.client.share.option_values import ShareConsumerClientOptionValues
from parley.client.share.options import ShareConsumerOptions
from parley.client.share.reporting import AcknowledgementCallback
from parley.errors import ConfigError
from parley.types import Names, TopicPartition, shown


class AsyncShareConsumer:
    """A member of a share group (KIP-932, Kafka 4.2), for one event loop and one task at a time.

    >>> import asyncio
    >>> async def work() -> None:
    ...     servers = "localhost:9092"
    ...     async with AsyncShareConsumer(bootstrap_servers=servers, group_id="jobs") as consumer:
    ...         consumer.subscribe(["flights"])
    ...         record = await consumer.getone()  # or: async for record in consumer
    ...         print(record.value, record.delivery_count)
    ...         await consumer.commit()
    >>> asyncio.run(work())
    b'SK4035' 1

    The members of a share group share records, not partitions: each record goes to one of them,
    which has it until it is acknowledged or its lock is over (30 s by default), and then it may be
    delivered again. With `share_acknowledgement_mode="implicit"` the next poll, or `commit`,
    accepts what the poll before returned. With "explicit" each record is acknowledged: accepted,
    released, rejected or renewed.

    Options are those of ClientOptions and ShareConsumerOptions, by name; with `client` given only
    the latter, and that client stays open. Where a group begins to read, and how long locks last,
    is configuration of the group (`share.auto.offset.reset`: latest, unless it was changed). Raises
    ConfigError without a `group_id`.
    """

    def __init__(
        self,
        client: AsyncClient | None = None,
        **named: Unpack[ShareConsumerClientOptionValues],
    ) -> None:
        self._own: AsyncClient | None = None
        arguments.optional("client", client, AsyncClient)
        if client is None:
            client_options, options = split_named(named, ClientOptions, ShareConsumerOptions)
            client = self._own = AsyncClient(client_options)
        else:
            options = ShareConsumerOptions.of(named)
        self._core = ShareCore(client, options)

    def __repr__(self) -> str:
        return shown_client(self, self._core.client.options, closed=self._core._closed)

    # -- life -------------------------------------------------------------------------------------

    async def start(self) -> AsyncShareConsumer:
        """Reach a broker; `async with` does it.

        Raises BrokersUnreachable, and UnsupportedVersionError where no broker has share groups.
        """
        await self._core.start()
        return self

    async def close(self, *, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Send what was acknowledged, release all other records, and leave the group. Idempotent.

        Waits `timeout_ms` for brokers; what is not answered in time is given up. Records of the
        last poll that nothing was said of are released, as by Java's consumer: `commit` before, if
        they were processed. Raises LocalProtocolError in another event loop than the consumer's,
        unless that is closed; then the brokers notice after a while.
        """
        await close_consumer(self._core, self._own, timeout_ms)

    async def stop(self) -> None:
        """The same as `close`, under the name that aiokafka's consumer has for it."""
        await self.close()

    async def __aenter__(self) -> AsyncShareConsumer:
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
        with after_body(error):
            await self.close()

    # -- the group --------------------------------------------------------------------------------

    def subscribe(self, topics: Names) -> None:
        """Read topics, together with the other members. Replaces what was subscribed to before."""
        names = frozenset(names_to_subscribe(topics))
        if not names:
            raise ConfigError("topics is empty: name at least one, or call unsubscribe")
        self._core.subscribe(names)

    def subscription(self) -> frozenset[str]:
        """Return the topics subscribed to."""
        return self._core.topics

    async def unsubscribe(self) -> None:
        """Send what was acknowledged, release all other records, and leave the group."""
        await self._core.finish(CLOSE_TIMEOUT_MS)

    def health(self) -> ShareGroupHealth:
        """Return how the membership is: state, epoch, partitions, age of the last poll."""
        return self._core.health()

    # -- reading ----------------------------------------------------------------------------------

    @overload
    async def getone(self) -> ConsumerRecord: ...
    @overload
    async def getone(self, *, timeout_ms: int) -> ConsumerRecord | None: ...
    async def getone(self, *, timeout_ms: int | None = None) -> ConsumerRecord | None:
        """Return the next record; waits for it. It is a poll like `getmany`.

        With `timeout_ms` it waits no longer than that, and returns None where none came.
        """
        return await self._next(timeout_ms)

    async def _next(self, timeout_ms: int | None) -> ConsumerRecord | None:
        arguments.timeout(timeout_ms)
        for rows in (await self._core.poll(timeout_ms, 1)).values():
            return rows[0]
        return None

    async def getmany(
        self, *, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return records by partition, at most `max_records` (else `max_poll_records`).

        Returns what is there; waits up to `timeout_ms` for the first. What the poll before
        returned is done with: it is accepted, or has to be acknowledged already (explicit mode),
        else LocalProtocolError is raised. Records whose locks were renewed are returned again.
        Raises why the membership ended, and CorruptRecordError after the records in front of it.
        """
        check_getmany(timeout_ms, max_records)
        most = self._core.options.max_poll_records
        return await self._core.poll(timeout_ms, most if max_records is None else max_records)

    async def batches(self) -> AsyncGenerator[AcquiredBatch, None]:
        """Yield Arrow RecordBatches, each with its partition; forever. Each is a poll.

        `batch` has the columns of a consumer's batches and `delivery_count`, and only rows that
        this consumer has acquired. So the next one accepts the one before, or that has to be
        acknowledged already (explicit mode): `acknowledge(found)`. How many rows there are the
        broker decides, up to 65,536; `share_acquire_mode="record_limit"` holds it to
        `max_poll_records`. Rows whose locks were renewed are yielded again. Raises as `getmany`.
        Close it (`aclosing`).
        """
        while True:
            yield await self._core.next_batch()

    def __aiter__(self) -> AsyncShareConsumer:
        return self

    async def __anext__(self) -> ConsumerRecord:
        return await self.getone()

    # -- acknowledgements -------------------------------------------------------------------------

    def acknowledge(
        self,
        record: ConsumerRecord | AcquiredBatch | TopicPartition,
        type: AcknowledgeType = AcknowledgeType.ACCEPT,
        *,
        offset: int | None = None,
    ) -> None:
        """Say what becomes of a record (explicit mode); the next poll or commit sends it.

        The record is one that a poll returned, or its partition together with `offset`. Of what
        `batches` yielded it is said of each row that nothing was said of yet: the exceptions first,
        by partition and offset, then the rest at once. ACCEPT: it was processed. RELEASE: deliver
        it again, to anybody. REJECT: never again. RENEW: its lock begins again, and so does this
        delivery: the next poll returns it again, as a record or in a batch, as it was (Kafka 4.2).
        Raises LocalProtocolError in implicit mode, and where this consumer does not have the
        record.
        """
        if not isinstance(type, AcknowledgeType):
            raise ConfigError(f"type={shown(type)} cannot be used: give one of AcknowledgeType")
        if isinstance(record, AcquiredBatch):
            _no_offset(offset)
            self._core.acknowledge_batch(record, type)
            return
        tp, at = _named(record, offset)
        self._core.acknowledge(tp, at, type)

    async def commit(self, timeout_ms: int | None = None) -> None:
        """Send what was acknowledged (implicit mode: accept what the last poll returned), and wait.

        Raises CommitFailedError, whose `failures` say by partition why: InvalidRecordStateError
        where a lock was over, for one; such records are delivered again. RequestTimedOut at the
        deadline: what was not answered may have arrived.
        """
        arguments.timeout(timeout_ms)
        await self._core.commit(timeout_ms)

    def commit_async(self) -> None:
        """Send what `commit` sends, and do not wait: the callback is called in a later poll."""
        self._core.commit_async()

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCallback | None) -> None:
        """Have a function called with what came of acknowledgements: (offsets, error).

        `offsets` are tuples by partition, `error` is None where a broker took them. It is called
        in polls, commits and `close`, in no background task, and may be a coroutine function.
        Without one, failures that no `commit` raises are logged.
        """
        arguments.listener("callback", callback)
        self._core.reporting.callback = callback

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long a record is this consumer's; None before the first answer."""
        return self._core.acquisition_lock_timeout_ms


def _no_offset(offset: int | None) -> None:
    if offset is not None:
        raise ConfigError("offset belongs to a TopicPartition: a record has its own")


def _named(
    record: ConsumerRecord | TopicPartition, offset: int | None
) -> tuple[TopicPartition, int]:
    if isinstance(record, ConsumerRecord):
        _no_offset(offset)
        return TopicPartition(record.topic, record.partition), record.offset
    if not isinstance(record, TopicPartition):
        raise ConfigError(
            f"record={shown(record)} cannot be acknowledged: give a record that a poll returned, "
            "what batches() yielded, or a TopicPartition and offset="
        )
    return arguments.partition(record), arguments.number("offset", offset, 0, arguments.INT64)
