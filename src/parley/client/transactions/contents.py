"""What goes into the open transaction: calls that are writing, topics that were written to, and
what becomes of the transaction by their errors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline
from parley.client.produce.calls import given_up
from parley.client.produce.state import InTransaction, OutBatch
from parley.client.results import ConsumerGroupMetadata, ProduceResult
from parley.client.transactions.decisions import Severity, judge
from parley.client.transactions.driver import TransactionDriver
from parley.client.transactions.state import State, TransactionState
from parley.client.transactions.topics import WrittenTopics, check_topics
from parley.client.transactions.writer import TransactionWriter
from parley.errors import BrokerError, DataLossError, KafkaError, TransactionAbortableError
from parley.errors.codes import INVALID_PRODUCER_EPOCH, UNKNOWN_PRODUCER_ID
from parley.net.shared import outcome
from parley.schema import ApiKey
from parley.types import OffsetAndMetadata, TopicPartition

WHO_HAS_THE_EPOCH = (
    "another producer has begun with this transactional id, or the coordinator "
    "aborted the transaction after transaction_timeout_ms; abort_transaction finds "
    "out which: it raises ProducerFencedError, or this producer goes on"
)
"""A partition's leader cannot distinguish the two (KIP-588), nor can `produce`'s error."""


class Contents:
    """The writing in one transaction after the other. Belongs to the event loop."""

    def __init__(self, cluster: Cluster, txn: TransactionState, driver: TransactionDriver) -> None:
        self._cluster, self._txn, self._driver = cluster, txn, driver
        self.writer = TransactionWriter(cluster, self._admit)
        self._written = WrittenTopics()
        self._writes = 0
        self._no_writes = asyncio.Event()
        self._no_writes.set()
        self._offsets: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Begin with another transaction."""
        self.writer.transaction = InTransaction(self._txn.transactional_id, self._txn.generation)
        self._written.clear()

    # -- one write call, for the blocking wrapper too, and for records -----------------------------

    def enter(self) -> TransactionWriter:
        """Count a produce call as running; return where it writes. Raises where none is allowed."""
        self._txn.check_open("produce")
        self._writes += 1
        self._no_writes.clear()
        return self.writer

    def leave(self) -> None:
        """Count a produce call as over."""
        self._writes -= 1
        if not self._writes:
            self._no_writes.set()

    def wrote(self, result: ProduceResult) -> None:
        """Note where rows went. Raises DataLossError where the topic is another by now."""
        self._written.acknowledged(result.partitions.values())

    def failure(self, error: BaseException, api: ApiKey = ApiKey.PRODUCE) -> BaseException:
        """Let a write's error end the transaction's good state; return what the caller sees."""
        known = given_up(error)
        if (
            isinstance(known, BrokerError)
            and known.code == INVALID_PRODUCER_EPOCH
            and WHO_HAS_THE_EPOCH not in getattr(error, "__notes__", ())
        ):
            error.add_note(WHO_HAS_THE_EPOCH)
        if self._txn.state in (State.IN_TRANSACTION, State.COMMITTING):
            # a call that was cancelled says nothing about this producer
            severity = judge(api, known) if isinstance(error, KafkaError) else Severity.ABORTABLE
            if _names_unknown_producer(known) and not self._txn.can_renew:
                # the partitions that say so begin at sequence 0 again
                severity = Severity.ABORTABLE
            self._txn.failed(severity, known)
            if isinstance(error, DataLossError):
                self._lost(error)
        if self._txn.state is State.FATAL and isinstance(error, KafkaError):
            return self._txn.trouble()  # its cause is the error
        return error

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """Commit a group's offsets with the transaction. Raises what the caller sees.

        Who is cancelled leaves the request under way to the end of the transaction: offsets that
        came behind that would be of the next one.
        """
        task = asyncio.get_running_loop().create_task(self._send_offsets(offsets, group))
        self._offsets.add(task)
        task.add_done_callback(self._offsets_sent)
        try:
            await outcome(task)
        except BaseException as raised:
            seen = self.failure(raised, ApiKey.TXN_OFFSET_COMMIT)
            if seen is raised:
                raise
            raise seen from raised

    async def _send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        try:
            await self._driver.send_offsets(offsets, group)
        except KafkaError as error:  # a commit that waits for this learns of it here
            self.failure(error, ApiKey.TXN_OFFSET_COMMIT)
            raise

    def _offsets_sent(self, task: asyncio.Task[None]) -> None:
        self._offsets.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved: a caller who is left gets it too

    # -- before the end ----------------------------------------------------------------------------

    async def flushed(self) -> None:
        """Wait for what is being written. Raises where some of it has failed."""
        await self._no_writes.wait()
        if self._offsets:
            await asyncio.wait(self._offsets)
        if self._txn.state in (State.ABORTABLE_ERROR, State.FATAL):
            raise self._txn.trouble()

    async def still_whole(self, deadline: Deadline) -> None:
        """Raise, and make an abort necessary, where a written topic was deleted or re-created."""
        try:
            await check_topics(self._cluster, self._written, deadline)
        except DataLossError as error:
            self._txn.failed(Severity.ABORTABLE, error)
            self._lost(error)
            raise self._txn.trouble() from error

    async def stopped(self, *, closing: bool) -> None:
        """Give up what is being written; return when nothing of it may reach a broker later.

        Records that came behind the markers would open a transaction that nobody ends; offsets
        would be of the next one. Markers of the second generation fence both (KIP-890), so that the
        end of a producer need not wait.
        """
        error = TransactionAbortableError(
            f"the transaction of {self._txn.transactional_id!r} is being aborted",
            transactional_id=self._txn.transactional_id,
        )
        self.writer.abandon_all(error)
        await self._no_writes.wait()
        if closing and self._txn.generation > 1:
            return
        if self._txn.generation < 2:
            await self._driver.offsets_answered()
        for task in self._offsets:  # which sends nothing any more
            task.cancel()
        if await self.writer.in_doubt():
            self._txn.doubt()

    # -- inside ------------------------------------------------------------------------------------

    async def _admit(self, batches: list[OutBatch]) -> None:
        """Add the partitions of some batches to the transaction before they may be sent."""
        self._txn.check_writing()
        partitions = {batch.tp for batch in batches}
        if (
            self._txn.generation > 1
            and not self._txn.started
            and not await self.writer.all_in_second(partitions)
        ):
            # nothing was sent yet; a leader is older than what the cluster has finalized
            self._txn.generation = 1
            self.writer.transaction = InTransaction(self._txn.transactional_id, 1)
            for batch in batches:
                batch.transaction = self.writer.transaction
        for tp in partitions:
            self._written.begun(tp.topic, self._cluster.view.topic_id(tp.topic))
        missing = sorted(self._txn.missing(partitions))
        if missing:
            await self._driver.enrol(missing)

    def _lost(self, error: DataLossError) -> None:
        """The new topic knows nothing of this producer: its numbering must begin again."""
        if self._txn.can_renew:
            self._txn.doubt()
        elif error.topic is not None:
            self.writer.forget_topic(error.topic)


def _names_unknown_producer(error: KafkaError) -> bool:
    """Return whether a leader knows nothing of this producer: records or topic are gone."""
    return (
        isinstance(error, BrokerError)
        and error.code == UNKNOWN_PRODUCER_ID
        and error.api == ApiKey.PRODUCE.name
    )
