"""Fetch requests and answers as plain values, whatever their version, and where an answer ends: pure."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from parley.client.options import READ_COMMITTED, FetchOptions
from parley.errors import CorruptRecordError
from parley.messages import FetchRequest
from parley.records import iter_batches
from parley.types import ZERO_UUID, TopicPartition
from parley.versions import VersionRange

TOPIC_IDS_VERSION = 13
"""From this Fetch version on topics go by id, not by name (KIP-516)."""
ISOLATION_VERSION = 4
"""First Fetch version with an isolation level: older brokers would show aborted records."""
_MAX_VERSION = 2**15 - 1

# offset:8 size:4 leader_epoch:4 magic:1 crc:4 attributes:2 last_offset_delta:4 (magic 2)
_HEAD = struct.Struct(">qiibIhi")
_OVERHEAD = 12
_MIN_SIZE = 49


class FetchTarget(NamedTuple):
    """What is asked of one partition."""

    tp: TopicPartition
    offset: int
    max_bytes: int
    leader_epoch: int = -1
    topic_id: bytes = ZERO_UUID


class FetchAnswer(NamedTuple):
    """What came back for one partition. `leader` is the answer's hint (KIP-951), None where it has none."""

    tp: TopicPartition
    error_code: int
    high_watermark: int
    log_start_offset: int
    records: memoryview | None
    aborted: tuple[tuple[int, int], ...]
    preferred_replica: int
    leader: Any


def fetch_request(targets: Sequence[FetchTarget], options: FetchOptions) -> Any:
    """Return a full Fetch request (no session) for these partitions."""
    topics: dict[str, Any] = {}
    for target in targets:
        name = target.tp.topic
        if name not in topics:
            topics[name] = FetchRequest.FetchTopic(topic=name, topic_id=target.topic_id, partitions=[])
        topics[name].partitions.append(
            FetchRequest.FetchPartition(
                partition=target.tp.partition,
                current_leader_epoch=target.leader_epoch,
                fetch_offset=target.offset,
                partition_max_bytes=target.max_bytes,
            )
        )
    return FetchRequest(
        max_wait_ms=options.fetch_max_wait_ms,
        min_bytes=options.fetch_min_bytes,
        max_bytes=options.fetch_max_bytes,
        isolation_level=1 if options.isolation_level == READ_COMMITTED else 0,
        session_id=0,
        session_epoch=-1,
        topics=list(topics.values()),
        rack_id=options.client_rack,
    )


def allowed_versions(targets: Iterable[FetchTarget], options: FetchOptions) -> VersionRange:
    """Return the Fetch versions that can carry this: with all topic ids known any, else those by name."""
    by_id = all(target.topic_id != ZERO_UUID for target in targets)
    low = ISOLATION_VERSION if options.isolation_level == READ_COMMITTED else 0
    return VersionRange(low, _MAX_VERSION if by_id else TOPIC_IDS_VERSION - 1)


def read_fetch(response: Any, version: int, targets: Sequence[FetchTarget]) -> list[FetchAnswer]:
    """Return the answers by partition. Topics that were not asked for are left out."""
    names = {target.topic_id: target.tp.topic for target in targets}
    asked = {target.tp for target in targets}
    answers = []
    for topic in response.responses:
        name = names.get(bytes(topic.topic_id)) if version >= TOPIC_IDS_VERSION else topic.topic
        for found in topic.partitions:
            tp = TopicPartition(name or "", found.partition_index)
            if tp not in asked:
                continue
            aborted = found.aborted_transactions or ()
            answers.append(
                FetchAnswer(
                    tp,
                    found.error_code,
                    found.high_watermark,
                    found.log_start_offset,
                    found.records,
                    tuple((entry.producer_id, entry.first_offset) for entry in aborted),
                    found.preferred_read_replica,
                    found.current_leader,
                )
            )
    return answers


class Tail(NamedTuple):
    """Where the whole batches of an answer end: the next offset (-1: there is no whole batch), and the last epoch."""

    next_offset: int
    leader_epoch: int
    whole_bytes: int


def find_tail(data: memoryview, where: TopicPartition) -> Tail:
    """Return where the whole batches at the front of `data` end, from their headers alone.

    Only what tells the next position is read; the next request can be sent while everything else is
    still to be checked. A batch that cannot be is left to the decoding, which knows how to say it.
    """
    position, epoch, at, size = -1, -1, 0, len(data)
    while size - at >= _HEAD.size:
        offset, length, batch_epoch, magic, _, _, last_delta = _HEAD.unpack_from(data, at)
        if magic != 2:
            return _legacy_tail(data, where, Tail(position, epoch, at))
        if length < _MIN_SIZE or length > size - at - _OVERHEAD or offset < 0 or last_delta < 0:
            break
        position, epoch = offset + last_delta + 1, batch_epoch
        at += _OVERHEAD + length
    if size - at > 16 and data[at + 16] in (0, 1):
        return _legacy_tail(data, where, Tail(position, epoch, at))  # a message shorter than a batch header
    return Tail(position, epoch, at)


def _legacy_tail(data: memoryview, where: TopicPartition, so_far: Tail) -> Tail:
    """Go on with message sets (magic 0 and 1), whose entries only `records` can tell apart."""
    found = so_far
    with contextlib.suppress(CorruptRecordError):  # the decoding finds it again and says it with its offset
        for batch in iter_batches(data[so_far.whole_bytes :], where):
            epoch = batch.leader_epoch if batch.magic == 2 else -1
            found = Tail(batch.next_offset, epoch, so_far.whole_bytes + batch.end)
    return found
