"""OffsetForLeaderEpoch (23), v0-4.

Behaviours:
- Answered by the leader: the end of the epoch asked for, or of the largest known one below it; (-1,
  -1) when the log knows neither (KIP-279).
- Clients' leader epochs are checked since v2 (KIP-320).

Version notes:
- v1+ the epoch found is returned, v2+ current leader epoch and throttle time, v3+ replica id (-1
  for consumers; allowed with DESCRIBE on the topic), v4 flexible.
- Clients use v3+ only: earlier ones needed CLUSTER permission (KAFKA-8422).

Not implemented: requests of followers (they are treated as consumers').
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler, leader_replica
from parley.devcluster.state.refused import Refused
from parley.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from parley.schema import ApiKey, VersionRange


def handle(call: Call, request: OffsetForLeaderEpochRequest) -> Answer:
    """Look up where each epoch ends."""
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        result = response.OffsetForLeaderTopicResult(topic=topic.topic)
        for asked in topic.partitions:
            result.partitions.append(_partition(call, response, topic.topic, asked))
        response.topics.append(result)
    return response


def _partition(
    call: Call,
    response: OffsetForLeaderEpochResponse,
    topic: str,
    asked: OffsetForLeaderEpochRequest.OffsetForLeaderPartition,
) -> OffsetForLeaderEpochResponse.EpochEndOffset:
    answer = response.EpochEndOffset(partition=asked.partition, leader_epoch=-1, end_offset=-1)
    try:
        replica = leader_replica(call, topic, asked.partition, asked.current_leader_epoch)
    except Refused as error:
        answer.error_code = error.code
        return answer
    answer.leader_epoch, answer.end_offset = replica.end_of_epoch(asked.leader_epoch)
    return answer


def refuse(
    request: OffsetForLeaderEpochRequest, version: int, code: int
) -> OffsetForLeaderEpochResponse:
    """Answer `code` for each partition."""
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        result = response.OffsetForLeaderTopicResult(topic=topic.topic)
        for asked in topic.partitions:
            result.partitions.append(
                response.EpochEndOffset(
                    partition=asked.partition, error_code=code, leader_epoch=-1, end_offset=-1
                )
            )
        response.topics.append(result)
    return response


API = Handler(ApiKey.OFFSET_FOR_LEADER_EPOCH, VersionRange(0, 4), handle, refuse)
