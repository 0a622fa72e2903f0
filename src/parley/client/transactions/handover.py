"""Transactions that one process opens and another one ends: the two halves of a two-phase commit.

A transaction belongs to a transactional id, a producer id and an epoch, not to a connection.
Whoever has these three may end it, from any process, as often as it likes: a broker answers the
same EndTxn again with success. It is sent below v5, so that ending changes no epoch and a
repetition stays a repetition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from parley.client.cluster.coordinators import KeyType
from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline
from parley.client.cluster.routing import at_coordinator, find_coordinators
from parley.client.cluster.side_by_side import side_by_side
from parley.client.options import arguments
from parley.client.transactions.decisions import FENCED
from parley.client.transactions.requests import Writer, end_txn, init_producer_id
from parley.client.transactions.state import NOBODY, Identity
from parley.errors import (
    BrokerError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionCommittedError,
    TransactionError,
    TransactionForgottenError,
)
from parley.errors.codes import (
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TRANSACTION_TIMEOUT,
    INVALID_TXN_STATE,
)
from parley.net import BrokerConnection
from parley.types import text

AT_ONCE = 256
"""Transactional ids that coordinators are asked about at the same time, each on one connection."""
FENCING_TIMEOUTS_MS = (30_000, 1_000)
"""Transaction timeouts that InitProducerId carries where no transaction follows; the next one where
a broker allows no longer ones. They are not short, for the coordinator gives its replicas so long
to take the identity over, and answers COORDINATOR_NOT_AVAILABLE when they did not (KAFKA-16047).
"""


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A transaction, all acknowledged, that nothing has ended yet. Plain and picklable.

    `is_empty` says that nothing was written: then the coordinator does not know it, and ending it
    does nothing.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_empty: bool = False

    def __post_init__(self) -> None:
        text("transactional_id", self.transactional_id)
        arguments.number("producer_id", self.producer_id, -1, arguments.INT64)
        arguments.number("producer_epoch", self.producer_epoch, -1, 2**15 - 1)


def handed_over(value: object) -> PreparedTransaction:
    """Return what was given as a prepared transaction. Raises ConfigError for anything else."""
    how = "give what prepare_transaction returned"
    arguments.instance("prepared", value, PreparedTransaction, how=how)
    assert isinstance(value, PreparedTransaction)
    return value


class FencedProducer(NamedTuple):
    """A transactional id after `fence`: producer id and the epoch that fences those before."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


async def end_transaction(
    cluster: Cluster, prepared: PreparedTransaction, deadline: Deadline, *, committed: bool
) -> None:
    """Commit or abort a prepared transaction; see `AsyncTransactions.end`."""
    if prepared.is_empty:
        return
    writer = Writer(
        prepared.transactional_id, Identity(prepared.producer_id, prepared.producer_epoch)
    )
    what = (
        f"{'committing' if committed else 'aborting'} the "
        f"transaction of {prepared.transactional_id}"
    )

    async def attempt(conn: BrokerConnection) -> None:
        await end_txn(cluster, conn, writer, deadline, committed=committed)

    try:
        await at_coordinator(
            cluster, KeyType.TRANSACTION, prepared.transactional_id, what, deadline, attempt
        )
    except BrokerError as error:
        outcome = _outcome(prepared, error, committed=committed)
        if outcome is None:
            raise
        raise outcome from error


async def end_transactions(
    cluster: Cluster,
    prepared: Sequence[PreparedTransaction],
    deadline: Deadline,
    *,
    committed: bool,
) -> list[TransactionError | None]:
    """Commit or abort prepared transactions; see `AsyncTransactions.end_many`."""

    async def end(one: PreparedTransaction) -> TransactionError | None:
        try:
            await end_transaction(cluster, one, deadline, committed=committed)
        except TransactionError as error:
            return error
        return None

    names = [one.transactional_id for one in prepared if not one.is_empty]
    await find_coordinators(cluster, KeyType.TRANSACTION, names, deadline)
    return await side_by_side(end, prepared, AT_ONCE)


def _outcome(
    prepared: PreparedTransaction, error: BrokerError, *, committed: bool
) -> TransactionError | None:
    who = f"the transaction of {prepared.transactional_id!r}"
    kind: type[TransactionError]
    if error.code in FENCED:
        kind, text = (
            ProducerFencedError,
            f"{who} (producer {prepared.producer_id}, epoch {prepared.producer_epoch}) can "
            "no longer be ended: the coordinator aborted it after its "
            "transaction_timeout_ms, or another producer has begun with this id. If it was "
            "not committed before, its records are discarded and must be written again",
        )
    elif error.code == INVALID_TXN_STATE and committed:
        kind, text = (
            TransactionAbortedError,
            f"{who} was aborted already: its records are discarded and must be written again",
        )
    elif error.code == INVALID_TXN_STATE:
        kind, text = TransactionCommittedError, f"{who} was committed already: its records stay"
    elif error.code == INVALID_PRODUCER_ID_MAPPING:
        kind, text = (
            TransactionForgottenError,
            f"the coordinator does not know {who} of producer {prepared.producer_id}: the "
            "id expired (transactional.id.expiration.ms) or has another producer id. It "
            "ended earlier, and which way cannot be known: look for its records",
        )
    else:
        return None
    return kind(
        f"{text}. ({error})",
        transactional_id=prepared.transactional_id,
        producer_id=prepared.producer_id,
        producer_epoch=prepared.producer_epoch,
        code=error.code,
    )


async def fence(
    cluster: Cluster,
    transactional_ids: Iterable[str],
    deadline: Deadline,
    *,
    transaction_timeout_ms: int | None = None,
) -> dict[str, FencedProducer]:
    """Fence ids side by side; see `AsyncTransactions.fence`."""
    wanted = list(dict.fromkeys(transactional_ids))
    limits_ms = FENCING_TIMEOUTS_MS if transaction_timeout_ms is None else (transaction_timeout_ms,)

    async def fenced(name: str) -> FencedProducer:
        async def attempt(conn: BrokerConnection) -> Identity:
            for limit_ms in limits_ms:
                try:
                    identity, _ = await init_producer_id(
                        cluster, conn, Writer(name, NOBODY), limit_ms, deadline
                    )
                    return identity
                except BrokerError as error:
                    if error.code != INVALID_TRANSACTION_TIMEOUT or limit_ms == limits_ms[-1]:
                        raise
            raise AssertionError("the last limit returns or raises")

        identity = await at_coordinator(
            cluster, KeyType.TRANSACTION, name, f"fencing {name}", deadline, attempt
        )
        return FencedProducer(name, *identity)

    await find_coordinators(cluster, KeyType.TRANSACTION, wanted, deadline)
    found = await side_by_side(fenced, wanted, AT_ONCE)
    return {one.transactional_id: one for one in found}
