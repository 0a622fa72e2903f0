"""ListGroups (16), v0-5.

Behaviours:
- Lists the groups with committed offsets that this broker coordinates; without members they are Empty.

Version notes:
- v1+ throttle time, v4+ filter by state and the state itself (KIP-518), v5+ by type (KIP-848).
- v0 is the second half of the probe that recognises brokers before 0.10.

Not implemented: groups with members.
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.coordination import find_coordinator
from parley.messages import ListGroupsRequest, ListGroupsResponse
from parley.schema import ApiKey, VersionRange

EMPTY = "Empty"
CLASSIC = "classic"


def handle(call: Call, request: ListGroupsRequest) -> Answer:
    """List the groups."""
    response = ListGroupsResponse()
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    if (states and EMPTY.lower() not in states) or (types and CLASSIC not in types):
        return response
    for name in call.cluster.groups.names():
        if find_coordinator(call, name).id == call.broker.id:
            response.groups.append(
                response.ListedGroup(group_id=name, protocol_type="", group_state=EMPTY, group_type=CLASSIC)
            )
    return response


def refuse(request: ListGroupsRequest, version: int, code: int) -> ListGroupsResponse:
    """Answer `code`."""
    return ListGroupsResponse(error_code=code)


API = Handler(ApiKey.LIST_GROUPS, VersionRange(0, 5), handle, refuse)
