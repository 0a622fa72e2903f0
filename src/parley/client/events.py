"""What a client reports to its application unasked: values, handed to `on_event` as they happen."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from parley.types import TopicPartition

log = logging.getLogger("parley.client")


@dataclass(frozen=True, slots=True)
class PossibleDataLoss:
    """Leadership went backwards and was believed, since five answers in a row agreed on it.

    Either a leader was elected that had not kept up (unclean), or the topic was deleted and created
    again on a cluster without topic ids. What was read or written there may be gone: compare
    positions with the log (`offsets_for_leader_epochs`), and write again what must be there.
    """

    partitions: tuple[TopicPartition, ...]
    recreated: tuple[str, ...] = ()
    """Those of the topics whose history looks new: most likely they were created again."""


@dataclass(frozen=True, slots=True)
class TopicRecreated:
    """A topic was deleted and created again: under its name there is another topic (KIP-516)."""

    topic: str


Event = PossibleDataLoss | TopicRecreated
Listener = Callable[[Event], None]


def notify(listener: Listener | None, event: Event) -> None:
    """Hand an event to application and log. What the listener raises is logged, not passed on."""
    if isinstance(event, PossibleDataLoss):
        names = ", ".join(map(str, event.partitions))
        log.warning(
            "leadership went backwards in five agreeing answers: records of %s may be lost", names
        )
    else:
        log.info('topic "%s" was deleted and created again', event.topic)
    if listener is None:
        return
    try:
        listener(event)
    except Exception:
        log.exception("the listener for events raised an exception; the client goes on")
