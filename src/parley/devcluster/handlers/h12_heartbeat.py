"""Heartbeat (12), v0-4.

Behaviours:
- Answered by the group's coordinator (others: NOT_COORDINATOR). REBALANCE_IN_PROGRESS asks a member
  to join again; between join and sync up to 2.5 too (H5, H7).
- While the coordinator loads the group everybody lives on, unseen (H18); before 2.0 that is
  NOT_COORDINATOR.
- In a group of the consumer protocol a member is asked to join again when its assignment changes
  (H24).

Version notes:
- v1+ throttle time, v3+ group instance ids (KIP-345): FENCED_INSTANCE_ID for a member that was
  replaced.

Not implemented: -
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.membership import classic_group, live_group, require_group
from parley.devcluster.handlers.mirror import top
from parley.devcluster.state.refused import Refused
from parley.errors.codes import COORDINATOR_LOAD_IN_PROGRESS, NONE
from parley.messages import HeartbeatRequest
from parley.schema import ApiKey, VersionRange


def handle(call: Call, request: HeartbeatRequest) -> Answer:
    """Let a member live on."""
    try:
        require_group(call, request.group_id)
        who = (request.member_id, request.group_instance_id, request.generation_id)
        modern = live_group(call, request.group_id)
        if modern is not None:
            code = call.cluster.mixed_groups.beat(modern, who, call.now_ms)
        else:
            group = classic_group(call, request.group_id)
            code = group.heartbeat(group.check(*who), call.now_ms)
    except Refused as error:
        code = NONE if error.code == COORDINATOR_LOAD_IN_PROGRESS else error.code
    return top(request, call.version, code)


API = Handler(ApiKey.HEARTBEAT, VersionRange(0, 4), handle, top)
