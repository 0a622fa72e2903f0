"""ShareGroupDescribe (77), v1-1.

Behaviours:
- Each group's coordinator describes it (others: NOT_COORDINATOR); a group of another protocol, or
  none, is GROUP_ID_NOT_FOUND with a text. Where share groups are off: UNSUPPORTED_VERSION.

Version notes:
- v1 is the only one: v0 was 4.0's early access and is gone.

Not implemented: -
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.coordination import require_coordinator
from parley.devcluster.handlers.h68_consumer_group_heartbeat import by_topic
from parley.devcluster.handlers.mirror import each, top
from parley.devcluster.handlers.sharing import require_share_name, serves_share_groups
from parley.devcluster.state.groups.share.assignor import NAME, Part
from parley.devcluster.state.groups.share.group import ShareMember
from parley.devcluster.state.refused import Refused
from parley.errors.codes import GROUP_ID_NOT_FOUND, INVALID_GROUP_ID, UNSUPPORTED_VERSION
from parley.messages import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from parley.schema import ApiKey, VersionRange

Response = ShareGroupDescribeResponse


def handle(call: Call, request: ShareGroupDescribeRequest) -> Answer:
    """Describe each group."""
    if not serves_share_groups(call):
        return each(request, call.version, lambda chain: UNSUPPORTED_VERSION)
    response = Response()
    for name in request.group_ids:
        group = Response.DescribedGroup(group_id=name)
        response.groups.append(group)
        try:
            if not name:
                raise Refused(INVALID_GROUP_ID, None)
            require_coordinator(call, name)
            _describe(call, group, name)
            if request.include_authorized_operations:
                group.authorized_operations = call.profile.behaviour.group_operations
        except Refused as error:
            group.error_code, group.error_message = error.code, error.message
    return response


def _describe(call: Call, described: Response.DescribedGroup, name: str) -> None:
    group = call.cluster.share_groups.get(name)
    if group is None:
        require_share_name(call, name)
        raise Refused(GROUP_ID_NOT_FOUND, f"Group {name} not found.")
    described.group_state, described.assignor_name = group.state, NAME
    described.group_epoch, described.assignment_epoch = group.epoch, group.target_epoch
    described.members = [_member(call, group.members[name]) for name in sorted(group.members)]


def _member(call: Call, member: ShareMember) -> Response.Member:
    return Response.Member(
        member_id=member.id,
        rack_id=member.rack,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=_assignment(call, member.assigned),
    )


def _assignment(call: Call, parts: frozenset[Part]) -> Response.Assignment:
    names, made = call.image.names, Response.TopicPartitions
    return Response.Assignment(
        topic_partitions=[
            made(topic_id=topic_id, topic_name=names.get(topic_id, ""), partitions=indexes)
            for topic_id, indexes in by_topic(parts).items()
        ]
    )


API = Handler(ApiKey.SHARE_GROUP_DESCRIBE, VersionRange(1, 1), handle, top)
