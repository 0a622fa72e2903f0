"""ConsumerGroupDescribe (69), v0-1.

Behaviours:
- Each group's coordinator describes it (others: NOT_COORDINATOR); a classic group, or none, is
  GROUP_ID_NOT_FOUND with a text. Releases in which the protocol is off: UNSUPPORTED_VERSION.

Version notes:
- v1+ the type of each member (KIP-1099), by the protocol that it speaks.

Not implemented: -
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.coordination import require_coordinator
from parley.devcluster.handlers.h68_consumer_group_heartbeat import by_topic
from parley.devcluster.handlers.membership import is_share_group, serves_consumer_groups
from parley.devcluster.handlers.mirror import top
from parley.devcluster.state.groups.modern.assignors import Part
from parley.devcluster.state.groups.modern.group import ConsumerGroup
from parley.devcluster.state.groups.modern.members import Member
from parley.devcluster.state.refused import Refused
from parley.errors.codes import GROUP_ID_NOT_FOUND, UNSUPPORTED_VERSION
from parley.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from parley.schema import ApiKey, VersionRange

Response = ConsumerGroupDescribeResponse
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def handle(call: Call, request: ConsumerGroupDescribeRequest) -> Answer:
    """Describe each group."""
    response = Response()
    for name in request.group_ids:
        group = Response.DescribedGroup(group_id=name)
        response.groups.append(group)
        try:
            if not serves_consumer_groups(call):
                raise Refused(UNSUPPORTED_VERSION, None)
            require_coordinator(call, name)
            _describe(call, group, name)
            if request.include_authorized_operations:
                group.authorized_operations = call.profile.behaviour.group_operations
        except Refused as error:
            group.error_code, group.error_message = error.code, error.message
    return response


def _describe(call: Call, described: Response.DescribedGroup, name: str) -> None:
    group = call.cluster.consumer_groups.get(name)
    if group is None:
        known = name in call.cluster.groups.names() or is_share_group(call, name)
        kind = "is not a consumer group." if known else "not found."
        raise Refused(GROUP_ID_NOT_FOUND, f"Group {name} {kind}")
    described.group_state, described.assignor_name = group.state, group.assignor
    described.group_epoch, described.assignment_epoch = group.epoch, group.target_epoch
    described.members = [
        _member(call, group, group.members[member]) for member in sorted(group.members)
    ]


def _member(call: Call, group: ConsumerGroup, member: Member) -> Response.Member:
    said = member.subscription
    return Response.Member(
        member_id=member.id,
        instance_id=said.instance_id,
        rack_id=said.rack,
        member_epoch=member.assignment.epoch,
        client_id=said.client_id,
        client_host=said.client_host,
        subscribed_topic_names=sorted(said.topics),
        subscribed_topic_regex=said.regex or None,
        assignment=_assignment(call, member.assignment.owned),
        target_assignment=_assignment(call, group.target.get(member.id, frozenset())),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(call: Call, parts: frozenset[Part]) -> Response.Assignment:
    names = call.image.names
    return Response.Assignment(
        topic_partitions=[
            Response.TopicPartitions(
                topic_id=topic_id, topic_name=names.get(topic_id, ""), partitions=indexes
            )
            for topic_id, indexes in by_topic(parts).items()
        ]
    )


API = Handler(ApiKey.CONSUMER_GROUP_DESCRIBE, VersionRange(0, 1), handle, top)
