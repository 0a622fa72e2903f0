"""ShareFetch and ShareAcknowledge as plain values, whatever their version: pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from parley.client.group.share.book import AcknowledgeType, Due, batches
from parley.client.group.share.heartbeat import ShareStanding
from parley.client.group.share.session import SessionPart, TopicIdPartition
from parley.messages import ShareAcknowledgeRequest, ShareFetchRequest
from parley.versions import VersionRange

NEWER_VERSION = 2
"""First version of both with renewals (KIP-1222) and acquire modes (KIP-1206): Kafka 4.2."""
BATCH_OPTIMIZED, RECORD_LIMIT = "batch_optimized", "record_limit"
_MAX_VERSION = 2**15 - 1


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a ShareFetch asks for."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    acquire_mode: str = BATCH_OPTIMIZED


def fetch_request(
    who: ShareStanding, part: SessionPart, dues: Sequence[Due], limits: Limits
) -> ShareFetchRequest:
    """Return a ShareFetch that says what changed in a session, and acknowledges."""
    topics: dict[bytes, ShareFetchRequest.FetchTopic] = {}
    by_partition = _by_partition(dues)
    for topic_id, partition in sorted({*part.added, *by_partition}):
        topic = topics.setdefault(
            topic_id, ShareFetchRequest.FetchTopic(topic_id=topic_id, partitions=[])
        )
        topic.partitions.append(
            ShareFetchRequest.FetchPartition(
                partition_index=partition,
                acknowledgement_batches=[
                    ShareFetchRequest.AcknowledgementBatch(
                        first_offset=one.first, last_offset=one.last, acknowledge_types=[one.type]
                    )
                    for one in batches(by_partition.get((topic_id, partition), ()))
                ],
            )
        )
    forgotten: dict[bytes, list[int]] = {}
    for topic_id, partition in part.forgotten:
        forgotten.setdefault(topic_id, []).append(partition)
    return ShareFetchRequest(
        group_id=who.group_id,
        member_id=who.member_id,
        share_session_epoch=part.epoch,
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        max_records=limits.max_records,
        batch_size=limits.max_records,
        share_acquire_mode=int(limits.acquire_mode == RECORD_LIMIT),
        topics=list(topics.values()),
        forgotten_topics_data=[
            ShareFetchRequest.ForgottenTopic(topic_id=topic_id, partitions=found)
            for topic_id, found in forgotten.items()
        ],
    )


def acknowledge_request(
    who: ShareStanding, epoch: int, dues: Sequence[Due]
) -> ShareAcknowledgeRequest:
    """Return a ShareAcknowledge; with epoch -1 it ends the session."""
    topics: dict[bytes, ShareAcknowledgeRequest.AcknowledgeTopic] = {}
    for (topic_id, partition), some in sorted(_by_partition(dues).items()):
        topic = topics.setdefault(
            topic_id, ShareAcknowledgeRequest.AcknowledgeTopic(topic_id=topic_id, partitions=[])
        )
        topic.partitions.append(
            ShareAcknowledgeRequest.AcknowledgePartition(
                partition_index=partition,
                acknowledgement_batches=[
                    ShareAcknowledgeRequest.AcknowledgementBatch(
                        first_offset=one.first, last_offset=one.last, acknowledge_types=[one.type]
                    )
                    for one in batches(some)
                ],
            )
        )
    return ShareAcknowledgeRequest(
        group_id=who.group_id,
        member_id=who.member_id,
        share_session_epoch=epoch,
        is_renew_ack=renewing(dues),
        topics=list(topics.values()),
    )


def renewing(dues: Iterable[Due]) -> bool:
    """Return whether locks are to be renewed."""
    return any(due.type == AcknowledgeType.RENEW for due in dues)


def allowed_versions(newer: bool) -> VersionRange:
    """Return the versions of ShareFetch or ShareAcknowledge that can say what is to be said."""
    return VersionRange(NEWER_VERSION if newer else 1, _MAX_VERSION)


def _by_partition(dues: Iterable[Due]) -> dict[TopicIdPartition, list[Due]]:
    found: dict[TopicIdPartition, list[Due]] = {}
    for due in dues:
        found.setdefault((due.grant.topic_id, due.tp.partition), []).append(due)
    return found
