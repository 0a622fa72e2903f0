"""AlterShareGroupOffsets (91), v0-0.

Behaviours:
- Done by the group's coordinator (others: NOT_COORDINATOR) for a group without members
  (else: NON_EMPTY_GROUP); one that does not exist is made. What was in flight is forgotten.
- A partition that does not exist: UNKNOWN_TOPIC_OR_PARTITION; the others are changed. Any offset is
  taken, as real brokers do.
- Where share groups are off: UNSUPPORTED_VERSION.

Version notes:
- v0 is the only one.

Not implemented: -
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.mirror import top
from parley.devcluster.handlers.sharing import (
    check_group,
    serves_share_groups,
    settings_of,
    topic_with,
)
from parley.devcluster.state.groups.share.assignor import Part
from parley.devcluster.state.refused import Refused
from parley.errors.codes import COORDINATOR_NOT_AVAILABLE, UNSUPPORTED_VERSION
from parley.messages import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from parley.schema import ApiKey, VersionRange

Response = AlterShareGroupOffsetsResponse


def handle(call: Call, request: AlterShareGroupOffsetsRequest) -> Answer:
    """Let a group go on elsewhere."""
    if not serves_share_groups(call):
        return top(request, call.version, UNSUPPORTED_VERSION)
    response, offsets = Response(), dict[Part, int]()
    try:
        check_group(call, request.group_id, may_be_new=True)
        response.responses = [_topic(call, topic, offsets) for topic in request.topics]
        if offsets:
            settings = settings_of(call, request.group_id)
            call.cluster.share_groups.begin_at(request.group_id, offsets, settings, call.now_ms)
    except Refused as error:
        return Response(error_code=error.code, error_message=error.message)
    except OSError:
        return Response(error_code=COORDINATOR_NOT_AVAILABLE)
    return response


def _topic(
    call: Call,
    asked: AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic,
    offsets: dict[Part, int],
) -> Response.AlterShareGroupOffsetsResponseTopic:
    topic = Response.AlterShareGroupOffsetsResponseTopic(topic_name=asked.topic_name)
    for one in asked.partitions:
        answer = Response.AlterShareGroupOffsetsResponsePartition(
            partition_index=one.partition_index
        )
        topic.partitions.append(answer)
        try:
            image = topic_with(call, asked.topic_name, one.partition_index)
        except Refused as error:
            answer.error_code, answer.error_message = error.code, error.message
        else:
            topic.topic_id = image.topic_id
            offsets[image.topic_id, one.partition_index] = one.start_offset
    return topic


API = Handler(ApiKey.ALTER_SHARE_GROUP_OFFSETS, VersionRange(0, 0), handle, top)
