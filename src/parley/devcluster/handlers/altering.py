"""Changing the settings of topics and brokers: what AlterConfigs and IncrementalAlterConfigs have
in common.

Rules of this file:
1. A resource is changed whole or not at all, and not at all with validate_only.
2. What is changed is in the journal and in force at every broker before the answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from parley.devcluster.handlers.base import Call
from parley.devcluster.handlers.describing import MIN_ISR, has_eligible_leaders
from parley.devcluster.handlers.group_settings import check_group_config
from parley.devcluster.handlers.h32_describe_configs import require_this_broker
from parley.devcluster.handlers.mirror import Chain, each
from parley.devcluster.release.configs import BROKER, GROUP, TOPIC, Configs, configs_of
from parley.devcluster.release.topic_configs import check_topic_configs
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.topics import check_topic_name
from parley.errors.codes import (
    INVALID_CONFIG,
    INVALID_REQUEST,
    KAFKA_STORAGE_ERROR,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from parley.messages import Message

if TYPE_CHECKING:
    from parley.messages import AlterConfigsRequest, IncrementalAlterConfigsRequest

    Resource = (
        AlterConfigsRequest.AlterConfigsResource
        | IncrementalAlterConfigsRequest.AlterConfigsResource
    )

Q = TypeVar("Q", "AlterConfigsRequest", "IncrementalAlterConfigsRequest")
Change = Callable[[Mapping[str, str], Configs], dict[str, str]]
"""From the present own settings of a resource, and the settings it knows, to its new ones."""


def alter_each(call: Call, request: Q, change_of: Callable[[Any], Change]) -> Message:
    """Change each resource of a request; return the response."""
    counts = Counter((asked.resource_type, asked.resource_name) for asked in request.resources)
    texts: dict[int, str | None] = {}

    def code_of(chain: Chain) -> int:
        asked: Resource = chain[-1]
        try:
            if counts[asked.resource_type, asked.resource_name] > 1:
                raise Refused(INVALID_REQUEST, "Each resource must appear at most once.")
            if len({config.name for config in asked.configs}) < len(asked.configs):
                raise Refused(INVALID_REQUEST, "Error due to duplicate config keys")
            _alter(call, asked, change_of(asked), validate_only=request.validate_only)
        except Refused as error:
            texts[id(asked)] = error.message
            return error.code
        except OSError as error:
            texts[id(asked)] = f"the disk refused: {error.strerror}"
            return KAFKA_STORAGE_ERROR
        return NONE

    response = each(request, call.version, code_of)
    for asked, answer in zip(request.resources, response.responses, strict=True):
        answer.error_message = texts.get(id(asked))
    return response


def _alter(call: Call, asked: Resource, change: Change, *, validate_only: bool) -> None:
    if asked.resource_type == TOPIC:
        _alter_topic(call, asked.resource_name, change, validate_only=validate_only)
    elif asked.resource_type == BROKER and call.profile.behaviour.alters_brokers:
        _alter_broker(call, asked.resource_name, change, validate_only=validate_only)
    elif asked.resource_type == GROUP and call.profile.behaviour.knows_group_resources:
        _alter_group(call, asked.resource_name, change, validate_only=validate_only)
    else:
        raise Refused(
            INVALID_REQUEST,
            f"settings of resource type {asked.resource_type} cannot be changed here",
        )


def _alter_topic(call: Call, name: str, change: Change, *, validate_only: bool) -> None:
    behaviour, topic = call.profile.behaviour, call.cluster.image.topics.get(name)
    check_topic_name(name)
    if topic is None and behaviour.names_controller:
        # ZooKeeper releases look for the topic before they look at the settings.
        raise Refused(behaviour.alter_missing_topic_code, f'Topic "{name}" does not exist.')
    release, present = call.profile.release, {} if topic is None else topic.configs
    configs = change(present, configs_of(release, TOPIC))
    # settings from the cluster's owner may be what no client could set
    changed = {key: value for key, value in configs.items() if present.get(key) != value}
    check_topic_configs(release, changed, behaviour.invalid_altered_value_code)
    call.cluster.configs.check(configs)
    if topic is None:
        raise Refused(UNKNOWN_TOPIC_OR_PARTITION, "The topic does not exist.")
    if not validate_only:
        call.cluster.alter_topic(name, configs, now_ms=call.now_ms)


def _alter_broker(call: Call, name: str, change: Change, *, validate_only: bool) -> None:
    if name:
        require_this_broker(call, name)
    known = configs_of(call.profile.release, BROKER)
    present = call.cluster.configs.of_broker(name)
    configs = change(present, known)
    for key, value in configs.items():
        config = known.get(key)
        if config is None or present.get(key) == value:
            continue
        if not config.dynamic:
            raise Refused(INVALID_REQUEST, f"Cannot update these configs dynamically: {key}")
        if not config.accepts(value):
            raise Refused(INVALID_REQUEST, f"Invalid value {value} for configuration {key}")
        if name and key == MIN_ISR and has_eligible_leaders(call):
            raise Refused(INVALID_CONFIG, f"Broker-level {MIN_ISR} cannot be altered")
    if not validate_only:
        call.cluster.configs.alter_broker(name, configs)


def _alter_group(call: Call, name: str, change: Change, *, validate_only: bool) -> None:
    if not name:
        raise Refused(INVALID_REQUEST, "Default group resources are not allowed.")
    configs = change(call.cluster.configs.of_group(name), configs_of(call.profile.release, GROUP))
    for key, value in configs.items():
        check_group_config(call.profile.release, key, value)
    if not validate_only:
        call.cluster.configs.alter_group(name, configs)
