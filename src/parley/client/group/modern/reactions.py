"""What the answer to a heartbeat makes of a member of the consumer protocol (G54): one pure table.

| code | what happens |
|---|---|
| 110 FENCED_MEMBER_EPOCH, 25 UNKNOWN_MEMBER_ID | the partitions are lost; the member joins again |
| 15, 16, time-out, lost connection | find the coordinator again |
| 14 COORDINATOR_LOAD_IN_PROGRESS and what else may pass | wait, then again |
| 29 TOPIC_AUTHORIZATION_FAILED | the next poll raises it; the membership goes on |
| 30 GROUP_AUTHORIZATION_FAILED | the same |
| 35 UNSUPPORTED_VERSION, before the member was one | these brokers do not have the protocol |
| all others | fatal |
"""

from __future__ import annotations

from enum import Enum

from parley.errors import BrokerError, KafkaError, NetworkError, UnsupportedVersionError
from parley.errors.codes import (
    COORDINATOR_NOT_AVAILABLE,
    FENCED_MEMBER_EPOCH,
    GROUP_AUTHORIZATION_FAILED,
    NOT_COORDINATOR,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_MEMBER_ID,
)


class Reaction(Enum):
    """What a member does after an error."""

    FATAL = "fatal"
    """The application has to know; the member does nothing more."""
    WAIT = "wait"
    """The heartbeat goes again, after a pause."""
    FIND = "find"
    """The coordinator is looked for again; member id and epoch stay."""
    FENCED = "fenced"
    """The partitions are lost; the member joins again under its id."""
    RAISE = "raise"
    """The next poll raises it; the membership goes on."""
    UNSUPPORTED = "unsupported"
    """The brokers do not have the protocol, or it is switched off (G60)."""


_TABLE = {
    COORDINATOR_NOT_AVAILABLE: Reaction.FIND,
    NOT_COORDINATOR: Reaction.FIND,
    FENCED_MEMBER_EPOCH: Reaction.FENCED,
    UNKNOWN_MEMBER_ID: Reaction.FENCED,
    TOPIC_AUTHORIZATION_FAILED: Reaction.RAISE,
    GROUP_AUTHORIZATION_FAILED: Reaction.RAISE,
}


def after_heartbeat(error: KafkaError) -> Reaction:
    """Return what a member does when its heartbeat failed."""
    if isinstance(error, UnsupportedVersionError):
        return Reaction.UNSUPPORTED
    if isinstance(error, BrokerError):
        return _TABLE.get(error.code) or (Reaction.WAIT if error.retriable else Reaction.FATAL)
    return Reaction.FIND if isinstance(error, NetworkError) else Reaction.FATAL
