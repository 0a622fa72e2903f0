"""What a group has committed, as an operator reads, changes and deletes it."""

from __future__ import annotations

from parley.client.admin.calls import Begin
from parley.client.admin.outcomes import group_error
from parley.client.cluster.coordinators import KeyType
from parley.client.cluster.retry import raise_first
from parley.client.cluster.routing import at_coordinator
from parley.client.cluster.wanted_topics import ensure_partitions
from parley.client.offsets import committed
from parley.client.options import arguments
from parley.client.results import ConsumerGroupMetadata
from parley.messages import OffsetDeleteRequest
from parley.net import BrokerConnection
from parley.schema import ApiKey
from parley.types import OffsetAndMetadata, Several, TopicPartition, text
from parley.versions import Feature


async def list_group_offsets(
    begin: Begin,
    group_id: str,
    partitions: Several[TopicPartition] | None = None,
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """Return what a group has committed: of all partitions with an offset, or of some (or None).

    An open transaction is not waited for: `committed_offsets` does that. Raises
    UnsupportedVersionError, before a byte is sent, where a coordinator cannot list all (before
    Kafka 0.10.2): name the partitions then. A group that does not exist has no offsets.
    """
    text("group_id", group_id)
    wanted = None if partitions is None else list(dict.fromkeys(arguments.partitions(partitions)))
    arguments.timeout(timeout_ms)
    cluster, deadline = await begin(timeout_ms)
    if wanted == []:
        return {}
    found = await committed.read_offsets(cluster, group_id, wanted, deadline, stable=False)
    return {tp: found[tp] for tp in sorted(found)} if wanted is None else found


async def alter_group_offsets(
    begin: Begin,
    group_id: str,
    offsets: arguments.OffsetsToCommit,
    *,
    timeout_ms: int | None = None,
) -> None:
    """Set the offsets (the *next* to be read) at which a group
    without members goes on; it is made if there is none.

    An offset is a number, (offset, metadata) or an OffsetAndMetadata. Raises
    UnknownTopicOrPartitionError before anything is changed where a partition does not exist;
    UnknownMemberIdError while the group has members: stop them first; else the first partition's
    error, noting the others.
    """
    text("group_id", group_id)
    wanted = arguments.offsets_to_commit(offsets)
    arguments.timeout(timeout_ms)
    cluster, deadline = await begin(timeout_ms)
    if wanted:
        await ensure_partitions(cluster, wanted, deadline)
    await committed.commit_offsets(cluster, ConsumerGroupMetadata(group_id), wanted, deadline)


async def delete_group_offsets(
    begin: Begin,
    group_id: str,
    partitions: Several[TopicPartition],
    *,
    timeout_ms: int | None = None,
) -> None:
    """Delete what a group has committed for some partitions (OffsetDelete, Kafka 2.4).

    It may have members, as long as none of them subscribes to the topic. Raises the first
    partition's error, noting the others (GroupSubscribedToTopicError,
    UnknownTopicOrPartitionError), whose offsets stay; GroupIdNotFoundError where there is no such
    group; UnsupportedVersionError before anything is sent.
    """
    text("group_id", group_id)
    wanted = list(dict.fromkeys(arguments.partitions(partitions)))
    arguments.timeout(timeout_ms)
    cluster, deadline = await begin(timeout_ms)
    indexes: dict[str, list[int]] = {}
    for tp in wanted:
        indexes.setdefault(tp.topic, []).append(tp.partition)
    message = OffsetDeleteRequest(
        group_id=group_id, topics=[_topic(*one) for one in indexes.items()]
    )

    async def attempt(conn: BrokerConnection) -> None:
        conn.versions.choose(ApiKey.OFFSET_DELETE, feature=Feature.OFFSET_DELETE)
        reply = await cluster.ask(conn, message, cluster.request_timeout_ms(deadline))
        if reply.message.error_code:
            raise group_error(reply.message.error_code, group_id, conn, reply)
        errors = []
        for topic in reply.message.topics:
            for part in topic.partitions:
                if part.error_code:
                    tp = TopicPartition(topic.name, part.partition_index)
                    error = group_error(part.error_code, group_id, conn, reply, tp=tp)
                    error.retriable = False  # a partition that is missing here stays missing
                    errors.append(error)
        raise_first(errors)

    if wanted:
        what = f"deleting offsets of group {group_id}"
        await at_coordinator(cluster, KeyType.GROUP, group_id, what, deadline, attempt)


def _topic(name: str, indexes: list[int]) -> OffsetDeleteRequest.OffsetDeleteRequestTopic:
    make = OffsetDeleteRequest.OffsetDeleteRequestPartition
    partitions = [make(partition_index=index) for index in indexes]
    return OffsetDeleteRequest.OffsetDeleteRequestTopic(name=name, partitions=partitions)
