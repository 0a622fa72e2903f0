"""CreateTopics (19), v0-7.

Behaviours:
- Done by the controller; other brokers answer NOT_CONTROLLER in releases with ZooKeeper and pass it
  on in KRaft releases (3.3+).
- The topic is in the journal and known to every broker before the answer.
- Names, partition counts, replication factors, assignments and settings are checked as Kafka does.

Version notes:
- v1+ validate_only and error message (KIP-4), v2+ throttle time, v5+ the topic's numbers and
  configs (KIP-525), v7+ topic id (KIP-516). v4 says that -1 means the broker's default partitions
  and replication factor (KIP-464): releases from 2.4 on take it in every version.

Not implemented: effects of settings beyond min.insync.replicas, max.message.bytes, segment.bytes,
segment.ms, message.timestamp.*, unclean.leader.election.enable, retention, cleanup.policy and what
compaction goes by; `timeout_ms`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.describing import topic_configs
from parley.devcluster.release.topic_configs import check_topic_configs
from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR,
    INVALID_REQUEST,
    KAFKA_STORAGE_ERROR,
    NOT_CONTROLLER,
)
from parley.messages import CreateTopicsRequest, CreateTopicsResponse
from parley.schema import ApiKey, VersionRange

DEFAULT = -1
FIRST_DETAILS_VERSION = 5


def handle(call: Call, request: CreateTopicsRequest) -> Answer:
    """Create each topic, or say why not."""
    if call.profile.behaviour.names_controller and call.image.controller_id != call.broker.id:
        return refuse(request, call.version, NOT_CONTROLLER)
    response = CreateTopicsResponse()
    counts = Counter(topic.name for topic in request.topics)
    for asked in request.topics:
        result = response.CreatableTopicResult(name=asked.name, error_message=None)
        response.topics.append(result)
        try:
            if counts[asked.name] > 1:
                raise Refused(INVALID_REQUEST, "Duplicate topic name.")
            _create(call, request, response, asked, result)
        except Refused as error:
            result.error_code, result.error_message = error.code, error.message
        except OSError as error:
            result.error_code, result.error_message = (
                KAFKA_STORAGE_ERROR,
                f"the disk refused: {error.strerror}",
            )
    return response


def _create(
    call: Call,
    request: CreateTopicsRequest,
    response: CreateTopicsResponse,
    asked: CreateTopicsRequest.CreatableTopic,
    result: CreateTopicsResponse.CreatableTopicResult,
) -> None:
    call.cluster.controller.check_new_topic(asked.name, ())
    configs = {config.name: config.value or "" for config in asked.configs}
    if not call.profile.behaviour.checks_assignment_first:
        _check_settings(call, configs)
    assignment = _assignment(call, asked)
    _check_settings(call, configs)
    call.cluster.controller.check_new_topic(asked.name, assignment)
    if not request.validate_only:
        topic = call.cluster.create_topic(asked.name, assignment, configs, now_ms=call.now_ms)
        result.topic_id = topic.topic_id
    if call.version >= FIRST_DETAILS_VERSION:
        _describe(call, response, result, assignment, configs)


def _check_settings(call: Call, configs: Mapping[str, str]) -> None:
    check_topic_configs(call.profile.release, configs, call.profile.behaviour.invalid_value_code)


def _assignment(call: Call, asked: CreateTopicsRequest.CreatableTopic) -> list[list[int]]:
    given = {entry.partition_index: list(entry.broker_ids) for entry in asked.assignments}
    settings = call.cluster.settings
    if given:
        if asked.num_partitions != DEFAULT or asked.replication_factor != DEFAULT:
            raise Refused(
                INVALID_REQUEST, "Both numPartitions or replicationFactor and assignments were set."
            )
        if sorted(given) != list(range(len(given))):
            raise Refused(
                INVALID_REPLICA_ASSIGNMENT, "partitions must be assigned from 0 on without a gap"
            )
        return [given[index] for index in range(len(given))]
    partitions, factor = asked.num_partitions, asked.replication_factor
    if call.profile.behaviour.has_topic_defaults:
        partitions = settings.num_partitions if partitions == DEFAULT else partitions
        factor = settings.default_replication_factor if factor == DEFAULT else factor
    if partitions <= 0:
        raise Refused(INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if factor <= 0:
        raise Refused(INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    return call.cluster.controller.spread(partitions, factor)


def _describe(
    call: Call,
    response: CreateTopicsResponse,
    result: CreateTopicsResponse.CreatableTopicResult,
    assignment: list[list[int]],
    configs: Mapping[str, str],
) -> None:
    result.num_partitions = len(assignment)
    result.replication_factor = len(assignment[0])
    result.configs = [
        response.CreatableTopicConfigs(
            name=one.config.name,
            value=one.value,
            config_source=one.source,
            is_sensitive=one.config.sensitive,
        )
        for one in topic_configs(call, configs)
    ]


def refuse(request: CreateTopicsRequest, version: int, code: int) -> CreateTopicsResponse:
    """Answer `code` for each topic."""
    response = CreateTopicsResponse()
    response.topics = [
        response.CreatableTopicResult(name=asked.name, error_code=code) for asked in request.topics
    ]
    return response


API = Handler(ApiKey.CREATE_TOPICS, VersionRange(0, 7), handle, refuse)
