"""DescribeTopicPartitions (75), v0-0.

Behaviours:
- Topics in the order of their names, all of them when none is named; after the limit a cursor says
  where to go on (KIP-966).
- A topic that does not exist: UNKNOWN_TOPIC_OR_PARTITION. Nothing is created.

Version notes:
- v0 is the only one; authorized operations are always returned.

Not implemented: eligible leader replicas beyond the last one in sync. Where min.insync.replicas is
above 1, brokers from 4.1 on keep those too that died while fewer were in sync, and elect them.
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.h03_metadata import TOPIC_OPERATIONS
from parley.devcluster.handlers.mirror import top
from parley.devcluster.state.image import PartitionImage, TopicImage
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.topics import check_topic_name
from parley.errors.codes import (
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    LEADER_NOT_AVAILABLE,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from parley.messages import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from parley.schema import ApiKey, VersionRange

LARGEST_LIMIT = 2000  # max.request.partition.size.limit


def handle(call: Call, request: DescribeTopicPartitionsRequest) -> Answer:
    """Describe partitions until the limit is reached."""
    names = sorted({topic.name for topic in request.topics} or call.image.topics)
    cursor, first = request.cursor, 0
    if cursor is not None:
        if cursor.partition_index < 0:
            return top(request, call.version, INVALID_REQUEST)
        names = [name for name in names if name >= cursor.topic_name]
    response = DescribeTopicPartitionsResponse()
    left = max(1, min(request.response_partition_limit, LARGEST_LIMIT))
    for name in names:
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        if left <= 0:
            response.next_cursor = response.Cursor(topic_name=name, partition_index=first)
            break
        image = call.image.topics.get(name)
        if image is None:
            response.topics.append(_missing(response, name))
            continue
        shown = image.partitions[first : first + left]
        response.topics.append(_described(call, response, image, first, shown))
        left -= len(shown)
        if first + len(shown) < len(image.partitions):
            response.next_cursor = response.Cursor(
                topic_name=name, partition_index=first + len(shown)
            )
            break
    return response


def _missing(
    response: DescribeTopicPartitionsResponse, name: str
) -> DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic:
    try:
        check_topic_name(name)
        code = UNKNOWN_TOPIC_OR_PARTITION
    except Refused:
        code = INVALID_TOPIC_EXCEPTION
    return response.DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_authorized_operations=TOPIC_OPERATIONS
    )


def _described(
    call: Call,
    response: DescribeTopicPartitionsResponse,
    image: TopicImage,
    first: int,
    shown: tuple[PartitionImage, ...],
) -> DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic:
    alive = call.image.brokers
    topic = response.DescribeTopicPartitionsResponseTopic(
        name=image.name,
        topic_id=image.topic_id,
        is_internal=image.internal,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
    for index, partition in enumerate(shown, first):
        led = partition.leader in alive
        topic.partitions.append(
            response.DescribeTopicPartitionsResponsePartition(
                error_code=NONE if led else LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=partition.leader if led else -1,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(call.reported_isr(partition)),
                eligible_leader_replicas=list(call.reported_eligible(partition)),
                last_known_elr=list(call.reported_eligible(partition)),
                offline_replicas=[
                    replica for replica in partition.replicas if replica not in alive
                ],
            )
        )
    return topic


API = Handler(ApiKey.DESCRIBE_TOPIC_PARTITIONS, VersionRange(0, 0), handle, top)
