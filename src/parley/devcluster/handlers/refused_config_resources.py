"""Resources with settings: those that the cluster has are listed, of other kinds there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.devcluster.handlers.base import Call
from parley.devcluster.handlers.refusing import Refusal
from parley.devcluster.release.configs import BROKER, GROUP, LOGGER, METRICS, TOPIC
from parley.errors.codes import NONE, UNSUPPORTED_VERSION
from parley.messages import ListConfigResourcesResponse
from parley.schema import ApiKey

if TYPE_CHECKING:
    from parley.messages import ListConfigResourcesRequest, Message


def list_resources(call: Call, request: ListConfigResourcesRequest) -> Message:
    """List the topics and brokers that have settings; v0 asks for metrics resources only."""
    response = ListConfigResourcesResponse()
    if call.version == 0:
        return response
    kinds = set(request.resource_types)
    if kinds - {TOPIC, BROKER, LOGGER, METRICS, GROUP}:
        return ListConfigResourcesResponse(error_code=UNSUPPORTED_VERSION)
    for kind in sorted(kinds or {TOPIC, BROKER, LOGGER, GROUP}):
        names = [str(broker) for broker in call.image.brokers] if kind in (BROKER, LOGGER) else []
        names = list(call.image.topics) if kind == TOPIC else names
        names = call.cluster.configs.configured_groups() if kind == GROUP else names
        response.config_resources += [
            response.ConfigResource(resource_name=n, resource_type=kind) for n in names
        ]
    return response


REFUSALS = (
    Refusal(
        ApiKey.LIST_CONFIG_RESOURCES,
        (NONE, UNSUPPORTED_VERSION),
        "topics, brokers and groups with settings are listed; there are no resources of "
        "other kinds",
        build=list_resources,
    ),
)
