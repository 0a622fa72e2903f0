"""DescribeProducers (61), v0-0.

Behaviours:
- Answered by every broker that has a replica, also a follower: every producer id that it remembers,
  with epoch, last sequence and time, and where its open transaction begins.

Version notes:
- v0 (KIP-664) is the only one.

Not implemented: -
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.mirror import top
from parley.devcluster.state.refused import Refused
from parley.messages import DescribeProducersRequest, DescribeProducersResponse
from parley.schema import ApiKey, VersionRange


def handle(call: Call, request: DescribeProducersRequest) -> Answer:
    """List the producers of each partition."""
    response = DescribeProducersResponse()
    for topic in request.topics:
        result = response.TopicResponse(name=topic.name)
        response.topics.append(result)
        for index in topic.partition_indexes:
            answer = response.PartitionResponse(partition_index=index)
            try:
                answer.active_producers = _producers(call, response, topic.name, index)
            except Refused as error:
                answer.error_code = error.code  # brokers say no more
            result.partitions.append(answer)
    return response


def _producers(
    call: Call, response: DescribeProducersResponse, topic: str, index: int
) -> list[DescribeProducersResponse.ProducerState]:
    found = []
    producers = call.broker.find(topic, index).producers
    for state in producers.states():
        first = producers.transactions.first_offset(state.producer_id)
        producer = response.ProducerState(
            producer_id=state.producer_id,
            producer_epoch=state.epoch,
            last_sequence=state.last_sequence,
            last_timestamp=state.timestamp_ms,
            coordinator_epoch=state.coordinator_epoch,
            current_txn_start_offset=-1 if first is None else first,
        )
        found.append(producer)
    return found


API = Handler(ApiKey.DESCRIBE_PRODUCERS, VersionRange(0, 0), handle, top)
