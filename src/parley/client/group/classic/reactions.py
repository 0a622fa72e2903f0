"""What the answer of a coordinator makes of a member, by request and error code: one pure table, as
Java has it.

| code | JoinGroup | SyncGroup | Heartbeat |
|---|---|---|---|
| 14 COORDINATOR_LOAD_IN_PROGRESS | wait, then again | join again after a pause | wait |
| 15, 16, time-out, lost connection | find it again | find it, then join again | find it again |
| 22 ILLEGAL_GENERATION | | new generation, same member | new generation, same member |
| 25 UNKNOWN_MEMBER_ID | new member | new member | new member |
| 27 REBALANCE_IN_PROGRESS | wait, then again | join again at once | join again, if it is stable |
| 79 MEMBER_ID_REQUIRED | again at once, with the id | | |
| 30 GROUP_AUTHORIZATION_FAILED | raise, then again | raise, then join again | raise, then again |
| 23, 24, 26, 35, 81, 82 | fatal | fatal | fatal |
"""

from __future__ import annotations

from enum import Enum

from parley.errors import BrokerError, KafkaError, NetworkError
from parley.errors.codes import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    GROUP_AUTHORIZATION_FAILED,
    ILLEGAL_GENERATION,
    MEMBER_ID_REQUIRED,
    NOT_COORDINATOR,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)


class Reaction(Enum):
    """What a member does after an error."""

    FATAL = "fatal"
    """The application has to know; the member does nothing more."""
    WAIT = "wait"
    """The same request goes again, after a pause."""
    FIND = "find"
    """The coordinator is looked for again; member id and generation stay (G4)."""
    REJOIN = "rejoin"
    """The member joins again and keeps id and generation."""
    NEW_GENERATION = "new generation"
    """The partitions are lost; the member joins again under its id."""
    NEW_MEMBER = "new member"
    """The partitions are lost, and the id with them."""
    RAISE = "raise"
    """The next poll raises it; the poll after that lets the member try again."""
    TAKE_ID = "take id"
    """The coordinator named the member; it joins at once under that id (KIP-394)."""


_FOR_ALL = {
    COORDINATOR_NOT_AVAILABLE: Reaction.FIND,
    NOT_COORDINATOR: Reaction.FIND,
    COORDINATOR_LOAD_IN_PROGRESS: Reaction.WAIT,
    ILLEGAL_GENERATION: Reaction.NEW_GENERATION,
    UNKNOWN_MEMBER_ID: Reaction.NEW_MEMBER,
    REBALANCE_IN_PROGRESS: Reaction.REJOIN,
    GROUP_AUTHORIZATION_FAILED: Reaction.RAISE,
}
_JOINING = {**_FOR_ALL, REBALANCE_IN_PROGRESS: Reaction.WAIT, MEMBER_ID_REQUIRED: Reaction.TAKE_ID}


def after_join(error: KafkaError) -> Reaction:
    """Return what a member does when its JoinGroup failed."""
    return _reaction(_JOINING, error)


def after_sync_or_heartbeat(error: KafkaError) -> Reaction:
    """Return what a member does when its SyncGroup or Heartbeat failed."""
    return _reaction(_FOR_ALL, error)


def _reaction(table: dict[int, Reaction], error: KafkaError) -> Reaction:
    if isinstance(error, BrokerError):
        return table.get(error.code) or (Reaction.WAIT if error.retriable else Reaction.FATAL)
    return Reaction.FIND if isinstance(error, NetworkError) else Reaction.FATAL
