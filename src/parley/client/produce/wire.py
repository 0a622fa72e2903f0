"""Produce requests and answers as plain values, whatever their version: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from parley.client.cluster.view import LeaderHint
from parley.client.produce.state import OutBatch
from parley.messages import ProduceRequest, ProduceResponse
from parley.schema import ApiKey
from parley.types import ZERO_UUID, TopicPartition
from parley.versions import BrokerVersions, Feature, VersionRange

TIMESTAMPS_VERSION = Feature.RECORD_TIMESTAMPS.first_version(ApiKey.PRODUCE)
"""First Produce version that takes format 1 (KIP-32)."""
BATCHES_VERSION = Feature.RECORD_HEADERS.first_version(ApiKey.PRODUCE)
"""First Produce version that takes format 2, and nothing else (KIP-98)."""
TOPIC_IDS_VERSION = Feature.PRODUCE_TOPIC_IDS.first_version(ApiKey.PRODUCE)
ZSTD_VERSION = Feature.ZSTD.first_version(ApiKey.PRODUCE)
ZSTD = 4
SECOND_GENERATION_VERSION = Feature.TRANSACTIONS_V2.first_version(ApiKey.PRODUCE)
"""First Produce version that adds partitions to a transaction by itself (KIP-890)."""
_MAX_VERSION = 2**15 - 1


class ProduceAnswer(NamedTuple):
    """What came back for one partition. `leader` is the answer's hint (KIP-951)."""

    tp: TopicPartition
    error_code: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    message: str | None
    leader: LeaderHint | None


def magic_for(versions: BrokerVersions) -> int:
    """Return the record format of a broker: by its highest Produce version (KIP-32, KIP-98)."""
    highest = versions.choose(ApiKey.PRODUCE)
    if highest >= BATCHES_VERSION:
        return 2
    return 1 if highest >= TIMESTAMPS_VERSION else 0


def allowed_versions(batches: Sequence[OutBatch], topic_ids: Mapping[str, bytes]) -> VersionRange:
    """Return the Produce versions that can carry these batches (which share one format)."""
    magic = batches[0].magic
    if magic == 0:
        return VersionRange(0, TIMESTAMPS_VERSION - 1)
    if magic == 1:
        return VersionRange(TIMESTAMPS_VERSION, BATCHES_VERSION - 1)
    by_id = all(topic_ids.get(batch.tp.topic, ZERO_UUID) != ZERO_UUID for batch in batches)
    low = ZSTD_VERSION if any(batch.codec == ZSTD for batch in batches) else BATCHES_VERSION
    high = _MAX_VERSION if by_id else TOPIC_IDS_VERSION - 1
    transaction = batches[0].transaction
    if transaction is not None and transaction.generation >= 2:
        low = max(low, SECOND_GENERATION_VERSION)
    elif transaction is not None:
        high = SECOND_GENERATION_VERSION - 1
    return VersionRange(low, high)


def produce_request(
    batches: Sequence[OutBatch], topic_ids: Mapping[str, bytes], timeout_ms: int
) -> ProduceRequest:
    """Return a Produce request of one batch per partition, of equal acks and transaction."""
    topics: dict[str, ProduceRequest.TopicProduceData] = {}
    for batch in batches:
        name = batch.tp.topic
        if name not in topics:
            topic_id = topic_ids.get(name, ZERO_UUID)
            topics[name] = ProduceRequest.TopicProduceData(
                name=name, topic_id=topic_id, partition_data=[]
            )
        topics[name].partition_data.append(
            ProduceRequest.PartitionProduceData(index=batch.tp.partition, records=batch.data)
        )
    first = batches[0]
    return ProduceRequest(
        transactional_id=None if first.transaction is None else first.transaction.transactional_id,
        acks=first.acks,
        timeout_ms=timeout_ms,
        topic_data=list(topics.values()),
    )


def note_destinations(
    batches: Sequence[OutBatch], topic_ids: Mapping[str, bytes], version: int
) -> None:
    """Note where batches go: to a topic's id, in older versions to a name. Mutates them."""
    for batch in batches:
        batch.sent_to = topic_ids[batch.tp.topic] if version >= TOPIC_IDS_VERSION else ZERO_UUID


def read_produce(
    response: ProduceResponse, version: int, topic_ids: Mapping[str, bytes]
) -> dict[TopicPartition, ProduceAnswer]:
    """Return the answers by partition."""
    names = {topic_id: name for name, topic_id in topic_ids.items()}
    answers = {}
    for topic in response.responses:
        name = names.get(bytes(topic.topic_id)) if version >= TOPIC_IDS_VERSION else topic.name
        for found in topic.partition_responses:
            tp = TopicPartition(name or "", found.index)
            text = found.error_message
            if found.record_errors:
                first = found.record_errors[0]
                text = (
                    f"{text or ''} (record {first.batch_index}: "
                    f"{first.batch_index_error_message or 'refused'})"
                )
            answers[tp] = ProduceAnswer(
                tp,
                found.error_code,
                found.base_offset,
                found.log_append_time_ms,
                found.log_start_offset,
                text,
                found.current_leader,
            )
    return answers
