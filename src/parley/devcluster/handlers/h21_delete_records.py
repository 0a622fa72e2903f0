"""DeleteRecords (21), v0-2.

Behaviours:
- Done by the leader: the log begins at the offset given, -1 means the high watermark; offsets above
  it are OFFSET_OUT_OF_RANGE. The start survives a restart, and reaches replicas that were stopped.
- Answers the lowest start among the replicas that run.
- A topic that is only compacted: POLICY_VIOLATION; Kafka's own topics: INVALID_TOPIC_EXCEPTION.

Version notes:
- v2 flexible.

Not implemented: `timeout_ms` (followers have deleted before the answer).
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler, code_of, leader_replica
from parley.devcluster.handlers.mirror import top
from parley.devcluster.state.refused import Refused
from parley.errors.codes import INVALID_TOPIC_EXCEPTION, KAFKA_STORAGE_ERROR, POLICY_VIOLATION
from parley.messages import DeleteRecordsRequest, DeleteRecordsResponse
from parley.schema import ApiKey, VersionRange

HIGH_WATERMARK = -1


def handle(call: Call, request: DeleteRecordsRequest) -> Answer:
    """Delete the records below each offset."""
    response = DeleteRecordsResponse()
    for topic in request.topics:
        result = response.DeleteRecordsTopicResult(name=topic.name)
        response.topics.append(result)
        for asked in topic.partitions:
            answer = response.DeleteRecordsPartitionResult(
                partition_index=asked.partition_index, low_watermark=-1
            )
            try:
                answer.low_watermark = _delete(call, topic.name, asked)
            except (Refused, OSError) as error:
                answer.error_code = code_of(error, KAFKA_STORAGE_ERROR)
            result.partitions.append(answer)
    return response


def _delete(call: Call, topic: str, asked: DeleteRecordsRequest.DeleteRecordsPartition) -> int:
    image = call.image.topics.get(topic)
    if image is not None and image.internal:
        raise Refused(INVALID_TOPIC_EXCEPTION, f"{topic} is Kafka's own")
    replica = leader_replica(call, topic, asked.partition_index)
    configs = {} if image is None else image.configs
    if not call.cluster.configs.log_settings(configs, call.broker.id).deletes:
        raise Refused(POLICY_VIOLATION, f"{topic} is compacted, records go by key")
    offset = replica.high_watermark if asked.offset == HIGH_WATERMARK else asked.offset
    return call.cluster.delete_records(replica, offset)


def refuse(request: DeleteRecordsRequest, version: int, code: int) -> DeleteRecordsResponse:
    """Answer `code` for each partition."""
    response = top(request, version, code)
    for topic in response.topics:
        for partition in topic.partitions:
            partition.low_watermark = -1
    return response


API = Handler(ApiKey.DELETE_RECORDS, VersionRange(0, 2), handle, refuse)
