"""The requests of a transaction, a function each: plain values, errors raised (KIP-98).

A first-generation transaction stays below the versions that only the second one may use (KIP-890):
a broker takes them for it. AddPartitionsToTxn is never sent above v3: later ones are for brokers
only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from parley.client.cluster.core import Cluster
from parley.client.cluster.refusals import refusal
from parley.client.cluster.retry import Deadline, raise_first
from parley.client.offsets.commit_parts import parts_by_topic, refused_offsets
from parley.client.results import ConsumerGroupMetadata
from parley.client.transactions.state import NOBODY, Identity
from parley.errors import UnsupportedVersionError
from parley.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)
from parley.net import BrokerConnection
from parley.schema import ApiKey
from parley.types import OffsetAndMetadata, TopicPartition
from parley.versions import BrokerVersions, Feature, VersionRange

RENEWING_VERSION = Feature.PRODUCER_EPOCH_BUMP.first_version(ApiKey.INIT_PRODUCER_ID)
"""First InitProducerId version that takes the old epoch and gives the next one (KIP-360)."""
GROUP_METADATA_VERSION = Feature.TXN_GROUP_METADATA.first_version(ApiKey.TXN_OFFSET_COMMIT)
"""First TxnOffsetCommit version that says which member of the group commits (KIP-447)."""
NOT_ATTEMPTED = 55
"""OPERATION_NOT_ATTEMPTED: another partition of the request is wrong, not this one."""
_MAX = 2**15 - 1
_FIRST_GENERATION = {
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,  # those after it are for brokers
    ApiKey.END_TXN: Feature.TRANSACTIONS_V2.first_version(ApiKey.END_TXN) - 1,
    ApiKey.TXN_OFFSET_COMMIT: Feature.TRANSACTIONS_V2.first_version(ApiKey.TXN_OFFSET_COMMIT) - 1,
}
"""The last versions of the protocol's first generation."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Whose transaction a request is about, and in which generation of the protocol."""

    transactional_id: str
    identity: Identity
    generation: int = 1

    def versions(self, api: ApiKey, low: int = 0) -> VersionRange:
        """Return the versions of an API that this transaction may use."""
        return VersionRange(low, _FIRST_GENERATION.get(api, _MAX) if self.generation < 2 else _MAX)


def generation_of(brokers: Iterable[BrokerVersions], max_generation: int) -> int:
    """Return the generation of the protocol to use with some brokers.

    The second only where all of them have its versions and it is finalized (KIP-890). A cluster
    finalizes it when all its brokers can do it; one that was rolled back all the same is found out
    by the versions.
    """
    return (
        2
        if max_generation >= 2 and all(one.supports(Feature.TRANSACTIONS_V2) for one in brokers)
        else 1
    )


async def init_producer_id(
    cluster: Cluster, conn: BrokerConnection, writer: Writer, timeout_ms: int, deadline: Deadline
) -> tuple[Identity, bool]:
    """Return a new identity, and whether this coordinator can renew one.

    Fences every producer of the id and aborts what it left open. With an identity in `writer` it is
    that one's next epoch, and fails where it is not the newest (v3+).
    """
    conn.versions.choose(ApiKey.INIT_PRODUCER_ID, feature=Feature.EXACTLY_ONCE)
    renews = conn.versions.supports(Feature.PRODUCER_EPOCH_BUMP)
    message = InitProducerIdRequest(
        transactional_id=writer.transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=writer.identity.producer_id if renews else -1,
        producer_epoch=writer.identity.epoch if renews else -1,
    )
    allowed = VersionRange(0 if writer.identity == NOBODY else RENEWING_VERSION, _MAX)
    reply = await cluster.ask(conn, message, cluster.request_timeout_ms(deadline), allowed)
    if code := reply.message.error_code:
        resource = f"transactional id {writer.transactional_id}"
        raise refusal(reply, code, conn=conn, resource=resource)
    return Identity(reply.message.producer_id, reply.message.producer_epoch), renews


async def add_partitions(
    cluster: Cluster,
    conn: BrokerConnection,
    writer: Writer,
    partitions: Iterable[TopicPartition],
    deadline: Deadline,
) -> None:
    """Register partitions to write to with the coordinator. Raises the worst one's error."""
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    message = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=writer.transactional_id,
        v3_and_below_producer_id=writer.identity.producer_id,
        v3_and_below_producer_epoch=writer.identity.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=found)
            for name, found in topics.items()
        ],
    )
    allowed = VersionRange(0, _FIRST_GENERATION[ApiKey.ADD_PARTITIONS_TO_TXN])
    reply = await cluster.ask(conn, message, cluster.request_timeout_ms(deadline), allowed)
    wrong = [
        (found.partition_error_code, topic.name, found.partition_index)
        for topic in reply.message.results_by_topic_v3_and_below
        for found in topic.results_by_partition
        if found.partition_error_code
    ]
    for code, topic, partition in sorted(wrong, key=lambda found: found[0] == NOT_ATTEMPTED):
        raise refusal(reply, code, None, TopicPartition(topic, partition), conn=conn)


async def add_offsets(
    cluster: Cluster, conn: BrokerConnection, writer: Writer, group_id: str, deadline: Deadline
) -> None:
    """Register a group's offsets as part of the transaction with the coordinator."""
    message = AddOffsetsToTxnRequest(
        transactional_id=writer.transactional_id,
        producer_id=writer.identity.producer_id,
        producer_epoch=writer.identity.epoch,
        group_id=group_id,
    )
    reply = await cluster.ask(conn, message, cluster.request_timeout_ms(deadline))
    if code := reply.message.error_code:
        raise refusal(reply, code, conn=conn, resource=f"group {group_id}")


async def commit_offsets(
    cluster: Cluster,
    conn: BrokerConnection,
    writer: Writer,
    group: ConsumerGroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    deadline: Deadline,
) -> None:
    """Give offsets to the group's coordinator; they count when the transaction commits. Raises the
    error of the worst partition, noting the others.
    """
    allowed = _offsets_versions(conn, writer, group)
    parts = parts_by_topic(offsets, TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition)
    message = TxnOffsetCommitRequest(
        transactional_id=writer.transactional_id,
        group_id=group.group_id,
        producer_id=writer.identity.producer_id,
        producer_epoch=writer.identity.epoch,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=name, partitions=found)
            for name, found in parts.items()
        ],
    )
    reply = await cluster.ask(conn, message, cluster.request_timeout_ms(deadline), allowed)
    answered = ((topic.name, topic.partitions) for topic in reply.message.topics)
    raise_first(list(refused_offsets(reply, answered, group, conn).values()))


def _offsets_versions(
    conn: BrokerConnection, writer: Writer, group: ConsumerGroupMetadata
) -> VersionRange:
    """Return the versions that can say who commits. Raises UnsupportedVersionError."""
    low, feature = (
        (0, None) if group.outside else (GROUP_METADATA_VERSION, Feature.TXN_GROUP_METADATA)
    )
    allowed = writer.versions(ApiKey.TXN_OFFSET_COMMIT, low)
    try:
        conn.versions.choose(ApiKey.TXN_OFFSET_COMMIT, allowed, feature=feature)
    except UnsupportedVersionError as error:
        if not group.outside:
            error.add_note(
                f'give the id of the group, "{group.group_id}", instead of what group_metadata '
                "returns; these brokers cannot refuse a member that lost its partitions"
            )
        raise
    return allowed


async def end_txn(
    cluster: Cluster, conn: BrokerConnection, writer: Writer, deadline: Deadline, *, committed: bool
) -> Identity | None:
    """Commit or abort; return the next identity if the second generation brings one (v5)."""
    message = EndTxnRequest(
        transactional_id=writer.transactional_id,
        producer_id=writer.identity.producer_id,
        producer_epoch=writer.identity.epoch,
        committed=committed,
    )
    allowed = writer.versions(ApiKey.END_TXN)
    reply = await cluster.ask(conn, message, cluster.request_timeout_ms(deadline), allowed)
    if code := reply.message.error_code:
        raise refusal(reply, code, conn=conn)
    found = Identity(reply.message.producer_id, reply.message.producer_epoch)
    return found if writer.generation >= 2 and found.producer_id >= 0 else None
