"""LeaveGroup (13), v0-5.

Behaviours:
- Answered by the group's coordinator (others: NOT_COORDINATOR); the others rebalance, and with its
  last member the group is Empty (H14). Members of the consumer protocol go as well (measured on
  4.0.0, 4.1.1 and 4.3.0); when only classic ones are left, the group is classic again (H24).

Version notes:
- Up to v2 one member, whose error stands at the top. v3+ several, each with its own; a static
  member may be named by its instance id alone (KIP-345). v5+ reasons.

Not implemented: -
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.membership import classic_group, live_group, require_group
from parley.devcluster.handlers.mirror import top
from parley.devcluster.state.refused import Refused
from parley.errors.codes import NONE
from parley.messages import LeaveGroupRequest, LeaveGroupResponse
from parley.schema import ApiKey, VersionRange

FIRST_MEMBERS_VERSION = 3


def handle(call: Call, request: LeaveGroupRequest) -> Answer:
    """Let members go."""
    try:
        require_group(call, request.group_id)
    except Refused as error:
        return top(request, call.version, error.code)
    if call.version < FIRST_MEMBERS_VERSION:
        return top(request, call.version, _leave(call, request.group_id, request.member_id, None))
    response = LeaveGroupResponse()
    for one in request.members:
        code = _leave(call, request.group_id, one.member_id, one.group_instance_id)
        response.members.append(
            response.MemberResponse(
                member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=code
            )
        )
    return response


def _leave(call: Call, name: str, member_id: str, instance_id: str | None) -> int:
    modern = live_group(call, name)
    try:
        if modern is not None:
            call.cluster.consumer_groups.take_out(modern, member_id, instance_id, call.now_ms)
        else:
            classic_group(call, name).leave(member_id, instance_id, call.now_ms)
    except Refused as error:
        return error.code
    except OSError:  # the empty group is written with its next change
        pass
    return NONE


API = Handler(ApiKey.LEAVE_GROUP, VersionRange(0, 5), handle, top)
