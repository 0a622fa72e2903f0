"""How a classic group becomes a record of `__consumer_offsets`, and comes back: Stable or Empty, as
brokers write them (H17, H18).
"""

from __future__ import annotations

from collections.abc import Callable

from parley.devcluster.state.groups.classic.group import ClassicGroup, GroupState
from parley.devcluster.state.groups.classic.members import Member
from parley.devcluster.state.groups.records import GroupRecord
from parley.messages import GroupMetadataKey, GroupMetadataValue


def no_group_record(name: str) -> GroupRecord:
    """Return the tombstone of a group that is none of this protocol any more; its offsets stay."""
    return GroupRecord(GroupMetadataKey(group=name), None)


def group_record(group: ClassicGroup, now_ms: int) -> GroupRecord:
    """Return the record that says everything about a group.

    Of what a member supports it has the protocol that was chosen.
    """
    since_ms = now_ms if group.members or group.empty_since_ms < 0 else group.empty_since_ms
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=since_ms,
        members=[_written(member, group.protocol) for member in group.members.values()],
    )
    return GroupRecord(GroupMetadataKey(group=group.name), value)


def _written(member: Member, protocol: str | None) -> GroupMetadataValue.MemberMetadata:
    return GroupMetadataValue.MemberMetadata(
        member_id=member.id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol),
        assignment=member.assignment,
    )


def has_members_or_had(value: GroupMetadataValue) -> bool:
    """Whether a record is of a group that members were in: one that has offsets alone has no
    protocol type.
    """
    return bool(value.members or value.generation > 0 or value.protocol_type)


def group_of(
    name: str,
    value: GroupMetadataValue,
    keep: Callable[[ClassicGroup, int], None],
    new_id: Callable[[], str],
) -> ClassicGroup:
    """Return the group that a record describes."""
    group = ClassicGroup(name, keep, new_id)
    group.generation, group.leader = value.generation, value.leader
    group.protocol_type, group.protocol = value.protocol_type or None, value.protocol
    for written in value.members:
        # Before 0.10.1 there is one timeout for both.
        rebalance_timeout_ms = written.rebalance_timeout or written.session_timeout
        member = Member(
            written.member_id,
            written.group_instance_id,
            written.client_id,
            written.client_host,
            written.session_timeout,
            rebalance_timeout_ms,
            ((value.protocol or "", written.subscription),),
            written.assignment,
            is_new=False,
        )
        group.members[member.id] = member
    group.state = GroupState.STABLE if group.members else GroupState.EMPTY
    if not group.members:
        group.empty_since_ms = value.current_state_timestamp
    return group
