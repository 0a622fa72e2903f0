"""DescribeGroups (15), v0-6.

Behaviours:
- Answered by the group's coordinator (others: NOT_COORDINATOR). A group with committed offsets is Empty,
  any other one Dead.

Version notes:
- v1+ throttle time, v3+ authorized operations (KIP-430), v4+ group instance ids (KIP-345), v6+
  GROUP_ID_NOT_FOUND with a message instead of a group that is Dead without an error (KIP-1043).

Not implemented: groups with members (JoinGroup is refused).
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.coordination import require_coordinator
from parley.devcluster.handlers.mirror import top
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
            group.authorized_operations = behaviour.group_operations if included else behaviour.unasked_operations
        try:
            require_coordinator(call, name)
            _describe(call, group, name)
        except Refused as error:
            group.error_code, group.error_message = error.code, error.message
        if call.version < FIRST_NOT_FOUND_VERSION:
            group.error_message = None
        response.groups.append(group)
    return response


def _describe(call: Call, group: DescribeGroupsResponse.DescribedGroup, name: str) -> None:
    if name in call.cluster.groups.names():
        group.group_state = EMPTY
        return
    group.group_state = DEAD
    if call.version >= FIRST_NOT_FOUND_VERSION:
        group.authorized_operations = call.profile.behaviour.unasked_operations
        raise Refused(GROUP_ID_NOT_FOUND, f"Group {name} not found.")


API = Handler(ApiKey.DESCRIBE_GROUPS, VersionRange(0, 6), handle, top)
