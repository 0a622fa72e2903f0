"""FindCoordinator (10), v0-6.

Behaviours:
- A group's coordinator leads its partition of `__consumer_offsets`, by the key's Java hash. The
  first question has that topic made: COORDINATOR_NOT_AVAILABLE until it is there, and where the
  partition has no leader. It is there at once unless the cluster is set to take longer.
- Other coordinators follow from the key's hash over the brokers alive: another one when a broker
  comes or goes.
- A share group's key names the group, a topic by its id, and a partition:
  `group:topicId:partition`; another form is INVALID_REQUEST. Before 4.2 there are no share groups,
  and the key type does not exist.
- A key type that does not exist closes the connection before 2.3, is UNKNOWN_SERVER_ERROR up to 2.4
  and INVALID_REQUEST in 2.8 and later.
- Coordinators that still load are named all the same.

Version notes:
- v1+ key type (0 group, 1 transaction) and error message (KIP-98), v4+ several keys (KIP-699), v6+
  key type 2, share groups (KIP-932).

Not implemented: the `__transaction_state` and `__share_group_state` topics.
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler, NoAnswer
from parley.devcluster.handlers.coordination import find_coordinator
from parley.devcluster.handlers.sharing import serves_share_groups
from parley.devcluster.state.groups.offsets import GROUP, SHARE, TRANSACTION
from parley.devcluster.state.refused import Refused
from parley.errors import ConfigError
from parley.errors.codes import INVALID_REQUEST, NONE
from parley.messages import FindCoordinatorRequest, FindCoordinatorResponse
from parley.schema import ApiKey, VersionRange
from parley.types import parse_uuid

FIRST_KEYS_VERSION = 4
FIRST_SHARE_VERSION = 6


def handle(call: Call, request: FindCoordinatorRequest) -> Answer:
    """Name the coordinators of the keys."""
    if (
        request.key_type not in (GROUP, TRANSACTION)
        and call.profile.behaviour.unknown_key_type_code is None
    ):
        return NoAnswer(close=True)
    response = FindCoordinatorResponse()
    if call.version >= FIRST_KEYS_VERSION:
        for key in request.coordinator_keys:
            coordinator = response.Coordinator(key=key)
            _fill(call, request, key, coordinator)
            response.coordinators.append(coordinator)
    else:
        _fill(call, request, request.key, response)
    return response


def _fill(
    call: Call,
    request: FindCoordinatorRequest,
    key: str,
    answer: FindCoordinatorResponse | FindCoordinatorResponse.Coordinator,
) -> None:
    try:
        if request.key_type == SHARE and serves_share_groups(call):
            _check_share_key(call, key)
        elif request.key_type not in (GROUP, TRANSACTION):
            code = call.profile.behaviour.unknown_key_type_code
            raise Refused(
                INVALID_REQUEST if code is None else code,
                f"key type {request.key_type} is not served",
            )
        broker = find_coordinator(call, key, request.key_type)
    except Refused as error:
        answer.error_code, answer.error_message = error.code, error.message
        answer.node_id, answer.host, answer.port = -1, "", -1
    else:
        answer.error_code = NONE
        if call.version < FIRST_KEYS_VERSION:
            answer.error_message = call.profile.behaviour.coordinator_message
        answer.node_id, answer.host, answer.port = broker.id, broker.host, broker.port


def _check_share_key(call: Call, key: str) -> None:
    """Raise Refused (INVALID_REQUEST) unless a key names a group, a topic by
    its id, and a partition.
    """
    group, _, place = key.partition(":")
    topic_id, _, index = place.rpartition(":")
    try:
        found = len(parse_uuid(topic_id)) > 0
    except ConfigError:
        found = False
    if not (group and found and index.isdecimal()) or call.version < FIRST_SHARE_VERSION:
        raise Refused(INVALID_REQUEST, "")


def refuse(request: FindCoordinatorRequest, version: int, code: int) -> FindCoordinatorResponse:
    """Answer `code` for each key."""
    response = FindCoordinatorResponse()
    if version >= FIRST_KEYS_VERSION:
        response.coordinators = [
            response.Coordinator(key=key, node_id=-1, port=-1, error_code=code)
            for key in request.coordinator_keys
        ]
    else:
        response.error_code, response.node_id, response.port = code, -1, -1
    return response


API = Handler(ApiKey.FIND_COORDINATOR, VersionRange(0, 6), handle, refuse)
