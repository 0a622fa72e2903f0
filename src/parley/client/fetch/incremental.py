"""Incremental fetch sessions (KIP-227): a request names what changed since the one before. Pure.

1. A session begins with a full request of epoch 0; the broker names it. One that names none (0) has
   no sessions to give: then every request is full, and it is asked for one each time.
2. Afterwards only partitions whose offset, epoch or size changed are sent, and those no longer
   wanted are forgotten. What the answer leaves out has nothing new.
3. P17 By id (v13+, KIP-516) or by name (up to v12) is a property of the session: where the ids of
   all topics become known, or one is lost, a new session begins. A topic that has another id is
   forgotten under the old one and sent in full under the new one.
4. A partition *stands* while nothing of it changes: it is part of every request without being
   named, and costs nothing. What was named last and does not stand is forgotten unless it is named
   again.
5. A lost request, or an error at the top of an answer, ends the session: the next request closes
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
        self._loose: dict[TopicPartition, None] = {}
        """Those of them that do not stand."""
        self._names: dict[bytes, str] = {}

    @property
    def partitions(self) -> Sequence[FetchTarget]:
        """What the broker fetches with the request last built, sent with it or before."""
        return tuple(self._partitions.values())

    def build(self, targets: Sequence[FetchTarget], *, ids_supported: bool) -> SessionRequest:
        """Return the next request for exactly these partitions, and those that stand."""
        by_id = ids_supported and all(target.topic_id != ZERO_UUID for target in targets)
        if len(self._loose) < len(self._partitions):  # those that stand may be there by name
            by_id = by_id and self.by_id is not False
        if by_id is not self.by_id:
            self.epoch = FIRST_EPOCH
        self.by_id = by_id
        changed: list[FetchTarget] = []
        forgotten: list[FetchTarget] = []
        loose, self._loose = self._loose, {target.tp: None for target in targets}
        for tp in loose:
            if tp not in self._loose:
                forgotten.append(self._partitions.pop(tp))
        for target in targets:
            before = self._partitions.pop(target.tp, None)
            if before != target:
                changed.append(target)
                if before is not None and before.topic_id != target.topic_id:
                    forgotten.append(before)
            self._partitions[target.tp] = target
            self._names[target.topic_id] = target.tp.topic
        if self.epoch == FIRST_EPOCH:
            everything = tuple(self._partitions.values())  # those that stand come first
            self._names = {target.topic_id: target.tp.topic for target in everything}
            part = SessionPart(self.session_id, FIRST_EPOCH, (), by_id)
            return SessionRequest(everything, part)
        return SessionRequest(
            changed, SessionPart(self.session_id, self.epoch, tuple(forgotten), by_id)
        )

    def stands(self, tp: TopicPartition) -> None:
        """Keep a partition of the last request in those to come."""
        self._loose.pop(tp, None)

    def fell(self, tp: TopicPartition) -> None:
        """Keep a partition no longer that stood."""
        if tp in self._partitions:
            self._loose[tp] = None

    def topic_of(self, topic_id: bytes) -> str | None:
        """Return the name of a topic that is fetched here by its id."""
        return self._names.get(topic_id)

    def __contains__(self, tp: object) -> bool:
        return tp in self._partitions

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
