"""One Fetch request and its answer: the connection, the version, the session, and what came back.

Fetches wait at the broker; on connections of their own they hold up nobody else. There are two per
broker: a partition that has just moved must not wait with those that have nothing new.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from parley.client.cluster.core import Cluster
from parley.client.cluster.view import Endpoint
from parley.client.fetch.answers import Asked, Do, FollowUp, Limits, judge, left_out
from parley.client.fetch.incremental import FIRST_EPOCH, IncrementalSession, SessionRequest
from parley.client.fetch.standing import Standing
from parley.client.fetch.wire import (
    NO_SESSION,
    FetchAnswer,
    FetchTarget,
    allowed_versions,
    fetch_request,
    read_answers,
    read_fetch,
)
from parley.client.offsets.list_offsets import takes_epochs
from parley.client.options.client_options import READ_COMMITTED, FetchOptions
from parley.errors import KafkaError, RemoteProtocolError, broker_error
from parley.schema import ApiKey
from parley.types import ZERO_UUID, TopicPartition
from parley.versions import Feature

LANES = ("fetch", "fetch-2")
FAREWELL_MS = 1_000
"""How long the end of a reading may wait for brokers to hear of it."""
FRAME_SLACK_BYTES = 2**20
"""What a Fetch answer may have beside `fetch_max_bytes` of records; a larger frame is absurd."""


class Outcome(NamedTuple):
    """What came of a request. `put_off` could not be asked now; an error is the whole request's."""

    asked: Sequence[Asked]
    error: KafkaError | None = None
    answers: Mapping[TopicPartition, FetchAnswer] = {}
    version: int = -1
    endpoints: Sequence[Endpoint] = ()
    put_off: Sequence[Asked] = ()
    whole: bool = True
    """Whether every partition had to be in the answer; in a session only those with news are."""
    standing: Standing | None = None
    """What stood in the session, and so was asked for too."""
    lasts: bool = False
    """Whether the session goes on, so that what has no news may stand in it."""


def judged(outcome: Outcome, asked: Asked, limits: Limits) -> FollowUp:
    """Return what follows for one partition that was asked for. Mutates the partition."""
    answer = outcome.answers.get(asked.part.tp)
    if answer is not None:
        return judge(asked, answer, outcome.version, limits)
    if not outcome.whole:
        return left_out(asked, limits)
    error = RemoteProtocolError(f"the broker's Fetch answer leaves out {asked.part.tp}")
    error.refresh_metadata = True
    return FollowUp(Do.RETRY, error)


class Lanes:
    """The connections for fetching, two per broker, with the fetch session of each."""

    def __init__(self, cluster: Cluster, options: FetchOptions, *, sessions: bool) -> None:
        self.cluster, self.options, self.sessions = cluster, options, sessions
        self._in_flight: set[tuple[int, str]] = set()
        self._standing: dict[tuple[int, str], Standing] = {}

    def free(self, node_id: int) -> Exchange | None:
        """Reserve a connection that is free; None where both wait."""
        for lane in LANES:
            if (node_id, lane) not in self._in_flight:
                return self._reserve(node_id, lane)
        return None

    def resting(self) -> list[Standing]:
        """Return what stands on connections that are free: no request asks for it now."""
        return [
            standing
            for where, standing in self._standing.items()
            if len(standing) and where not in self._in_flight
        ]

    def again(self, standing: Standing) -> Exchange | None:
        """Reserve the connection of what stands, to ask for nothing else; None if it is in use."""
        for where, found in self._standing.items():
            if found is standing and where not in self._in_flight:
                return self._reserve(*where)
        return None

    def _reserve(self, node_id: int, lane: str) -> Exchange:
        where = (node_id, lane)
        self._in_flight.add(where)
        if self.sessions and where not in self._standing:
            self._standing[where] = Standing(IncrementalSession())
        return Exchange(self, node_id, lane, self._standing.get(where))

    def quiet(self, node_id: int) -> str:
        """Return a lane on which a short question waits behind nothing else, if available."""
        return next((lane for lane in LANES if (node_id, lane) not in self._in_flight), "main")

    def release(self, node_id: int, lane: str) -> None:
        """Give a connection back."""
        self._in_flight.discard((node_id, lane))

    async def end_sessions(self) -> None:
        """Let the brokers close their sessions; those out of reach forget them by themselves."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_MS / 1000):
                await asyncio.gather(
                    *(self._end(*where, found.session) for where, found in self._standing.items())
                )

    async def _end(self, node_id: int, lane: str, session: IncrementalSession) -> None:
        ending = session.ending()
        if ending is None or node_id not in self.cluster.view.brokers:
            return
        with contextlib.suppress(KafkaError):
            conn = await self.cluster.connection(node_id, lane)
            allowed = allowed_versions((), self.options, by_id=ending.by_id)
            message = fetch_request((), self.options.replace(fetch_max_wait_ms=0), ending)
            await self.cluster.ask(conn, message, FAREWELL_MS, allowed)


class Exchange:
    """One request to one broker on a connection that was reserved for it."""

    def __init__(self, lanes: Lanes, node_id: int, lane: str, standing: Standing | None) -> None:
        self._lanes, self._node_id, self._lane = lanes, node_id, lane
        self.standing = standing
        """What stands in the session of the connection; None where there are no sessions."""
        self._session = None if standing is None else standing.session

    async def ask(self, asked: Sequence[Asked]) -> Outcome:
        """Ask for these partitions; return what came of it. Raises nothing that peers can cause."""
        try:
            return await self._ask(asked)
        except KafkaError as error:
            if self._session is not None:
                self._session.failed(getattr(error, "code", 0))
            return Outcome(asked, error, standing=self.standing)
        finally:
            self._lanes.release(self._node_id, self._lane)

    async def _ask(self, asked: Sequence[Asked]) -> Outcome:
        cluster, options = self._lanes.cluster, self._lanes.options
        conn = await cluster.connection(self._node_id, self._lane)
        ready: list[Asked] = []
        put_off: list[Asked] = []
        by_id = conn.versions.supports(Feature.FETCH_TOPIC_IDS)
        for one in asked:
            (ready if self._may_ask(one, by_id=by_id) else put_off).append(one)
        if not ready and not self.standing:
            return Outcome((), put_off=put_off)
        diverging = conn.versions.supports(Feature.DIVERGING_EPOCH)
        epochs = takes_epochs(conn.versions)
        targets = [self._target(one, epochs=epochs, diverging=diverging) for one in ready]
        request = SessionRequest(targets, NO_SESSION)
        if self._session is not None and conn.versions.supports(Feature.FETCH_SESSIONS):
            request = self._session.build(targets, ids_supported=by_id)
        elif self.standing:  # the broker had sessions, and is of another release now
            return Outcome((), put_off=asked, standing=self.standing)
        allowed = allowed_versions(targets, options, by_id=request.part.by_id)
        if options.isolation_level == READ_COMMITTED:
            conn.versions.choose(ApiKey.FETCH, allowed, feature=Feature.READ_COMMITTED)
        conn.accept_frames(options.fetch_max_bytes + FRAME_SLACK_BYTES)
        timeout_ms = cluster.options.request_timeout_ms + options.fetch_max_wait_ms
        message = fetch_request(request.targets, options, request.part)
        reply = await cluster.ask(conn, message, timeout_ms, allowed)
        response = reply.message
        if code := getattr(response, "error_code", 0):
            raise broker_error(code, api="FETCH", version=reply.version)
        session, lasts = self._session, False
        if session is None or request.part is NO_SESSION:
            found = read_fetch(response, reply.version, targets)
        else:
            found = read_answers(response, reply.version, session.topic_of, session)
            session.answered(response.session_id)
            lasts = session.epoch != FIRST_EPOCH
        return Outcome(
            ready,
            None,
            {answer.tp: answer for answer in found},
            reply.version,
            response.node_endpoints or (),
            put_off,
            whole=request.part.epoch <= 0,
            standing=self.standing,
            lasts=lasts,
        )

    @staticmethod
    def _may_ask(asked: Asked, *, by_id: bool) -> bool:
        """By name a topic in doubt is not asked for: what came might be another one's records."""
        asked.part.by_wire = by_id
        return by_id or not asked.part.topic.in_doubt

    def _target(self, asked: Asked, *, epochs: bool, diverging: bool) -> FetchTarget:
        part, position = asked.part, asked.position
        known = self._lanes.cluster.view.topic_id(part.tp.topic) != ZERO_UUID
        epoch = position.leader_epoch if epochs else -1
        return FetchTarget(
            part.tp,
            position.offset,
            part.wanted_bytes,
            epoch,
            part.topic.held if known else ZERO_UUID,
            position.offset_epoch if diverging and not asked.from_follower and epoch >= 0 else -1,
        )
