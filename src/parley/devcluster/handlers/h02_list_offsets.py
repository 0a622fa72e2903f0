"""ListOffsets (2), v0-11.

Behaviours:
- Answered by the leader only: -1 the high watermark, -2 the log's start, a time the first record at
  or after it, found inside its batch.
- v0 lists the first offsets of segments not newer than the time, newest first, as old brokers do.
- Leader epochs are checked and returned since v4 (KIP-320).

Version notes:
- v1+ one offset with its timestamp (KIP-79), v2+ isolation level (KIP-98), v7+ -3 the largest
  timestamp (KIP-734), v8+ -4 the earliest local offset (KIP-405), v9+ -5 the latest tiered offset
  (KIP-1005), v10+ timeout, v11+ -6 the earliest offset not uploaded yet (KIP-1023).
- A special time below its version is refused since 3.9, understood before, and a plain time to
  releases that do not know it. 2.1 returns no leader epoch, though v4 has the field.
- Asking for a time is refused with UNSUPPORTED_FOR_MESSAGE_FORMAT where the log is of magic 0.

Not implemented: tiered storage (-4 is the log's start, -5 and -6 find nothing).
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler, leader_replica
from parley.devcluster.release.behaviour import (
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from parley.devcluster.state.log.replica import Replica
from parley.devcluster.state.log.times import FoundRecord, first_at_time, with_largest_time
from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    KAFKA_STORAGE_ERROR,
    NONE,
    UNSUPPORTED_FOR_MESSAGE_FORMAT,
    UNSUPPORTED_VERSION,
)
from parley.messages import ListOffsetsRequest, ListOffsetsResponse
from parley.schema import ApiKey, VersionRange

READ_COMMITTED = 1
LATEST, EARLIEST = -1, -2
FIRST_SINGLE_VERSION = 1
FIRST_EPOCH_VERSION = 4
NOTHING = FoundRecord(-1, -1, -1)


def handle(call: Call, request: ListOffsetsRequest) -> Answer:
    """Look up each partition's offset."""
    response = ListOffsetsResponse()
    for topic in request.topics:
        partitions = [
            _partition(call, request, response, topic.name, asked) for asked in topic.partitions
        ]
        response.topics.append(
            response.ListOffsetsTopicResponse(name=topic.name, partitions=partitions)
        )
    return response


def _partition(
    call: Call,
    request: ListOffsetsRequest,
    response: ListOffsetsResponse,
    topic: str,
    asked: ListOffsetsRequest.ListOffsetsPartition,
) -> ListOffsetsResponse.ListOffsetsPartitionResponse:
    answer = response.ListOffsetsPartitionResponse(partition_index=asked.partition_index)
    try:
        replica = leader_replica(call, topic, asked.partition_index, asked.current_leader_epoch)
        if call.version < FIRST_SINGLE_VERSION:
            answer.old_style_offsets = _segment_offsets(
                replica, asked.timestamp, asked.max_num_offsets
            )
            return answer
        end = (
            replica.last_stable_offset
            if request.isolation_level == READ_COMMITTED
            else replica.high_watermark
        )
        found = _find(call, replica, asked.timestamp, end)
    except Refused as error:
        answer.error_code = error.code
    except OSError:
        answer.error_code = KAFKA_STORAGE_ERROR
    else:
        answer.error_code = NONE
        answer.offset, answer.timestamp = found.offset, found.timestamp_ms
        if (
            call.version >= FIRST_EPOCH_VERSION
            and call.profile.behaviour.returns_list_offsets_epoch
        ):
            answer.leader_epoch = found.leader_epoch
    return answer


def _find(call: Call, replica: Replica, timestamp: int, end: int) -> FoundRecord:
    if timestamp == LATEST:
        return FoundRecord(end, -1, replica.leader_epoch)
    special = timestamp if timestamp == EARLIEST else _special_time(call, timestamp)
    if special in (EARLIEST, EARLIEST_LOCAL):
        start = replica.log.start_offset
        return FoundRecord(start, -1, replica.epochs.epoch_at(start))
    if special in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING
    if call.profile.release.record_magic == 0:
        raise Refused(UNSUPPORTED_FOR_MESSAGE_FORMAT)
    found = (
        with_largest_time(replica)
        if special == MAX_TIMESTAMP
        else first_at_time(replica, timestamp)
    )
    return found if found is not None and found.offset < end else NOTHING


def _special_time(call: Call, timestamp: int) -> int | None:
    """Return the special time that a negative number means to this release;
    None for a plain time.
    """
    behaviour = call.profile.behaviour
    since = behaviour.known_times.get(timestamp)
    if behaviour.checks_times and timestamp < 0 and (since is None or call.version < since):
        raise Refused(UNSUPPORTED_VERSION)
    return None if since is None else timestamp


def _segment_offsets(replica: Replica, timestamp: int, most: int) -> list[int]:
    """Return what brokers before 0.10.1 did: segments' first offsets and the end, newest first."""
    log, end = replica.log, replica.high_watermark
    known = [(segment.base_offset, segment.last_append_ms) for segment in log.segments] or [
        (log.start_offset, -1)
    ]
    known.append((end, -1))
    if timestamp == LATEST:
        newest = len(known)
    elif timestamp == EARLIEST:
        newest = 1
    else:
        newest = sum(appended <= timestamp for _, appended in known[:-1])
    offsets = [min(max(offset, log.start_offset), end) for offset, _ in known[:newest]]
    return sorted(set(offsets), reverse=True)[: max(most, 0)]


def refuse(request: ListOffsetsRequest, version: int, code: int) -> ListOffsetsResponse:
    """Answer `code` for each partition."""
    response = ListOffsetsResponse()
    for topic in request.topics:
        partitions = [
            response.ListOffsetsPartitionResponse(
                partition_index=asked.partition_index, error_code=code
            )
            for asked in topic.partitions
        ]
        response.topics.append(
            response.ListOffsetsTopicResponse(name=topic.name, partitions=partitions)
        )
    return response


API = Handler(ApiKey.LIST_OFFSETS, VersionRange(0, 11), handle, refuse)
