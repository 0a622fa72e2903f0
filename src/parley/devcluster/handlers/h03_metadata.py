"""Metadata (3), v0-13.

Behaviours:
- Reports what *this* broker knows; a broker kept stale reports old leaders with old epochs.
- A topic that does not exist is created if the request and the cluster allow it; the answer to the
  creating request still says LEADER_NOT_AVAILABLE (ZooKeeper releases) or
  UNKNOWN_TOPIC_OR_PARTITION (KRaft, 3.3+).
- A partition without leader: LEADER_NOT_AVAILABLE, leader -1.

Version notes:
- v0: no topics listed means all; v1+: null means all, an empty list none. v1+ controller, rack,
  internal (KIP-4), v2+ cluster id (KIP-78), v3+ throttle time, v4+ allow_auto_topic_creation
  (KIP-204; always true before), v5+ offline replicas (KIP-112), v7+ leader epoch (KIP-320), v8+
  authorized operations (KIP-430; 8-10 for the cluster), v10+ topic ids (KIP-516), v12+ asked by
  topic id.
- Leader epochs of v7-8 are given too: clients must not trust them (KAFKA-9212).

Not implemented: authorization (every operation is allowed).
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.state.group_coordinator.topic import OFFSETS_TOPIC
from parley.devcluster.state.image import PartitionImage, TopicImage
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.topics import check_topic_name
from parley.errors.codes import (
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    LEADER_NOT_AVAILABLE,
    NONE,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from parley.messages import MetadataRequest, MetadataResponse
from parley.schema import ApiKey, VersionRange
from parley.types import ZERO_UUID

FIRST_NULL_VERSION = 1
FIRST_ID_VERSION = 12
# the id is in the request, but may not be asked for (KAFKA-12701)
UNUSABLE_ID_VERSIONS = VersionRange(10, 11)
FIRST_OPERATIONS_VERSION = 8
CLUSTER_OPERATIONS_VERSIONS = VersionRange(8, 10)
# Bits of AclOperation that a broker without authorizer returns: all that the resource knows.
# create, alter, describe, cluster action, configs, idempotent write
CLUSTER_OPERATIONS = 0b1_1111_1010_0000
TOPIC_OPERATIONS = 0b0_1101_1111_1000  # read, write, create, delete, alter, describe, configs


def handle(call: Call, request: MetadataRequest) -> Answer:
    """Describe brokers and topics."""
    image = call.image
    named = request.topics or ()
    if call.version in UNUSABLE_ID_VERSIONS and any(
        t.name is None or t.topic_id != ZERO_UUID for t in named
    ):
        return refuse(request, call.version, INVALID_REQUEST)
    response = MetadataResponse(cluster_id=image.cluster_id, controller_id=image.controller_id)
    for broker in image.brokers.values():
        response.brokers.append(
            response.MetadataResponseBroker(
                node_id=broker.id, host=broker.host, port=broker.port, rack=broker.rack
            )
        )
    if request.topics is None or (call.version < FIRST_NULL_VERSION and not request.topics):
        response.topics = [
            _described(call, request, response, topic) for topic in image.topics.values()
        ]
    else:
        response.topics = [_asked(call, request, response, asked) for asked in request.topics]
    if call.version in CLUSTER_OPERATIONS_VERSIONS:
        included = request.include_cluster_authorized_operations
        response.cluster_authorized_operations = CLUSTER_OPERATIONS if included else _unasked(call)
    return response


def _asked(
    call: Call,
    request: MetadataRequest,
    response: MetadataResponse,
    asked: MetadataRequest.MetadataRequestTopic,
) -> MetadataResponse.MetadataResponseTopic:
    if asked.name is None or (asked.topic_id != ZERO_UUID and not asked.name):
        found = call.image.topic_by_id(asked.topic_id)
        if found is None:
            return _without(call, response, UNKNOWN_TOPIC_ID, None, asked.topic_id)
        return _described(call, request, response, found)
    topic = call.image.topics.get(asked.name)
    if topic is not None:
        return _described(call, request, response, topic)
    return _without(call, response, _missing(call, request, asked.name), asked.name, ZERO_UUID)


def _missing(call: Call, request: MetadataRequest, name: str) -> int:
    """Create a topic that is missing, if that is allowed; return the code of this answer."""
    try:
        check_topic_name(name)
    except Refused:
        return INVALID_TOPIC_EXCEPTION
    settings, behaviour = call.cluster.settings, call.profile.behaviour
    if not (request.allow_auto_topic_creation and settings.auto_create_topics):
        return UNKNOWN_TOPIC_OR_PARTITION
    if name in call.cluster.image.topics:  # created, and this broker has not heard of it
        return LEADER_NOT_AVAILABLE
    try:
        if name == OFFSETS_TOPIC:
            call.cluster.group_coordinator.topic.create(now_ms=call.now_ms)
        else:
            assignment = call.cluster.controller.spread(
                settings.num_partitions, settings.default_replication_factor
            )
            call.cluster.create_topic(name, assignment, {}, now_ms=call.now_ms)
    except Refused as error:
        # in KRaft the controller hears of it, and nobody waits for what it says
        return error.code if behaviour.names_controller else behaviour.auto_create_code
    except OSError:
        return UNKNOWN_SERVER_ERROR
    return behaviour.auto_create_code


def _without(
    call: Call, response: MetadataResponse, code: int, name: str | None, topic_id: bytes
) -> MetadataResponse.MetadataResponseTopic:
    answer = response.MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id)
    if call.version >= FIRST_OPERATIONS_VERSION:
        answer.topic_authorized_operations = _unasked(call)
    return answer


def _described(
    call: Call, request: MetadataRequest, response: MetadataResponse, topic: TopicImage
) -> MetadataResponse.MetadataResponseTopic:
    partitions = [
        _partition(call, response, index, partition)
        for index, partition in enumerate(topic.partitions)
    ]
    answer = response.MetadataResponseTopic(
        error_code=NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=partitions,
    )
    if call.version >= FIRST_OPERATIONS_VERSION:
        asked = request.include_topic_authorized_operations
        answer.topic_authorized_operations = TOPIC_OPERATIONS if asked else _unasked(call)
    return answer


def _unasked(call: Call) -> int:
    return call.profile.behaviour.unasked_operations


def _partition(
    call: Call, response: MetadataResponse, index: int, partition: PartitionImage
) -> MetadataResponse.MetadataResponsePartition:
    alive = call.image.brokers
    led = partition.leader in alive
    returns_epoch = led or call.profile.behaviour.returns_epoch_without_leader
    return response.MetadataResponsePartition(
        error_code=NONE if led else LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=partition.leader if led else -1,
        leader_epoch=partition.leader_epoch if returns_epoch else -1,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(call.reported_isr(partition)),
        offline_replicas=[replica for replica in partition.replicas if replica not in alive],
    )


def refuse(request: MetadataRequest, version: int, code: int) -> MetadataResponse:
    """Answer `code` for each topic asked for; where all were asked for, for none."""
    response = MetadataResponse(error_code=code)
    for asked in request.topics or ():
        name = asked.name or "" if version < FIRST_ID_VERSION else asked.name
        topic = response.MetadataResponseTopic(error_code=code, name=name, topic_id=asked.topic_id)
        response.topics.append(topic)
    return response


API = Handler(ApiKey.METADATA, VersionRange(0, 13), handle, refuse)
