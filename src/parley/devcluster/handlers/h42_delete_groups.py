"""DeleteGroups (42), v0-2.

Behaviours:
- Done by each group's coordinator (others: NOT_COORDINATOR): the group goes with its offsets.
- A group that has members: NON_EMPTY_GROUP; one that does not exist: GROUP_ID_NOT_FOUND.

Version notes:
- v2 flexible.

Not implemented: -
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler, code_of
from parley.devcluster.handlers.coordination import require_coordinator
from parley.devcluster.handlers.membership import exists, has_members
from parley.devcluster.handlers.mirror import top
from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_ID_NOT_FOUND,
    INVALID_GROUP_ID,
    NON_EMPTY_GROUP,
)
from parley.messages import DeleteGroupsRequest, DeleteGroupsResponse
from parley.schema import ApiKey, VersionRange


def handle(call: Call, request: DeleteGroupsRequest) -> Answer:
    """Delete each group, or say why not."""
    response = DeleteGroupsResponse()
    for name in request.groups_names:
        result = response.DeletableGroupResult(group_id=name)
        response.results.append(result)
        try:
            _delete(call, name)
        except (Refused, OSError) as error:
            result.error_code = code_of(error, COORDINATOR_NOT_AVAILABLE)
    return response


def _delete(call: Call, name: str) -> None:
    if not name and not call.profile.behaviour.deletes_nameless_groups:
        raise Refused(INVALID_GROUP_ID, "a group needs a name")
    require_coordinator(call, name)
    if has_members(call, name):
        raise Refused(NON_EMPTY_GROUP, f"group {name} has members")
    if not exists(call, name):
        raise Refused(GROUP_ID_NOT_FOUND, f"there is no group {name}")
    call.cluster.delete_group(name, now_ms=call.now_ms)


API = Handler(ApiKey.DELETE_GROUPS, VersionRange(0, 2), handle, top)
