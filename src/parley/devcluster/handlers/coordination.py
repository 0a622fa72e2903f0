"""Which broker coordinates a group or a transactional id, as a given broker knows it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from parley.devcluster.handlers.base import Call, Wait
from parley.devcluster.release.behaviour import Behaviour
from parley.devcluster.state.group_coordinator.topic import Place
from parley.devcluster.state.groups.expiry import MINUTE_MS, Expiry
from parley.devcluster.state.groups.offsets import (
    GROUP,
    SHARE,
    SHARE_STATE_TOPIC,
    TRANSACTION,
    TRANSACTIONS_TOPIC,
)
from parley.devcluster.state.image import BrokerImage
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.settings import ClusterSettings
from parley.errors.codes import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_REQUEST,
    NOT_COORDINATOR,
)
from parley.messages import Message

COMMIT_TIMEOUT_MS = 5_000
"""`offsets.commit.timeout.ms`: how long a commit waits for replicas."""
TOPICS = {TRANSACTION: TRANSACTIONS_TOPIC, SHARE: SHARE_STATE_TOPIC}
"""The topics of the coordinators of other keys than groups, which are made all the same."""
LOADING = "The coordinator is loading and hence can't process requests."


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

    The first one who asks has the topic of such coordinators made. Raises Refused
    (COORDINATOR_NOT_AVAILABLE) when there is none, or not yet.
    """
    brokers, groups = call.image.brokers, call.cluster.group_coordinator
    if kind == GROUP:
        with suppress(Refused, OSError):
            groups.topic.ask_for(now_ms=call.now_ms)
        found = brokers.get(groups.coordinator_of(key, call.image))
    elif not call.cluster.making.ask(TOPICS.get(kind, TRANSACTIONS_TOPIC), call.now_ms):
        found = None
    else:
        found = brokers.get(call.cluster.coordinators.of(kind, key, brokers.keys()))
    if found is None:
        raise Refused(COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
    return found


def coordinates(call: Call, key: str, kind: int = GROUP) -> bool:
    """Whether this broker coordinates a key, as it knows."""
    try:
        return find_coordinator(call, key, kind).id == call.broker.id
    except Refused:
        return False


def require_coordinator(call: Call, group: str) -> None:
    """Raise Refused unless this broker coordinates a group (NOT_COORDINATOR), and has loaded it
    (COORDINATOR_LOAD_IN_PROGRESS; before 2.0 NOT_COORDINATOR).

    A coordinator that was deposed behind its back finds that out by its log: the newest image
    counts.
    """
    coordinator = call.cluster.group_coordinator
    if (
        not coordinates(call, group)
        or coordinator.coordinator_of(group, call.cluster.image) != call.broker.id
    ):
        raise Refused(NOT_COORDINATOR, f"broker {call.broker.id} does not coordinate {group!r}")
    if coordinator.is_loading(group, now_ms=call.now_ms):
        raise Refused(call.profile.behaviour.loading_code, LOADING)


def require_transaction_coordinator(call: Call, transactional_id: str) -> None:
    """Raise Refused: INVALID_REQUEST for no name, NOT_COORDINATOR unless this broker coordinates
    the id, COORDINATOR_LOAD_IN_PROGRESS while it loads it.
    """
    if not transactional_id:
        raise Refused(INVALID_REQUEST, "a transactional id is not empty")
    cluster = call.cluster
    # A coordinator that was deposed behind its back finds that out by its log: the newest image
    # counts.
    if cluster.transactions.coordinator_of(
        transactional_id
    ) != call.broker.id or not cluster.making.is_made(TRANSACTIONS_TOPIC, call.now_ms):
        raise Refused(
            NOT_COORDINATOR, f"broker {call.broker.id} does not coordinate {transactional_id!r}"
        )
    if cluster.transactions.is_loading(transactional_id, now_ms=call.now_ms):
        raise Refused(COORDINATOR_LOAD_IN_PROGRESS, LOADING)
