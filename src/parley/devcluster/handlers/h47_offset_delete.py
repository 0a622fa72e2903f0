"""OffsetDelete (47), v0-0.

Behaviours:
- Done by the group's coordinator (others: NOT_COORDINATOR); a group without offsets, and a share
  group, is GROUP_ID_NOT_FOUND for the whole answer.
- Partitions that do not exist: UNKNOWN_TOPIC_OR_PARTITION each; the others are deleted, with or
  without an offset. Those of topics that members subscribe to: GROUP_SUBSCRIBED_TO_TOPIC.

Version notes:
- v0 (KIP-496) is the only one.

Not implemented: -
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.coordination import require_coordinator
from parley.devcluster.handlers.membership import exists, is_share_group, is_subscribed
from parley.devcluster.handlers.mirror import top
from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_ID_NOT_FOUND,
    GROUP_SUBSCRIBED_TO_TOPIC,
    INVALID_GROUP_ID,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from parley.messages import OffsetDeleteRequest, OffsetDeleteResponse
from parley.schema import ApiKey, VersionRange


def handle(call: Call, request: OffsetDeleteRequest) -> Answer:
    """Forget the offsets of the partitions that exist."""
    response = OffsetDeleteResponse()
    known: list[tuple[str, int]] = []
    for topic in request.topics:
        result = response.OffsetDeleteResponseTopic(name=topic.name)
        response.topics.append(result)
        for asked in topic.partitions:
            index = asked.partition_index
            exists = call.image.partition(topic.name, index) is not None
            code = NONE if exists else UNKNOWN_TOPIC_OR_PARTITION
            if code == NONE and is_subscribed(call, request.group_id, topic.name):
                code = GROUP_SUBSCRIBED_TO_TOPIC
            if code == NONE:
                known.append((topic.name, index))
            result.partitions.append(
                response.OffsetDeleteResponsePartition(partition_index=index, error_code=code)
            )
    try:
        _check_group(call, request.group_id)
        call.cluster.group_coordinator.delete_offsets(request.group_id, known, now_ms=call.now_ms)
    except Refused as error:
        return top(request, call.version, error.code)
    except OSError:
        return top(request, call.version, COORDINATOR_NOT_AVAILABLE)
    return response


def _check_group(call: Call, name: str) -> None:
    if not name:
        raise Refused(INVALID_GROUP_ID, "a group needs a name")
    require_coordinator(call, name)
    if not exists(call, name) or is_share_group(call, name):
        raise Refused(GROUP_ID_NOT_FOUND, f"there is no group {name}")


API = Handler(ApiKey.OFFSET_DELETE, VersionRange(0, 0), handle, top)
