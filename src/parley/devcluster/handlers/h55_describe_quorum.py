"""DescribeQuorum (55), v0-2.

Behaviours:
- The controller is the quorum's only voter and its leader, the other brokers alive observe it.
  Every image of the cluster counts as one record of the metadata log, which everybody has read.
- Asked for anything else than partition 0 of `__cluster_metadata`, alone:
  UNKNOWN_TOPIC_OR_PARTITION at each partition, as real brokers do.

Version notes:
- v1+ when each replica last fetched and was last caught up (KIP-836).
- v2+ nodes and directory ids (KIP-853), error messages.

Not implemented: more voters than one, controllers' listeners (v2 names none).
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.mirror import each, top
from parley.errors.codes import UNKNOWN_TOPIC_OR_PARTITION
from parley.messages import DescribeQuorumRequest, DescribeQuorumResponse
from parley.schema import ApiKey, VersionRange

METADATA_LOG = ("__cluster_metadata", 0)
LEADER_EPOCH = 1
FIRST_NODES_VERSION = 2
NOT_HERE = "This server does not host this topic-partition."


def handle(call: Call, request: DescribeQuorumRequest) -> Answer:
    """Describe the quorum of the metadata log."""
    asked = [
        (topic.topic_name, part.partition_index)
        for topic in request.topics
        for part in topic.partitions
    ]
    if asked != [METADATA_LOG]:
        return each(request, call.version, lambda chain: UNKNOWN_TOPIC_OR_PARTITION, NOT_HERE)
    image = call.image
    response = DescribeQuorumResponse()

    def replica(broker_id: int) -> DescribeQuorumResponse.ReplicaState:
        return response.ReplicaState(
            replica_id=broker_id, log_end_offset=image.epoch, last_fetch_timestamp=call.now_ms,
            last_caught_up_timestamp=call.now_ms,
        )  # fmt: skip

    quorum = response.PartitionData(
        leader_id=image.controller_id,
        leader_epoch=LEADER_EPOCH,
        high_watermark=image.epoch,
        current_voters=[replica(image.controller_id)],
        observers=[
            replica(broker_id) for broker_id in image.brokers if broker_id != image.controller_id
        ],
    )
    response.topics.append(response.TopicData(topic_name=METADATA_LOG[0], partitions=[quorum]))
    if call.version >= FIRST_NODES_VERSION:
        response.nodes.append(response.Node(node_id=image.controller_id))
    return response


API = Handler(ApiKey.DESCRIBE_QUORUM, VersionRange(0, 2), handle, top)
