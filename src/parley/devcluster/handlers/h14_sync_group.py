"""SyncGroup (14), v0-5.

Behaviours:
- Answered by the group's coordinator (others: NOT_COORDINATOR), once the leader's assignment is
  written; a member that the leader left out gets no bytes (H8). Once all have it, it is
  answered at once.
- In a group of the consumer protocol nobody leads: a member is answered at once, with what the
  broker's assignor gave it, or REBALANCE_IN_PROGRESS when it has to join again (H24).
- While the coordinator loads the group: NOT_COORDINATOR before 2.0, REBALANCE_IN_PROGRESS before
  4.0, then COORDINATOR_LOAD_IN_PROGRESS.
- A disk that refuses: NOT_COORDINATOR, as Kafka says when its offsets log fails.

Version notes:
- v1+ throttle time, v3+ group instance ids (KIP-345), v5+ the protocol's type and name, which must
  be the group's (KIP-559): INCONSISTENT_GROUP_PROTOCOL.

Not implemented: -
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler, Wait
from parley.devcluster.handlers.h11_join_group import FOREVER_MS
from parley.devcluster.handlers.membership import classic_group, live_group, require_group
from parley.devcluster.handlers.mirror import top
from parley.devcluster.state.groups.classic.group import ClassicGroup
from parley.devcluster.state.groups.classic.members import SyncAnswer
from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    COORDINATOR_LOAD_IN_PROGRESS,
    INCONSISTENT_GROUP_PROTOCOL,
    NOT_COORDINATOR,
)
from parley.messages import SyncGroupRequest, SyncGroupResponse
from parley.schema import ApiKey, VersionRange

FIRST_PROTOCOL_VERSION = 5


def handle(call: Call, request: SyncGroupRequest) -> Answer:
    """Give a member its assignment; the answer may have to wait for the leader's."""
    named = (request.protocol_type, request.protocol_name)
    try:
        require_group(call, request.group_id)
        if call.version >= FIRST_PROTOCOL_VERSION and None in named:
            raise Refused(
                INCONSISTENT_GROUP_PROTOCOL, "SyncGroup names the protocol from version 5 on"
            )
        who = (request.member_id, request.group_instance_id, request.generation_id)
        modern = live_group(call, request.group_id)
        if modern is not None:
            names = call.image.names
            return _response(call.cluster.mixed_groups.sync(modern, who, named, names, call.now_ms))
        group = classic_group(call, request.group_id)
        member = group.check(*who)
        _check_protocol(call, group, named)
        assignments = {one.member_id: bytes(one.assignment) for one in request.assignments}
        parked = group.sync(member, assignments, call.now_ms)
    except Refused as error:
        loading = error.code == COORDINATOR_LOAD_IN_PROGRESS
        code = call.profile.behaviour.loading_sync_code if loading else error.code
        return top(request, call.version, code)
    except OSError:
        return top(request, call.version, NOT_COORDINATOR)

    def answer(expired: bool) -> SyncGroupResponse | None:
        return None if parked.answer is None else _response(parked.answer)

    return answer(False) or Wait([parked], FOREVER_MS, answer)


def _check_protocol(call: Call, group: ClassicGroup, named: tuple[str | None, str | None]) -> None:
    if call.version >= FIRST_PROTOCOL_VERSION and named != (group.protocol_type, group.protocol):
        raise Refused(
            INCONSISTENT_GROUP_PROTOCOL,
            f"group {group.name} is of {group.protocol_type}, {group.protocol}",
        )


def _response(answer: SyncAnswer) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=answer.error_code,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol,
        assignment=answer.assignment,
    )


API = Handler(ApiKey.SYNC_GROUP, VersionRange(0, 5), handle, top)
