"""The share sessions of one broker: which partitions a member of a share group reads there
(KIP-932).

Rules of this file:
1. A member has one session per broker. Epoch 0 begins it, and ends the one before; -1 ends it; in
   between each request raises its epoch by one, a ShareAcknowledge too.
2. A session ends with the connection that it was begun on.
3. Whoever ends a session gives back what its member acquired.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from parley.devcluster.state.groups.share.assignor import Part
from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    INVALID_SHARE_SESSION_EPOCH,
    SHARE_SESSION_LIMIT_REACHED,
    SHARE_SESSION_NOT_FOUND,
)

INITIAL_EPOCH, FINAL_EPOCH, LAST_EPOCH = 0, -1, 2**31 - 1
MOST_SESSIONS = 2_000
"""group.share.max.share.sessions"""


@dataclass(slots=True)
class ShareSession:
    """The session of one member; `epoch` is the one that its next request must carry."""

    group: str
    member: str
    connection: int
    parts: dict[Part, None] = field(default_factory=dict)
    epoch: int = INITIAL_EPOCH + 1

    def turned(self, epoch: int) -> list[Part]:
        """Return its partitions, with each epoch another one first."""
        parts = list(self.parts)
        at = epoch % len(parts) if parts else 0
        return parts[at:] + parts[:at]


class ShareSessions:
    """The sessions of one broker's life."""

    def __init__(self, most: int = MOST_SESSIONS) -> None:
        self._most = most
        self._sessions: dict[tuple[str, str], ShareSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self, group: str, member: str, connection: int, parts: Iterable[Part]
    ) -> ShareSession:
        """Begin a session. Raises Refused (SHARE_SESSION_LIMIT_REACHED)."""
        self._sessions.pop((group, member), None)
        if len(self._sessions) >= self._most:
            text = f"the broker has its largest number of share sessions already, {self._most}"
            raise Refused(SHARE_SESSION_LIMIT_REACHED, text)
        session = ShareSession(group, member, connection, dict.fromkeys(parts))
        self._sessions[group, member] = session
        return session

    def go_on(self, group: str, member: str, epoch: int) -> ShareSession:
        """Return a session that a request goes on with, or ends (-1), its epoch raised.

        Raises Refused: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        session = self._sessions.get((group, member))
        if session is None:
            raise Refused(SHARE_SESSION_NOT_FOUND, None)
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            raise Refused(INVALID_SHARE_SESSION_EPOCH, None)
        session.epoch = 1 if epoch == LAST_EPOCH else epoch + 1
        return session

    def end(self, session: ShareSession) -> None:
        """Forget a session."""
        self._sessions.pop((session.group, session.member), None)

    def lost(self, connection: int) -> list[ShareSession]:
        """Forget the sessions of a connection that ended, and return them (rule 2)."""
        gone = [one for one in self._sessions.values() if one.connection == connection]
        for session in gone:
            self.end(session)
        return gone
