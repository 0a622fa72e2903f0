"""Which broker coordinates a group or a transactional id, as a given broker knows it."""

from __future__ import annotations

from parley.devcluster.handlers.base import Call
from parley.devcluster.release.behaviour import Behaviour
from parley.devcluster.state.cluster_state import ClusterSettings
from parley.devcluster.state.groups.expiry import MINUTE_MS, Expiry
from parley.devcluster.state.groups.offsets import GROUP, TRANSACTION
from parley.devcluster.state.image import BrokerImage
from parley.devcluster.state.refused import Refused
from parley.errors.codes import COORDINATOR_NOT_AVAILABLE, INVALID_REQUEST, NOT_COORDINATOR


def expiry_rules(settings: ClusterSettings, behaviour: Behaviour) -> Expiry:
    """Return how long committed offsets are kept: what the cluster sets, or else the release."""
    minutes = settings.offsets_retention_minutes
    kept = behaviour.offsets_retention_minutes if minutes is None else minutes
    return Expiry(kept * MINUTE_MS, behaviour.groups_keep_offsets)


def find_coordinator(call: Call, key: str, kind: int = GROUP) -> BrokerImage:
    """Return the coordinator of a key. Raises Refused (COORDINATOR_NOT_AVAILABLE)
    when no broker is alive.
    """
    brokers = call.image.brokers
    found = brokers.get(call.cluster.coordinators.of(kind, key, brokers.keys()))
    if found is None:
        raise Refused(COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
    return found


def require_coordinator(call: Call, key: str, kind: int = GROUP) -> None:
    """Raise Refused (NOT_COORDINATOR) unless this broker coordinates the key."""
    if find_coordinator(call, key, kind).id != call.broker.id:
        raise Refused(NOT_COORDINATOR, f"broker {call.broker.id} does not coordinate {key!r}")


def require_transaction_coordinator(call: Call, transactional_id: str) -> None:
    """Raise Refused: INVALID_REQUEST for no name, NOT_COORDINATOR unless this
    broker coordinates the id.
    """
    if not transactional_id:
        raise Refused(INVALID_REQUEST, "a transactional id is not empty")
    cluster = call.cluster
    # A coordinator that was deposed behind its back finds that out by its log: the newest image
    # counts.
    if (
        cluster.coordinators.of(TRANSACTION, transactional_id, cluster.image.brokers.keys())
        != call.broker.id
    ):
        raise Refused(
            NOT_COORDINATOR, f"broker {call.broker.id} does not coordinate {transactional_id!r}"
        )
