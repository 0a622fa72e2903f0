"""Deleting records: the beginning of a partition is moved to an offset (KIP-107)."""

from __future__ import annotations

from collections.abc import Mapping

from parley.client.admin.calls import Begin
from parley.client.cluster.routing import at_leaders
from parley.client.options import arguments
from parley.client.results import LATEST, OffsetSpec
from parley.errors import ConfigError, KafkaError, RemoteProtocolError, broker_error
from parley.errors.codes import OFFSET_OUT_OF_RANGE, POLICY_VIOLATION
from parley.messages import DeleteRecordsRequest
from parley.net import BrokerConnection
from parley.types import TopicPartition, shown
from parley.versions import Feature

Answers = dict[TopicPartition, int | KafkaError]
HIGH_WATERMARK = -1
"""DeleteRecords' number for the end of what is replicated."""

_TEXTS = {
    OFFSET_OUT_OF_RANGE: "offset {} is behind the partition's end (its high watermark); give one "
    "up to it, or LATEST",
    POLICY_VIOLATION: "records before offset {} cannot be deleted: cleanup.policy of the topic has "
    "no delete",
}


async def delete_records(
    begin: Begin,
    offsets: Mapping[TopicPartition, int | OffsetSpec],
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, int]:
    """Delete the records before an offset of each partition; return where each begins now.

    LATEST in place of an offset deletes all that is there (up to the high watermark). An offset
    before the first record changes nothing. Raises the first partition's error, while the others
    are done all the same: OffsetOutOfRangeError for an offset behind the end, PolicyViolationError
    for a topic that is only compacted; UnsupportedVersionError, before anything is sent, below
    Kafka 0.11.
    """
    wanted = {
        tp: _offset(tp, offset)
        for tp, offset in arguments.by_partition(
            "offsets", offsets, 'TopicPartition("flights", 0): 7'
        ).items()
    }
    arguments.timeout(timeout_ms)
    cluster, deadline = await begin(timeout_ms)

    async def ask(conn: BrokerConnection, group: Mapping[TopicPartition, int]) -> Answers:
        conn.versions.require(Feature.DELETE_RECORDS)
        timeout_ms = cluster.request_timeout_ms(deadline)
        reply = await cluster.ask(conn, _request(group, timeout_ms), timeout_ms + 1_000)
        found: Answers = {}
        for topic in reply.message.topics:
            for part in topic.partitions:
                tp = TopicPartition(topic.name, part.partition_index)
                found[tp] = part.low_watermark
                if part.error_code:
                    said = _TEXTS.get(part.error_code)
                    found[tp] = broker_error(
                        part.error_code,
                        None if said is None else said.format(group.get(tp)),
                        topic=tp.topic,
                        partition=tp.partition,
                        api="DELETE_RECORDS",
                        version=reply.version,
                        broker=str(conn.address),
                    )
        for tp in group.keys() - found.keys():
            found[tp] = RemoteProtocolError(f"the broker's DeleteRecords answer leaves out {tp}")
        return found

    return await at_leaders(cluster, "deleting records", deadline, wanted, ask)


def _offset(tp: TopicPartition, offset: object) -> int:
    if offset == LATEST:
        return HIGH_WATERMARK
    if isinstance(offset, int) and not isinstance(offset, bool) and 0 <= offset <= arguments.INT64:
        return offset
    raise ConfigError(
        f"{tp}: {shown(offset)} is no offset; give one from 0 on, or LATEST for all records"
    )


def _request(group: Mapping[TopicPartition, int], timeout_ms: int) -> DeleteRecordsRequest:
    make = DeleteRecordsRequest
    topics: dict[str, list[DeleteRecordsRequest.DeleteRecordsPartition]] = {}
    for tp, offset in group.items():
        topics.setdefault(tp.topic, []).append(
            make.DeleteRecordsPartition(partition_index=tp.partition, offset=offset)
        )
    named = [make.DeleteRecordsTopic(name=name, partitions=some) for name, some in topics.items()]
    return make(topics=named, timeout_ms=timeout_ms)
