"""Which broker coordinates a group or a transactional id, as a given broker knows it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from parley.devcluster.handlers.base import Call, Wait
from parley.devcluster.release.behaviour import Behaviour
from parley.devcluster.state.group_coordinator.topic import Place
from parley.devcluster.state.groups.expiry import MINUTE_MS, Expiry
from parley.devcluster.state.groups.offsets import GROUP, TRANSACTION
from parley.devcluster.state.image import BrokerImage
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.settings import ClusterSettings
from parley.errors.codes import COORDINATOR_NOT_AVAILABLE, INVALID_REQUEST, NOT_COORDINATOR
from parley.messages import Message

COMMIT_TIMEOUT_MS = 5_000
"""`offsets.commit.timeout.ms`: how long a commit waits for replicas."""


def expiry_rules(settings: ClusterSettings, behaviour: Behaviour) -> Expiry:
    """Return how long committed offsets are kept: what the cluster sets, or else the release."""
    minutes = settings.offsets_retention_minutes
    kept = behaviour.offsets_retention_minutes if minutes is None else minutes
    return Expiry(kept * MINUTE_MS, behaviour.groups_keep_offsets)


def when_safe(
    place: Place | None, answer: Message, refused: Callable[[int], Message]
) -> Message | Wait:
    """Return an answer that waits until what was written cannot be lost.

    `refused` makes that of a code: NOT_COORDINATOR when another broker leads meanwhile,
    COORDINATOR_NOT_AVAILABLE after `offsets.commit.timeout.ms`.
    """
    if place is None or place.is_safe:
        return answer

    def attempt(expired: bool) -> Message | None:
        if place.is_safe:
            return answer
        if not place.replica.is_leader:
            return refused(NOT_COORDINATOR)
        return refused(COORDINATOR_NOT_AVAILABLE) if expired else None

    return Wait([place.replica], COMMIT_TIMEOUT_MS, attempt)


def find_coordinator(call: Call, key: str, kind: int = GROUP) -> BrokerImage:
    """Return the coordinator of a key, as this broker knows it.

    The first one who asks for that of a group makes the topic of groups. Raises Refused
    (COORDINATOR_NOT_AVAILABLE) when there is none.
    """
    brokers, groups = call.image.brokers, call.cluster.group_coordinator
    if kind == GROUP:
        with suppress(Refused, OSError):
            groups.topic.create(now_ms=call.now_ms)
        found = brokers.get(groups.coordinator_of(key, call.image))
    else:
        found = brokers.get(call.cluster.coordinators.of(kind, key, brokers.keys()))
    if found is None:
        raise Refused(COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
    return found


def require_coordinator(call: Call, key: str, kind: int = GROUP) -> None:
    """Raise Refused (NOT_COORDINATOR) unless this broker coordinates the key.

    A coordinator that was deposed behind its back finds that out by its log: of groups the newest
    image counts.
    """
    coordinator = find_coordinator(call, key, kind).id
    if kind == GROUP and coordinator == call.broker.id:
        coordinator = call.cluster.group_coordinator.coordinator_of(key, call.cluster.image)
    if coordinator != call.broker.id:
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
