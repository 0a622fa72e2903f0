"""Incremental fetch sessions (KIP-227): a request names what changed since the one before. Pure.

1. A session begins with a full request of epoch 0; the broker names it. One that names none (0) has
   no sessions to give: then every request is full, and it is asked for one each time.
2. Afterwards only partitions whose offset, epoch or size changed are sent, and those no longer
   wanted are forgotten. What the answer leaves out has nothing new.
3. P17 By id (v13+, KIP-516) or by name (up to v12) is a property of the session: where the ids of
   all topics become known, or one is lost, a new session begins. A topic that has another id is
   forgotten under the old one and sent in full under the new one.
4. A lost request, or an error at the top of an answer, ends the session: the next request closes
   what may be left of it and begins again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from parley.client.fetch.wire import FetchTarget, SessionPart
from parley.errors.codes import (
    FETCH_SESSION_ID_NOT_FOUND,
    FETCH_SESSION_TOPIC_ID_ERROR,
    INVALID_FETCH_SESSION_EPOCH,
)
from parley.types import ZERO_UUID, TopicPartition

SESSION_ERRORS = (
    FETCH_SESSION_ID_NOT_FOUND,
    INVALID_FETCH_SESSION_EPOCH,
    FETCH_SESSION_TOPIC_ID_ERROR,
)
"""Errors at the top of an answer that a new session clears."""
FIRST_EPOCH, LAST_EPOCH, FINAL_EPOCH = 0, 2**31 - 1, -1


class SessionRequest(NamedTuple):
    """What the next request sends, and what it says of the session."""

    targets: Sequence[FetchTarget]
    part: SessionPart


class IncrementalSession:
    """The session with one broker on one connection. At most one request of it is under way."""

    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = FIRST_EPOCH
        self.by_id: bool | None = None
        self._partitions: dict[TopicPartition, FetchTarget] = {}

    @property
    def partitions(self) -> Sequence[FetchTarget]:
        """What the broker fetches with the request last built, sent with it or before."""
        return tuple(self._partitions.values())

    def build(self, targets: Sequence[FetchTarget], *, ids_supported: bool) -> SessionRequest:
        """Return the next request for exactly these partitions."""
        by_id = ids_supported and all(target.topic_id != ZERO_UUID for target in targets)
        if by_id is not self.by_id:
            self.epoch = FIRST_EPOCH
        self.by_id = by_id
        wanted = {target.tp: target for target in targets}
        before, self._partitions = self._partitions, wanted
        if self.epoch == FIRST_EPOCH:
            return SessionRequest(targets, SessionPart(self.session_id, FIRST_EPOCH, (), by_id))
        changed = [target for target in targets if before.get(target.tp) != target]
        forgotten = tuple(
            old
            for tp, old in before.items()
            if tp not in wanted or wanted[tp].topic_id != old.topic_id
        )
        return SessionRequest(changed, SessionPart(self.session_id, self.epoch, forgotten, by_id))

    def answered(self, session_id: int) -> None:
        """Take note of an answer without an error at its top."""
        if session_id == 0 or (self.epoch != FIRST_EPOCH and session_id != self.session_id):
            self.session_id, self.epoch = 0, FIRST_EPOCH
            return
        self.session_id = session_id
        self.epoch = 1 if self.epoch == LAST_EPOCH else self.epoch + 1

    def failed(self, error_code: int = 0) -> None:
        """Take note of an error at the top of an answer, or (0) of an answer that never came."""
        if error_code == FETCH_SESSION_ID_NOT_FOUND:
            self.session_id = 0
        self.epoch = FIRST_EPOCH

    def ending(self) -> SessionPart | None:
        """Return what a last request says to end the session, None where there is none to end."""
        return (
            SessionPart(self.session_id, FINAL_EPOCH, (), self.by_id) if self.session_id else None
        )
