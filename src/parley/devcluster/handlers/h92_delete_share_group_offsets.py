"""DeleteShareGroupOffsets (92), v0-0.

Behaviours:
- Done by the group's coordinator (others: NOT_COORDINATOR) for a group without members
  (else: NON_EMPTY_GROUP): what it knows of a topic is forgotten, and with its next member it begins
  there again.
- A topic that does not exist, or that the group does not know: UNKNOWN_TOPIC_OR_PARTITION.
- Where share groups are off: UNSUPPORTED_VERSION.

Version notes:
- v0 is the only one.

Not implemented: -
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.mirror import top
from parley.devcluster.handlers.sharing import check_group, serves_share_groups, topic_with
from parley.devcluster.state.groups.share.group import ShareGroup
from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    COORDINATOR_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_VERSION,
)
from parley.messages import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse
from parley.schema import ApiKey, VersionRange

Response = DeleteShareGroupOffsetsResponse
NOTHING_TO_DELETE = "There is no offset information to delete."


def handle(call: Call, request: DeleteShareGroupOffsetsRequest) -> Answer:
    """Forget what a group knows of topics."""
    if not serves_share_groups(call):
        return top(request, call.version, UNSUPPORTED_VERSION)
    response, known = Response(), list[bytes]()
    try:
        group = check_group(call, request.group_id, may_be_new=False)
        assert group is not None
        names = dict.fromkeys(topic.topic_name for topic in request.topics)
        response.responses = [_topic(call, group, name, known) for name in names]
        call.cluster.share_groups.forget_topics(request.group_id, known, call.now_ms)
    except Refused as error:
        return Response(error_code=error.code, error_message=error.message)
    except OSError:
        return Response(error_code=COORDINATOR_NOT_AVAILABLE)
    return response


def _topic(
    call: Call, group: ShareGroup, name: str, known: list[bytes]
) -> Response.DeleteShareGroupOffsetsResponseTopic:
    topic = Response.DeleteShareGroupOffsetsResponseTopic(topic_name=name)
    try:
        image = topic_with(call, name)
        if image.topic_id not in group.known:
            raise Refused(UNKNOWN_TOPIC_OR_PARTITION, NOTHING_TO_DELETE)
    except Refused as error:
        topic.error_code, topic.error_message = error.code, error.message
    else:
        topic.topic_id = image.topic_id
        known.append(image.topic_id)
    return topic


API = Handler(ApiKey.DELETE_SHARE_GROUP_OFFSETS, VersionRange(0, 0), handle, top)
