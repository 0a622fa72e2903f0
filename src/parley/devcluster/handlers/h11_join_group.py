"""JoinGroup (11), v0-9.

Behaviours:
- Answered by the group's coordinator (others: NOT_COORDINATOR), when all members of the group have
  joined, or the rebalance timeout of the slowest is over (H4, H6). The machine is
  `state.groups.classic`.
- In a group whose members speak the consumer protocol the broker's assignor assigns: the answer
  comes at once, its generation is the member's epoch, and nobody leads (H24).
- A share group: INCONSISTENT_GROUP_PROTOCOL.
- The first member of a group without protocols: UNKNOWN_SERVER_ERROR up to 0.10, no answer at all
  in 0.11, later INCONSISTENT_GROUP_PROTOCOL as for all who do not fit (H3).
- Session timeouts outside the bounds of the release: INVALID_SESSION_TIMEOUT (G9), from 4.0 on by
  any broker, before that by the coordinator alone.

Version notes:
- v0 has no rebalance timeout: the session timeout stands for it. v2+ throttle time. v4+ a newcomer
  joins again with the id that it is given: MEMBER_ID_REQUIRED (KIP-394). v5+ static members
  (KIP-345). v7+ the protocol type, and no protocol is null (KIP-559). v8+ a reason. v9+ a static
  leader that returns need not assign (KIP-814).

Not implemented: -
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler, Wait
from parley.devcluster.handlers.membership import (
    classic_rules,
    has_members,
    is_share_group,
    known_topics,
    live_group,
    racks_of,
    require_group,
    settings_of,
)
from parley.devcluster.handlers.mirror import top
from parley.devcluster.state.groups.classic.group import MemberIdRequired
from parley.devcluster.state.groups.classic.members import Join, JoinAnswer
from parley.devcluster.state.groups.classic.parked import Parked
from parley.devcluster.state.groups.modern.group import ConsumerGroup, Topics
from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    GROUP_MAX_SIZE_REACHED,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_SESSION_TIMEOUT,
    NOT_COORDINATOR,
    UNKNOWN_MEMBER_ID,
)
from parley.messages import JoinGroupRequest, JoinGroupResponse
from parley.schema import ApiKey, VersionRange

FIRST_REBALANCE_TIMEOUT_VERSION = 1
FIRST_REQUIRED_ID_VERSION = 4
FIRST_NULL_PROTOCOL_VERSION = 7
FIRST_SKIP_VERSION = 9
SHORTEST_SESSION_MS = 6_000
FOREVER_MS = 2**31 - 1
"""The machine answers by its own timers; nothing else ends the wait."""


def handle(call: Call, request: JoinGroupRequest) -> Answer:
    """Let a member join; the answer may have to wait for the others."""
    groups = call.cluster.classic_groups
    try:
        if request.group_id and call.profile.behaviour.checks_sessions_first:
            _check_session(call, request)
        require_group(call, request.group_id)
        _check_session(call, request)
        modern = live_group(call, request.group_id)
        _check(call, request, of_consumers=modern is not None)
        if modern is not None:
            return _response(call, _join_mixed(call, request, modern))
        if not request.protocols and not has_members(call, request.group_id):
            return _without_protocols(call, request)
        call.cluster.mixed_groups.make_room_for_classic(request.group_id, call.now_ms)
        group = groups.made(request.group_id, classic_rules(call))
        try:
            parked = group.join(_join(call, request), call.now_ms)
        finally:
            groups.drop_if_unused(request.group_id)
    except MemberIdRequired as required:
        return _refused(call, request, required.code, required.member_id)
    except Refused as error:
        return refuse(request, call.version, error.code, call.profile.behaviour.refused_generation)
    except OSError:
        return refuse(
            request, call.version, NOT_COORDINATOR, call.profile.behaviour.refused_generation
        )

    def answer(expired: bool) -> JoinGroupResponse | None:
        return None if parked.answer is None else _response(call, parked.answer)

    return answer(False) or Wait([parked], FOREVER_MS, answer)


def _join_mixed(call: Call, request: JoinGroupRequest, group: ConsumerGroup) -> JoinAnswer:
    # No classic member has a regular expression.
    topics = Topics(known_topics(call), lambda regex: frozenset(), racks_of(call))
    return call.cluster.mixed_groups.join(
        group, _join(call, request), topics, settings_of(call), call.now_ms
    )


def _without_protocols(call: Call, request: JoinGroupRequest) -> Answer:
    code = call.profile.behaviour.empty_protocols_code
    if code is None:
        return Wait([Parked[JoinAnswer]()], FOREVER_MS, lambda expired: None)
    return refuse(request, call.version, code, call.profile.behaviour.refused_generation)


def _check_session(call: Call, request: JoinGroupRequest) -> None:
    """Raise Refused (INVALID_SESSION_TIMEOUT)."""
    if (
        not SHORTEST_SESSION_MS
        <= request.session_timeout_ms
        <= call.profile.behaviour.longest_session_ms
    ):
        raise Refused(
            INVALID_SESSION_TIMEOUT,
            "the session timeout is not between those that the broker allows",
        )


def _check(call: Call, request: JoinGroupRequest, *, of_consumers: bool) -> None:
    """Raise Refused for what no group would take in, and for a group that takes nobody more."""
    group = call.cluster.classic_groups.get(request.group_id)
    if is_share_group(call, request.group_id):
        raise Refused(INCONSISTENT_GROUP_PROTOCOL, "the group is a share group")
    if of_consumers:
        return
    if group is None or not (group.members or group.pending):
        if request.member_id:
            raise Refused(UNKNOWN_MEMBER_ID, f"group {request.group_id} has no members")
        return
    known = request.member_id in group.members or request.member_id in group.pending
    replaces = (
        request.group_instance_id is not None
        and group.static(request.group_instance_id) is not None
    )
    if (
        not known
        and not replaces
        and len(group.members) + len(group.pending) >= group.rules.max_size
    ):
        raise Refused(
            GROUP_MAX_SIZE_REACHED, f"group {request.group_id} has its largest size already"
        )


def _join(call: Call, request: JoinGroupRequest) -> Join:
    has_rebalance_timeout = call.version >= FIRST_REBALANCE_TIMEOUT_VERSION
    return Join(
        request.member_id,
        request.group_instance_id,
        call.client_id or "",
        call.client_host,
        request.session_timeout_ms,
        request.rebalance_timeout_ms if has_rebalance_timeout else request.session_timeout_ms,
        request.protocol_type,
        tuple((one.name, bytes(one.metadata)) for one in request.protocols),
        requires_id=call.version >= FIRST_REQUIRED_ID_VERSION,
        skips_assignment=call.version >= FIRST_SKIP_VERSION,
    )


def _response(call: Call, answer: JoinAnswer) -> JoinGroupResponse:
    generation = (
        answer.generation if answer.error_code == 0 else call.profile.behaviour.refused_generation
    )
    response = JoinGroupResponse(
        error_code=answer.error_code,
        generation_id=generation,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol,
        leader=answer.leader,
        member_id=answer.member_id,
        skip_assignment=answer.skip_assignment,
    )
    response.members = [
        response.JoinGroupResponseMember(
            member_id=member_id, group_instance_id=instance_id, metadata=metadata
        )
        for member_id, instance_id, metadata in answer.members
    ]
    if answer.protocol is None and call.version < FIRST_NULL_PROTOCOL_VERSION:
        response.protocol_name = ""
    return response


def _refused(call: Call, request: JoinGroupRequest, code: int, member_id: str) -> JoinGroupResponse:
    response = refuse(request, call.version, code, call.profile.behaviour.refused_generation)
    response.member_id = member_id
    return response


def refuse(
    request: JoinGroupRequest, version: int, code: int, generation: int = -1
) -> JoinGroupResponse:
    """Answer `code`; from v7 on no protocol is null, as real brokers have it."""
    response = top(request, version, code)
    response.member_id, response.generation_id = request.member_id, generation
    if version >= FIRST_NULL_PROTOCOL_VERSION:
        response.protocol_name = None
    return response


API = Handler(ApiKey.JOIN_GROUP, VersionRange(0, 9), handle, refuse)
