"""Fetch (1), v0-18.

Behaviours:
- Waits until `min_bytes` are there, an error is found or `max_wait_ms` is over; it is woken by
  appends.
- Records are sent by reference from the log, never copied.
- Consumers read up to the high watermark, of committed records up to the last stable offset, with
  the list of aborted transactions; from a follower too since v11 (KIP-392).
- A consumer that names its rack is sent to an in-sync replica there: from 2.4 on, where brokers
  have racks.
- An old reader is given records in its own format: magic 0 for v0-1, at most magic 1 for v2-3.
- Leader epochs are checked since v9 (KIP-320): FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
- Incremental sessions (KIP-227, `fetching`): a later request is answered with what has changed.
- A session keeps the name that it found for a topic id: once another topic has that name,
  INCONSISTENT_TOPIC_ID.

Version notes:
- v1+ throttle time, v3+ max_bytes and at least one batch (KIP-74), v4+ isolation level (KIP-98),
  v5+ log start offset (KIP-107), v7+ sessions (KIP-227), v10+ zstd (KIP-110), v12+ diverging epoch
  (KIP-595), v13+ topic ids (KIP-516), v15+ replica state (KIP-903), v16+ leader hints (KIP-951).
- v0-2 return no batch that is larger than the limit, but its first bytes.

Not implemented: fetches by followers (31), directory ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from parley.devcluster.handlers.base import Answer, Call, Handler, LeaderHints, Slices, Wait
from parley.devcluster.handlers.fetching import FIRST_ID_VERSION, Answered, Reading
from parley.devcluster.handlers.old_readers import CODEC_ZSTD, OldReader, Place
from parley.devcluster.handlers.produce_ahead import is_large
from parley.devcluster.state.fetch_sessions import Followed
from parley.devcluster.state.log.replica import Replica
from parley.devcluster.state.log.selection import preferred_replica
from parley.devcluster.state.log.transactions import AbortedTransaction
from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    FENCED_LEADER_EPOCH,
    INCONSISTENT_TOPIC_ID,
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from parley.messages import FetchRequest, FetchResponse
from parley.schema import ApiKey, VersionRange

READ_COMMITTED = 1
FIRST_WHOLE_BATCH_VERSION = 3
FIRST_FOLLOWER_VERSION = 11
FIRST_DIVERGING_VERSION = 12
FIRST_HINT_VERSION = 16
MOST_BYTES = 55 * 1024 * 1024  # fetch.max.bytes of brokers since 2.5
HINT_CODES = (NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH)


@dataclass(slots=True)
class _Wanted:
    """One partition of the request, found or refused."""

    followed: Followed
    replica: Replica | None = None
    code: int = NONE
    diverging: tuple[int, int] | None = None
    preferred: int | None = None

    @property
    def asked(self) -> FetchRequest.FetchPartition:
        """Its part of the request, or of an earlier one of the session."""
        return self.followed.asked

    @property
    def turn(self) -> int:
        """Where it stands in an answer: brokers list unknown ids behind the rest, and
        unknown partitions last.
        """
        return (
            (UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION).index(self.code) + 1
            if self.unknown
            else 0
        )

    @property
    def unknown(self) -> bool:
        """Whether this broker's image has no such partition."""
        return self.code in (UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION)


@dataclass(slots=True)
class _Read:
    """One partition's records."""

    code: int = NONE
    parts: Sequence[memoryview | bytes] = ()
    size: int = 0
    aborted: Sequence[AbortedTransaction] = ()
    rewrite: Callable[[], tuple[Sequence[memoryview | bytes], int]] | None = None
    """Returns the same in the reader's format, and its size. Raises
    Refused. It touches no state.
    """

    def rewritten(self) -> None:
        """Put the records into the reader's format. Mutates."""
        if self.rewrite is not None:
            try:
                self.parts, self.size = self.rewrite()
            except Refused as error:
                self.code, self.parts, self.size, self.aborted = error.code, (), 0, ()


def handle(call: Call, request: FetchRequest) -> Answer:
    """Return records, or wait for them."""
    if request.replica_id >= 0 or request.replica_state.replica_id >= 0:
        return refuse(request, call.version, CLUSTER_AUTHORIZATION_FAILED)
    try:
        reading = Reading(call, request)
    except Refused as error:
        return FetchResponse(error_code=error.code)
    wanted = [_find(call, followed) for followed in reading.partitions]
    wanted.sort(key=lambda one: one.turn)
    fetch = _Fetch(call, request, reading, wanted)
    answer = fetch.attempt(request.max_wait_ms <= 0 or not wanted)
    if answer is not None:
        return answer
    return Wait(
        [one.replica for one in wanted if one.replica is not None],
        request.max_wait_ms,
        fetch.attempt,
    )


def _find(call: Call, followed: Followed) -> _Wanted:
    wanted = _Wanted(followed)
    if call.version >= FIRST_ID_VERSION:
        wanted.code = _name(call, followed)
        if wanted.code != NONE:
            return wanted
    try:
        wanted.replica = call.broker.find(followed.topic, followed.index)
    except Refused as error:
        wanted.code = error.code
    return wanted


def _name(call: Call, followed: Followed) -> int:
    """Give a topic id its name unless its session knows one; return the error where
    it has none, or lost it.
    """
    if not followed.topic:
        image = call.image.topic_by_id(followed.topic_id)
        if image is None:
            return UNKNOWN_TOPIC_ID
        followed.topic = image.name
    image = call.image.topics.get(followed.topic)
    return (
        INCONSISTENT_TOPIC_ID if image is not None and image.topic_id != followed.topic_id else NONE
    )


class _Fetch:
    """One request while it is being answered."""

    def __init__(
        self, call: Call, request: FetchRequest, reading: Reading, wanted: Sequence[_Wanted]
    ) -> None:
        self._call = call
        self._request = request
        self._reading = reading
        self._wanted = wanted
        self._whole = call.version >= FIRST_WHOLE_BATCH_VERSION

    def attempt(self, final: bool) -> FetchResponse | Slices | None:
        """Return the response if there is enough to say; sizes are those of
        the log, as with brokers.
        """
        left = min(self._request.max_bytes, MOST_BYTES) if self._whole else MOST_BYTES
        reads, size, settled = [], 0, final
        for one in self._wanted:
            read = self._read(one, left, at_least_one=self._whole and not size)
            reads.append(read)
            size += read.size
            left = max(0, left - read.size)
            settled = (
                settled
                or read.code != NONE
                or one.diverging is not None
                or one.preferred is not None
            )
        if not settled and size < self._request.min_bytes:
            return None
        todo = [read for read in reads if read.rewrite is not None]
        if is_large(part for read in todo for part in read.parts):
            return Slices(self._rewritten(reads, todo))
        for read in todo:
            read.rewritten()
        return self._response(reads)

    def _rewritten(
        self, reads: Sequence[_Read], todo: Sequence[_Read]
    ) -> Iterator[FetchResponse | Callable[[], None]]:
        """Have large conversions done in a thread, then answer."""
        yield from (read.rewritten for read in todo)
        yield self._response(reads)

    def _read(self, one: _Wanted, left: int, *, at_least_one: bool) -> _Read:
        if one.replica is None:
            return _Read(one.code)
        try:
            return self._read_replica(one, one.replica, left, at_least_one)
        except Refused as error:
            return _Read(error.code)
        except OSError:
            return _Read(KAFKA_STORAGE_ERROR)

    def _read_replica(self, one: _Wanted, replica: Replica, left: int, at_least_one: bool) -> _Read:
        asked = one.asked
        replica.check_epoch(asked.current_leader_epoch)
        if self._call.version < FIRST_FOLLOWER_VERSION or replica.leader_id < 0:
            replica.require_leader()
        one.diverging = self._diverging(replica, asked)
        if one.diverging is not None:
            return _Read()
        if not replica.log.start_offset <= asked.fetch_offset <= replica.log.end_offset:
            raise Refused(OFFSET_OUT_OF_RANGE)
        one.preferred = self._preferred(replica, asked.fetch_offset)
        if one.preferred is not None:
            return _Read()
        limit = min(asked.partition_max_bytes, left)
        end = self._readable_end(replica)
        found = replica.log.read(
            asked.fetch_offset, limit, end_offset=end, at_least_one=at_least_one or not self._whole
        )
        # Brokers slice the log at the limit, inside a batch if need be: that is what conversion may
        # fill.
        sliced = found.size if found.next_offset >= end else max(found.size, limit)
        rewrite, reader = None, OldReader(self._call.version, self._call.profile.behaviour)
        if found.parts and reader.may_need_rewriting(replica.codecs):
            place = Place(one.followed.topic, one.followed.index, asked.fetch_offset)
            rewrite = partial(
                reader.rewritten,
                found,
                place,
                has_zstd=CODEC_ZSTD in replica.codecs,
                sliced=sliced,
                most=None if self._whole else limit,
            )
        aborted: Sequence[AbortedTransaction] = ()
        if self._request.isolation_level == READ_COMMITTED:
            beyond = not found.parts and self._call.profile.behaviour.aborted_when_empty
            reach = replica.log.end_offset if beyond else found.next_offset
            aborted = replica.producers.transactions.aborted_within(asked.fetch_offset, reach)
        return _Read(NONE, found.parts, found.size, aborted, rewrite)

    def _preferred(self, replica: Replica, offset: int) -> int | None:
        if not (
            self._request.rack_id
            and replica.is_leader
            and self._call.profile.behaviour.selects_replicas
        ):
            return None
        return preferred_replica(replica, self._call.image.brokers, self._request.rack_id, offset)

    def _readable_end(self, replica: Replica) -> int:
        if self._request.isolation_level == READ_COMMITTED:
            return replica.last_stable_offset
        return replica.high_watermark

    def _diverging(
        self, replica: Replica, asked: FetchRequest.FetchPartition
    ) -> tuple[int, int] | None:
        """Return epoch and end offset where the reader's history leaves this
        log's (KIP-595), else None.
        """
        if self._call.version < FIRST_DIVERGING_VERSION or asked.last_fetched_epoch < 0:
            return None
        found = replica.end_of_epoch(asked.last_fetched_epoch)
        if found.epoch < 0:
            raise Refused(OFFSET_OUT_OF_RANGE)
        if found.epoch < asked.last_fetched_epoch or found.end_offset < asked.fetch_offset:
            return found.epoch, found.end_offset
        return None

    def _response(self, reads: Sequence[_Read]) -> FetchResponse:
        response = FetchResponse()
        answered = []
        for one, read in zip(self._wanted, reads, strict=True):
            worth_sending = read.size > 0 or one.preferred is not None or one.diverging is not None
            answered.append(
                Answered(one.followed, self._partition(response, one, read), worth_sending)
            )
        answer = self._reading.answer(response, answered)
        if self._call.version >= FIRST_HINT_VERSION:
            hints = LeaderHints(self._call.image, HINT_CODES)
            for shown in answered:
                hints.hint(
                    shown.part, shown.part.error_code, shown.followed.topic, shown.followed.index
                )
            answer.node_endpoints = hints.endpoints(answer.NodeEndpoint)
        return answer

    def _partition(
        self, response: FetchResponse, one: _Wanted, read: _Read
    ) -> FetchResponse.PartitionData:
        behaviour = self._call.profile.behaviour
        committed = self._request.isolation_level == READ_COMMITTED
        partition = response.PartitionData(
            partition_index=one.followed.index,
            error_code=read.code,
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=-1,
            aborted_transactions=[]
            if one.replica is None and behaviour.aborted_of_unknown
            else None,
            records=list(read.parts),
        )
        replica = one.replica
        if read.code == NONE and replica is not None:
            partition.high_watermark = replica.high_watermark
            partition.log_start_offset = replica.log.start_offset
            if committed or behaviour.returns_last_stable_offset:
                partition.last_stable_offset = replica.last_stable_offset
            if committed:
                partition.aborted_transactions = [
                    response.AbortedTransaction(
                        producer_id=entry.producer_id, first_offset=entry.first_offset
                    )
                    for entry in read.aborted
                ]
            if one.preferred is not None:
                partition.preferred_read_replica = one.preferred
            if one.diverging is not None:
                partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset = (
                    one.diverging
                )
        return partition


def refuse(request: FetchRequest, version: int, code: int) -> FetchResponse:
    """Answer `code` for each partition."""
    response = FetchResponse()
    for topic in request.topics:
        partitions = [
            response.PartitionData(
                partition_index=partition.partition, error_code=code, high_watermark=-1, records=b""
            )
            for partition in topic.partitions
        ]
        response.responses.append(
            response.FetchableTopicResponse(
                topic=topic.topic, topic_id=topic.topic_id, partitions=partitions
            )
        )
    return response


API = Handler(ApiKey.FETCH, VersionRange(0, 18), handle, refuse)
