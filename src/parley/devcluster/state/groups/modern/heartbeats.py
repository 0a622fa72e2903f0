"""Heartbeats of the consumer protocol (KIP-848): what a member says, what it hears, and what no
group could answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from parley.devcluster.state.groups.modern.assignors import ASSIGNORS, Part
from parley.devcluster.state.groups.modern.members import (
    JOINING,
    LEAVING_FOR_A_WHILE,
    Subscription,
)
from parley.devcluster.state.refused import Refused
from parley.errors.codes import INVALID_REQUEST, UNSUPPORTED_ASSIGNOR


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A member's words. What is None is as it was; a member that joins says everything."""

    member_id: str
    epoch: int
    instance_id: str | None = None
    rack: str | None = None
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: frozenset[Part] | None = None
    client_id: str = ""
    client_host: str = ""

    @property
    def is_full(self) -> bool:
        """Whether it says everything, and wants to hear everything."""
        return (
            self.owned is not None
            and self.rebalance_timeout_ms >= 0
            and not (self.topics is None and self.regex is None)
        )


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """What the member is to know: its epoch, and its assignment where that has changed."""

    member_id: str
    epoch: int
    assignment: frozenset[Part] | None = None


def subscribed(before: Subscription | None, said: Heartbeat) -> Subscription:
    """Return a subscription with what a heartbeat says of it now."""
    old = before or Subscription()
    return Subscription(
        said.instance_id if said.instance_id is not None else old.instance_id,
        said.rack if said.rack is not None else old.rack,
        said.topics if said.topics is not None else old.topics,
        said.regex if said.regex is not None else old.regex,
        said.rebalance_timeout_ms if said.rebalance_timeout_ms >= 0 else old.rebalance_timeout_ms,
        said.assignor if said.assignor is not None else old.assignor,
        said.client_id,
        said.client_host,
    )


def check_form(said: Heartbeat) -> None:
    """Raise Refused for a heartbeat that no group could answer
    (INVALID_REQUEST, UNSUPPORTED_ASSIGNOR).
    """
    wrong = ""
    if not said.member_id:
        wrong = "MemberId can't be empty."
    elif said.epoch == JOINING and said.rebalance_timeout_ms < 0:
        wrong = "RebalanceTimeoutMs must be provided in first request."
    elif said.epoch == JOINING and said.owned:
        wrong = "TopicPartitions must be empty when (re-)joining."
    elif said.epoch == JOINING and said.topics is None and said.regex is None:
        wrong = (
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )
    elif said.epoch < LEAVING_FOR_A_WHILE:
        wrong = f"MemberEpoch is invalid: {said.epoch}."
    elif said.epoch == LEAVING_FOR_A_WHILE and said.instance_id is None:
        wrong = "InstanceId can't be null."
    elif said.instance_id == "":
        wrong = "InstanceId can't be empty."
    elif said.rack == "":
        wrong = "RackId can't be empty."
    if wrong:
        raise Refused(INVALID_REQUEST, wrong)
    if said.assignor is not None and said.assignor not in ASSIGNORS:
        names = ", ".join(ASSIGNORS)
        raise Refused(
            UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {said.assignor} is not supported. Supported assignors: {names}.",
        )
