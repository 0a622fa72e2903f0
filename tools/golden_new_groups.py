"""The requests of golden exchanges about the groups since 3.7: consumer, share and
streams groups, telemetry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from golden_exchanges import ANY
from golden_fields import fitting
from parley.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DescribeShareGroupOffsetsRequest,
    GetTelemetrySubscriptionsRequest,
    MetadataRequest,
    PushTelemetryRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
    StreamsGroupDescribeRequest,
    StreamsGroupHeartbeatRequest,
)
from parley.schema import ApiKey
from parley.types import ZERO_UUID, format_uuid

if TYPE_CHECKING:
    from golden_exchanges import Recorder

CONSUMERS, SHARERS, STREAMS = "golden-consumers", "golden-sharers", "golden-streams"
MEMBER = format_uuid(bytes(range(16)))


def play(recorder: Recorder, topic: str) -> None:
    from golden_services import coordinator

    for group in (CONSUMERS, SHARERS, STREAMS):
        coordinator(recorder, group)
    consumers(recorder, topic)
    sharers(recorder, topic)
    streams(recorder, topic)
    telemetry(recorder)


def consumers(recorder: Recorder, topic: str) -> None:
    for version in recorder.versions(ApiKey.CONSUMER_GROUP_HEARTBEAT):
        beat = ConsumerGroupHeartbeatRequest(
            group_id=CONSUMERS, member_id=MEMBER, member_epoch=0, rebalance_timeout_ms=10_000,
            subscribed_topic_names=[topic], topic_partitions=[],
        )  # fmt: skip
        # 3.9 has them switched off and answers UNSUPPORTED_VERSION.
        recorder.record("join", beat, version, errors=set() if recorder.version >= (4, 0) else ANY)
    for version in recorder.versions(ApiKey.CONSUMER_GROUP_DESCRIBE):
        asked = ConsumerGroupDescribeRequest(group_ids=[CONSUMERS, "never-made"])
        recorder.record("one, and an unknown one", asked, version, errors=ANY)


def sharers(recorder: Recorder, topic: str) -> None:
    versions = recorder.versions(ApiKey.SHARE_GROUP_HEARTBEAT)
    for version in versions:
        beat = ShareGroupHeartbeatRequest(
            group_id=SHARERS, member_id=MEMBER, member_epoch=0, subscribed_topic_names=[topic]
        )
        recorder.record("join", beat, version)
    for version in recorder.versions(ApiKey.SHARE_GROUP_DESCRIBE):
        asked = ShareGroupDescribeRequest(group_ids=[SHARERS, "never-made"])
        recorder.record("one, and an unknown one", asked, version, errors=ANY)
    for version in recorder.versions(ApiKey.SHARE_FETCH):
        recorder.record("new session", share_fetch(recorder, topic, version, 0), version)
        acknowledged = ShareAcknowledgeRequest(
            group_id=SHARERS, member_id=MEMBER, share_session_epoch=1, topics=[]
        )
        recorder.record("nothing", acknowledged, version)
        # the next version begins a session again
        recorder.settle(share_fetch(recorder, topic, version, -1), version)
    for version in recorder.versions(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS):
        made = DescribeShareGroupOffsetsRequest
        asked = [made.DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[0])]
        groups = [made.DescribeShareGroupOffsetsRequestGroup(group_id=SHARERS, topics=asked)]
        recorder.record("one partition", made(groups=groups), version)


def share_fetch(recorder: Recorder, topic: str, version: int, epoch: int) -> Any:
    part = ShareFetchRequest.FetchPartition(partition_index=0)
    topics = (
        [ShareFetchRequest.FetchTopic(topic_id=topic_id(recorder, topic), partitions=[part])]
        if epoch == 0
        else []
    )
    return fitting(
        ShareFetchRequest, version, group_id=SHARERS, member_id=MEMBER, share_session_epoch=epoch,
        max_wait_ms=10, min_bytes=0, max_bytes=1 << 20, max_records=10, batch_size=10,
        topics=topics,
    )  # fmt: skip


def topic_id(recorder: Recorder, topic: str) -> bytes:
    asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
    answer = recorder.ask(asked, recorder.newest(ApiKey.METADATA), node=1)
    found: bytes = answer.topics[0].topic_id
    return found


def streams(recorder: Recorder, topic: str) -> None:
    for version in recorder.versions(ApiKey.STREAMS_GROUP_HEARTBEAT):
        made = StreamsGroupHeartbeatRequest
        part = made.Subtopology(
            subtopology_id="0", source_topics=[topic], source_topic_regex=[],
            state_changelog_topics=[],
            repartition_sink_topics=[], repartition_source_topics=[], copartition_groups=[],
        )  # fmt: skip
        beat = made(
            group_id=STREAMS, member_id=MEMBER, member_epoch=0, rebalance_timeout_ms=10_000,
            process_id="golden", topology=made.Topology(epoch=0, subtopologies=[part]),
            active_tasks=[], standby_tasks=[], warmup_tasks=[],
            client_tags=[made.KeyValue(key="zone", value="a")],
            user_endpoint=made.Endpoint(host="localhost", port=1234),
        )  # fmt: skip
        recorder.record("join", beat, version)
    for version in recorder.versions(ApiKey.STREAMS_GROUP_DESCRIBE):
        asked = StreamsGroupDescribeRequest(group_ids=[STREAMS, "never-made"])
        recorder.record("one, and an unknown one", asked, version, errors=ANY)


def telemetry(recorder: Recorder) -> None:
    """Ask for subscriptions (none are set) and push nothing; brokers answer since 3.7 (KIP-714)."""
    if recorder.version < (3, 7):
        return
    answer = recorder.record(
        "first", GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID), 0, errors=ANY
    )
    push = PushTelemetryRequest(
        client_instance_id=answer.client_instance_id, subscription_id=answer.subscription_id,
        terminating=True, compression_type=0, metrics=b"",
    )  # fmt: skip
    recorder.record("the last", push, 0, errors=ANY)
