"""Committed offsets of a group, for a member or for an outsider: OffsetCommit, OffsetFetch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from parley.client.cluster.coordinators import KeyType
from parley.client.cluster.core import Cluster
from parley.client.cluster.refusals import refusal
from parley.client.cluster.retry import Deadline, raise_first
from parley.client.cluster.routing import at_coordinator
from parley.client.offsets.commit_parts import ACTIVE_GROUP, parts_by_topic, refused_offsets
from parley.client.offsets.unknown_partitions import UnknownPartitions, is_unknown
from parley.client.results import ConsumerGroupMetadata
from parley.errors import (
    BrokerError,
    CommitFailedError,
    KafkaError,
    RequestTimedOut,
    UnsupportedVersionError,
)
from parley.errors.codes import (
    FENCED_MEMBER_EPOCH,
    STALE_MEMBER_EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from parley.messages import OffsetCommitRequest, OffsetFetchRequest, OffsetFetchResponse
from parley.net import BrokerConnection, Reply
from parley.schema import ApiKey
from parley.types import ZERO_UUID, OffsetAndMetadata, TopicPartition
from parley.versions import Feature, VersionRange

KAFKA_VERSION = 1
"""First OffsetCommit and OffsetFetch version that keeps offsets in Kafka; v0 is ZooKeeper's."""
GROUP_ERROR_VERSION = 2
"""First OffsetFetch version with an error for the whole group, and with all its offsets (KIP-88).

Those before it answer UNKNOWN_TOPIC_OR_PARTITION where nothing was committed.
"""
BATCHED_FETCH = Feature.BATCHED_OFFSET_FETCH.first_version(ApiKey.OFFSET_FETCH)
"""First OffsetFetch version that takes several groups (KIP-709)."""
STABLE_VERSION = Feature.REQUIRE_STABLE_OFFSETS.first_version(ApiKey.OFFSET_FETCH)
"""First OffsetFetch version that can wait for an open transaction's offsets (KIP-447)."""
TOPIC_IDS_VERSION = Feature.OFFSETS_TOPIC_IDS.first_version(ApiKey.OFFSET_FETCH)
"""From this OffsetCommit and OffsetFetch version on topics go by id."""
_ALL_OFFSETS = VersionRange(GROUP_ERROR_VERSION, TOPIC_IDS_VERSION - 1)
"""Versions of OffsetFetch that return all offsets of a group, by topics' names."""
NO_MEMBER_OF_NOW = frozenset({*ACTIVE_GROUP, FENCED_MEMBER_EPOCH, STALE_MEMBER_EPOCH})
"""The answers to who was a member: the partitions may be others' by now."""

Offsets = dict[TopicPartition, OffsetAndMetadata | None]
"""Committed offsets; None where nothing was committed."""


async def commit_offsets(
    cluster: Cluster,
    group: ConsumerGroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    deadline: Deadline,
    *,
    leave_out_missing: bool = False,
) -> frozenset[TopicPartition]:
    """Commit offsets for a group, as one of its members or as an outsider.

    A partition that the coordinator does not know is asked for again for a moment, and counts as
    missing then; with `leave_out_missing` at once: such partitions are returned, the others are
    committed. Raises CommitFailedError, with the error of each partition, where a member is none
    any more, and where partitions have different errors; else the first partition's error, noting
    the others. A group with active members refuses an outsider (UNKNOWN_MEMBER_ID): only its
    members may commit.
    """
    unknown = UnknownPartitions(cluster)
    left_out: frozenset[TopicPartition] = frozenset()

    async def attempt(conn: BrokerConnection) -> None:
        nonlocal left_out
        failures = await _commit_once(cluster, conn, group, offsets, deadline)
        if leave_out_missing:
            left_out = frozenset(tp for tp, error in failures.items() if is_unknown(error))
            failures = {tp: error for tp, error in failures.items() if tp not in left_out}
        _raise(unknown.judge(failures), offsets, group)

    if offsets:
        what = f"committing offsets of group {group.group_id}"
        await at_coordinator(cluster, KeyType.GROUP, group.group_id, what, deadline, attempt)
    return left_out


async def _commit_once(
    cluster: Cluster,
    conn: BrokerConnection,
    group: ConsumerGroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    deadline: Deadline,
) -> dict[TopicPartition, KafkaError]:
    """Ask the coordinator once; return the errors of partitions that it refused."""
    if group.group_instance_id is not None:
        conn.versions.require(Feature.STATIC_MEMBERSHIP)
    parts = parts_by_topic(offsets, OffsetCommitRequest.OffsetCommitRequestPartition)
    ids = {name: cluster.view.topic_id(name) for name in parts}
    make = OffsetCommitRequest.OffsetCommitRequestTopic
    message = OffsetCommitRequest(
        group_id=group.group_id,
        generation_id_or_member_epoch=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[
            make(name=name, topic_id=ids[name], partitions=found) for name, found in parts.items()
        ],
    )
    timeout_ms = cluster.request_timeout_ms(deadline)
    reply = await cluster.ask(conn, message, timeout_ms, _by_name_or_id(cluster, offsets))
    by_id = reply.version >= TOPIC_IDS_VERSION
    names = {topic_id: name for name, topic_id in ids.items()}
    answered = (
        (names.get(bytes(topic.topic_id), "") if by_id else topic.name, topic.partitions)
        for topic in reply.message.topics
    )
    return refused_offsets(reply, answered, group, conn)


def _raise(
    failures: Mapping[TopicPartition, KafkaError],
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    group: ConsumerGroupMetadata,
) -> None:
    """Raise what a commit has to be repeated for, or what was refused."""
    errors = list(failures.values())
    codes = {error.code for error in errors if isinstance(error, BrokerError)}
    if not group.outside and codes & NO_MEMBER_OF_NOW:
        text = f"group {group.group_id} has gone on without this member: poll to join again"
        raise CommitFailedError(text, failures) from errors[0]
    if all(error.retriable for error in errors) or (
        len(codes) == 1 and len(failures) == len(offsets)
    ):
        raise_first(errors)
    elif errors:
        raise CommitFailedError("some partitions were not committed", failures)


async def committed_offsets(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition],
    deadline: Deadline,
    *,
    member: ConsumerGroupMetadata | None = None,
) -> Offsets:
    """Return the committed offset of each partition, None where the group has committed none.

    An offset that an open transaction is about to change is waited for, as Java's consumer does
    (KIP-447): UNSTABLE_OFFSET_COMMIT is asked again until the deadline. Below 2.5 a broker returns
    the offset before. With a `member` of the consumer protocol the coordinator holds it to its
    epoch (G57): UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH.
    """
    wanted = list(dict.fromkeys(partitions))
    if not wanted:
        return {}
    found = await read_offsets(cluster, group_id, wanted, deadline, stable=True, member=member)
    for tp, known in found.items():
        if known is not None:
            cluster.see_epoch(tp, known.leader_epoch)
    await _catch_up(cluster, group_id, found, deadline)
    return found


async def read_offsets(
    cluster: Cluster,
    group_id: str,
    wanted: list[TopicPartition] | None,
    deadline: Deadline,
    *,
    stable: bool,
    member: ConsumerGroupMetadata | None = None,
) -> Offsets:
    """Return the committed offsets as the coordinator has them: of some partitions, or with None of
    all that have any.

    With `stable` what an open transaction will change is waited for. Raises
    UnsupportedVersionError, before a byte is sent, where a coordinator cannot list them (before
    0.10.2, KIP-88); the first partition's error, noting others.
    """
    group = member or ConsumerGroupMetadata(group_id)

    async def attempt(conn: BrokerConnection) -> Offsets:
        allowed = _ALL_OFFSETS if wanted is None else _by_name_or_id(cluster, wanted)
        try:
            version = conn.versions.choose(ApiKey.OFFSET_FETCH, allowed)
        except UnsupportedVersionError as error:
            if wanted is None:
                error.add_note("name the partitions: of those every release returns the offsets")
            raise
        message = _fetch_request(cluster, group, wanted, version, stable=stable)
        reply = await cluster.ask(conn, message, cluster.request_timeout_ms(deadline), allowed)
        return _read_committed(cluster, reply, group_id, wanted)

    what = f"fetching offsets of group {group_id}"
    return await at_coordinator(cluster, KeyType.GROUP, group_id, what, deadline, attempt)


async def _catch_up(
    cluster: Cluster,
    group_id: str,
    found: Mapping[TopicPartition, OffsetAndMetadata | None],
    deadline: Deadline,
) -> None:
    """Refresh until no committed epoch is newer than the metadata (KIP-232): not an old leader's.

    Where the cluster has no epochs there is nothing to wait for. Raises RequestTimedOut, naming
    what is missing, at the deadline.
    """
    epochs = {
        tp: known.leader_epoch
        for tp, known in found.items()
        if known is not None and known.leader_epoch >= 0
    }
    with cluster.interested(epochs):
        attempt = 0
        while True:
            behind = [
                (tp, epoch)
                for tp, epoch in epochs.items()
                if 0 <= cached_epoch(cluster, tp) < epoch
            ]
            if not behind:
                return
            if deadline.passed(cluster.now_ms()):
                tp, epoch = behind[0]
                raise RequestTimedOut(
                    f"group {group_id} committed {tp} with leader epoch {epoch}, and metadata "
                    f"still has epoch {cached_epoch(cluster, tp)} ({len(behind)} partitions "
                    "are behind): the brokers asked are not up to date, or the commit belongs "
                    "to a history that is gone; then seek to an offset without epoch",
                    stage="request",
                )
            if attempt:
                await cluster.pause(attempt - 1, deadline)
            attempt += 1
            await cluster.refresh_quietly(deadline)


def cached_epoch(cluster: Cluster, tp: TopicPartition) -> int:
    """Return the leader epoch that metadata has of a partition, -1 where it has none."""
    known = cluster.view.partition(tp)
    return known.leader_epoch if known is not None else -1


def _fetch_request(
    cluster: Cluster,
    asking: ConsumerGroupMetadata,
    wanted: list[TopicPartition] | None,
    version: int,
    *,
    stable: bool,
) -> OffsetFetchRequest:
    indexes: dict[str, list[int]] = {}
    for tp in wanted or ():
        indexes.setdefault(tp.topic, []).append(tp.partition)
    if version < BATCHED_FETCH:
        make = OffsetFetchRequest.OffsetFetchRequestTopic
        topics = [make(name=name, partition_indexes=found) for name, found in indexes.items()]
        return OffsetFetchRequest(
            group_id=asking.group_id,
            topics=None if wanted is None else topics,
            require_stable=stable and version >= STABLE_VERSION,
        )
    batched = OffsetFetchRequest.OffsetFetchRequestTopics
    listed = [
        batched(name=name, topic_id=cluster.view.topic_id(name), partition_indexes=found)
        for name, found in indexes.items()
    ]
    group = OffsetFetchRequest.OffsetFetchRequestGroup(
        group_id=asking.group_id,
        member_id=asking.member_id or None,
        member_epoch=asking.generation_id,
        topics=None if wanted is None else listed,
    )
    return OffsetFetchRequest(groups=[group], require_stable=stable)


def _read_committed(
    cluster: Cluster,
    reply: Reply[OffsetFetchResponse],
    group_id: str,
    wanted: list[TopicPartition] | None,
) -> Offsets:
    response, version = reply.message, reply.version
    group = response.groups[0] if version >= BATCHED_FETCH and response.groups else response
    code = getattr(group, "error_code", 0)
    if code:
        raise refusal(reply, code, resource=f"group {group_id}")
    topics = {tp.topic for tp in wanted or ()}
    names = {cluster.view.topic_id(topic): topic for topic in topics}
    found: Offsets = dict.fromkeys(wanted or ())
    errors = []
    for topic in group.topics:
        if version < TOPIC_IDS_VERSION or isinstance(
            topic, OffsetFetchResponse.OffsetFetchResponseTopic
        ):
            name: str | None = topic.name
        else:
            name = names.get(bytes(topic.topic_id))
        for part in topic.partitions:
            tp = TopicPartition(name or "", part.partition_index)
            nothing = (
                part.error_code == UNKNOWN_TOPIC_OR_PARTITION and version < GROUP_ERROR_VERSION
            )
            if part.error_code and not nothing:
                errors.append(refusal(reply, part.error_code, None, tp))
            elif (wanted is None or tp in found) and part.committed_offset >= 0:
                found[tp] = OffsetAndMetadata(
                    part.committed_offset, part.metadata or "", part.committed_leader_epoch
                )
    raise_first(errors)
    return found


def _by_name_or_id(cluster: Cluster, partitions: Iterable[TopicPartition]) -> VersionRange:
    """Return the versions to use: from 1 on (v0 is in ZooKeeper), by id only if all are known."""
    topics = {tp.topic for tp in partitions}
    by_id = all(cluster.view.topic_id(topic) != ZERO_UUID for topic in topics)
    return VersionRange(KAFKA_VERSION, 2**15 - 1 if by_id else TOPIC_IDS_VERSION - 1)
