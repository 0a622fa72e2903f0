"""What the APIs of share groups have in common (KIP-932): settings, leaders, acknowledgements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parley.devcluster.handlers.base import Call, LeaderHints
from parley.devcluster.handlers.coordination import require_coordinator
from parley.devcluster.state.groups.share.assignor import Part
from parley.devcluster.state.groups.share.group import ShareGroup
from parley.devcluster.state.groups.share.partition import Acknowledgement
from parley.devcluster.state.groups.share.settings import ShareSettings
from parley.devcluster.state.image import TopicImage
from parley.devcluster.state.log.replica import Replica
from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    GROUP_ID_NOT_FOUND,
    INVALID_GROUP_ID,
    INVALID_REQUEST,
    KAFKA_STORAGE_ERROR,
    NON_EMPTY_GROUP,
    NONE,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from parley.messages import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

SHARE_VERSION = "share.version"
NO_SUCH_PARTITION = "This server does not host this topic-partition."
Request = ShareFetchRequest | ShareAcknowledgeRequest
Answered = ShareFetchResponse.PartitionData | ShareAcknowledgeResponse.PartitionData
Asked = ShareFetchRequest.FetchPartition | ShareAcknowledgeRequest.AcknowledgePartition


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a member's acknowledgements of one partition."""

    code: int = NONE
    text: str | None = None


def serves_share_groups(call: Call) -> bool:
    """Whether this broker's release serves share groups: from 4.2 on (4.1
    has them switched off).
    """
    return call.profile.release.finalized_features.get(SHARE_VERSION, 0) > 0


def settings_of(call: Call, group: str) -> ShareSettings:
    """Return what holds for a share group: its own settings, the cluster's, or the release's."""
    wanted, behaviour = call.cluster.settings, call.profile.behaviour
    interval_ms = wanted.group_share_assignment_interval_ms
    return ShareSettings(
        session_timeout_ms=wanted.group_share_session_timeout_ms,
        heartbeat_interval_ms=wanted.group_share_heartbeat_interval_ms,
        assignment_interval_ms=(
            behaviour.assignment_interval_ms if interval_ms is None else interval_ms
        ),
        record_lock_duration_ms=wanted.group_share_record_lock_duration_ms,
        delivery_count_limit=wanted.group_share_delivery_count_limit,
        partition_max_record_locks=wanted.group_share_partition_max_record_locks,
        first_epoch=behaviour.first_group_epoch,
        max_size=wanted.group_share_max_size,
    ).with_configs(call.cluster.configs.of_group(group))


def topics_of(call: Call) -> dict[str, tuple[bytes, int]]:
    """Return id and number of partitions of every topic, by name."""
    images = call.image.topics.items()
    return {name: (topic.topic_id, len(topic.partitions)) for name, topic in images}


def leader_of(call: Call, part: Part) -> Replica:
    """Return this broker's replica as the leader of a partition. Raises Refused (100, 3, 6)."""
    topic_id, index = part
    image = call.image.topic_by_id(topic_id)
    if image is None:
        raise Refused(UNKNOWN_TOPIC_ID, None)
    try:
        replica = call.broker.find(image.name, index)
        replica.require_leader()
    except Refused as error:
        raise Refused(error.code, None) from error
    return replica


def check_group(call: Call, name: str, *, may_be_new: bool) -> ShareGroup | None:
    """Return a share group without members, for an operator. Raises Refused (24, 16, 69, 68)."""
    if not name:
        raise Refused(INVALID_GROUP_ID, "The group id is invalid.")
    require_coordinator(call, name)
    group = call.cluster.share_groups.get(name)
    if group is None:
        require_share_name(call, name)
        if not may_be_new:
            raise Refused(GROUP_ID_NOT_FOUND, f"Group {name} not found.")
    elif group.members:
        raise Refused(NON_EMPTY_GROUP, "The group is not empty.")
    return group


def require_share_name(call: Call, name: str) -> None:
    """Raise Refused (GROUP_ID_NOT_FOUND) where a group of another protocol has the name."""
    state = call.cluster
    others = (state.classic_groups.get(name), state.consumer_groups.get(name))
    if name in state.groups.names() or any(one is not None for one in others):
        raise Refused(GROUP_ID_NOT_FOUND, f"Group {name} is not a share group.")


def topic_with(call: Call, name: str, index: int = 0) -> TopicImage:
    """Return a topic that has a partition. Raises Refused (UNKNOWN_TOPIC_OR_PARTITION)."""
    image = call.image.topics.get(name)
    if image is None or not 0 <= index < len(image.partitions):
        raise Refused(UNKNOWN_TOPIC_OR_PARTITION, NO_SUCH_PARTITION)
    return image


def acknowledged(call: Call, request: Request) -> dict[Part, Outcome]:
    """Carry out the acknowledgements of a request; return what became of each partition's."""
    found: dict[Part, Outcome] = {}
    for topic in request.topics:
        for asked in topic.partitions:
            if asked.acknowledgement_batches:
                part = (topic.topic_id, asked.partition_index)
                found[part] = _acknowledged(call, request, part, asked)
    return found


def _acknowledged(call: Call, request: Request, part: Part, asked: Asked) -> Outcome:
    name, said = request.group_id or "", _said(asked)
    try:
        replica = leader_of(call, part)
        partition = call.cluster.share_groups.partition(name, part)
        if partition is not None:
            partition.limits = settings_of(call, name).limits
            partition.lead(replica.leader_epoch)
        call.cluster.share_groups.acknowledge(
            name, part, request.member_id or "", said,
            renews=request.is_renew_ack, now_ms=call.now_ms,
        )  # fmt: skip
    except Refused as error:
        return Outcome(error.code, error.message)
    except OSError:
        return Outcome(KAFKA_STORAGE_ERROR)
    return Outcome()


def _said(asked: Asked) -> Sequence[Acknowledgement]:
    return [
        Acknowledgement(one.first_offset, one.last_offset, one.acknowledge_types)
        for one in asked.acknowledgement_batches
    ]


def require_member(request: Request) -> None:
    """Raise Refused (INVALID_REQUEST) for a request that names no group or no member."""
    if request.group_id is None or not request.member_id:
        raise Refused(INVALID_REQUEST, None)


def hint(call: Call, hints: LeaderHints, part: Part, answer: Answered, *codes: int) -> None:
    """Name the new leader of a partition that moved (KIP-951), where one of its codes says so."""
    topic_id, index = part
    for code in codes:
        hints.hint(answer, code, call.image.names.get(topic_id, ""), index)
