"""Which broker coordinates a group or a transactional id, as a given broker knows it."""

from __future__ import annotations

from parley.devcluster.handlers.base import Call
from parley.devcluster.state.codes import COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, Refused
from parley.devcluster.state.groups import coordinator_of
from parley.devcluster.state.image import BrokerImage


def find_coordinator(call: Call, key: str) -> BrokerImage:
    """Return the coordinator of a key. Raises Refused (COORDINATOR_NOT_AVAILABLE) when no broker is alive."""
    brokers = call.image.brokers
    found = brokers.get(coordinator_of(key, list(brokers)))
    if found is None:
        raise Refused(COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
    return found


def require_coordinator(call: Call, key: str) -> None:
    """Raise Refused (NOT_COORDINATOR) unless this broker coordinates the key."""
    if find_coordinator(call, key).id != call.broker.id:
        raise Refused(NOT_COORDINATOR, f"broker {call.broker.id} does not coordinate {key!r}")
