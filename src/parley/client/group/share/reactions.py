"""What an error of ShareFetch or ShareAcknowledge as a whole makes of a session (G64): one table.

| error | what happens |
|---|---|
| 122 SHARE_SESSION_NOT_FOUND, 123 INVALID_SHARE_SESSION_EPOCH | new session |
| a time-out, a lost connection | new session |
| 133 SHARE_SESSION_LIMIT_REACHED | new session, after a pause |
| 25 UNKNOWN_MEMBER_ID, 110 FENCED_MEMBER_EPOCH | new session, and the member joins again |
| what else may pass | new session, after a pause |
| all others | new session, after a pause; the next poll raises it |

In each case what was sent along counts as failed: brokers release what a lost session gave.
"""

from __future__ import annotations

from enum import Enum

from parley.errors import BrokerError, KafkaError, NetworkError
from parley.errors.codes import (
    FENCED_MEMBER_EPOCH,
    INVALID_SHARE_SESSION_EPOCH,
    SHARE_SESSION_LIMIT_REACHED,
    SHARE_SESSION_NOT_FOUND,
    UNKNOWN_MEMBER_ID,
)


class SessionReaction(Enum):
    """What follows after a request of a share session failed."""

    AT_ONCE = "at once"
    """A new session begins."""
    WAIT = "wait"
    """A new session begins after a pause."""
    REJOIN = "rejoin"
    """The member joins again."""
    RAISE = "raise"
    """The next poll raises it, and a new session begins after a pause."""


_TABLE = {
    SHARE_SESSION_NOT_FOUND: SessionReaction.AT_ONCE,
    INVALID_SHARE_SESSION_EPOCH: SessionReaction.AT_ONCE,
    SHARE_SESSION_LIMIT_REACHED: SessionReaction.WAIT,
    UNKNOWN_MEMBER_ID: SessionReaction.REJOIN,
    FENCED_MEMBER_EPOCH: SessionReaction.REJOIN,
}


def after_session_error(error: KafkaError) -> SessionReaction:
    """Return what follows after a request of a session failed as a whole."""
    if isinstance(error, BrokerError) and error.code in _TABLE:
        return _TABLE[error.code]
    if error.retriable or isinstance(error, NetworkError):
        return SessionReaction.WAIT
    return SessionReaction.RAISE
