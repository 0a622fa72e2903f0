"""Incremental fetch sessions as brokers keep them (KIP-227): what was asked for, and sent.

Rules of this file:
1. A request of epoch 0 asks for everything and begins a session, if there is room; epoch -1 asks
   once. Both end the session that they name. Any other epoch names what has changed since the
   request before.
2. A session goes on by epochs: 1 after the request that began it, 1 again after 2^31 - 1.
3. Of a later request a partition is answered only if there are records, an error or a word about
   where to read, or if its high watermark or its start are not those that the reader was sent.
4. A session goes by topic ids or by names, as the request that began it. An id keeps the name that
   was found for it: under that name another topic may stand later.
5. A full cache gives up the session that was unused for two minutes, else one that is older than
   that and has fewer partitions than the new one; else the new one gets none, and its reader asks
   in full again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    FETCH_SESSION_ID_NOT_FOUND,
    FETCH_SESSION_TOPIC_ID_ERROR,
    INVALID_FETCH_SESSION_EPOCH,
)

if TYPE_CHECKING:
    from parley.messages import FetchRequest

NO_SESSION = 0
FINAL_EPOCH, INITIAL_EPOCH, LAST_EPOCH = -1, 0, 2**31 - 1
SLOTS = 1_000  # max.incremental.fetch.session.cache.slots
EVICTION_MS = 120_000

PartitionKey: TypeAlias = tuple[str | bytes, int]
"""A topic by name or id, and a partition."""


@dataclass(slots=True)
class Followed:
    """One partition of a request or a session: what is asked, and what its reader was sent last.

    `topic` is "" while an id has no name. `asked` is the request's own part, which is not looked
    into here.
    """

    topic: str
    topic_id: bytes
    index: int
    asked: FetchRequest.FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1

    def take(
        self, high_watermark: int, log_start_offset: int, *, worth_sending: bool, failed: bool
    ) -> bool:
        """Note what an answer would say; return whether it is sent (rule 3)."""
        known = (self.high_watermark, self.log_start_offset)
        self.high_watermark, self.log_start_offset = high_watermark, log_start_offset
        if failed:
            self.high_watermark = -1  # so that it is sent once the error is over
        return worth_sending or failed or known != (high_watermark, log_start_offset)


@dataclass(slots=True)
class FetchSession:
    """The session of one reader; `epoch` is the one that its next request must carry."""

    id: int
    by_id: bool
    created_ms: int
    used_ms: int
    partitions: dict[PartitionKey, Followed]
    epoch: int = INITIAL_EPOCH + 1

    def update(
        self, asked: Iterable[tuple[PartitionKey, Followed]], forgotten: Iterable[PartitionKey]
    ) -> None:
        """Take over a request's changes: new partitions come last, known ones keep their place."""
        for key, one in asked:
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = one
            else:
                known.asked = one.asked
        for key in forgotten:
            self.partitions.pop(key, None)

    def to_the_end(self, key: PartitionKey) -> None:
        """Let the other partitions come first in the next answer: this one had records."""
        self.partitions[key] = self.partitions.pop(key)


@dataclass(slots=True)
class FetchSessions:
    """The sessions of one broker's life. `new_id` gives ids unlike the older ones."""

    new_id: Callable[[], int]
    slots: int = SLOTS
    _sessions: dict[int, FetchSession] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._sessions)

    def look_up(self, session_id: int) -> FetchSession | None:
        """Return a session without touching it."""
        return self._sessions.get(session_id)

    def go_on(
        self,
        session_id: int,
        epoch: int,
        asked: Iterable[tuple[PartitionKey, Followed]],
        forgotten: Iterable[PartitionKey],
        *,
        by_id: bool,
        now_ms: int,
    ) -> FetchSession | None:
        """Apply a request to its session and return it; None if it is empty, and over.

        Raises Refused (70, 71, 106) when there is no such session, or it does not go on so.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise Refused(FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise Refused(INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            raise Refused(FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(asked, forgotten)
        if not session.partitions:
            self.end(session_id)
            return None
        session.used_ms = now_ms
        session.epoch = next_epoch(epoch)
        return session

    def begin(self, partitions: dict[PartitionKey, Followed], *, by_id: bool, now_ms: int) -> int:
        """Keep a new session and return its id, NO_SESSION where there is no room."""
        if len(self._sessions) >= self.slots and not self._evict(len(partitions), now_ms):
            return NO_SESSION
        session_id = self.new_id()
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self.new_id()
        self._sessions[session_id] = FetchSession(session_id, by_id, now_ms, now_ms, partitions)
        return session_id

    def end(self, session_id: int) -> None:
        """Forget a session, if it exists."""
        self._sessions.pop(session_id, None)

    def _evict(self, partitions: int, now_ms: int) -> bool:
        """Make room for a session of so many partitions; return whether there is (rule 5)."""
        idle = min(self._sessions.values(), key=lambda one: (one.used_ms, one.id), default=None)
        if idle is None:
            return False
        if now_ms - idle.used_ms > EVICTION_MS:
            self.end(idle.id)
            return True
        old = [one for one in self._sessions.values() if one.used_ms - one.created_ms > EVICTION_MS]
        least = min(old, key=lambda one: (len(one.partitions), one.id), default=None)
        if least is None or len(least.partitions) >= partitions:
            return False
        self.end(least.id)
        return True


def next_epoch(epoch: int) -> int:
    """Return the epoch that follows one."""
    return 1 if epoch == LAST_EPOCH else epoch + 1
