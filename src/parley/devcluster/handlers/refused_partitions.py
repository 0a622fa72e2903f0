"""Elections and reassignments: leaders and replicas are moved by whoever drives the cluster."""

from __future__ import annotations

from parley.devcluster.handlers.base import Call
from parley.devcluster.handlers.mirror import Chain
from parley.devcluster.handlers.refusing import Refusal, head
from parley.errors.codes import (
    ELECTION_NOT_NEEDED,
    INVALID_REPLICA_ASSIGNMENT,
    NO_REASSIGNMENT_IN_PROGRESS,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from parley.schema import ApiKey


def election(call: Call, chain: Chain) -> int:
    """Every partition that exists has the best leader it can have."""
    return ELECTION_NOT_NEEDED if _exists(call, chain) else UNKNOWN_TOPIC_OR_PARTITION


def reassignment(call: Call, chain: Chain) -> int:
    """Refuse new replicas, find nothing to cancel."""
    replicas = chain[-1].replicas
    unusable = replicas is not None and not (
        replicas and set(replicas) <= call.image.brokers.keys()
    )
    if call.profile.behaviour.names_controller and unusable:
        # ZooKeeper releases look at the replicas before the topic
        return INVALID_REPLICA_ASSIGNMENT
    if not _exists(call, chain):
        return UNKNOWN_TOPIC_OR_PARTITION
    return NO_REASSIGNMENT_IN_PROGRESS if replicas is None else INVALID_REPLICA_ASSIGNMENT


def _exists(call: Call, chain: Chain) -> bool:
    topic, partition = chain[-2], chain[-1]
    name = topic.topic if hasattr(type(topic), "topic") else topic.name
    index = partition if isinstance(partition, int) else partition.partition_index
    return call.image.partition(name, index) is not None


REFUSALS = (
    Refusal(
        ApiKey.ELECT_LEADERS,
        (ELECTION_NOT_NEEDED, UNKNOWN_TOPIC_OR_PARTITION),
        "leaders are elected by themselves; LocalCluster.move_leader moves them",
        election,
        at_each=True,
    ),
    Refusal(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        (INVALID_REPLICA_ASSIGNMENT, UNKNOWN_TOPIC_OR_PARTITION, NO_REASSIGNMENT_IN_PROGRESS),
        "replicas stay where they are; LocalCluster.move_leader moves them",
        reassignment,
        at_each=True,
    ),
    head(ApiKey.LIST_PARTITION_REASSIGNMENTS, NONE, "no reassignment is ever in progress"),
)
