"""DescribeShareGroupOffsets (90), v0-1.

Behaviours:
- Answered by each group's coordinator (others: NOT_COORDINATOR): where a group goes on, for every
  partition that it knows or for those asked for; -1 where it has not begun to read.
- A group that does not exist has no offsets; that is no error. Where share groups are off:
  UNSUPPORTED_VERSION.

Version notes:
- v1+ the lag: records from the start offset on that are not decided.

Not implemented: -. The start offset is known from the first fetch on; 4.3.0 says -1 until the first
acknowledgement, and then the offset as it was before the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.coordination import require_coordinator
from parley.devcluster.handlers.mirror import each, top
from parley.devcluster.handlers.sharing import serves_share_groups
from parley.devcluster.state.refused import Refused
from parley.errors.codes import UNSUPPORTED_VERSION
from parley.messages import DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse
from parley.schema import ApiKey, VersionRange
from parley.types import ZERO_UUID

Response = DescribeShareGroupOffsetsResponse
Topic = Response.DescribeShareGroupOffsetsResponseTopic
Partition = Response.DescribeShareGroupOffsetsResponsePartition


def handle(call: Call, request: DescribeShareGroupOffsetsRequest) -> Answer:
    """Say where each group goes on."""
    if not serves_share_groups(call):
        return each(request, call.version, lambda chain: UNSUPPORTED_VERSION)
    response = Response()
    for asked in request.groups:
        group = response.DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id)
        response.groups.append(group)
        try:
            require_coordinator(call, asked.group_id)
        except Refused as error:
            group.error_code, group.error_message = error.code, error.message
            continue
        wanted = _known(call, asked.group_id)
        if asked.topics is not None:
            wanted = {topic.topic_name: topic.partitions for topic in asked.topics}
        group.topics = list(_topics(call, asked.group_id, wanted))
    return response


def _known(call: Call, group: str) -> Mapping[str, Sequence[int]]:
    found: dict[str, list[int]] = {}
    for topic_id, index in call.cluster.share_groups.known(group):
        found.setdefault(call.image.names.get(topic_id, ""), []).append(index)
    return dict(sorted(found.items()))


def _topics(call: Call, group: str, wanted: Mapping[str, Sequence[int]]) -> Iterable[Topic]:
    for name, indexes in wanted.items():
        image = call.image.topics.get(name)
        topic = Topic(topic_name=name, topic_id=ZERO_UUID if image is None else image.topic_id)
        topic.partitions = [_partition(call, group, topic, index) for index in indexes]
        yield topic


def _partition(call: Call, group: str, topic: Topic, index: int) -> Partition:
    found = call.cluster.share_groups.partition(group, (topic.topic_id, index))
    answer = Partition(partition_index=index, start_offset=-1)
    if found is not None and found.is_begun:
        answer.start_offset, answer.leader_epoch = found.start_offset, max(found.leader_epoch, 0)
        image = call.cluster.image.partition(topic.topic_name, index)
        leader = call.cluster.replication.brokers.get(-1 if image is None else image.leader)
        if leader is not None:
            end = leader.find(topic.topic_name, index).high_watermark
            answer.lag = end - found.start_offset - found.done
    return answer


API = Handler(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, VersionRange(0, 1), handle, top)
