"""What transactions there are, and how each stands: ListTransactions and
DescribeTransactions (KIP-664, Kafka 3.0).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from parley.client.cluster.coordinators import KeyType
from parley.client.cluster.core import Cluster
from parley.client.cluster.refusals import refusal
from parley.client.cluster.retry import Deadline
from parley.client.cluster.routing import at_all, at_coordinator, find_coordinators
from parley.client.options import arguments
from parley.errors import ConfigError
from parley.errors.codes import TRANSACTIONAL_ID_NOT_FOUND
from parley.messages import (
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from parley.net import BrokerConnection
from parley.schema import ApiKey
from parley.types import Names, Several, TopicPartition, several, text, texts
from parley.versions import Feature, VersionRange

DURATION_VERSION, PATTERN_VERSION = 1, 2
"""First ListTransactions versions with filters by duration (KIP-994), by pattern (KIP-1152)."""
_MAX = 2**15 - 1


class TransactionListing(NamedTuple):
    """A transactional id that a broker coordinates. `state`: Kafka's Ongoing, PrepareCommit, ..."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """How a transactional id stands at its coordinator.

    `start_time_ms` is -1 where no transaction is open. `partitions` are those of the open
    transaction, or those whose markers are still to be written.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TransactionFilter:
    """Which transactions are listed: those that fit all that is given."""

    states: Names = ()
    producer_ids: Several[int] = ()
    duration_ms: int = -1
    """Open for longer than this; needs Kafka 3.8."""
    id_pattern: str | None = None
    """A regular expression (RE2) for the whole id; needs Kafka 4.1."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "states", texts("states", self.states, "states"))
        object.__setattr__(
            self, "producer_ids", several("producer_ids", self.producer_ids, "producer ids")
        )
        for producer_id in self.producer_ids:
            arguments.number("producer_ids", producer_id, 0, arguments.INT64)
        arguments.number("duration_ms", self.duration_ms, -1, arguments.INT64)
        if self.id_pattern is not None:
            text("id_pattern", self.id_pattern)

    @property
    def lowest_version(self) -> int:
        """The first ListTransactions version that knows these filters."""
        return (
            PATTERN_VERSION
            if self.id_pattern is not None
            else DURATION_VERSION
            if self.duration_ms >= 0
            else 0
        )


async def list_transactions(
    cluster: Cluster, wanted: TransactionFilter, deadline: Deadline
) -> list[TransactionListing]:
    """Ask every broker which transactions it coordinates; see `AsyncTransactions.list`."""
    allowed = VersionRange(wanted.lowest_version, _MAX)
    message = ListTransactionsRequest(
        state_filters=list(wanted.states),
        producer_id_filters=list(wanted.producer_ids),
        duration_filter=wanted.duration_ms,
        transactional_id_pattern=wanted.id_pattern,
    )

    async def attempt(conn: BrokerConnection) -> list[ListTransactionsResponse.TransactionState]:
        conn.versions.choose(ApiKey.LIST_TRANSACTIONS, allowed, feature=_feature(wanted))
        reply = await cluster.ask(conn, message, cluster.request_timeout_ms(deadline), allowed)
        if reply.message.error_code:
            raise refusal(reply, reply.message.error_code, conn=conn)
        if reply.message.unknown_state_filters:
            names = ", ".join(reply.message.unknown_state_filters)
            raise ConfigError(f"broker {conn.address} knows no transaction state called {names}")
        return list(reply.message.transaction_states)

    answers = await at_all(cluster, "listing transactions", deadline, attempt)
    found = {
        entry.transactional_id: TransactionListing(
            entry.transactional_id, entry.producer_id, entry.transaction_state, node
        )
        for node, entries in answers.items()
        for entry in entries
    }
    return sorted(found.values())


def _feature(wanted: TransactionFilter) -> Feature | None:
    return Feature.DESCRIBE_TRANSACTIONS if wanted.lowest_version == 0 else None


async def describe_transactions(
    cluster: Cluster, transactional_ids: Iterable[str], deadline: Deadline
) -> dict[str, TransactionDescription | None]:
    """Ask the coordinator of each id; see `AsyncTransactions.describe`."""
    wanted = list(dict.fromkeys(transactional_ids))
    await find_coordinators(cluster, KeyType.TRANSACTION, wanted, deadline)
    found: dict[str, TransactionDescription | None] = {}
    for name in wanted:

        async def attempt(
            conn: BrokerConnection, name: str = name
        ) -> TransactionDescription | None:
            return await _describe_at(cluster, conn, name, deadline)

        what = f"describing the transactions of {name}"
        found[name] = await at_coordinator(
            cluster, KeyType.TRANSACTION, name, what, deadline, attempt
        )
    return found


async def _describe_at(
    cluster: Cluster, conn: BrokerConnection, name: str, deadline: Deadline
) -> TransactionDescription | None:
    conn.versions.require(Feature.DESCRIBE_TRANSACTIONS)
    message = DescribeTransactionsRequest(transactional_ids=[name])
    reply = await cluster.ask(conn, message, cluster.request_timeout_ms(deadline))
    for entry in reply.message.transaction_states:
        if entry.transactional_id != name or entry.error_code == TRANSACTIONAL_ID_NOT_FOUND:
            continue
        if entry.error_code:
            raise refusal(reply, entry.error_code, conn=conn)
        return TransactionDescription(
            name,
            entry.transaction_state,
            entry.producer_id,
            entry.producer_epoch,
            entry.transaction_timeout_ms,
            entry.transaction_start_time_ms,
            tuple(
                sorted(
                    TopicPartition(topic.topic, index)
                    for topic in entry.topics
                    for index in topic.partitions
                )
            ),
        )
    return None
