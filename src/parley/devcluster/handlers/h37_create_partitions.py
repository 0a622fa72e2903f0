"""CreatePartitions (37), v0-3.

Behaviours:
- Done by the controller, as CreateTopics; in the journal and known to every broker before the
  answer.
- `count` is the new total and must be larger than the present one; with assignments there is one
  for each new partition.

Version notes:
- v2+ flexible, v3 throttling (KIP-599).

Not implemented: `timeout_ms`.
"""

from __future__ import annotations

from collections import Counter

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.mirror import top
from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REQUEST,
    KAFKA_STORAGE_ERROR,
    NOT_CONTROLLER,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from parley.messages import CreatePartitionsRequest, CreatePartitionsResponse
from parley.schema import ApiKey, VersionRange


def handle(call: Call, request: CreatePartitionsRequest) -> Answer:
    """Give each topic its partitions, or say why not."""
    if call.profile.behaviour.names_controller and call.image.controller_id != call.broker.id:
        return top(request, call.version, NOT_CONTROLLER)
    response = CreatePartitionsResponse()
    counts = Counter(topic.name for topic in request.topics)
    for asked in request.topics:
        result = response.CreatePartitionsTopicResult(name=asked.name)
        response.results.append(result)
        try:
            if counts[asked.name] > 1:
                raise Refused(INVALID_REQUEST, "Duplicate topic name.")
            _create(call, asked, validate_only=request.validate_only)
        except Refused as error:
            result.error_code, result.error_message = error.code, error.message
        except OSError as error:
            result.error_code, result.error_message = (
                KAFKA_STORAGE_ERROR,
                f"the disk refused: {error.strerror}",
            )
    return response


def _create(
    call: Call, asked: CreatePartitionsRequest.CreatePartitionsTopic, *, validate_only: bool
) -> None:
    topic = call.cluster.image.topics.get(asked.name)
    if topic is None:
        raise Refused(UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{asked.name}' does not exist.")
    present = len(topic.partitions)
    if asked.count <= present:
        raise Refused(
            INVALID_PARTITIONS,
            f"Topic currently has {present} partitions, which is not fewer than {asked.count}.",
        )
    added, factor = asked.count - present, len(topic.partitions[0].replicas)
    if asked.assignments is None:
        assignment = call.cluster.controller.spread(added, factor)
    else:
        assignment = [list(entry.broker_ids) for entry in asked.assignments]
        if len(assignment) != added:
            raise Refused(
                INVALID_REPLICA_ASSIGNMENT,
                f"{added} partitions are added, {len(assignment)} are assigned.",
            )
        if any(len(replicas) != factor for replicas in assignment):
            raise Refused(
                INVALID_REPLICA_ASSIGNMENT, f"Each partition of this topic has {factor} replicas."
            )
    call.cluster.controller.check_assignment(assignment)
    if not validate_only:
        call.cluster.add_partitions(asked.name, assignment, now_ms=call.now_ms)


API = Handler(ApiKey.CREATE_PARTITIONS, VersionRange(0, 3), handle, top)
