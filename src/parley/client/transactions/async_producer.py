"""A producer whose rows become visible together or not at all (KIP-98, KIP-447, KIP-360, KIP-890).

What may happen when is decided by `transactions.state`; here it is done. Rows are encoded and sent
by the same code as the client's ordinary ones, through a sender of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING

from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline
from parley.client.options import arguments
from parley.client.options.client_options import ProduceOptions
from parley.client.produce.calls import write
from parley.client.results import ConsumerGroupMetadata, ProduceResult
from parley.client.transactions.block import awaited_block
from parley.client.transactions.contents import Contents
from parley.client.transactions.driver import TransactionDriver
from parley.client.transactions.handover import PreparedTransaction
from parley.client.transactions.options import TransactionOptions
from parley.client.transactions.state import Identity, State, TransactionState
from parley.client.transactions.writer import TransactionWriter
from parley.errors import (
    KafkaError,
    LocalProtocolError,
    RequestTimedOut,
)
from parley.net import Deadline as ClockDeadline
from parley.types import text

if TYPE_CHECKING:
    from parley.client.produce.rows import Rows

log = logging.getLogger("parley.client")
CLOSING_TIMEOUT_MS = 10_000
"""How long `close` tries to abort; after that the broker's transaction time-out does."""
LEAST_CLOSING_TIMEOUT_MS = 1_000
"""How long it tries where records are given up at once."""


class AsyncTransactionProducer:
    """A transactional producer of `AsyncClient.transactions.producer`; for one event loop.

    >>> async def copy(client: "AsyncClient", rows: "Rows") -> None:
    ...     async with client.transactions.producer("copier-1") as producer:
    ...         async with producer.transaction():
    ...             await producer.produce("flights", rows)

    One transaction at a time. Errors of a call say what to do next: after
    TransactionAbortableError, and after any other error of `produce` and
    `send_offsets_to_transaction`, abort and begin again; after TransactionFatalError
    (ProducerFencedError is one) close this producer.
    """

    _cluster: Cluster
    _driver: TransactionDriver
    _writer: TransactionWriter
    contents: Contents
    """What is written in the open transaction."""

    def __init__(
        self, connect: Callable[[], Awaitable[Cluster]], options: TransactionOptions
    ) -> None:
        self._connect, self._connected, self.options = connect, False, options
        self._txn = TransactionState(options.transactional_id)
        self._ending = asyncio.Lock()
        self._closed = False

    # -- life --------------------------------------------------------------------------------------

    @property
    def transactional_id(self) -> str:
        """The name by which the coordinator knows this producer, its forerunners and successors."""
        return self.options.transactional_id

    @property
    def producer_id(self) -> int:
        """The producer id in use, -1 before `start`."""
        return self._txn.identity.producer_id

    @property
    def producer_epoch(self) -> int:
        """The epoch in use, -1 before `start`; every smaller one is fenced."""
        return self._txn.identity.epoch

    @property
    def generation(self) -> int:
        """The protocol's generation of the last transaction: 1, or 2 (transaction.version 2)."""
        return self._txn.generation

    @property
    def state(self) -> State:
        """Where the producer stands."""
        return self._txn.state

    async def start(self) -> AsyncTransactionProducer:
        """Take the id over (InitProducerId): fence its former producer, abort what that left open.

        Raises UnsupportedVersionError, before anything is sent, where the brokers have no
        transactions (before Kafka 0.11); the broker's error where the coordinator refuses. May be
        called again.
        """
        self._alive()
        if self._txn.state is State.UNINITIALIZED:
            async with self._ending:
                if self._txn.state is State.UNINITIALIZED:  # no other task has started it meanwhile
                    await self._reach()
                    await self._driver.run(self._cluster.deadline())
                    self._writer.write_as(self._txn.identity)
        elif self._txn.state is State.FATAL:
            raise self._txn.trouble()
        return self

    async def resume(self, producer_id: int, producer_epoch: int) -> AsyncTransactionProducer:
        """Go on as another process's producer that wrote nothing yet; instead of `start`.

        Fences nobody: where another producer has begun since, the first write raises
        ProducerFencedError. The transaction time-out is the one that the other process gave
        (`fence` has an option for it).
        """
        self._alive()
        arguments.number("producer_id", producer_id, 0, arguments.INT64)
        arguments.number("producer_epoch", producer_epoch, 0, 2**15 - 1)
        async with self._ending:
            await self._reach()
            self._txn.resume(Identity(producer_id, producer_epoch))
            self._writer.write_as(self._txn.identity)
        return self

    async def init_transactions(self) -> None:
        """The same as `start`, under the name that Java's producer has for it."""
        await self.start()

    async def close(self) -> None:
        """Abort an open transaction that was not handed over; stop. Idempotent, raises nothing."""
        await self._close(CLOSING_TIMEOUT_MS)

    async def _close(self, timeout_ms: int) -> None:
        """The same, and try to abort for so long, but long enough for a coordinator to answer."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._txn.is_open:
                deadline = self._cluster.deadline(max(timeout_ms, LEAST_CLOSING_TIMEOUT_MS))
                await self._abort(deadline, closing=True)
        except LocalProtocolError:
            pass  # it ended while this call waited
        except KafkaError as error:
            log.warning(
                "the transaction of %s was left to its time-out: %s", self.transactional_id, error
            )
        finally:
            if self._connected:
                await self._writer.close()

    async def stop(self) -> None:
        """The same as `close`, under the name that aiokafka's producer has for it."""
        await self.close()

    async def __aenter__(self) -> AsyncTransactionProducer:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # -- transactions ------------------------------------------------------------------------------

    async def begin_transaction(self) -> None:
        """Open a transaction. The coordinator hears of it with the first rows.

        An abort that was cancelled, or got no answer, comes first.
        """
        await self.start()
        if self._txn.state is State.ABORTING:
            await self._abort(self._cluster.deadline(), left=True)
        generation = await self._driver.generation()
        self._txn.begin(generation)
        self.contents.begin()

    async def commit_transaction(self) -> None:
        """Make the rows and offsets of the open transaction visible, all of them.

        Waits for calls that are still writing. Raises TransactionAbortableError where the
        transaction can only be aborted, TransactionFatalError where this producer is done for.
        After RequestTimedOut or NetworkError it is not known whether the transaction is committed:
        call this again until it answers.
        """
        self._alive()
        # one end at a time: whoever comes second finds the transaction ended
        async with self._ending:
            self._txn.commit()
            deadline = self._cluster.deadline()
            await self.contents.flushed()
            if not self._txn.end_sent:
                await self.contents.still_whole(deadline)
            await self._driver.run(deadline)
            self._writer.write_as(self._txn.identity)

    async def abort_transaction(self) -> None:
        """Discard the rows and offsets of the open transaction; then the next one may begin.

        Produce calls that are still running fail. Raises TransactionFatalError where the producer
        cannot go on afterwards. After RequestTimedOut or NetworkError call it again, or close the
        producer.
        """
        self._alive()
        if not self._connected:
            self._txn.abort()  # which says what has to come first
        await self._abort(self._cluster.deadline())

    def transaction(self) -> contextlib.AbstractAsyncContextManager[AsyncTransactionProducer]:
        """Begin a transaction, commit it at the end of the block; abort it if the block raises.

        A block that is cancelled waits 10 s at most for its abort; what is left of that is done by
        the next `begin_transaction`, or by `close`.
        """
        return awaited_block(self, self._abort_block)

    @property
    def can_abort(self) -> bool:
        """Whether a transaction is open that may be aborted."""
        return self._txn.is_open and not self._closed

    async def prepare_transaction(self) -> PreparedTransaction:
        """Return what any process needs to end the open transaction (`client.transactions.end`).

        All rows are acknowledged when this returns, and nothing is ended. The producer is closed
        without an abort; until the transaction is ended, or its transaction_timeout_ms is over,
        read_committed readers of its partitions wait at its first record. Beginning again with the
        same transactional id aborts it. Raises as `commit_transaction` does, and then, or when it
        is cancelled, the transaction is still this producer's: `close` aborts it.
        """
        self._alive()
        self._txn.check_open("prepare_transaction")
        async with self._ending:
            await self.contents.flushed()
            await self.contents.still_whole(self._cluster.deadline())
            await self.contents.flushed()  # of what was begun meanwhile
            self._txn.prepare()
            identity, empty = self._txn.identity, not self._txn.started
            try:
                await self._writer.close()
            except BaseException:  # cancelled, this returns nothing: nobody else could end it
                self._txn.keep()
                raise
            self._closed = True
        return PreparedTransaction(
            self.transactional_id, identity.producer_id, identity.epoch, empty
        )

    # -- what goes into a transaction --------------------------------------------------------------

    async def produce(
        self,
        topic: str | None,
        rows: Rows,
        partition: int | None = None,
        options: ProduceOptions | None = None,
    ) -> ProduceResult:
        """Write rows in the open transaction; return when acknowledged; see `AsyncClient.produce`.

        Any error, and giving the call up, leaves a transaction that can only be aborted.
        """
        checked = arguments.writing(topic, partition, self.options.for_rows(options))
        self.enter()
        try:
            result = await write(self._writer, topic, rows, partition, checked)
            self.contents.wrote(result)
            return result
        except BaseException as raised:
            seen = self.contents.failure(raised)
            if seen is raised:
                raise
            raise seen from raised
        finally:
            self.contents.leave()

    async def send_offsets_to_transaction(
        self,
        offsets: arguments.OffsetsToCommit,
        group: str | ConsumerGroupMetadata,
    ) -> None:
        """Commit a group's offsets (the *next* to be read) with the open transaction.

        `group` is what `group_metadata` of the consumer returns (KIP-447, Kafka 2.5): a member that
        is not one any more is refused. With a group's id alone nobody is; on brokers below 2.5 give
        that. Raises the broker's error; then the transaction can only be aborted.
        """
        self._alive()
        if not isinstance(group, ConsumerGroupMetadata):
            group = ConsumerGroupMetadata(text("group", group))
        wanted = arguments.offsets_to_commit(offsets)
        self._txn.check_open("send_offsets_to_transaction")
        if not wanted:
            return
        await self.contents.send_offsets(wanted, group)

    # -- one write call, for the blocking wrapper too, and for records ----------------------------

    def _check_open(self, call: str) -> None:
        """Raise unless a transaction is open and well; `call` is for the error."""
        self._alive()
        self._txn.check_open(call)

    def enter(self) -> TransactionWriter:
        """Count a produce call as running; return where it writes. Raises where none is allowed."""
        self._check_open("produce")
        return self.contents.enter()

    # -- inside ------------------------------------------------------------------------------------

    def _alive(self) -> None:
        if self._closed:
            raise LocalProtocolError(
                f"the producer of {self.transactional_id!r} is closed; make a new one"
            )

    async def _abort_block(self, raised: BaseException) -> None:
        """Abort because of what a block raised, where there is something to abort.

        Who cancels, as `asyncio.timeout` and Ctrl-C do, waits no longer than for `close`.
        """
        if not self.can_abort:
            return
        try:
            deadline = self._cluster.deadline()
            if not isinstance(raised, Exception):
                deadline = deadline.earlier(self._cluster.now_ms(), CLOSING_TIMEOUT_MS)
            await self._abort(deadline)
        except KafkaError as error:
            if self._txn.state is State.ABORTING:
                log.warning(
                    "the transaction of %s is not aborted yet: %s; the next begin_transaction "
                    "aborts it first, and close tries to",
                    self.transactional_id,
                    error,
                )

    async def _abort(
        self, deadline: Deadline, *, closing: bool = False, left: bool = False
    ) -> None:
        """Abort in turn; with `left` only what an earlier abort has left."""
        async with contextlib.AsyncExitStack() as turn:
            try:
                async with ClockDeadline(self._cluster.clock, deadline.at_ms):
                    await turn.enter_async_context(self._ending)
                    if left and self._txn.state is not State.ABORTING:
                        return  # another task has ended it meanwhile
                    self._txn.abort()
                    await self.contents.stopped(closing=closing)
            except TimeoutError:
                raise RequestTimedOut(
                    f"the transaction of {self.transactional_id!r} is not aborted: requests that "
                    "write its records were not answered in time"
                    + ("" if closing else "; abort_transaction may be called again"),
                    stage="request",
                ) from None
            await self._driver.run(deadline)
            if not closing:
                self._writer.write_as(self._txn.identity)
                self._writer.rewind()
                self._writer.forget_unknown()

    async def _reach(self) -> None:
        if not self._connected:
            self._cluster = await self._connect()
            self._driver = TransactionDriver(self._cluster, self.options, self._txn)
            self.contents = Contents(self._cluster, self._txn, self._driver)
            self._writer = self.contents.writer
            self._connected = True
