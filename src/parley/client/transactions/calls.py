"""What a client has for transactions, `client.transactions`: asynchronous or blocking."""

from __future__ import annotations

import builtins
import weakref
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from parley.client.loop_thread import shared_loop
from parley.client.options import arguments
from parley.client.options.client_options import ProduceOptions
from parley.errors import TransactionError
from parley.net.blocking import Work, blocking
from parley.types import Names, Several, several, texts

if TYPE_CHECKING:
    from parley.client.cluster.core import Cluster
    from parley.client.cluster.retry import Deadline
    from parley.client.transactions.async_producer import AsyncTransactionProducer
    from parley.client.transactions.handover import FencedProducer, PreparedTransaction
    from parley.client.transactions.listing import (
        TransactionDescription,
        TransactionFilter,
        TransactionListing,
    )
    from parley.client.transactions.producer import TransactionProducer

T = TypeVar("T")


class AsyncTransactions:
    """Transactions of one cluster: `AsyncClient.transactions`. The first call starts the client.

    `begin` starts the client that owns this, and returns its cluster and the deadline of a call.
    """

    def __init__(self, begin: Callable[[int | None], Awaitable[tuple[Cluster, Deadline]]]) -> None:
        self._begin = begin
        self._producers: weakref.WeakSet[AsyncTransactionProducer] = weakref.WeakSet()

    async def _started(self) -> Cluster:
        return (await self._begin(None))[0]

    def producer(
        self,
        transactional_id: str,
        *,
        transaction_timeout_ms: int = 60_000,
        max_generation: int = 2,
        options: ProduceOptions | None = None,
    ) -> AsyncTransactionProducer:
        """Return a producer whose rows appear together or not at all; `async with` it, or `start`.

        One producer of a transactional id is valid at a time: starting one fences the one before
        and aborts what that left open. After `transaction_timeout_ms` the coordinator aborts a
        transaction. `max_generation=1` keeps to the first generation of the protocol (Produce up to
        v11, EndTxn up to v4) on brokers that have the second (KIP-890). `options` are those of its
        `produce`. Needs Kafka 0.11; `start` raises UnsupportedVersionError, before anything is
        sent, on older brokers.
        """
        from parley.client.transactions.async_producer import AsyncTransactionProducer
        from parley.client.transactions.options import TransactionOptions

        wanted = TransactionOptions(
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            max_generation=max_generation,
            produce=options if options is not None else ProduceOptions(),
        )

        made = AsyncTransactionProducer(self._started, wanted)
        self._producers.add(made)
        return made

    async def end(
        self, prepared: PreparedTransaction, *, committed: bool, timeout_ms: int | None = None
    ) -> None:
        """Commit (or abort) a transaction handed over by `prepare_transaction` of its producer.

        From any process, and as often as wanted: it returns when the transaction has ended as
        asked, also when it had already. The markers are written a moment later; readers with
        read_committed see the records then. Raises, where it can no longer end as asked,

        - TransactionAbortedError: a commit came after an abort; the records are discarded;
        - TransactionCommittedError: an abort came after a commit; the records stay;
        - ProducerFencedError: aborted by its time-out, or by another producer of that id. If it had
          not been committed before, the records are discarded;
        - TransactionForgottenError: id or producer id are unknown to the coordinator; it ended long
          ago.

        RequestTimedOut and NetworkError leave it unknown: call again.
        """
        from parley.client.transactions.handover import end_transaction, handed_over

        prepared = handed_over(prepared)
        arguments.flag("committed", committed)
        arguments.timeout(timeout_ms)
        cluster, deadline = await self._begin(timeout_ms)
        await end_transaction(cluster, prepared, deadline, committed=committed)

    async def end_many(
        self,
        prepared: Several[PreparedTransaction],
        *,
        committed: bool,
        timeout_ms: int | None = None,
    ) -> builtins.list[TransactionError | None]:
        """Commit (or abort) several transactions side by side, each as `end` does.

        Returns for each, in order, None where it has ended as asked, and else the TransactionError
        that `end` would raise. Coordinators are looked up together where brokers can (KIP-699), and
        each is asked on one connection. Every transaction is tried; then the first other error,
        such as RequestTimedOut or NetworkError, is raised: call again.
        """
        from parley.client.transactions.handover import end_transactions, handed_over

        wanted = [handed_over(one) for one in several("prepared", prepared, "transactions")]
        arguments.flag("committed", committed)
        arguments.timeout(timeout_ms)
        cluster, deadline = await self._begin(timeout_ms)
        return await end_transactions(cluster, wanted, deadline, committed=committed)

    async def fence(
        self,
        transactional_ids: Names,
        *,
        transaction_timeout_ms: int | None = None,
        timeout_ms: int | None = None,
    ) -> dict[str, FencedProducer]:
        """Fence the producers of some ids, abort what they left open (InitProducerId); open none.

        Returns, for each id, its producer id and new epoch: what `producer` begins with is above
        it. An id that the coordinator did not know is known to it afterwards. Ids are fenced side
        by side, and every one is tried.
        `transaction_timeout_ms` is for identities that `AsyncTransactionProducer.resume` is to
        write under; leave it out where nothing is written. Raises the first id's error, and
        UnsupportedVersionError before anything is sent where brokers have no transactions.
        """
        from parley.client.transactions.handover import fence

        wanted = texts("transactional_ids", transactional_ids, "ids")
        if transaction_timeout_ms is not None:
            arguments.number("transaction_timeout_ms", transaction_timeout_ms, 1, arguments.INT32)
        arguments.timeout(timeout_ms)
        cluster, deadline = await self._begin(timeout_ms)
        return await fence(cluster, wanted, deadline, transaction_timeout_ms=transaction_timeout_ms)

    async def list(
        self, wanted: TransactionFilter | None = None, *, timeout_ms: int | None = None
    ) -> builtins.list[TransactionListing]:
        """Return the transactional ids that brokers coordinate, with producer id and state.

        Raises UnsupportedVersionError, before anything is sent to it, where a broker cannot say
        (before Kafka 3.0; the filters by duration and pattern need 3.8 and 4.1), and ConfigError
        for a state no broker knows.
        """
        from parley.client.transactions.listing import TransactionFilter, list_transactions

        arguments.optional("wanted", wanted, TransactionFilter)
        arguments.timeout(timeout_ms)
        wanted = wanted if wanted is not None else TransactionFilter()
        cluster, deadline = await self._begin(timeout_ms)
        return await list_transactions(cluster, wanted, deadline)

    async def describe(
        self, transactional_ids: Names, *, timeout_ms: int | None = None
    ) -> dict[str, TransactionDescription | None]:
        """Return how each transactional id stands at its coordinator, None if it is not known.

        Raises UnsupportedVersionError before anything is sent where a coordinator cannot say
        (before Kafka 3.0).
        """
        from parley.client.transactions.listing import describe_transactions

        wanted = texts("transactional_ids", transactional_ids, "ids")
        arguments.timeout(timeout_ms)
        cluster, deadline = await self._begin(timeout_ms)
        return await describe_transactions(cluster, wanted, deadline)

    def leave_behind(self) -> None:
        """Forget the producers that are still open: their event loop is closed."""
        self._producers.clear()

    async def close(self) -> None:
        """Close the producers that are still open; the client does it when it closes."""
        while self._producers:
            await self._producers.pop().close()


class Transactions:
    """Transactions of one cluster, blocking: `Client.transactions`; errors as AsyncTransactions."""

    def __init__(self, transactions: Callable[[], AsyncTransactions]) -> None:
        self._async = transactions  # asked for at each call: after a fork it is another

    @staticmethod
    def _run(work: Work[T]) -> T:
        return shared_loop().call(work)

    def producer(
        self,
        transactional_id: str,
        *,
        transaction_timeout_ms: int = 60_000,
        max_generation: int = 2,
        options: ProduceOptions | None = None,
    ) -> TransactionProducer:
        """Return a producer whose rows appear together or not at all; use it in a `with` block."""
        from parley.client.transactions.producer import TransactionProducer

        transactions = self._async()

        async def make() -> AsyncTransactionProducer:
            return transactions.producer(
                transactional_id,
                transaction_timeout_ms=transaction_timeout_ms,
                max_generation=max_generation,
                options=options,
            )

        return TransactionProducer(shared_loop(), self._run(make()))

    end = blocking(AsyncTransactions.end)
    end_many = blocking(AsyncTransactions.end_many)
    fence = blocking(AsyncTransactions.fence)
    list = blocking(AsyncTransactions.list)
    describe = blocking(AsyncTransactions.describe)
