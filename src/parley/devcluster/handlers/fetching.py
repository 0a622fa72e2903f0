"""Fetch requests and the sessions that they belong to (KIP-227): which partitions one asks for, and
what it is sent.

What a session keeps is in `state.fetch_sessions`; here requests and answers are translated.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from parley.devcluster.handlers.base import Call
from parley.devcluster.state.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    FetchSessions,
    Followed,
    PartitionKey,
    next_epoch,
)
from parley.errors.codes import INVALID_FETCH_SESSION_EPOCH, NONE
from parley.messages import FetchRequest, FetchResponse

FIRST_ID_VERSION = 13


@dataclass(slots=True)
class Answered:
    """One partition of an answer; `worth_sending` where there are records or a
    word about where to read.
    """

    followed: Followed
    part: FetchResponse.PartitionData
    worth_sending: bool


class Reading:
    """What one request asks for, its session included. Raises Refused (70, 71, 106)
    when it does not go on so.
    """

    def __init__(self, call: Call, request: FetchRequest) -> None:
        self._call = call
        self._sessions, self._by_id = call.fetch_sessions, call.version >= FIRST_ID_VERSION
        self._begins = request.session_epoch == INITIAL_EPOCH
        self._session: FetchSession | None = None
        self._epoch = request.session_epoch
        asked = list(_asked(request, self._by_id))
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.end(request.session_id)
        else:
            self._session = self._sessions.go_on(
                request.session_id,
                request.session_epoch,
                asked,
                _forgotten(request, self._by_id),
                by_id=self._by_id,
                now_ms=call.now_ms,
            )
        self.partitions: Sequence[Followed] = (
            [one for _, one in asked]
            if self._session is None
            else list(self._session.partitions.values())
        )

    def answer(self, response: FetchResponse, answered: Iterable[Answered]) -> FetchResponse:
        """Put into an answer what its reader does not know yet. Mutates: the session,
        which one there is then.
        """
        session = self._session
        if session is not None and session.epoch != next_epoch(self._epoch):
            return FetchResponse(error_code=INVALID_FETCH_SESSION_EPOCH, session_id=session.id)
        response.session_id = NO_SESSION if session is None else session.id
        kept = [one for one in answered if self._takes(one)]
        if self._begins:
            partitions = {self._key(one.followed): one.followed for one in kept}
            response.session_id = self._sessions.begin(
                partitions, by_id=self._by_id, now_ms=self._call.now_ms
            )
        for one in kept:
            _add(response, one.followed, one.part)
        return response

    def _takes(self, answered: Answered) -> bool:
        one, part = answered.followed, answered.part
        news = one.take(
            part.high_watermark,
            part.log_start_offset,
            worth_sending=answered.worth_sending,
            failed=part.error_code != NONE,
        )
        if self._session is None:
            return True
        if any(part.records or ()) and self._key(one) in self._session.partitions:
            self._session.to_the_end(self._key(one))
        return news

    def _key(self, one: Followed) -> PartitionKey:
        return (one.topic_id if self._by_id else one.topic), one.index


def whole_request(sessions: FetchSessions, request: FetchRequest, version: int) -> FetchRequest:
    """Return a Fetch request with every partition that it asks for: those too
    that its session knows.
    """
    session = sessions.look_up(request.session_id)
    if session is None or request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        return request
    by_id = version >= FIRST_ID_VERSION
    known = FetchSession(
        session.id, by_id, 0, 0, {key: copy.copy(one) for key, one in session.partitions.items()}
    )
    known.update(_asked(request, by_id), _forgotten(request, by_id))
    whole = copy.copy(request)
    topics: dict[str | bytes, FetchRequest.FetchTopic] = {}
    for (topic, _), one in known.partitions.items():
        made = topics.setdefault(
            topic, FetchRequest.FetchTopic(topic=one.topic, topic_id=one.topic_id)
        )
        made.partitions.append(one.asked)
    whole.topics = list(topics.values())
    return whole


def _asked(request: FetchRequest, by_id: bool) -> Iterator[tuple[PartitionKey, Followed]]:
    for topic in request.topics:
        name = "" if by_id else topic.topic
        for part in topic.partitions:
            key = (topic.topic_id if by_id else name, part.partition)
            yield key, Followed(name, topic.topic_id, part.partition, part)


def _forgotten(request: FetchRequest, by_id: bool) -> Iterator[PartitionKey]:
    for topic in request.forgotten_topics_data:
        for index in topic.partitions:
            yield (topic.topic_id if by_id else topic.topic), index


def _add(response: FetchResponse, one: Followed, part: FetchResponse.PartitionData) -> None:
    """Put a partition into an answer: beside the one before if that is of the
    same topic, as brokers do.
    """
    last = response.responses[-1] if response.responses else None
    if last is None or (last.topic, last.topic_id) != (one.topic, one.topic_id):
        last = response.FetchableTopicResponse(topic=one.topic, topic_id=one.topic_id)
        response.responses.append(last)
    last.partitions.append(part)
