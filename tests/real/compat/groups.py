"""Probes of groups and their offsets: classic, consumer, share and streams groups."""

from __future__ import annotations

import os
from typing import Any

from parley.client import OffsetAndMetadata
from parley.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    FindCoordinatorRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequest,
)
from parley.schema import ApiKey
from parley.types import format_uuid
from parley.versions import Feature

from .probe import OFF, probe
from .scene import NODE, Scene

UNSUPPORTED_VERSION = 35
MEMBER_ID_REQUIRED = 79


def member_id() -> str:
    return format_uuid(os.urandom(16))


async def classic_member(s: Scene) -> Any:
    """Join as any release can: with the member id that newer ones ask for."""
    answer = await s.join(probe=False)
    if answer.error_code == MEMBER_ID_REQUIRED:
        answer = await s.join(probe=False, member_id=answer.member_id)
    assert (answer.error_code, answer.leader) == (0, answer.member_id)
    return answer


@probe(Feature.STATIC_MEMBERSHIP, older=classic_member)
async def static_membership(s: Scene) -> None:
    answer = await s.join(group_instance_id="seat-1")
    assert answer.error_code == 0
    assert [member.group_instance_id for member in answer.members] == ["seat-1"]


async def joined_at_once(s: Scene) -> None:
    answer = await s.join(probe=False)
    assert answer.error_code == 0
    assert answer.member_id


@probe(Feature.MEMBER_ID_REQUIRED, older=joined_at_once)
async def member_id_required(s: Scene) -> None:
    answer = await s.join()
    assert answer.error_code == MEMBER_ID_REQUIRED
    assert (await s.join(member_id=answer.member_id)).error_code == 0


@probe(Feature.JOIN_REASON, older=classic_member)
async def join_reason(s: Scene) -> None:
    answer = await s.join(group_instance_id="seat-1", reason="a probe")
    assert answer.error_code == 0


async def committed(s: Scene, epoch: int) -> OffsetAndMetadata | None:
    await s.client.commit_offsets(s.group, {s.tp: OffsetAndMetadata(7, "note", epoch)})
    return (await s.client.committed_offsets(s.group, [s.tp]))[s.tp]


async def committed_without_epoch(s: Scene) -> None:
    assert await committed(s, 0) == OffsetAndMetadata(7, "note", -1)


@probe(Feature.COMMITTED_LEADER_EPOCH, older=committed_without_epoch)
async def committed_leader_epoch(s: Scene) -> None:
    assert await committed(s, 0) == OffsetAndMetadata(7, "note", 0)


def offsets_question(s: Scene, groups: list[str], *, require_stable: bool = False) -> Any:
    made = OffsetFetchRequest
    wanted = [made.OffsetFetchRequestTopics(name=s.topic, partition_indexes=[0])]
    asked = [made.OffsetFetchRequestGroup(group_id=group, topics=wanted) for group in groups]
    return made(groups=asked, require_stable=require_stable)


async def offsets_as_they_are(s: Scene) -> None:
    found = await committed(s, -1)
    assert found is not None
    assert found.offset == 7
    assert s.client.versions_in_use()[NODE][ApiKey.OFFSET_FETCH] < 7


@probe(Feature.REQUIRE_STABLE_OFFSETS, older=offsets_as_they_are)
async def require_stable_offsets(s: Scene) -> None:
    if s.since("2.5"):
        await committed(s, -1)
    topics = [OffsetFetchRequest.OffsetFetchRequestTopic(name=s.topic, partition_indexes=[0])]
    message = OffsetFetchRequest(group_id=s.group, topics=topics, require_stable=True)
    answer = await s.ask(message, low=7 if s.since("2.5") else 0, high=7)
    assert [part.committed_offset for topic in answer.topics for part in topic.partitions] == [7]


async def one_coordinator_at_a_time(s: Scene) -> None:
    for group in (s.group, s.name("second")):
        await s.find_coordinator(group)
    assert s.client.versions_in_use()[NODE][ApiKey.FIND_COORDINATOR] < 4


@probe(Feature.BATCHED_COORDINATORS, older=one_coordinator_at_a_time)
async def batched_coordinators(s: Scene) -> None:
    keys = [s.group, s.name("second")]
    await s.find_coordinator(s.group)
    answer = await s.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=keys))
    assert [(found.key, found.error_code, found.node_id) for found in answer.coordinators] == [
        (key, 0, NODE) for key in keys
    ]


async def offsets_of_one_group_at_a_time(s: Scene) -> None:
    for group in (s.group, s.name("second")):
        s.group = group
        found = await committed(s, -1)
        assert found is not None
        assert found.offset == 7
    assert s.client.versions_in_use()[NODE][ApiKey.OFFSET_FETCH] < 8


@probe(Feature.BATCHED_OFFSET_FETCH, older=offsets_of_one_group_at_a_time)
async def batched_offset_fetch(s: Scene) -> None:
    await committed(s, -1)
    empty = s.name("empty")
    answer = await s.ask(offsets_question(s, [s.group, empty]), high=9)
    found = {
        group.group_id: group.topics[0].partitions[0].committed_offset for group in answer.groups
    }
    assert found == {s.group: 7, empty: -1}


async def offsets_by_name(s: Scene) -> None:
    await committed_somehow(s)
    used = s.client.versions_in_use()[NODE]
    assert max(used[ApiKey.OFFSET_COMMIT], used[ApiKey.OFFSET_FETCH]) < 10


async def committed_somehow(s: Scene) -> None:
    found = await committed(s, -1)
    assert found is not None
    assert (found.offset, found.metadata) == (7, "note")


@probe(Feature.OFFSETS_TOPIC_IDS, older=offsets_by_name)
async def offsets_topic_ids(s: Scene) -> None:
    await committed_somehow(s)
    used = s.client.versions_in_use()[NODE]
    assert min(used[ApiKey.OFFSET_COMMIT], used[ApiKey.OFFSET_FETCH]) >= 10


@probe(Feature.OFFSET_DELETE)
async def offset_delete(s: Scene) -> None:
    await s.client.commit_offsets(s.group, {s.tp: OffsetAndMetadata(7)})
    parts = [OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequest.OffsetDeleteRequestTopic(name=s.topic, partitions=parts)]
    answer = await s.ask(OffsetDeleteRequest(group_id=s.group, topics=topics))
    assert answer.error_code == 0
    assert [part.error_code for topic in answer.topics for part in topic.partitions] == [0]
    assert await s.client.committed_offsets(s.group, [s.tp]) == {s.tp: None}


@probe(Feature.CONSUMER_GROUPS, older=classic_member)
async def consumer_groups(s: Scene) -> None:
    await s.find_coordinator(s.group)
    beat = ConsumerGroupHeartbeatRequest(
        group_id=s.group, member_id=member_id(), member_epoch=0, rebalance_timeout_ms=10_000,
        subscribed_topic_names=[s.topic], topic_partitions=[],
    )  # fmt: skip
    answer = await s.ask(beat)
    assert (answer.error_code, answer.member_id) == (0, beat.member_id)
    assert answer.member_epoch > 0
    answer = await s.send(ConsumerGroupDescribeRequest(group_ids=[s.group]))
    (found,) = answer.groups
    assert (found.error_code, [member.member_id for member in found.members]) == (
        0,
        [beat.member_id],
    )


@probe(Feature.SHARE_GROUPS)
async def share_groups(s: Scene) -> str | None:
    if s.since("4.0"):
        await s.find_coordinator(s.group)
    member = member_id()
    beat = ShareGroupHeartbeatRequest(
        group_id=s.group, member_id=member, member_epoch=0, subscribed_topic_names=[s.topic]
    )
    answer = await s.ask(beat)
    if answer.error_code == UNSUPPORTED_VERSION:
        return OFF
    assert (answer.error_code, answer.member_id) == (0, member)
    topic_id = await s.topic_id()
    parts = [ShareFetchRequest.FetchPartition(partition_index=0)]
    topics = [ShareFetchRequest.FetchTopic(topic_id=topic_id, partitions=parts)]
    fetch = ShareFetchRequest(
        group_id=s.group, member_id=member, share_session_epoch=0, max_wait_ms=100, min_bytes=0,
        max_bytes=1 << 20, max_records=10, batch_size=10, topics=topics,
    )  # fmt: skip
    answer = await s.send(fetch)
    assert answer.error_code == 0
    answer = await s.send(
        ShareAcknowledgeRequest(
            group_id=s.group, member_id=member, share_session_epoch=1, topics=[]
        )
    )
    assert answer.error_code == 0
    return None


@probe(Feature.STREAMS_GROUPS)
async def streams_groups(s: Scene) -> None:
    if s.since("4.2"):
        await s.find_coordinator(s.group)
    made = StreamsGroupHeartbeatRequest
    part = made.Subtopology(
        subtopology_id="0", source_topics=[s.topic], source_topic_regex=[],
        state_changelog_topics=[],
        repartition_sink_topics=[], repartition_source_topics=[], copartition_groups=[],
    )  # fmt: skip
    beat = made(
        group_id=s.group, member_id=member_id(), member_epoch=0, rebalance_timeout_ms=10_000,
        process_id="probe", topology=made.Topology(epoch=0, subtopologies=[part]), active_tasks=[],
        standby_tasks=[], warmup_tasks=[], client_tags=[],
    )  # fmt: skip
    answer = await s.ask(beat)
    assert (answer.error_code, answer.member_id) == (0, beat.member_id)
