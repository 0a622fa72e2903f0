"""OffsetFetch (9), v0-10.

Behaviours:
- Answered by the group's coordinator; a partition without a committed offset has offset -1 and no
  error.
- Null topics ask for every offset of the group.
- A member of the consumer protocol that says its epoch is held to it: UNKNOWN_MEMBER_ID,
  STALE_MEMBER_EPOCH.

Version notes:
- v0 read from ZooKeeper; here it reads the same offsets as the others. A partition without one has
  UNKNOWN_TOPIC_OR_PARTITION then, and KRaft releases (3.3 to 3.9) refuse v0 with
  UNSUPPORTED_VERSION. v2+ null topics and a group error (KIP-88), v3+ throttle time, v5+ leader
  epoch (KIP-320), v7+ require_stable (KIP-447): UNSTABLE_OFFSET_COMMIT while an open transaction
  would change the offset, v8+ several groups (KIP-709), v9+ member epoch (KIP-848), v10+ topic ids.

Not implemented: -
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.coordination import require_coordinator
from parley.devcluster.handlers.membership import check_known, live_group
from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    NONE,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSTABLE_OFFSET_COMMIT,
    UNSUPPORTED_VERSION,
)
from parley.messages import OffsetFetchRequest, OffsetFetchResponse
from parley.schema import ApiKey, VersionRange
from parley.types import ZERO_UUID

ZOOKEEPER_VERSION = 0
FIRST_GROUP_ERROR_VERSION = 2
FIRST_GROUPS_VERSION = 8
FIRST_ID_VERSION = 10
P = TypeVar(
    "P",
    OffsetFetchResponse.OffsetFetchResponsePartition,
    OffsetFetchResponse.OffsetFetchResponsePartitions,
)
Wanted = tuple[str, bytes, Iterable[int]]
"""A topic's name and id, and the partitions asked for."""


def handle(call: Call, request: OffsetFetchRequest) -> Answer:
    """Return the committed offsets of the groups asked for."""
    response = OffsetFetchResponse()
    if call.version >= FIRST_GROUPS_VERSION:
        response.groups = [
            _group(call, response, asked, stable=request.require_stable) for asked in request.groups
        ]
        return response
    try:
        require_coordinator(call, request.group_id)
    except Refused as error:
        return refuse(request, call.version, error.code)
    if call.version == ZOOKEEPER_VERSION and not call.profile.behaviour.names_controller:
        return refuse(request, call.version, UNSUPPORTED_VERSION)
    for name, _, indexes in _wanted(call, request.group_id, request.topics):
        kind = response.OffsetFetchResponsePartition
        partitions = [
            _partition(call, kind, request.group_id, name, index, stable=request.require_stable)
            for index in indexes
        ]
        response.topics.append(response.OffsetFetchResponseTopic(name=name, partitions=partitions))
    return response


def _group(
    call: Call,
    response: OffsetFetchResponse,
    asked: OffsetFetchRequest.OffsetFetchRequestGroup,
    *,
    stable: bool,
) -> OffsetFetchResponse.OffsetFetchResponseGroup:
    group = response.OffsetFetchResponseGroup(group_id=asked.group_id)
    try:
        require_coordinator(call, asked.group_id)
        _check_member(call, asked)
    except Refused as error:
        group.error_code = error.code
        return group
    for name, topic_id, indexes in _wanted(call, asked.group_id, asked.topics):
        topic = response.OffsetFetchResponseTopics(name=name, topic_id=topic_id)
        for index in indexes:
            kind = response.OffsetFetchResponsePartitions
            partition = _partition(call, kind, asked.group_id, name, index, stable=stable)
            if call.version >= FIRST_ID_VERSION and not name:
                partition.error_code = UNKNOWN_TOPIC_ID
            topic.partitions.append(partition)
        group.topics.append(topic)
    return group


def _check_member(call: Call, asked: OffsetFetchRequest.OffsetFetchRequestGroup) -> None:
    if asked.member_epoch < 0:
        return
    check_known(call, asked.group_id)
    group = live_group(call, asked.group_id)
    if group is not None:
        group.check_commit(asked.member_id or "", asked.member_epoch, None, per_partition=False)


def _wanted(
    call: Call,
    group: str,
    topics: Sequence[
        OffsetFetchRequest.OffsetFetchRequestTopic | OffsetFetchRequest.OffsetFetchRequestTopics
    ]
    | None,
) -> list[Wanted]:
    if topics is None:
        by_topic: dict[str, list[int]] = {}
        for name, index in call.cluster.groups.all_of(group):
            by_topic.setdefault(name, []).append(index)
        images = call.image.topics
        return [
            (name, images[name].topic_id if name in images else ZERO_UUID, indexes)
            for name, indexes in by_topic.items()
        ]
    wanted: list[Wanted] = []
    for topic in topics:
        name, topic_id = topic.name, ZERO_UUID
        if call.version >= FIRST_ID_VERSION and isinstance(
            topic, OffsetFetchRequest.OffsetFetchRequestTopics
        ):
            image = call.image.topic_by_id(topic.topic_id)
            name, topic_id = image.name if image is not None else "", topic.topic_id
        wanted.append((name, topic_id, topic.partition_indexes))
    return wanted


def _partition(call: Call, kind: type[P], group: str, topic: str, index: int, *, stable: bool) -> P:
    if stable and call.cluster.pending_offsets.is_pending(group, topic, index):
        return kind(
            partition_index=index, committed_offset=-1, committed_leader_epoch=-1, metadata="",
            error_code=UNSTABLE_OFFSET_COMMIT,
        )  # fmt: skip
    found = call.cluster.groups.committed(group, topic, index)
    if found is None:
        code = UNKNOWN_TOPIC_OR_PARTITION if call.version == ZOOKEEPER_VERSION else NONE
        return kind(
            partition_index=index,
            committed_offset=-1,
            committed_leader_epoch=-1,
            metadata="",
            error_code=code,
        )
    return kind(
        partition_index=index,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
        error_code=NONE,
    )


def refuse(request: OffsetFetchRequest, version: int, code: int) -> OffsetFetchResponse:
    """Answer `code` for each group, and before v2 for each partition."""
    response = OffsetFetchResponse()
    if version >= FIRST_GROUPS_VERSION:
        response.groups = [
            response.OffsetFetchResponseGroup(group_id=asked.group_id, error_code=code)
            for asked in request.groups
        ]
        return response
    response.error_code = code
    for topic in request.topics or ():
        partitions = [
            response.OffsetFetchResponsePartition(
                partition_index=index, committed_offset=-1, metadata="", error_code=code
            )
            for index in topic.partition_indexes
        ]
        response.topics.append(
            response.OffsetFetchResponseTopic(name=topic.name, partitions=partitions)
        )
    return response


API = Handler(ApiKey.OFFSET_FETCH, VersionRange(0, 10), handle, refuse)
