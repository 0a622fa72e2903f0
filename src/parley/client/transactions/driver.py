"""Sends what the state of a transaction calls for, and feeds it the answers.

Every request goes to the coordinator of the transactional id (TxnOffsetCommit to the group's), is
repeated while errors may pass, and ends in `transactions.state` with what it brought.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from parley.client.cluster.change import Change
from parley.client.cluster.coordinators import KeyType
from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline
from parley.client.cluster.routing import at_coordinator
from parley.client.results import ConsumerGroupMetadata
from parley.client.transactions.decisions import Severity, judge
from parley.client.transactions.options import TransactionOptions
from parley.client.transactions.requests import (
    Writer,
    add_offsets,
    add_partitions,
    commit_offsets,
    end_txn,
    generation_of,
    init_producer_id,
)
from parley.client.transactions.state import NOBODY, Identity, State, Step, TransactionState
from parley.errors import BrokerError, KafkaError
from parley.errors.codes import INVALID_TXN_STATE
from parley.net import BrokerConnection
from parley.schema import ApiKey
from parley.types import OffsetAndMetadata, TopicPartition

T = TypeVar("T")
_API = {Step.INIT_PRODUCER_ID: ApiKey.INIT_PRODUCER_ID, Step.END_TXN: ApiKey.END_TXN}


class TransactionDriver:
    """The requests of one transactional producer, in the event loop; mutates its state."""

    def __init__(
        self, cluster: Cluster, options: TransactionOptions, txn: TransactionState
    ) -> None:
        self._cluster, self._options, self._txn = cluster, options, txn
        self._offsets_sent = 0
        """Requests with a group's offsets that are not answered."""
        self._answered = Change()

    async def generation(self) -> int:
        """Return the protocol's generation for the next transaction, by the connected brokers."""
        if self._options.max_generation < 2:
            return 1

        async def attempt(conn: BrokerConnection) -> int:
            brokers = (conn, *self._cluster.pool.connections)
            return generation_of((one.versions for one in brokers), self._options.max_generation)

        return await self._at_coordinator(
            "reaching the coordinator", self._cluster.deadline(), attempt
        )

    async def run(self, deadline: Deadline) -> None:
        """Send due requests until the application may go on; its identity may be another then.

        Raises what the state makes of an error: it may be called again after one that may pass, or
        while the producer has not begun.
        """
        txn = self._txn
        starting = txn.state is State.UNINITIALIZED
        while (step := txn.next_step) is not None:
            txn.sending(step)
            try:
                await (
                    self._initialize(deadline)
                    if step is Step.INIT_PRODUCER_ID
                    else self._end(deadline)
                )
            except KafkaError as error:
                severity = judge(_API[step], error)
                if severity is Severity.RETRY or starting:
                    raise
                txn.failed(severity, error)
                if txn.state in (State.ABORTABLE_ERROR, State.FATAL):
                    raise txn.trouble() from error
        if not starting:
            txn.finish()

    async def enrol(self, missing: list[TopicPartition]) -> None:
        """Make partitions part of the transaction, before anything is written to them."""
        self._txn.adding()
        if self._txn.generation < 2:  # in the second generation Produce itself does it
            deadline, writer = self._cluster.deadline(), self._writer()

            async def attempt(conn: BrokerConnection) -> None:
                self._txn.check_writing()  # an abort may have begun since the last attempt
                await add_partitions(self._cluster, conn, writer, missing, deadline)

            await self._at_coordinator("adding partitions to a transaction", deadline, attempt)
            self._txn.check_writing()
        self._txn.partitions.update(missing)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """Make a group's offsets part of the transaction. Raises the broker's error."""
        cluster, deadline, writer, group_id = (
            self._cluster,
            self._cluster.deadline(),
            self._writer(),
            group.group_id,
        )

        async def enrol(conn: BrokerConnection) -> None:
            self._txn.check_writing()
            await add_offsets(cluster, conn, writer, group_id, deadline)

        async def commit(conn: BrokerConnection) -> None:
            self._txn.check_writing()
            self._offsets_sent += 1
            try:
                await commit_offsets(cluster, conn, writer, group, offsets, deadline)
            finally:
                self._offsets_sent -= 1
                self._answered.notify()

        self._txn.adding()
        if writer.generation < 2 and group_id not in self._txn.groups:
            await self._at_coordinator(f"adding the offsets of group {group_id}", deadline, enrol)
        self._txn.groups.add(group_id)
        what = f"committing offsets of group {group_id} in a transaction"
        await at_coordinator(cluster, KeyType.GROUP, group_id, what, deadline, commit)

    async def offsets_answered(self) -> None:
        """Return when no request with a group's offsets is under way."""
        while self._offsets_sent:
            await self._answered.wait()

    # -- inside ------------------------------------------------------------------------------------

    def _writer(self) -> Writer:
        return Writer(self._options.transactional_id, self._txn.identity, self._txn.generation)

    async def _initialize(self, deadline: Deadline) -> None:
        identity = NOBODY if self._txn.state is State.UNINITIALIZED else self._txn.identity
        writer = Writer(self._options.transactional_id, identity)

        async def attempt(conn: BrokerConnection) -> tuple[Identity, bool]:
            return await init_producer_id(
                self._cluster, conn, writer, self._options.transaction_timeout_ms, deadline
            )

        identity, renews = await self._at_coordinator(
            "taking a transactional id over", deadline, attempt
        )
        self._txn.initialized(identity, can_renew=renews)

    async def _end(self, deadline: Deadline) -> None:
        writer, committed = self._writer(), self._txn.committed

        async def attempt(conn: BrokerConnection) -> Identity | None:
            return await end_txn(self._cluster, conn, writer, deadline, committed=committed)

        what = "committing a transaction" if committed else "aborting a transaction"
        try:
            answer = await self._at_coordinator(what, deadline, attempt)
        except BrokerError as error:
            maybe_empty = self._txn.generation > 1 or not (self._txn.partitions or self._txn.groups)
            if committed or error.code != INVALID_TXN_STATE or not maybe_empty:
                raise
            # what should have opened the transaction did not arrive: there is nothing to abort
            answer = None
        self._txn.end_answered(answer)

    async def _at_coordinator(
        self, what: str, deadline: Deadline, attempt: Callable[[BrokerConnection], Awaitable[T]]
    ) -> T:
        key = self._options.transactional_id
        return await at_coordinator(
            self._cluster, KeyType.TRANSACTION, key, what, deadline, attempt
        )
