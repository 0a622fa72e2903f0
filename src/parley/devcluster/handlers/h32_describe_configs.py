"""DescribeConfigs (32), v0-4.

Behaviours:
- Topics, the broker that is asked (others: INVALID_REQUEST), all brokers by the empty name (1.1+);
  groups, and metrics with their defaults, where the release has them, no loggers.
- What a release lists, with type, default and what a topic inherits, is measured on real brokers.
- Sensitive values are null. A topic that does not exist has defaults before 2.0, later it is an
  error.

Version notes:
- v0 says only whether a value is the default (2.8 to 3.9: never); v1+ its source and synonyms
  (KIP-226), v3+ type and documentation (KIP-569; in parley's own words, null where the setting has
  no effect here).

Not implemented: loggers (an empty list), dynamic settings of metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.describing import (
    DEFAULT,
    Described,
    Place,
    broker_configs,
    group_configs,
    shared_configs,
    topic_configs,
)
from parley.devcluster.handlers.mirror import top
from parley.devcluster.release.configs import BROKER, GROUP, LOGGER, METRICS, TOPIC, configs_of
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.topics import check_topic_name
from parley.errors.codes import INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION
from parley.messages import DescribeConfigsRequest, DescribeConfigsResponse
from parley.schema import ApiKey, VersionRange

KNOWN_TYPES = (TOPIC, BROKER, LOGGER, METRICS, GROUP)
FIRST_SOURCE_VERSION = 1
FIRST_TYPE_VERSION = 3


def handle(call: Call, request: DescribeConfigsRequest) -> Answer:
    """Describe each resource."""
    response = DescribeConfigsResponse()
    for asked in request.resources:
        result = response.DescribeConfigsResult(
            resource_type=asked.resource_type, resource_name=asked.resource_name
        )
        response.results.append(result)
        try:
            found = list(_described(call, asked.resource_type, asked.resource_name))
        except Refused as error:
            result.error_code, result.error_message = error.code, error.message
            if (
                asked.resource_type not in KNOWN_TYPES
                and not call.profile.behaviour.echoes_unknown_resources
            ):
                result.resource_type = 0
            continue
        result.error_message = "" if call.profile.behaviour.describes_with_text else None
        wanted = asked.configuration_keys
        chosen = found if wanted is None else [one for one in found if one.config.name in wanted]
        result.configs = [_entry(call, request, response, one) for one in chosen]
    return response


def _described(call: Call, kind: int, name: str) -> Iterable[Described]:
    behaviour = call.profile.behaviour
    if kind == TOPIC:
        check_topic_name(name)
        topic = call.image.topics.get(name)
        if topic is None and not behaviour.describes_missing_topics:
            raise Refused(UNKNOWN_TOPIC_OR_PARTITION, "")
        return topic_configs(call, {} if topic is None else topic.configs)
    if kind == BROKER:
        if not name and behaviour.alters_brokers:
            return shared_configs(call)
        require_this_broker(call, name)
        return broker_configs(call)
    if kind == LOGGER and behaviour.knows_loggers:
        require_this_broker(call, name)
        return ()
    if kind == GROUP and behaviour.knows_group_resources:
        return group_configs(call, name)
    if kind == METRICS and behaviour.knows_metrics_resources:
        return _defaults(call, kind)
    raise Refused(INVALID_REQUEST, f"resources of type {kind} are not known")


def _defaults(call: Call, kind: int) -> Iterator[Described]:
    for config in configs_of(call.profile.release, kind).values():
        yield Described(config, (Place(config.name, config.default, DEFAULT),))


def require_this_broker(call: Call, name: str) -> None:
    """Raise Refused (INVALID_REQUEST) unless the name is the id of the broker that is asked."""
    if not name.lstrip("-").isdecimal():
        raise Refused(INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) != call.broker.id:
        raise Refused(
            INVALID_REQUEST,
            f"Unexpected broker id, expected {call.broker.id} or empty string, but received {name}",
        )


def _entry(
    call: Call,
    request: DescribeConfigsRequest,
    response: DescribeConfigsResponse,
    described: Described,
) -> DescribeConfigsResponse.DescribeConfigsResourceResult:
    config = described.config
    entry = response.DescribeConfigsResourceResult(
        name=config.name,
        value=described.value,
        read_only=not config.dynamic,
        is_sensitive=config.sensitive,
        config_source=described.source,
    )
    if call.version < FIRST_SOURCE_VERSION:
        entry.is_default = (
            described.source == DEFAULT and call.profile.behaviour.returns_defaults_in_v0
        )
        return entry
    if request.include_synonyms:
        entry.synonyms = [
            response.DescribeConfigsSynonym(
                name=place.name,
                value=None if config.sensitive else place.value,
                source=place.source,
            )
            for place in described.synonyms
        ]
    if call.version >= FIRST_TYPE_VERSION:
        entry.config_type = config.type_number
        if request.include_documentation:
            entry.documentation = config.text
    return entry


API = Handler(ApiKey.DESCRIBE_CONFIGS, VersionRange(0, 4), handle, top)
