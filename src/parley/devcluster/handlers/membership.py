"""What a coordinator asks of a group and a member before it acts: which protocol, which epoch, who
is in it.

A group has members of the classic protocol, of the consumer protocol (KIP-848), or none: then only
its offsets are known. A share group (KIP-932) is one until it is deleted, and no other API may have
it.
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Call
from parley.devcluster.handlers.coordination import require_coordinator
from parley.devcluster.state.groups.classic.group import ClassicGroup, GroupState, Rules
from parley.devcluster.state.groups.mixed.formats import subscribes
from parley.devcluster.state.groups.modern.assignors import Part
from parley.devcluster.state.groups.modern.group import ConsumerGroup, Settings
from parley.devcluster.state.groups.offsets import NO_GENERATION
from parley.devcluster.state.groups.record_parts import Racks, RacksOf, no_racks
from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    GROUP_ID_NOT_FOUND,
    ILLEGAL_GENERATION,
    INVALID_GROUP_ID,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    UNSUPPORTED_VERSION,
)

FIRST_EPOCH_VERSION = 9
"""The version of OffsetCommit and OffsetFetch in which a member says its epoch."""

GROUP_VERSION = "group.version"


def serves_consumer_groups(call: Call) -> bool:
    """Whether this broker's release serves groups of the consumer protocol: from 4.0 on."""
    return call.profile.release.finalized_features.get(GROUP_VERSION, 0) > 0


def require_group(call: Call, name: str) -> None:
    """Raise Refused for a group without a name (INVALID_GROUP_ID), or of another
    coordinator (NOT_COORDINATOR).
    """
    if not name:
        raise Refused(INVALID_GROUP_ID, "a group needs a name")
    require_coordinator(call, name)


def classic_rules(call: Call) -> Rules:
    """Return what the cluster, or else the release, says of classic groups."""
    wanted, behaviour = call.cluster.settings, call.profile.behaviour
    return Rules(
        initial_delay_ms=wanted.group_initial_rebalance_delay_ms
        if behaviour.delays_first_rebalance
        else 0,
        max_size=wanted.group_max_size if behaviour.limits_group_size else 2**31 - 1,
        demands_type=behaviour.demands_protocol_type,
        heartbeats_while_completing=behaviour.heartbeats_while_completing,
        removes_unsynced=behaviour.removes_unsynced_members,
    )


def settings_of(call: Call) -> Settings:
    """Return what the cluster sets for such groups, or else the release."""
    wanted, behaviour = call.cluster.settings, call.profile.behaviour
    interval_ms = wanted.group_consumer_assignment_interval_ms
    return Settings(
        session_timeout_ms=wanted.group_consumer_session_timeout_ms,
        heartbeat_interval_ms=wanted.group_consumer_heartbeat_interval_ms,
        assignment_interval_ms=behaviour.assignment_interval_ms
        if interval_ms is None
        else interval_ms,
        first_epoch=behaviour.first_group_epoch,
        max_size=wanted.group_max_size,
    )


def known_topics(call: Call) -> dict[str, tuple[bytes, int]]:
    """Return id and number of partitions of each topic."""
    return {
        name: (topic.topic_id, len(topic.partitions)) for name, topic in call.image.topics.items()
    }


def racks_of(call: Call) -> RacksOf:
    """Return how to look up the racks of a topic's replicas, of brokers that are down too; from 4.1
    on a coordinator looks at them (KIP-1101).
    """
    racks, topics = call.cluster.settings.racks, call.image.topics
    if not racks or not call.profile.records.hashes_topics:
        return no_racks

    def found(name: str) -> Racks:
        return tuple(
            tuple(racks[replica] for replica in partition.replicas if replica in racks)
            for partition in topics[name].partitions
        )

    return found


def classic_group(call: Call, name: str) -> ClassicGroup:
    """Return a classic group that has members. Raises Refused (UNKNOWN_MEMBER_ID)."""
    group = call.cluster.classic_groups.live(name)
    if group is None:
        raise Refused(UNKNOWN_MEMBER_ID, f"group {name} has no members")
    group.rules = classic_rules(call)
    return group


def state_name(call: Call, group: ClassicGroup) -> str:
    """Return the state of a classic group by the name that the release has for it."""
    if group.state is GroupState.COMPLETING and call.profile.behaviour.awaits_sync:
        return "AwaitingSync"
    return group.state.value


def has_members(call: Call, name: str) -> bool:
    """Whether a group has members, of any protocol."""
    shared = call.cluster.share_groups.get(name)
    known = (live_group(call, name), call.cluster.classic_groups.live(name))
    return any(one is not None for one in known) or bool(shared is not None and shared.members)


def is_share_group(call: Call, name: str) -> bool:
    """Whether a name is that of a share group, with members or without."""
    return call.cluster.share_groups.get(name) is not None


def exists(call: Call, name: str) -> bool:
    """Whether a group has members, had some, or has offsets."""
    state = call.cluster
    known = (
        state.classic_groups.get(name),
        state.consumer_groups.get(name),
        state.share_groups.get(name),
    )
    return name in state.groups.names() or any(one is not None for one in known)


def check_commit(
    call: Call, name: str, epoch: int, member_id: str, instance_id: str | None
) -> None:
    """Raise Refused unless offsets with this membership may be kept (H5, H7, H10, H11).

    The epoch of a member of the consumer protocol is looked at for each partition, with
    `check_epoch`.
    """
    modern, classic = live_group(call, name), call.cluster.classic_groups.live(name)
    if is_share_group(call, name):
        raise Refused(GROUP_ID_NOT_FOUND, f"Group {name} is not a consumer group.")
    if modern is not None:
        check_outsider(modern, epoch, member_id)
    elif classic is not None:
        if epoch == NO_GENERATION and not member_id:
            raise Refused(UNKNOWN_MEMBER_ID, f"group {name} has members; others may not commit")
        member = classic.check(member_id, instance_id, epoch)
        if classic.state is GroupState.COMPLETING:
            raise Refused(REBALANCE_IN_PROGRESS, f"group {name} rebalances")
        member.beat(call.now_ms)
    else:
        if epoch >= 0:
            check_known(call, name)
        known_code = (
            UNKNOWN_MEMBER_ID
            if call.profile.behaviour.empty_groups_have_members
            else ILLEGAL_GENERATION
        )
        call.cluster.groups.check_commit(name, epoch, member_id, known_code=known_code)


def live_group(call: Call, name: str) -> ConsumerGroup | None:
    """Return the group of the consumer protocol of that name, None where it has no members."""
    group = call.cluster.consumer_groups.get(name)
    return group if group is not None and group.members else None


def check_known(call: Call, name: str) -> None:
    """Raise Refused (GROUP_ID_NOT_FOUND) for a member of a group that does not
    exist: brokers from 4.0 on, v9.
    """
    if (
        serves_consumer_groups(call)
        and call.version >= FIRST_EPOCH_VERSION
        and not exists(call, name)
    ):
        raise Refused(GROUP_ID_NOT_FOUND, f"Group {name} not found.")


def check_outsider(group: ConsumerGroup, epoch: int, member_id: str) -> None:
    """Raise Refused (UNKNOWN_MEMBER_ID) for a commit without membership, or with that of nobody."""
    if (epoch == NO_GENERATION and not member_id) or member_id not in group.members:
        raise Refused(UNKNOWN_MEMBER_ID, f"{member_id!r} is no member of group {group.name}")


def check_epoch(
    call: Call, group: ConsumerGroup, epoch: int, member_id: str, part: Part | None
) -> None:
    """Raise Refused unless a member may commit a partition:
    UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH.
    """
    member = group.members.get(member_id)
    if call.version < FIRST_EPOCH_VERSION and (member is None or member.classic is None):
        raise Refused(
            UNSUPPORTED_VERSION, "members of the consumer protocol commit with version 9 or later"
        )
    group.check_commit(
        member_id, epoch, part, per_partition=call.profile.behaviour.commits_by_partition
    )


def is_subscribed(call: Call, name: str, topic: str) -> bool:
    """Whether a member of a group subscribes to a topic; one whose subscription
    cannot be read may do so.
    """
    classic = call.cluster.classic_groups.live(name)
    if classic is None:
        return topic in call.cluster.consumer_groups.subscribed(name)
    return subscribes(classic, topic)
