"""ShareAcknowledge (79), v1-2.

Behaviours:
- Answered by each partition's leader, in the share session that ShareFetch began: epoch 0 is
  INVALID_SHARE_SESSION_EPOCH, -1 ends the session and gives back what is still acquired.
- The ranges of a partition count all or none. Records that are not the member's, or not any more:
  INVALID_RECORD_STATE; those below the group's start were decided before, and are no error.
- A type that does not exist, or RENEW in a request that does not say that it renews:
  INVALID_REQUEST.
- A partition that moved: NOT_LEADER_OR_FOLLOWER with the new leader (KIP-951).

Version notes:
- v1 is 4.1's, v2+ renewals and the lock's duration in the answer (KIP-1222). v0 was early access.

Not implemented: -
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler, LeaderHints
from parley.devcluster.handlers.mirror import top
from parley.devcluster.handlers.sharing import (
    acknowledged,
    hint,
    require_member,
    serves_share_groups,
    settings_of,
)
from parley.devcluster.state.groups.share.sessions import FINAL_EPOCH, INITIAL_EPOCH
from parley.devcluster.state.refused import Refused
from parley.errors.codes import INVALID_SHARE_SESSION_EPOCH, UNSUPPORTED_VERSION
from parley.messages import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from parley.schema import ApiKey, VersionRange


def handle(call: Call, request: ShareAcknowledgeRequest) -> Answer:
    """Take a member's acknowledgements."""
    if not serves_share_groups(call):
        return top(request, call.version, UNSUPPORTED_VERSION)
    try:
        require_member(request)
        epoch, group = request.share_session_epoch, request.group_id or ""
        if epoch == INITIAL_EPOCH:
            raise Refused(INVALID_SHARE_SESSION_EPOCH, None)
        session = call.share_sessions.go_on(group, request.member_id or "", epoch)
    except Refused as error:
        return top(request, call.version, error.code, error.message)
    outcomes = acknowledged(call, request)
    if epoch == FINAL_EPOCH:
        call.share_sessions.end(session)
        call.cluster.share_groups.release(session)
    lock_ms = settings_of(call, group).record_lock_duration_ms
    response = ShareAcknowledgeResponse(acquisition_lock_timeout_ms=lock_ms)
    topics: dict[bytes, ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse] = {}
    hints = LeaderHints(call.image)
    for part, outcome in outcomes.items():
        topic_id, index = part
        if topic_id not in topics:
            topics[topic_id] = response.ShareAcknowledgeTopicResponse(topic_id=topic_id)
        answer = response.PartitionData(
            partition_index=index, error_code=outcome.code, error_message=outcome.text
        )
        hint(call, hints, part, answer, outcome.code)
        topics[topic_id].partitions.append(answer)
    response.responses = list(topics.values())
    response.node_endpoints = hints.endpoints(response.NodeEndpoint)
    return response


API = Handler(ApiKey.SHARE_ACKNOWLEDGE, VersionRange(1, 2), handle, top)
