"""ListGroups (16), v0-5.

Behaviours:
- Lists the groups that this broker coordinates: those with members, of each protocol, and those
  that have only committed offsets, which are Empty; 0.9 leaves these out.
- While the broker loads groups, any of them: COORDINATOR_LOAD_IN_PROGRESS; up to 3.9 the others are
  listed with it.

Version notes:
- v1+ throttle time, v4+ filter by state and the state itself (KIP-518), v5+ by type (KIP-848).
- v0 is the second half of the probe that recognises brokers before 0.10.

Not implemented: -
"""

from __future__ import annotations

from collections.abc import Iterator

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.coordination import coordinates
from parley.devcluster.handlers.membership import state_name
from parley.errors.codes import COORDINATOR_LOAD_IN_PROGRESS
from parley.messages import ListGroupsRequest, ListGroupsResponse
from parley.schema import ApiKey, VersionRange

EMPTY = "Empty"
CLASSIC, CONSUMER, SHARE = "classic", "consumer", "share"


def handle(call: Call, request: ListGroupsRequest) -> Answer:
    """List the groups."""
    coordinator = call.cluster.group_coordinator
    coordinator.expire(now_ms=call.now_ms)
    response = ListGroupsResponse()
    if coordinator.loading.at(call.broker.id):
        response.error_code = COORDINATOR_LOAD_IN_PROGRESS
        if not call.profile.behaviour.lists_while_loading:
            return response
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    for found in _groups(call):
        wanted = (not states or found.group_state.lower() in states) and (
            not types or found.group_type in types
        )
        if wanted and coordinates(call, found.group_id):
            response.groups.append(found)
    return response


def _groups(call: Call) -> Iterator[ListGroupsResponse.ListedGroup]:
    listed = ListGroupsResponse.ListedGroup
    modern = {group.name: group for group in call.cluster.consumer_groups}
    classic = {group.name: group for group in call.cluster.classic_groups}
    for name in sorted({*call.cluster.groups.names(), *modern, *classic}):
        if name in modern and not (name in classic and classic[name].members):
            state = modern[name].state
            yield listed(
                group_id=name, protocol_type=CONSUMER, group_state=state, group_type=CONSUMER
            )
        elif name in classic and (classic[name].members or call.profile.behaviour.has_empty_groups):
            kind, state = classic[name].protocol_type or "", state_name(call, classic[name])
            yield listed(group_id=name, protocol_type=kind, group_state=state, group_type=CLASSIC)
        elif call.profile.behaviour.lists_simple_groups:
            yield listed(group_id=name, protocol_type="", group_state=EMPTY, group_type=CLASSIC)
    for group in call.cluster.share_groups:
        yield listed(
            group_id=group.name, protocol_type=SHARE, group_state=group.state, group_type=SHARE
        )


def refuse(request: ListGroupsRequest, version: int, code: int) -> ListGroupsResponse:
    """Answer `code`."""
    return ListGroupsResponse(error_code=code)


API = Handler(ApiKey.LIST_GROUPS, VersionRange(0, 5), handle, refuse)
