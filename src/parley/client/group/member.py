"""What a consumer needs of its membership, whatever the protocol; and what members
of both say of themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from enum import Enum
from typing import NamedTuple, Protocol

from parley.client.cluster.retry import Deadline
from parley.client.group.steps import GroupStep, Lost, Revoke
from parley.errors import KafkaError
from parley.types import TopicPartition

log = logging.getLogger("parley.client")
NO_GENERATION = -1


class Identity(NamedTuple):
    """Who a request is sent as. The generation is the member epoch in the consumer protocol."""

    member_id: str = ""
    generation: int = NO_GENERATION


class Committing(Enum):
    """Whether a member may commit."""

    NOW = "now"
    AFTER_THE_REBALANCE = "after the rebalance"
    NO_MEMBER = "no member"


class Membership(Protocol):
    """What a member knows of itself, as far as its consumer asks."""

    topics: frozenset[str] | None
    owned: frozenset[TopicPartition]
    error: KafkaError | None
    """Why it has ended for good."""
    passing_error: KafkaError | None
    """What the next poll raises while it goes on."""

    @property
    def state(self) -> Enum: ...

    @property
    def committing(self) -> Committing:
        """Whether it may commit now."""

    @property
    def pending(self) -> bool:
        """Whether there is a next step. Every poll asks, so this is cheap."""

    def next_step(self) -> GroupStep | None:
        """Return what the application is to be shown next."""

    def step_done(self, step: GroupStep) -> None:
        """Take note that it was shown."""

    def last_step(self) -> Revoke | Lost | None:
        """Return what the application is shown when the membership ends."""

    def request_rejoin(self, reason: str) -> None:
        """Let the group rebalance, where a member can ask for it."""

    def commit_refused(self, error: KafkaError, asked_as: Identity) -> bool:
        """Take note of a refused commit; return whether it may go again
        under the identity of now.
        """


class GroupMember(Protocol):
    """A membership, and the requests that it calls for."""

    @property
    def membership(self) -> Membership: ...

    @property
    def identity(self) -> Identity: ...

    @property
    def read_as(self) -> Identity:
        """Who read what the application has: this member as it is or, while it is none, was."""

    def subscribe(self, topics: Collection[str]) -> None:
        """Take the topics to read."""

    def wake(self) -> None:
        """Look again at what the membership calls for."""

    def polled(self) -> None:
        """Take note that the application polls."""

    def look_at_metadata(self) -> None:
        """Act on metadata that has changed."""

    async def leave(self, reason: str, *, deadline: Deadline) -> None:
        """End the membership."""

    def stop(self) -> None:
        """End it without a farewell."""


def warn_of_absence(group_id: str, away_ms: int, max_poll_interval_ms: int) -> None:
    """Log that the application stayed away too long, and what to do about it."""
    log.warning(
        "group %s: no poll for %d ms, longer than max_poll_interval_ms=%d: the member left "
        "the group, and what it read "
        "last cannot be committed. Poll sooner, take fewer records at a time (max_records), "
        "or raise "
        "max_poll_interval_ms",
        group_id,
        away_ms,
        max_poll_interval_ms,
    )
