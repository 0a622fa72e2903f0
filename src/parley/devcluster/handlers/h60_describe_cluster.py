"""DescribeCluster (60), v0-2.

Behaviours:
- The brokers alive, the controller and the cluster id, as this broker knows them.

Version notes:
- v1+ which endpoints are asked for (KIP-919): brokers' (1); others are MISMATCHED_ENDPOINT_TYPE or
  UNSUPPORTED_ENDPOINT_TYPE, v2+ fenced brokers too if asked for (there are none).

Not implemented: -
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.h03_metadata import CLUSTER_OPERATIONS
from parley.devcluster.handlers.mirror import top
from parley.errors.codes import MISMATCHED_ENDPOINT_TYPE, UNSUPPORTED_ENDPOINT_TYPE
from parley.messages import DescribeClusterRequest, DescribeClusterResponse
from parley.schema import ApiKey, VersionRange

BROKERS, CONTROLLERS = 1, 2


def handle(call: Call, request: DescribeClusterRequest) -> Answer:
    """Describe the cluster."""
    if request.endpoint_type != BROKERS:
        known = request.endpoint_type == CONTROLLERS
        code = MISMATCHED_ENDPOINT_TYPE if known else UNSUPPORTED_ENDPOINT_TYPE
        return top(
            request,
            call.version,
            code,
            f"brokers do not know endpoints of type {request.endpoint_type}",
        )
    image = call.image
    response = DescribeClusterResponse(
        cluster_id=image.cluster_id, controller_id=image.controller_id
    )
    for broker in image.brokers.values():
        response.brokers.append(
            response.DescribeClusterBroker(
                broker_id=broker.id, host=broker.host, port=broker.port, rack=broker.rack
            )
        )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


API = Handler(ApiKey.DESCRIBE_CLUSTER, VersionRange(0, 2), handle, top)
