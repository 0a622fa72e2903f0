"""OffsetCommit (8), v0-10.

Behaviours:
- Kept by the group's coordinator (others: NOT_COORDINATOR), at all in-sync replicas of
  `__consumer_offsets` before it is answered; after 5 s without that COORDINATOR_NOT_AVAILABLE.
- Commits without membership (generation -1) are taken by groups without members, and by the one
  without a name. A classic group
  takes those of its generation, but not between join and sync. A group of the consumer protocol
  takes those of its members, with their epochs (KIP-848), from 4.3 on with older ones for
  partitions kept (KIP-1251).
- Unknown partitions: UNKNOWN_TOPIC_OR_PARTITION each; the others are committed. Before 2.0 only the
  topic has to exist.
- A log that takes nothing: NOT_COORDINATOR, as Kafka says when its offsets log fails; nothing is
  changed.

Version notes:
- v0 went to ZooKeeper; here it is kept like the others (KRaft releases: UNSUPPORTED_VERSION). v1
  has a timestamp, v2-4 a retention time (H20), v3+ throttle time, v6+ leader epoch (KIP-320), v7+
  group instance id (KIP-345), v10+ topic ids (KIP-848).

Not implemented: -
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.coordination import expiry_rules, require_coordinator, when_safe
from parley.devcluster.handlers.membership import check_commit, check_epoch, live_group
from parley.devcluster.state.groups.modern.assignors import Part
from parley.devcluster.state.groups.offsets import CommittedOffset, Groups
from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    NONE,
    NOT_COORDINATOR,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_VERSION,
)
from parley.messages import OffsetCommitRequest, OffsetCommitResponse
from parley.schema import ApiKey, VersionRange

FIRST_ID_VERSION = 10

Accepted = dict[tuple[str, int], CommittedOffset]


def handle(call: Call, request: OffsetCommitRequest) -> Answer:
    """Keep the offsets of the partitions that exist."""
    group_code = _group_code(call, request)
    accepted: Accepted = {}
    response = OffsetCommitResponse()
    for topic in request.topics:
        response.topics.append(_topic(call, request, response, topic, accepted, group_code))
    try:
        place = call.cluster.group_coordinator.commit_offsets(
            request.group_id, accepted, now_ms=call.now_ms
        )
    except OSError:
        return refuse(request, call.version, NOT_COORDINATOR)
    return when_safe(place, response, lambda code: refuse(request, call.version, code))


def _group_code(call: Call, request: OffsetCommitRequest) -> int:
    """Return the code of every partition that exists: what the coordinator says of
    the group and its member.
    """
    if call.version == 0 and not call.profile.behaviour.names_controller:
        return UNSUPPORTED_VERSION  # v0 went to ZooKeeper, which KRaft releases do not have
    try:
        require_coordinator(call, request.group_id)  # a group without a name is one here (H11)
        check_commit(
            call,
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id,
        )
    except Refused as error:
        return error.code
    return NONE


def _topic(
    call: Call,
    request: OffsetCommitRequest,
    response: OffsetCommitResponse,
    topic: OffsetCommitRequest.OffsetCommitRequestTopic,
    accepted: Accepted,
    group_code: int,
) -> OffsetCommitResponse.OffsetCommitResponseTopic:
    name, missing = topic.name, UNKNOWN_TOPIC_OR_PARTITION
    image = call.image.topics.get(name)
    if call.version >= FIRST_ID_VERSION:
        image = call.image.topic_by_id(topic.topic_id)
        name, missing = (image.name, missing) if image is not None else ("", UNKNOWN_TOPIC_ID)
    partitions = []
    for asked in topic.partitions:
        found = call.image.partition(name, asked.partition_index) is not None
        if call.profile.behaviour.commits_unknown_partitions:
            found = name in call.image.topics
        part = None if image is None else (image.topic_id, asked.partition_index)
        code = _partition_code(call, request, asked, part, group_code) if found else missing
        if code == NONE:
            rules = expiry_rules(call.cluster.settings, call.profile.behaviour)
            times = rules.times_of(call.now_ms, asked.commit_timestamp, request.retention_time_ms)
            accepted[name, asked.partition_index] = CommittedOffset(
                asked.committed_offset,
                asked.committed_leader_epoch,
                asked.committed_metadata or "",
                *times,
            )
        partitions.append(
            response.OffsetCommitResponsePartition(
                partition_index=asked.partition_index, error_code=code
            )
        )
    return response.OffsetCommitResponseTopic(
        name=topic.name, topic_id=topic.topic_id, partitions=partitions
    )


def _partition_code(
    call: Call,
    request: OffsetCommitRequest,
    asked: OffsetCommitRequest.OffsetCommitRequestPartition,
    part: Part | None,
    group_code: int,
) -> int:
    group = live_group(call, request.group_id)
    try:
        if group is not None and group_code == NONE:
            check_epoch(call, group, request.generation_id_or_member_epoch, request.member_id, part)
        Groups.check_metadata(asked.committed_metadata)
    except Refused as error:
        return group_code or error.code
    return group_code


def refuse(request: OffsetCommitRequest, version: int, code: int) -> OffsetCommitResponse:
    """Answer `code` for each partition."""
    response = OffsetCommitResponse()
    for topic in request.topics:
        partitions = [
            response.OffsetCommitResponsePartition(
                partition_index=asked.partition_index, error_code=code
            )
            for asked in topic.partitions
        ]
        response.topics.append(
            response.OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=partitions
            )
        )
    return response


API = Handler(ApiKey.OFFSET_COMMIT, VersionRange(0, 10), handle, refuse)
