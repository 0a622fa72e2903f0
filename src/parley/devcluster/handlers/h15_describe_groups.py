"""DescribeGroups (15), v0-6.

Behaviours:
- Answered by the group's coordinator (others: NOT_COORDINATOR). A classic group has its members;
  one that has only committed offsets is Empty, before 0.10.1 Dead; any other one is Dead, one of
  the consumer protocol too, which ConsumerGroupDescribe describes.

Version notes:
- v1+ throttle time, v3+ authorized operations (KIP-430), v4+ group instance ids (KIP-345), v6+
  GROUP_ID_NOT_FOUND with a message instead of a group that is Dead without an error (KIP-1043).

Not implemented: -
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.coordination import require_coordinator
from parley.devcluster.handlers.membership import is_share_group, serves_consumer_groups, state_name
from parley.devcluster.handlers.mirror import top
from parley.devcluster.state.groups.classic.group import ClassicGroup, GroupState
from parley.devcluster.state.refused import Refused
from parley.errors.codes import GROUP_ID_NOT_FOUND
from parley.messages import DescribeGroupsRequest, DescribeGroupsResponse
from parley.schema import ApiKey, VersionRange

DEAD, EMPTY = "Dead", "Empty"
FIRST_OPERATIONS_VERSION = 3
FIRST_NOT_FOUND_VERSION = 6


def handle(call: Call, request: DescribeGroupsRequest) -> Answer:
    """Describe each group."""
    response = DescribeGroupsResponse()
    for name in request.groups:
        group = response.DescribedGroup(group_id=name)
        if call.version >= FIRST_OPERATIONS_VERSION:
            behaviour, included = call.profile.behaviour, request.include_authorized_operations
            group.authorized_operations = (
                behaviour.group_operations if included else behaviour.unasked_operations
            )
        try:
            require_coordinator(call, name)
            _describe(call, group, name)
        except Refused as error:
            group.error_code, group.error_message = error.code, error.message
        if call.version < FIRST_NOT_FOUND_VERSION:
            group.error_message = None
        response.groups.append(group)
    return response


def _describe(call: Call, described: DescribeGroupsResponse.DescribedGroup, name: str) -> None:
    modern, classic = call.cluster.consumer_groups.get(name), call.cluster.classic_groups.get(name)
    has_empty = call.profile.behaviour.has_empty_groups
    if classic is not None and (
        classic.members or (has_empty and (modern is None or not modern.members))
    ):
        _describe_members(call, described, classic)
    elif modern is None and has_empty and name in call.cluster.groups.names():
        described.group_state = EMPTY
    else:
        described.group_state = DEAD
        if call.version >= FIRST_NOT_FOUND_VERSION:
            described.authorized_operations = call.profile.behaviour.unasked_operations
            known = modern is not None or is_share_group(call, name)
            how = "not found." if not known else "is not a classic group."
            raise Refused(GROUP_ID_NOT_FOUND, f"Group {name} {how}")


def _describe_members(
    call: Call, described: DescribeGroupsResponse.DescribedGroup, group: ClassicGroup
) -> None:
    """Metadata is shown while the group is Stable; before 4.0 assignments too
    are not shown otherwise.
    """
    stable = group.state is GroupState.STABLE
    described.group_state, described.protocol_type = (
        state_name(call, group),
        group.protocol_type or "",
    )
    described.protocol_data = (group.protocol or "") if stable else ""
    described.members = [
        DescribeGroupsResponse.DescribedGroupMember(
            member_id=member.id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata(group.protocol) if stable else b"",
            member_assignment=member.assignment if stable or serves_consumer_groups(call) else b"",
        )
        for member in group.members.values()
    ]


API = Handler(ApiKey.DESCRIBE_GROUPS, VersionRange(0, 6), handle, top)
