"""ShareGroupHeartbeat (76), v1-1.

Behaviours:
- Answered by the group's coordinator (others: NOT_COORDINATOR) where share groups are on: from 4.2
  on. 4.1 advertises it and answers UNSUPPORTED_VERSION.
- The group, its epochs and its target are `state.groups.share`; what changed is written first.
- A group of another protocol, also one without members: GROUP_ID_NOT_FOUND.

Version notes:
- v1 is the only one: v0 was 4.0's early access and is gone.

Not implemented: partitions whose state is set up first: they are assigned at once, where real
brokers answer the first heartbeats without any.
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.coordination import require_coordinator
from parley.devcluster.handlers.h68_consumer_group_heartbeat import by_topic
from parley.devcluster.handlers.membership import racks_of
from parley.devcluster.handlers.mirror import top
from parley.devcluster.handlers.sharing import (
    require_share_name,
    serves_share_groups,
    settings_of,
    topics_of,
)
from parley.devcluster.state.groups.share.group import ShareAnswer, ShareHeartbeat, check_form
from parley.devcluster.state.refused import Refused
from parley.errors.codes import COORDINATOR_NOT_AVAILABLE, INVALID_REQUEST, UNSUPPORTED_VERSION
from parley.messages import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from parley.schema import ApiKey, VersionRange


def handle(call: Call, request: ShareGroupHeartbeatRequest) -> Answer:
    """Let the coordinator hear of a member, and answer where the member stands."""
    if not serves_share_groups(call):
        return top(request, call.version, UNSUPPORTED_VERSION)
    name, said = request.group_id, _heartbeat(call, request)
    settings = settings_of(call, name)
    try:
        check_form(said)
        if not name:
            raise Refused(INVALID_REQUEST, "GroupId can't be empty.")
        require_coordinator(call, name)
        require_share_name(call, name)
        heard = call.cluster.share_groups.heartbeat(
            name, said, topics_of(call), settings, call.now_ms, racks_of(call)
        )
    except Refused as error:
        return top(request, call.version, error.code, error.message)
    except OSError:
        return top(request, call.version, COORDINATOR_NOT_AVAILABLE)
    return _response(heard, settings.heartbeat_interval_ms)


def _heartbeat(call: Call, request: ShareGroupHeartbeatRequest) -> ShareHeartbeat:
    names = request.subscribed_topic_names
    return ShareHeartbeat(
        request.member_id,
        request.member_epoch,
        request.rack_id,
        None if names is None else frozenset(names),
        call.client_id or "",
        call.client_host,
    )


def _response(heard: ShareAnswer, interval_ms: int) -> ShareGroupHeartbeatResponse:
    response = ShareGroupHeartbeatResponse(
        member_id=heard.member_id,
        member_epoch=heard.epoch,
        heartbeat_interval_ms=interval_ms if heard.epoch >= 0 else 0,
    )
    if heard.assignment is not None:
        response.assignment = response.Assignment(
            topic_partitions=[
                response.TopicPartitions(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in by_topic(heard.assignment).items()
            ]
        )
    return response


API = Handler(ApiKey.SHARE_GROUP_HEARTBEAT, VersionRange(1, 1), handle, top)
