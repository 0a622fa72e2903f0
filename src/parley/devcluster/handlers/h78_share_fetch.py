"""ShareFetch (78), v1-2.

Behaviours:
- Answered by each partition's leader, in the share session of a member
  (`state.groups.share.sessions`); the session ends with its connection, and what was acquired is
  available to others.
- Acknowledgements count before anything is read. Then the request waits until `min_bytes` can be
  acquired, an error is found or `max_wait_ms` is over; appends and released records wake it.
- Batches come whole and by reference; `acquired_records` says which of their records are the
  member's.
- A group begins at its `share.auto.offset.reset`, when a partition is read first; that is in the
  journal.
- Groups that read committed records only skip aborted ones.
- A partition that moved: NOT_LEADER_OR_FOLLOWER with the new leader (KIP-951).
- A partition that no member subscribed to yet: UNKNOWN_SERVER_ERROR, as real brokers say.

Version notes:
- v1 is 4.1's, v2+ acquire modes (KIP-1206) and renewals (KIP-1222). v0 was 4.0's early access.

Not implemented: -. A topic id that does not exist is UNKNOWN_TOPIC_ID for its partition; 4.3.0
fails with UNKNOWN_SERVER_ERROR for the whole request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from parley.devcluster.handlers.base import Answer, Call, Handler, LeaderHints, Wait, Watched
from parley.devcluster.handlers.mirror import top
from parley.devcluster.handlers.share_reading import Reading, read
from parley.devcluster.handlers.sharing import (
    Outcome,
    acknowledged,
    hint,
    require_member,
    serves_share_groups,
    settings_of,
)
from parley.devcluster.state.groups.share.assignor import Part
from parley.devcluster.state.groups.share.partition import Acquired, Wish
from parley.devcluster.state.groups.share.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    ShareSession,
)
from parley.devcluster.state.refused import Refused
from parley.errors.codes import INVALID_REQUEST, NONE, UNKNOWN_SERVER_ERROR, UNSUPPORTED_VERSION
from parley.messages import ShareFetchRequest, ShareFetchResponse
from parley.schema import ApiKey, VersionRange

BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1
MOST_BYTES = 55 * 1024 * 1024  # fetch.max.bytes of brokers


def handle(call: Call, request: ShareFetchRequest) -> Answer:
    """Take acknowledgements, and give a member records, or wait for them."""
    if not serves_share_groups(call):
        return top(request, call.version, UNSUPPORTED_VERSION)
    try:
        _check(request)
        session = _session(call, request)
    except Refused as error:
        return top(request, call.version, error.code, error.message)
    outcomes = acknowledged(call, request)
    if request.share_acquire_mode not in (BATCH_OPTIMIZED, RECORD_LIMIT):
        # as 4.3.0 says, the session goes on
        return top(request, call.version, UNKNOWN_SERVER_ERROR)
    fetch = _ShareFetch(call, request, session, outcomes)
    if request.share_session_epoch == FINAL_EPOCH:
        call.share_sessions.end(session)
        call.cluster.share_groups.release(session)
        return fetch.response({})
    if request.is_renew_ack or not session.parts:
        return fetch.response({})
    answer = fetch.attempt(request.max_wait_ms <= 0)
    return answer or Wait(fetch.watched, request.max_wait_ms, fetch.attempt)


def _check(request: ShareFetchRequest) -> None:
    """Raise Refused for a request that no session can have."""
    require_member(request)
    says = any(
        asked.acknowledgement_batches for topic in request.topics for asked in topic.partitions
    )
    if request.share_session_epoch == INITIAL_EPOCH and says:
        raise Refused(INVALID_REQUEST, None)
    reads = request.max_wait_ms or request.min_bytes or request.max_bytes or request.max_records
    if request.is_renew_ack and reads:
        raise Refused(INVALID_REQUEST, None)


def _session(call: Call, request: ShareFetchRequest) -> ShareSession:
    sessions, group, member = call.share_sessions, request.group_id or "", request.member_id or ""
    epoch, parts = request.share_session_epoch, list(_parts(request))
    if epoch == INITIAL_EPOCH:
        return sessions.begin(group, member, call.connection, parts)
    session = sessions.go_on(group, member, epoch)
    if epoch != FINAL_EPOCH:
        session.parts.update(dict.fromkeys(parts))
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                session.parts.pop((topic.topic_id, index), None)
    return session


def _parts(request: ShareFetchRequest) -> Iterator[Part]:
    for topic in request.topics:
        for asked in topic.partitions:
            yield topic.topic_id, asked.partition_index


@dataclass(slots=True)
class _Given:
    """What a member is given of one partition."""

    code: int = NONE
    acquired: list[Acquired] = field(default_factory=list)
    records: list[memoryview] = field(default_factory=list)


class _ShareFetch:
    """One request while it is being answered."""

    def __init__(
        self,
        call: Call,
        request: ShareFetchRequest,
        session: ShareSession,
        outcomes: Mapping[Part, Outcome],
    ) -> None:
        self._call, self._request = call, request
        self._session, self._outcomes = session, outcomes
        self._settings = settings_of(call, session.group)
        self.watched: list[Watched] = []
        """What may bring records: logs and share partitions, as of the last attempt."""

    def attempt(self, final: bool) -> ShareFetchResponse | None:
        """Return the response if there is enough to give, or time is over."""
        readings = self._readings()
        self.watched[:] = [found for one in readings.values() for found in one.watched]
        failed = any(one.code != NONE for one in readings.values())
        size = sum(one.size for one in readings.values())
        if not final and not failed and size < self._request.min_bytes:
            return None
        given = self._acquire(readings)
        if any(one.acquired for one in given.values()) or failed or final or not size:
            return self.response(given)
        # Everything that was read is hidden from this group: there may be more behind it.
        return self.attempt(final)

    def _readings(self) -> dict[Part, Reading]:
        left = min(self._request.max_bytes, MOST_BYTES)
        found: dict[Part, Reading] = {}
        for part in self._session.turned(self._request.share_session_epoch):
            first = not any(one.size for one in found.values())
            reading = read(
                self._call, self._session.group, part, self._settings,
                max_bytes=left, at_least_one=first,
            )  # fmt: skip
            found[part] = reading
            left = max(0, left - reading.size)
        return found

    def _acquire(self, readings: Mapping[Part, Reading]) -> dict[Part, _Given]:
        request, left = self._request, self._request.max_records
        given: dict[Part, _Given] = {}
        for part, reading in readings.items():
            one = given[part] = _Given(reading.code)
            if not reading.size or left <= 0:
                continue
            strict = request.share_acquire_mode == RECORD_LIMIT
            wish = Wish(self._session.member, left, max(1, request.batch_size), strict)
            try:
                one.acquired = reading.acquire(self._call, wish)
            except Refused as error:
                one.code = error.code
            one.records = reading.parts_of(one.acquired)
            left -= sum(found.last - found.first + 1 for found in one.acquired)
        return given

    def response(self, given: Mapping[Part, _Given]) -> ShareFetchResponse:
        """Return what there is to say: in a later request of a session only news."""
        response = ShareFetchResponse(
            acquisition_lock_timeout_ms=self._settings.record_lock_duration_ms
        )
        begins = self._request.share_session_epoch == INITIAL_EPOCH
        hints = LeaderHints(self._call.image)
        topics: dict[bytes, ShareFetchResponse.ShareFetchableTopicResponse] = {}
        for part in dict.fromkeys([*self._outcomes, *given]):
            found, outcome = given.get(part, _Given()), self._outcomes.get(part)
            if not (begins or outcome is not None or found.acquired or found.code != NONE):
                continue
            topic_id, index = part
            if topic_id not in topics:
                topics[topic_id] = response.ShareFetchableTopicResponse(topic_id=topic_id)
            answer = _partition(index, found, outcome or Outcome())
            hint(self._call, hints, part, answer, answer.error_code, answer.acknowledge_error_code)
            topics[topic_id].partitions.append(answer)
        response.responses = list(topics.values())
        response.node_endpoints = hints.endpoints(response.NodeEndpoint)
        return response


def _partition(index: int, found: _Given, outcome: Outcome) -> ShareFetchResponse.PartitionData:
    made = ShareFetchResponse.AcquiredRecords
    return ShareFetchResponse.PartitionData(
        partition_index=index,
        error_code=found.code,
        acknowledge_error_code=outcome.code,
        acknowledge_error_message=outcome.text,
        records=found.records,
        acquired_records=[
            made(first_offset=one.first, last_offset=one.last, delivery_count=one.deliveries)
            for one in found.acquired
        ],
    )


API = Handler(ApiKey.SHARE_FETCH, VersionRange(1, 2), handle, top)
