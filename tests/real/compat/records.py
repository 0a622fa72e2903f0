"""Probes of reading and writing: formats, codecs, offsets, epochs, ids."""

from __future__ import annotations

import pyarrow as pa
import pytest

from parley.client import EARLIEST, LATEST, MAX_TIMESTAMP, OffsetSpec, ProduceOptions, Timestamp
from parley.errors import UnsupportedVersionError
from parley.messages import (
    DeleteRecordsRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
)
from parley.schema import ApiKey
from parley.types import ZERO_UUID, TopicPartition
from parley.versions import Feature

from .probe import probe
from .scene import NODE, Scene, one_batch

TIME_MS = 1_700_000_000_123
_IDEMPOTENT = ProduceOptions(enable_idempotence=True)


async def timestamp_of_a_record(s: Scene) -> int:
    at = await s.put({"value": ["timed"], "timestamp": pa.array([TIME_MS], pa.int64())})
    (row,) = await s.get(at)
    return int(pa.scalar(row["timestamp"], pa.timestamp("ms", "UTC")).cast(pa.int64()).as_py())


async def no_timestamps(s: Scene) -> None:
    (row,) = await s.get(
        await s.put({"value": ["timed"], "timestamp": pa.array([TIME_MS], pa.int64())})
    )
    assert row["timestamp_type"] == -1


@probe(Feature.RECORD_TIMESTAMPS, older=no_timestamps)
async def record_timestamps(s: Scene) -> None:
    assert await timestamp_of_a_record(s) == TIME_MS


@probe(Feature.RECORD_HEADERS)
async def record_headers(s: Scene) -> None:
    await s.put()
    headers = pa.array([[{"key": "h", "value": b"x"}, {"key": "h", "value": None}]])
    s.mark()
    at = await s.put({"value": ["headed"], "headers": headers})
    (row,) = await s.get(at)
    assert row["headers"] == headers.to_pylist()[0]


async def no_cluster_id(s: Scene) -> None:
    assert (await s.client.metadata()).cluster_id is None


@probe(Feature.CLUSTER_ID, older=no_cluster_id)
async def cluster_id(s: Scene) -> None:
    found = (await s.client.metadata()).cluster_id
    assert found
    assert found == (await s.ask(MetadataRequest(topics=[]))).cluster_id


async def no_controller_id(s: Scene) -> None:
    assert (await s.client.metadata()).controller_id in (None, -1)


@probe(Feature.CONTROLLER_ID, older=no_controller_id)
async def controller_id(s: Scene) -> None:
    assert (await s.client.metadata()).controller_id == NODE
    assert (await s.ask(MetadataRequest(topics=[]))).controller_id == NODE


@probe(Feature.NO_AUTO_TOPIC_CREATION)
async def no_auto_topic_creation(s: Scene) -> None:
    name = s.name("absent")
    wanted = [MetadataRequest.MetadataRequestTopic(name=name)]
    answer = await s.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
    assert [topic.error_code for topic in answer.topics] == [3]
    assert name not in (await s.client.metadata()).topics


async def large_value_is_read_by_asking_for_more(s: Scene) -> None:
    at = await s.put({"value": ["L" * 5_000]})
    (row,) = await s.get(at, max_partition_fetch_bytes=200)
    assert row["value"] == b"L" * 5_000


@probe(Feature.LARGE_FIRST_MESSAGE, older=large_value_is_read_by_asking_for_more)
async def large_first_message(s: Scene) -> None:
    at = await s.put({"value": ["L" * 5_000]})
    answer = await s.fetch_raw(at, max_bytes=200)
    assert len(answer.responses[0].partitions[0].records) > 5_000
    await large_value_is_read_by_asking_for_more(s)


@probe(Feature.OFFSETS_BY_TIME)
async def offsets_by_time(s: Scene) -> None:
    topic = await s.fresh()
    tp = TopicPartition(topic, 0)
    times = pa.array([TIME_MS, TIME_MS + 1_000], pa.int64())
    first = await s.put({"value": ["a", "b"], "timestamp": times}, topic=topic, batch_size=1)
    await s.client.list_offsets({tp: EARLIEST})
    s.mark()
    found = (await s.client.list_offsets({tp: Timestamp(TIME_MS + 500)}))[tp]
    assert (found.offset, found.timestamp_ms) == (first + 1, TIME_MS + 1_000)
    assert (await s.client.list_offsets({tp: Timestamp(TIME_MS + 2_000)}))[tp].offset == -1


@probe(Feature.READ_COMMITTED)
async def read_committed(s: Scene) -> None:
    at = await s.put()
    s.mark()
    found = await s.client.list_offsets({s.tp: LATEST}, isolation_level="read_committed")
    assert found[s.tp].offset == at + 1
    assert [row["value"] for row in await s.get(at, isolation_level="read_committed")] == [b"v"]


async def offsets_without_epoch(s: Scene) -> None:
    at = await s.put()
    found = (await s.client.list_offsets({s.tp: LATEST}))[s.tp]
    assert (found.offset, found.leader_epoch) == (at + 1, -1)


@probe(Feature.LIST_OFFSETS_LEADER_EPOCH, older=offsets_without_epoch)
async def list_offsets_leader_epoch(s: Scene) -> None:
    at = await s.put()
    found = (await s.client.list_offsets({s.tp: LATEST}))[s.tp]
    # 2.1 has the field and leaves it at -1, in every kind of look-up; what it is sent it does look
    # at. The topic is shared: what others tried on it may have raised its epoch, which Metadata
    # reports from 2.4 on.
    known = (await s.client.metadata([s.topic])).partition(s.tp)
    led = known.leader_epoch if s.since("2.4") else 0
    assert (found.offset, found.leader_epoch) == (at + 1, led if s.since("2.2") else -1)
    made = ListOffsetsRequest
    part = made.ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=99)
    answer = await s.ask(
        made(replica_id=-1, topics=[made.ListOffsetsTopic(name=s.topic, partitions=[part])])
    )
    assert answer.topics[0].partitions[0].error_code == 75  # UNKNOWN_LEADER_EPOCH


@probe(Feature.MAX_TIMESTAMP_OFFSET)
async def max_timestamp_offset(s: Scene) -> None:
    topic = await s.fresh()
    tp = TopicPartition(topic, 0)
    times = pa.array([TIME_MS, TIME_MS + 5, TIME_MS + 1], pa.int64())
    await s.put({"value": ["a", "b", "c"], "timestamp": times}, topic=topic, batch_size=1)
    await s.client.list_offsets({tp: EARLIEST})
    s.mark()
    found = (await s.client.list_offsets({tp: MAX_TIMESTAMP}))[tp]
    assert (found.offset, found.timestamp_ms) == (1, TIME_MS + 5)


@probe(Feature.EARLIEST_LOCAL_OFFSET)
async def earliest_local_offset(s: Scene) -> None:
    tp = TopicPartition(await s.fresh(), 0)
    await s.client.list_offsets({tp: EARLIEST})
    s.mark()
    found = await s.client.list_offsets({tp: OffsetSpec("earliest-local", -4)})
    assert found[tp].offset == 0


@probe(Feature.LATEST_TIERED_OFFSET)
async def latest_tiered_offset(s: Scene) -> None:
    s.mark()
    found = await s.client.list_offsets({s.tp: OffsetSpec("latest-tiered", -5)})
    assert found[s.tp].offset == -1  # nothing is tiered here


@probe(Feature.DELETE_RECORDS)
async def delete_records(s: Scene) -> None:
    topic = await s.fresh()
    tp = TopicPartition(topic, 0)
    await s.put({"value": ["a", "b", "c"]}, topic=topic)
    parts = [DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=2)]
    topics = [DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=parts)]
    answer = await s.ask(DeleteRecordsRequest(topics=topics, timeout_ms=10_000))
    (found,) = answer.topics[0].partitions
    assert (found.error_code, found.low_watermark) == (0, 2)
    assert (await s.client.list_offsets({tp: EARLIEST}))[tp].offset == 2


@probe(Feature.IDEMPOTENT_PRODUCER)
async def idempotent_producer(s: Scene) -> None:
    await s.put()  # by default: where it can be had
    s.mark()
    result = await s.client.produce(s.topic, pa.table({"value": ["once"]}), options=_IDEMPOTENT)
    assert result.idempotent


async def through_a_codec(s: Scene, codec: str) -> None:
    values = [f"{codec} {i}" * 20 for i in range(200)]
    at = await s.put({"value": values}, compression_type=codec, batch_size=2_000)
    assert [row["value"].decode() for row in await s.get(at, len(values))] == values


async def lz4(s: Scene) -> None:
    await through_a_codec(s, "lz4")


probe(Feature.LZ4, older=lz4)(lz4)


@probe(Feature.ZSTD)
async def zstd(s: Scene) -> None:
    await s.put()
    s.mark()
    await through_a_codec(s, "zstd")


async def read_on(s: Scene) -> None:
    """What the reader does without: it reads, and nothing is lost."""
    at = await s.put({"value": ["a", "b"]})
    assert [row["value"] for row in await s.get(at, 2)] == [b"a", b"b"]


@probe(Feature.FETCH_SESSIONS, older=read_on)
async def fetch_sessions(s: Scene) -> None:
    answer = await s.fetch_raw(await s.put(), session_id=0, session_epoch=0)
    assert answer.error_code == 0
    assert answer.session_id > 0


@probe(Feature.FETCH_LEADER_EPOCH, older=read_on)
async def fetch_leader_epoch(s: Scene) -> None:
    answer = await s.fetch_raw(await s.put(), current_leader_epoch=99)
    # UNKNOWN_LEADER_EPOCH: it was looked at
    assert answer.responses[0].partitions[0].error_code == 75


async def epoch_in_metadata(s: Scene) -> int:
    return (await s.client.metadata([s.topic])).topics[s.topic].partitions[0].leader_epoch


async def no_epoch_in_metadata(s: Scene) -> None:
    assert await epoch_in_metadata(s) == -1


@probe(Feature.METADATA_LEADER_EPOCH, older=no_epoch_in_metadata)
async def metadata_leader_epoch(s: Scene) -> None:
    answer = await s.ask(
        MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=s.topic)])
    )
    assert answer.topics[0].partitions[0].leader_epoch >= 0


@probe(Feature.RELIABLE_LEADER_EPOCHS, older=no_epoch_in_metadata)
async def reliable_leader_epochs(s: Scene) -> None:
    assert await epoch_in_metadata(s) >= 0


@probe(Feature.OFFSET_FOR_LEADER_EPOCH, older=read_on)
async def offset_for_leader_epoch(s: Scene) -> None:
    at = await s.put()
    asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=s.topic)])
    epoch = (await s.send(asked)).topics[0].partitions[0].leader_epoch
    parts = [OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=0, leader_epoch=epoch)]
    topics = [OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=s.topic, partitions=parts)]
    answer = await s.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics))
    (found,) = answer.topics[0].partitions
    assert (found.error_code, found.leader_epoch, found.end_offset) == (0, epoch, at + 1)


@probe(Feature.DIVERGING_EPOCH, older=read_on)
async def diverging_epoch(s: Scene) -> None:
    end = await s.put() + 1
    epoch = await epoch_in_metadata(s)
    answer = await s.fetch_raw(end + 5, last_fetched_epoch=epoch, current_leader_epoch=epoch)
    (found,) = answer.responses[0].partitions
    assert (found.error_code, found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (
        0,
        epoch,
        end,
    )


@probe(Feature.FETCH_FROM_FOLLOWER, older=read_on)
async def fetch_from_follower(s: Scene) -> None:
    at = await s.put()
    answer = await s.fetch_raw(at, rack_id="near")
    (found,) = answer.responses[0].partitions
    # the leader is the only replica
    assert (found.error_code, found.preferred_read_replica) == (0, -1)
    assert len(await s.get(at, client_rack="near")) == 1


async def no_topic_id(s: Scene) -> None:
    assert await s.topic_id() == ZERO_UUID
    await read_on(s)


@probe(Feature.TOPIC_IDS, older=no_topic_id)
async def topic_ids(s: Scene) -> None:
    assert await s.topic_id() != ZERO_UUID
    assert await s.topic_id() != await s.topic_id(await s.fresh())


async def spoken(s: Scene, api: ApiKey) -> int:
    return s.client.versions_in_use()[NODE][api]


async def fetch_by_name(s: Scene) -> None:
    await read_on(s)
    assert await spoken(s, ApiKey.FETCH) < 13


@probe(Feature.FETCH_TOPIC_IDS, older=fetch_by_name)
async def fetch_topic_ids(s: Scene) -> None:
    at = await s.put()
    answer = await s.fetch_raw(at)
    assert bytes(answer.responses[0].topic_id) == await s.topic_id()
    assert answer.responses[0].partitions[0].error_code == 0
    await read_on(s)
    assert await spoken(s, ApiKey.FETCH) >= 13


async def produce_by_name(s: Scene) -> None:
    await read_on(s)
    assert await spoken(s, ApiKey.PRODUCE) < 13


@probe(Feature.PRODUCE_TOPIC_IDS, older=produce_by_name)
async def produce_topic_ids(s: Scene) -> None:
    found = await s.produce_raw(one_batch(b"by id"), low=13, high=2**15 - 1)
    assert found.error_code == 0
    assert [row["value"] for row in await s.get(found.base_offset)] == [b"by id"]


@probe(Feature.LEADER_HINTS, older=read_on)
async def leader_hints(s: Scene) -> None:
    answer = await s.fetch_raw(await s.put())
    (found,) = answer.responses[0].partitions
    assert (found.error_code, found.current_leader.leader_id, list(answer.node_endpoints)) == (
        0,
        -1,
        [],
    )
    await read_on(s)


async def codec_is_refused(s: Scene, codec: str) -> None:
    """A codec that the release does not know: refused, and nothing is sent."""
    await s.put()
    s.mark()
    with pytest.raises(UnsupportedVersionError):
        await through_a_codec(s, codec)
    assert s.sent_bytes == 0
