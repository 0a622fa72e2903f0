"""Fetch requests and answers as plain values of any version, and where an answer ends: pure."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import NamedTuple

from parley.client.cluster.view import LeaderHint
from parley.client.options.client_options import READ_COMMITTED, FetchOptions
from parley.client.results import EpochEndOffset
from parley.messages import FetchRequest, FetchResponse
from parley.records import follow_fronts
from parley.schema import ApiKey
from parley.types import ZERO_UUID, TopicPartition
from parley.versions import Feature, VersionRange

TOPIC_IDS_VERSION = Feature.FETCH_TOPIC_IDS.first_version(ApiKey.FETCH)
"""From this Fetch version on topics go by id, not by name (KIP-516)."""
ISOLATION_VERSION = Feature.READ_COMMITTED.first_version(ApiKey.FETCH)
"""First Fetch version with an isolation level: older brokers would show aborted records."""
_MAX_VERSION = 2**15 - 1

NO_BYTES = memoryview(b"")
MOST_EPOCHS = 1_024
"""Leader epoch changes followed in one answer; what lies behind them is fetched again."""


class SessionPart(NamedTuple):
    """What a request says of its fetch session (KIP-227): by default that there is none."""

    session_id: int = 0
    epoch: int = -1
    forgotten: tuple[FetchTarget, ...] = ()
    by_id: bool | None = None
    """Whether topics must go by id or by name, None where that is free."""


NO_SESSION = SessionPart()


class FetchTarget(NamedTuple):
    """What is asked of one partition."""

    tp: TopicPartition
    offset: int
    max_bytes: int
    leader_epoch: int = -1
    topic_id: bytes = ZERO_UUID
    last_fetched_epoch: int = -1


class Tail(NamedTuple):
    """Where an answer's whole batches end: next offset (-1: no whole batch) and last epoch.

    `epochs` has (next offset, leader epoch) of the last batch of each epoch, in order.
    """

    next_offset: int
    leader_epoch: int
    whole_bytes: int
    epochs: tuple[tuple[int, int], ...] = ()


NO_TAIL = Tail(-1, -1, 0)


class FetchAnswer(NamedTuple):
    """What came back for one partition. `leader` is the answer's hint (KIP-951), or None.

    `diverging` says where the leader's log leaves the history of the position asked for (v12+),
    None mostly.
    """

    tp: TopicPartition
    error_code: int
    high_watermark: int
    log_start_offset: int
    records: memoryview | None
    aborted: tuple[tuple[int, int], ...]
    preferred_replica: int
    leader: LeaderHint | None
    last_stable_offset: int = -1
    diverging: EpochEndOffset | None = None
    tail: Tail = NO_TAIL
    """Where the whole batches of the records end."""


def fetch_request(
    targets: Sequence[FetchTarget], options: FetchOptions, session: SessionPart = NO_SESSION
) -> FetchRequest:
    """Return a Fetch request for these partitions: full, or what changed in a session (KIP-227)."""
    topics: dict[tuple[str, bytes], FetchRequest.FetchTopic] = {}
    for target in targets:
        key = (target.tp.topic, target.topic_id)
        if key not in topics:
            topics[key] = FetchRequest.FetchTopic(topic=key[0], topic_id=key[1], partitions=[])
        topics[key].partitions.append(
            FetchRequest.FetchPartition(
                partition=target.tp.partition,
                current_leader_epoch=target.leader_epoch,
                fetch_offset=target.offset,
                last_fetched_epoch=target.last_fetched_epoch,
                partition_max_bytes=target.max_bytes,
            )
        )
    forgotten: dict[tuple[str, bytes], list[int]] = {}
    for target in session.forgotten:
        forgotten.setdefault((target.tp.topic, target.topic_id), []).append(target.tp.partition)
    return FetchRequest(
        max_wait_ms=options.fetch_max_wait_ms,
        min_bytes=options.fetch_min_bytes,
        max_bytes=options.fetch_max_bytes,
        isolation_level=1 if options.isolation_level == READ_COMMITTED else 0,
        session_id=session.session_id,
        session_epoch=session.epoch,
        topics=list(topics.values()),
        forgotten_topics_data=[
            FetchRequest.ForgottenTopic(topic=name, topic_id=topic_id, partitions=indexes)
            for (name, topic_id), indexes in forgotten.items()
        ],
        rack_id=options.client_rack,
    )


def allowed_versions(
    targets: Iterable[FetchTarget], options: FetchOptions, *, by_id: bool | None = None
) -> VersionRange:
    """Return the Fetch versions for this: any if all topic ids are known, else those by name.

    In a session `by_id` says which of the two it must be.
    """
    low = ISOLATION_VERSION if options.isolation_level == READ_COMMITTED else 0
    if by_id:
        return VersionRange(TOPIC_IDS_VERSION, _MAX_VERSION)
    if by_id is None and all(target.topic_id != ZERO_UUID for target in targets):
        return VersionRange(low, _MAX_VERSION)
    return VersionRange(low, TOPIC_IDS_VERSION - 1)


def read_fetch(
    response: FetchResponse, version: int, targets: Sequence[FetchTarget]
) -> list[FetchAnswer]:
    """Return the answers by partition. Topics that were not asked for are left out."""
    names = {target.topic_id: target.tp.topic for target in targets}
    return read_answers(response, version, names.get, {target.tp for target in targets})


def read_answers(
    response: FetchResponse,
    version: int,
    topic_of: Callable[[bytes], str | None],
    asked: Container[TopicPartition],
) -> list[FetchAnswer]:
    """The same where topics by their ids, and what was asked for, are known otherwise."""
    heard: list[tuple[TopicPartition, FetchResponse.PartitionData]] = []
    for topic in response.responses:
        name = topic_of(bytes(topic.topic_id)) if version >= TOPIC_IDS_VERSION else topic.topic
        for found in topic.partitions:
            tp = TopicPartition(name or "", found.partition_index)
            if tp in asked:
                heard.append((tp, found))
    tails = find_tails([found.records or NO_BYTES for _, found in heard])
    return [
        FetchAnswer(
            tp,
            found.error_code,
            found.high_watermark,
            found.log_start_offset,
            found.records,
            tuple((entry.producer_id, entry.first_offset) for entry in found.aborted_transactions)
            if found.aborted_transactions
            else (),
            found.preferred_read_replica,
            found.current_leader,
            found.last_stable_offset,
            _diverging(found.diverging_epoch),
            tail,
        )
        for (tp, found), tail in zip(heard, tails, strict=True)
    ]


def _diverging(found: FetchResponse.EpochEndOffset | None) -> EpochEndOffset | None:
    return (
        None if found is None or found.epoch < 0 else EpochEndOffset(found.epoch, found.end_offset)
    )


def find_tails(fetches: Sequence[memoryview]) -> list[Tail]:
    """Return where the whole batches at the front of each end, from their headers alone.

    Only what gives the next position is read; the next request can be sent while everything else is
    still to be checked. A batch that cannot be is left to the decoding, which knows how to say it.
    """
    return [
        Tail(next_offset, epochs[-1][1], end, epochs) if epochs else NO_TAIL
        for end, next_offset, epochs in follow_fronts(fetches, MOST_EPOCHS)
    ]
