"""Produce (0), v0-13.

Behaviours:
- Large record sets are checked in a thread first (produce_ahead.py), so that no other connection
  waits for them.
- Appends to the leader's log and, in the same step, to the in-sync followers; acks=-1 waits until
  the high watermark has passed the batch, at most `timeout_ms` (then REQUEST_TIMED_OUT).
- acks=0 gets no answer; if a partition failed, the connection is closed, as brokers do.
- Idempotent producers: the last five batches are recognised and answered with their first offsets.
- A record set that is no single batch of magic 2 (v3+) closes the connection before 2.1 and is
  refused later; one without a batch at its front closes it in 2.1 to 2.7 in every version. A tail
  that is cut off is dropped.
- Messages of magic 0 and 1 are counted as they stand: the offsets that producers write there mean
  nothing.
- A disk that refuses: KAFKA_STORAGE_ERROR, nothing of the batch is kept.
- A transactional batch needs its partition in the transaction since 3.6 (INVALID_TXN_STATE); v12+
  adds it.
- Fewer in-sync replicas than min.insync.replicas with acks=-1: NOT_ENOUGH_REPLICAS, nothing
  appended; NOT_ENOUGH_REPLICAS_AFTER_APPEND when they were lost meanwhile. Since 3.7 a partition
  with fewer replicas than that needs all of them.
- A topic of Kafka's own (`__consumer_offsets`) takes nothing from clients: INVALID_TOPIC_EXCEPTION.
- A compacted topic takes no record without a key: CORRUPT_MESSAGE, since 2.4 INVALID_RECORD, in v8+
  with the records that are refused (KIP-467); 2.4 names the first one only.
- A batch larger than segment.bytes: RECORD_LIST_TOO_LARGE.
- A record dated too far off (message.timestamp.*.max.ms, 4.0+: an hour ahead): INVALID_TIMESTAMP.

Version notes:
- v0-1 bring magic 0, v2 magic 1 (KIP-32), v3+ exactly one batch of magic 2 per partition (KIP-98);
  the log keeps its release's own format and converts.
- v1+ throttle time, v2+ log append time, v5+ log start offset, v7+ zstd (KIP-110), v8+ error
  message (KIP-467), v10+ leader hints (KIP-951), v12+ transactions of the second generation
  (KIP-890), v13+ topic ids (KIP-516).
- 4.x advertises v0-2 and closes on them (KAFKA-18659); the profile does that.

Not implemented: recompression by compression.type.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from parley.devcluster.handlers.base import (
    Answer,
    Call,
    Handler,
    LeaderHints,
    NoAnswer,
    Wait,
    leader_replica,
)
from parley.devcluster.handlers.produce_ahead import prepared, work_ahead
from parley.devcluster.handlers.transacting import admit_batch
from parley.devcluster.release.behaviour import InvalidRecords
from parley.devcluster.release.topic_configs import timestamp_bounds
from parley.devcluster.state.image import INTERNAL_TOPICS
from parley.devcluster.state.log.appending import FIRST_BATCH_VERSION, AppendRules, check_shape
from parley.devcluster.state.log.batches import Received, receive
from parley.devcluster.state.log.replica import Replica
from parley.devcluster.state.refused import Refused, RefusedRecords
from parley.devcluster.state.topics import TopicSettings
from parley.errors.codes import (
    INVALID_PRODUCER_EPOCH,
    INVALID_RECORD,
    INVALID_REQUIRED_ACKS,
    INVALID_TIMESTAMP,
    INVALID_TOPIC_EXCEPTION,
    INVALID_TXN_STATE,
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_ENOUGH_REPLICAS,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    NOT_LEADER_OR_FOLLOWER,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    REQUEST_TIMED_OUT,
    UNKNOWN_PRODUCER_ID,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_ID,
)
from parley.messages import ProduceRequest, ProduceResponse
from parley.schema import ApiKey, VersionRange

log = logging.getLogger("parley.devcluster")

ADMIN_CLIENT_ID = "__admin_client"
"""The one client that may write into topics of Kafka's own."""
CODES_WITH_LOG_START = frozenset(
    {INVALID_TIMESTAMP, NOT_ENOUGH_REPLICAS, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH,
     INVALID_TXN_STATE,
     UNKNOWN_PRODUCER_ID, UNKNOWN_SERVER_ERROR}
)  # fmt: skip
"""Refusals of the log itself: they carry its start offset, those from before it is
touched do not [measured].
"""

FIRST_HINT_VERSION = 10
FIRST_ID_VERSION = 13


@dataclass(slots=True)
class _Outcome:
    """One partition's answer in the making."""

    topic: str
    index: int
    code: int = NONE
    base_offset: int = -1
    last_offset: int = -1
    log_append_time_ms: int = -1
    replica: Replica | None = None
    log_start_offset: int = -1
    message: str | None = None
    invalid: RefusedRecords | None = None
    min_isr: int = 0


@dataclass(slots=True)
class _Topic:
    name: str
    topic_id: bytes
    outcomes: list[_Outcome] = field(default_factory=list)


def handle(call: Call, request: ProduceRequest) -> Answer:
    """Append each partition's records and answer when the producer's acks are reached."""
    if not _readable(call, request):
        return NoAnswer(close=True)
    topics = [_append_topic(call, request, topic) for topic in request.topic_data]
    outcomes = [outcome for topic in topics for outcome in topic.outcomes]
    if request.acks == 0:
        return NoAnswer(close=any(outcome.code != NONE for outcome in outcomes))
    if request.acks == 1 or _replicated(outcomes):
        return _response(call, topics)

    def attempt(final: bool) -> ProduceResponse | None:
        if not _replicated(outcomes):
            if not final:
                return None
            for outcome in _unreplicated(outcomes):
                outcome.code, outcome.base_offset = REQUEST_TIMED_OUT, -1
        return _response(call, topics)

    replicas = [outcome.replica for outcome in outcomes if outcome.replica is not None]
    return Wait(replicas, request.timeout_ms, attempt)


def _rules(call: Call, settings: TopicSettings) -> AppendRules:
    own_time = call.cluster.settings.start_time_ms is not None
    return AppendRules(
        call.version,
        call.profile.release.record_magic,
        settings.max_message_bytes,
        settings.log_append_time,
        call.profile.behaviour.invalid_record_code,
        call.profile.behaviour.knows_zstd,
        call.profile.behaviour.message_sets,
        settings.compacted,
        settings.segment_bytes,
        timestamp_bounds(call.profile.release, settings, own_time=own_time),
    )


def _ahead(call: Call, request: ProduceRequest) -> Callable[[], None] | None:
    return work_ahead(call, request, _name_and_rules)


def _name_and_rules(call: Call, topic: ProduceRequest.TopicProduceData) -> tuple[str, AppendRules]:
    name = _name_of(call, topic) or ""
    return name, _rules(call, _settings_of(call, name))


def _name_of(call: Call, topic: ProduceRequest.TopicProduceData) -> str | None:
    """Return the topic's name, or None where there is no topic of its id."""
    if call.version < FIRST_ID_VERSION:
        return topic.name
    image = call.image.topic_by_id(topic.topic_id)
    return None if image is None else image.name


def _settings_of(call: Call, name: str) -> TopicSettings:
    known = call.image.topics.get(name)
    return (
        call.cluster.settings.topic_defaults
        if known is None
        else call.cluster.configs.topic_settings(known.configs, call.broker.id)
    )


def _readable(call: Call, request: ProduceRequest) -> bool:
    """Whether the release answers the request at all; those before 2.8 close on
    record sets they cannot take.
    """
    manner = call.profile.behaviour.invalid_records
    records = (
        partition.records for topic in request.topic_data for partition in topic.partition_data
    )
    if manner is InvalidRecords.ANSWER:
        return True
    if manner is InvalidRecords.CLOSE_IF_EMPTY:
        return all(_begins(receive(data, most=1)) for data in records)
    return call.version < FIRST_BATCH_VERSION or all(
        _is_one_batch(receive(data, most=2)) for data in records
    )


def _begins(received: Received) -> bool:
    return bool(received.headers) or (received.fault is not None and received.fault.inside)


def _is_one_batch(received: Received) -> bool:
    headers, fault = received.headers, received.fault
    if fault is not None:
        return fault.inside and not headers
    return len(headers) == 1 and headers[0].magic == 2


def _append_topic(
    call: Call, request: ProduceRequest, topic: ProduceRequest.TopicProduceData
) -> _Topic:
    name = _name_of(call, topic)
    code = UNKNOWN_TOPIC_ID if name is None else NONE
    name = name or ""
    result = _Topic(name, topic.topic_id)
    for partition in topic.partition_data:
        outcome = _Outcome(name, partition.index, code)
        result.outcomes.append(outcome)
        if code == NONE:
            _append(call, request, outcome, partition.records)
    return result


def _check_internal(call: Call, topic: str) -> None:
    """Raise Refused (INVALID_TOPIC_EXCEPTION) for a topic that brokers alone write, also where
    there is none yet.
    """
    if topic in INTERNAL_TOPICS and call.client_id != ADMIN_CLIENT_ID:
        raise Refused(INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic}")


def _append(
    call: Call, request: ProduceRequest, outcome: _Outcome, records: memoryview | None
) -> None:
    replica: Replica | None = None
    explained = False  # whether the answer says why, in words
    acks = request.acks
    try:
        if acks not in (-1, 0, 1):
            raise Refused(INVALID_REQUIRED_ACKS, f"acks {acks} do not exist")
        settings = _settings_of(call, outcome.topic)
        rules = _rules(call, settings)
        if outcome.topic in call.image.topics:
            check_shape(records, rules)
        _check_internal(call, outcome.topic)
        leader = leader_replica(call, outcome.topic, outcome.index)
        explained = (
            call.profile.behaviour.explains_verification and request.transactional_id is not None
        )
        admit_batch(call, request.transactional_id, leader, records)
        replica, explained = leader, False
        min_isr = call.cluster.min_isr_of(replica, settings.min_insync_replicas)
        if acks == -1 and len(replica.isr) < min_isr:
            raise Refused(
                NOT_ENOUGH_REPLICAS,
                f"{len(replica.isr)} replicas are in sync, {min_isr} are required",
            )
        sets = prepared(call, records, rules, (outcome.topic, outcome.index))
        if not sets:
            outcome.log_start_offset = replica.log.start_offset
            return
        appended = call.cluster.append(
            replica, sets, now_ms=call.now_ms, rules=call.profile.behaviour.producer_rules
        )
    except Refused as error:
        _refuse(outcome, error, replica, explained)
    except OSError as error:
        log.warning("the disk refuses records of %s-%d: %s", outcome.topic, outcome.index, error)
        outcome.code = KAFKA_STORAGE_ERROR
    else:
        outcome.base_offset, outcome.last_offset, outcome.replica = (
            appended.base_offset,
            appended.last_offset,
            replica,
        )
        outcome.log_start_offset = replica.log.start_offset
        outcome.min_isr = min_isr
        # Kafka returns the remembered batch's time, whatever kind of time it is
        if appended.duplicate:
            outcome.log_append_time_ms = appended.duplicate_timestamp_ms
        elif settings.log_append_time:
            outcome.log_append_time_ms = call.now_ms


def _refuse(outcome: _Outcome, error: Refused, replica: Replica | None, explained: bool) -> None:
    """Answer with an error; `replica` is None where it came before the records were admitted.

    Brokers put a text into the answer only for records refused one by one (KIP-467), and where
    the verification of a transaction failed.
    """
    log.debug(
        "Produce to %s-%d is refused with %d: %s",
        outcome.topic,
        outcome.index,
        error.code,
        error.message,
    )
    outcome.code = error.code
    if replica is None and (explained or error.code == INVALID_TXN_STATE):
        outcome.message = error.message
    if isinstance(error, RefusedRecords) and error.code in (INVALID_RECORD, INVALID_TIMESTAMP):
        outcome.invalid, outcome.message = error, error.message
    if replica is not None and (outcome.invalid is not None or error.code in CODES_WITH_LOG_START):
        outcome.log_start_offset = replica.log.start_offset


def _unreplicated(outcomes: Sequence[_Outcome]) -> list[_Outcome]:
    waiting = []
    for outcome in outcomes:
        replica = outcome.replica
        if outcome.code != NONE or replica is None:
            continue
        if replica.high_watermark > outcome.last_offset:
            if len(replica.isr) < outcome.min_isr:
                outcome.code = NOT_ENOUGH_REPLICAS_AFTER_APPEND
        elif replica.is_leader:
            waiting.append(outcome)
        else:  # deposed while the producer waited: the record may or may not survive
            outcome.code, outcome.base_offset = NOT_LEADER_OR_FOLLOWER, -1
    return waiting


def _replicated(outcomes: Sequence[_Outcome]) -> bool:
    return not _unreplicated(outcomes)


def _response(call: Call, topics: Sequence[_Topic]) -> ProduceResponse:
    response = ProduceResponse()
    hints = LeaderHints(call.image)
    for topic in topics:
        partitions = []
        for outcome in topic.outcomes:
            partition = response.PartitionProduceResponse(
                index=outcome.index,
                error_code=outcome.code,
                base_offset=outcome.base_offset,
                log_append_time_ms=outcome.log_append_time_ms,
                log_start_offset=outcome.log_start_offset,
                error_message=outcome.message,
            )
            if outcome.invalid is not None:
                _name_records(call, response, partition, outcome.invalid)
            if call.version >= FIRST_HINT_VERSION:
                hints.hint(partition, outcome.code, topic.name, outcome.index)
            partitions.append(partition)
        response.responses.append(
            response.TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=partitions
            )
        )
    if call.version >= FIRST_HINT_VERSION:
        response.node_endpoints = hints.endpoints(response.NodeEndpoint)
    return response


def _name_records(
    call: Call,
    response: ProduceResponse,
    partition: ProduceResponse.PartitionProduceResponse,
    invalid: RefusedRecords,
) -> None:
    """Name the records that are refused, as the release does (v8+; older
    versions have no place for it).
    """
    lists, records = call.profile.behaviour.lists_invalid_records, invalid.records
    partition.record_errors = [
        response.BatchIndexAndErrorMessage(
            batch_index=at, batch_index_error_message=invalid.message if lists else None
        )
        for at in (records if lists else records[:1])
    ]
    if lists:
        partition.error_message = f"One or more records have been rejected ({len(records)} of them)"


def refuse(request: ProduceRequest, version: int, code: int) -> ProduceResponse:
    """Answer `code` for each partition."""
    response = ProduceResponse()
    for topic in request.topic_data:
        partitions = [
            response.PartitionProduceResponse(
                index=partition.index, error_code=code, base_offset=-1
            )
            for partition in topic.partition_data
        ]
        response.responses.append(
            response.TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=partitions
            )
        )
    return response


API = Handler(ApiKey.PRODUCE, VersionRange(0, 13), handle, refuse, _ahead)
