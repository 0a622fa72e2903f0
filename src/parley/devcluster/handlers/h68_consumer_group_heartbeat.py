"""ConsumerGroupHeartbeat (68), v0-1.

Behaviours:
- Answered by the group's coordinator (others: NOT_COORDINATOR) where the consumer protocol is on:
  from 4.0 on. The releases before that advertise it answer UNSUPPORTED_VERSION.
- The group, its epochs and its target are `state.groups.modern`; what changed is written first.
- A group that has members of the classic protocol is converted where the migration policy allows
  that (H24), else GROUP_ID_NOT_FOUND.
- A share group: GROUP_ID_NOT_FOUND.
- Racks are kept with the members, and no assignor looks at them: as Kafka's own since 4.0, by their
  text, they balance first and then keep. From 4.1 on a group's epoch rises where partitions get
  replicas in other racks (KIP-1101).
- The assignor runs in the heartbeat that needs it. That of 4.3 may run elsewhere; 4.3.0 was seen to
  answer the first heartbeat of a group with its assignment all the same.

Version notes:
- v1+ regular expressions (KIP-848) and member ids that clients make (KIP-1082). In v0 the broker
  makes one.

Not implemented: -
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.coordination import require_coordinator
from parley.devcluster.handlers.membership import (
    is_share_group,
    known_topics,
    racks_of,
    serves_consumer_groups,
    settings_of,
)
from parley.devcluster.handlers.mirror import top
from parley.devcluster.patterns import Pattern, PatternError
from parley.devcluster.state.groups.modern.assignors import Part
from parley.devcluster.state.groups.modern.group import Topics
from parley.devcluster.state.groups.modern.heartbeats import Heartbeat, HeartbeatAnswer
from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_ID_NOT_FOUND,
    INVALID_REGULAR_EXPRESSION,
    INVALID_REQUEST,
    UNSUPPORTED_VERSION,
)
from parley.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from parley.schema import ApiKey, VersionRange
from parley.types import format_uuid

FIRST_CLIENT_ID_VERSION = 1


def handle(call: Call, request: ConsumerGroupHeartbeatRequest) -> Answer:
    """Let the coordinator hear of a member, and answer where the member stands."""
    try:
        check(call, request)
        require_coordinator(call, request.group_id)
        if is_share_group(call, request.group_id):
            raise Refused(GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group.")
        topics = Topics(known_topics(call), lambda regex: _matching(call, regex), racks_of(call))
        heard = call.cluster.mixed_groups.heartbeat(
            request.group_id, _heartbeat(call, request), topics, settings_of(call), call.now_ms
        )
    except Refused as error:
        return top(request, call.version, error.code, error.message)
    except OSError:
        return top(request, call.version, COORDINATOR_NOT_AVAILABLE)
    return _response(heard, call.cluster.settings.group_consumer_heartbeat_interval_ms)


def check(call: Call, request: ConsumerGroupHeartbeatRequest) -> None:
    """Raise Refused where the protocol is off (UNSUPPORTED_VERSION) or the group has
    no name (INVALID_REQUEST).
    """
    if not serves_consumer_groups(call):
        raise Refused(UNSUPPORTED_VERSION, None)
    if not request.group_id:
        raise Refused(INVALID_REQUEST, "GroupId can't be empty.")


def _heartbeat(call: Call, request: ConsumerGroupHeartbeatRequest) -> Heartbeat:
    member_id = request.member_id
    if not member_id and call.version < FIRST_CLIENT_ID_VERSION and request.member_epoch == 0:
        member_id = format_uuid(call.cluster.new_id())
    names = request.subscribed_topic_names
    owned = request.topic_partitions
    return Heartbeat(
        member_id,
        request.member_epoch,
        request.instance_id,
        request.rack_id,
        request.rebalance_timeout_ms,
        None if names is None else frozenset(names),
        request.subscribed_topic_regex,
        request.server_assignor,
        None
        if owned is None
        else frozenset((one.topic_id, at) for one in owned for at in one.partitions),
        call.client_id or "",
        call.client_host,
    )


def _matching(call: Call, regex: str) -> frozenset[str]:
    try:
        pattern = Pattern(regex)
    except PatternError as error:
        text = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}."
        raise Refused(INVALID_REGULAR_EXPRESSION, text) from None
    return frozenset(name for name in call.image.topics if pattern.matches(name))


def _response(heard: HeartbeatAnswer, interval_ms: int) -> ConsumerGroupHeartbeatResponse:
    response = ConsumerGroupHeartbeatResponse(
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


def by_topic(parts: frozenset[Part]) -> dict[bytes, list[int]]:
    """Return the sorted partitions of each topic."""
    found: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(parts):
        found.setdefault(topic_id, []).append(index)
    return found


API = Handler(ApiKey.CONSUMER_GROUP_HEARTBEAT, VersionRange(0, 1), handle, top)
