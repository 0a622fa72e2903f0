"""Groups of the consumer protocol (KIP-848) over sockets: heartbeats,
commits, descriptions, restarts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from parley import Client
from parley.devcluster import AsyncLocalCluster, ClusterSettings, LocalCluster
from parley.errors import codes
from parley.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from parley.net import ConnectOptions, ManualClock, open_connection
from parley.schema import VersionRange

GROUP, TOPIC = "readers", "events"
Beat = ConsumerGroupHeartbeatRequest


class Coordinator:
    """A cluster of one broker with one topic, and a client that speaks for members."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.client = Client(bootstrap_servers=cluster.bootstrap_servers)
        if TOPIC not in self.client.metadata().topics:
            cluster.create_topic(TOPIC, 3)
        self.topic_id = self.client.metadata([TOPIC]).topics[TOPIC].topic_id

    def beat(
        self,
        member: str,
        epoch: int,
        owned: tuple[int, ...] | None = None,
        version: int | None = None,
    ) -> ConsumerGroupHeartbeatResponse:
        request = Beat(group_id=GROUP, member_id=member, member_epoch=epoch)
        if epoch == 0:
            request.subscribed_topic_names, request.rebalance_timeout_ms, owned = [TOPIC], 5_000, ()
        if owned is not None:
            parts = (
                [Beat.TopicPartitions(topic_id=self.topic_id, partitions=list(owned))]
                if owned
                else []
            )
            request.topic_partitions = parts
        allowed = None if version is None else VersionRange(version, version)
        return self.client.request(1, request, allowed=allowed)

    def commit(self, member: str, epoch: int, version: int, partition: int = 0) -> int:
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(
            name=TOPIC,
            topic_id=self.topic_id,
            partitions=[
                OffsetCommitRequest.OffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=5
                )
            ],
        )
        request = OffsetCommitRequest(
            group_id=GROUP, member_id=member, generation_id_or_member_epoch=epoch, topics=[topic]
        )
        answer = self.client.request(1, request, allowed=VersionRange(version, version))
        return answer.topics[0].partitions[0].error_code

    def fetch(self, member: str | None, epoch: int) -> int:
        group = OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=GROUP, member_id=member, member_epoch=epoch, topics=[]
        )
        answer = self.client.request(
            1, OffsetFetchRequest(groups=[group]), allowed=VersionRange(9, 9)
        )
        return answer.groups[0].error_code


def indexes(answer: ConsumerGroupHeartbeatResponse) -> list[int] | None:
    """Return the partitions that a member is given, None where nothing changes."""
    if answer.assignment is None:
        return None
    return [index for topic in answer.assignment.topic_partitions for index in topic.partitions]


@pytest.fixture
def at() -> Iterator[Coordinator]:
    with LocalCluster(brokers=1, release="4.1") as cluster:
        coordinator = Coordinator(cluster)
        yield coordinator
        coordinator.client.close()


@pytest.mark.parametrize(("release", "first"), [("4.0", 1), ("4.3", 2)])
def test_a_member_joins_and_leaves(release: str, first: int) -> None:
    with LocalCluster(brokers=1, release=release) as cluster:
        at = Coordinator(cluster)
        joined = at.beat("A", 0)
        assert (joined.member_epoch, indexes(joined), joined.heartbeat_interval_ms) == (
            first,
            [0, 1, 2],
            5_000,
        )
        assert at.beat("A", -1).member_epoch == -1
        assert at.beat("A", first).error_code == codes.UNKNOWN_MEMBER_ID
        at.client.close()


@pytest.mark.parametrize("release", ["3.7", "3.9"])
def test_g60_releases_in_which_the_protocol_is_off_say_so(release: str) -> None:
    with LocalCluster(brokers=1, release=release) as cluster:
        at = Coordinator(cluster)
        assert at.beat("A", 0).error_code == codes.UNSUPPORTED_VERSION
        at.client.close()


def test_g48_in_version_0_the_broker_makes_the_member_id(at: Coordinator) -> None:
    joined = at.beat("", 0, version=0)
    assert joined.error_code == 0
    assert len(joined.member_id or "") == 22
    assert at.beat("", 0).error_code == codes.INVALID_REQUEST
    assert at.beat(joined.member_id or "", 1).member_epoch == 1


def test_g59_a_regular_expression_that_cannot_be_read(at: Coordinator) -> None:
    request = Beat(
        group_id=GROUP,
        member_id="A",
        rebalance_timeout_ms=5_000,
        subscribed_topic_regex="ev(",
        topic_partitions=[],
    )
    answer = at.client.request(1, request)
    assert answer.error_code == codes.INVALID_REGULAR_EXPRESSION
    assert "ev(" in (answer.error_message or "")
    request.subscribed_topic_regex = "ev.*"
    assert indexes(at.client.request(1, request)) == [0, 1, 2]


def test_g57_commits_and_offset_fetches_of_members(at: Coordinator) -> None:
    assert at.commit("A", 1, 9) == codes.GROUP_ID_NOT_FOUND  # H10
    assert at.commit("A", 1, 8) == codes.ILLEGAL_GENERATION
    at.beat("A", 0)
    assert at.commit("A", 1, 9) == codes.NONE
    assert at.commit("A", 1, 8) == codes.UNSUPPORTED_VERSION
    assert at.commit("A", 0, 9) == codes.STALE_MEMBER_EPOCH
    assert at.commit("B", 1, 9) == codes.UNKNOWN_MEMBER_ID
    # H11: nobody from outside, while there are members
    assert at.commit("", -1, 9) == codes.UNKNOWN_MEMBER_ID
    assert (at.fetch("A", 1), at.fetch(None, -1)) == (codes.NONE, codes.NONE)
    assert at.fetch("A", 7) == codes.STALE_MEMBER_EPOCH
    assert at.fetch("B", 1) == codes.UNKNOWN_MEMBER_ID
    at.beat("A", -1)
    assert at.commit("", -1, 9) == codes.NONE


def test_g58_from_4_3_on_an_older_epoch_commits_what_was_kept() -> None:
    settings = ClusterSettings(group_consumer_assignment_interval_ms=0)
    with LocalCluster(brokers=1, release="4.3", settings=settings) as cluster:
        at = Coordinator(cluster)
        at.beat("A", 0)
        at.beat("B", 0)
        assert indexes(at.beat("A", 2)) == [0, 1]
        assert at.beat("A", 2, owned=(0, 1)).member_epoch == 3
        assert [at.commit("A", 2, 10, partition) for partition in range(3)] == [
            0,
            0,
            codes.STALE_MEMBER_EPOCH,
        ]
        at.client.close()


def test_groups_are_listed_described_and_deleted(at: Coordinator) -> None:
    at.beat("A", 0)
    at.commit("A", 1, 9)
    listed = at.client.request(1, ListGroupsRequest(types_filter=["consumer"])).groups
    assert [
        (one.group_id, one.protocol_type, one.group_type, one.group_state) for one in listed
    ] == [(GROUP, "consumer", "consumer", "Stable")]
    assert at.client.request(1, ListGroupsRequest(types_filter=["classic"])).groups == []
    assert at.client.request(1, ListGroupsRequest(states_filter=["empty"])).groups == []
    described = at.client.request(1, ConsumerGroupDescribeRequest(group_ids=[GROUP, "none"])).groups
    assert [one.error_code for one in described] == [codes.NONE, codes.GROUP_ID_NOT_FOUND]
    (member,) = described[0].members
    assert (described[0].group_state, described[0].assignor_name, described[0].group_epoch) == (
        "Stable",
        "uniform",
        1,
    )
    assert (member.member_id, member.client_host, member.subscribed_topic_names) == (
        "A",
        "/127.0.0.1",
        [TOPIC],
    )
    assert [(one.topic_name, one.partitions) for one in member.assignment.topic_partitions] == [
        (TOPIC, [0, 1, 2])
    ]
    classic = at.client.request(1, DescribeGroupsRequest(groups=[GROUP])).groups[0]
    assert (classic.error_code, classic.group_state) == (codes.GROUP_ID_NOT_FOUND, "Dead")
    delete = DeleteGroupsRequest(groups_names=[GROUP])
    assert at.client.request(1, delete).results[0].error_code == codes.NON_EMPTY_GROUP
    topic = OffsetDeleteRequest.OffsetDeleteRequestTopic(
        name=TOPIC, partitions=[OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)]
    )
    forgotten = at.client.request(1, OffsetDeleteRequest(group_id=GROUP, topics=[topic]))
    assert forgotten.topics[0].partitions[0].error_code == codes.GROUP_SUBSCRIBED_TO_TOPIC
    at.beat("A", -1)
    assert at.client.request(1, delete).results[0].error_code == codes.NONE
    assert at.client.request(1, ListGroupsRequest()).groups == []


async def test_h23_the_clock_ends_a_silent_membership() -> None:
    clock = ManualClock()
    settings = ClusterSettings(
        start_time_ms=1_700_000_000_000,
        connections_max_idle_ms=0,
        group_consumer_session_timeout_ms=6_000,
    )
    async with AsyncLocalCluster(
        brokers=1, release="4.1", clock=clock, settings=settings
    ) as cluster:
        cluster.create_topic(TOPIC)
        connection = await open_connection(
            cluster.broker(1).address, ConnectOptions(bootstrap_servers=cluster.bootstrap_servers)
        )
        join = Beat(
            group_id=GROUP,
            member_id="A",
            rebalance_timeout_ms=5,
            subscribed_topic_names=[TOPIC],
            topic_partitions=[],
        )
        again = Beat(group_id=GROUP, member_id="A", member_epoch=1)
        await connection.request(join)
        await clock.advance(6_000)
        assert (await connection.request(again)).message.error_code == codes.NONE
        await clock.advance(6_001)
        assert (await connection.request(again)).message.error_code == codes.UNKNOWN_MEMBER_ID
        await connection.close()


def test_h18_after_a_restart_members_go_on_with_their_epochs(tmp_path: Path) -> None:
    with LocalCluster(brokers=1, release="4.1", data_dir=tmp_path) as cluster:
        at = Coordinator(cluster)
        at.beat("A", 0)
        at.beat("B", 0)
        assert indexes(at.beat("A", 1)) == [0, 1]
        at.client.close()
    with LocalCluster(brokers=1, release="4.1", data_dir=tmp_path) as cluster:
        at = Coordinator(cluster)
        assert indexes(at.beat("B", 2)) is None  # A has not given anything up yet
        assert at.beat("A", 1, owned=(0, 1)).member_epoch == 2
        assert indexes(at.beat("B", 2)) == [2]
        assert at.beat("C", 1).error_code == codes.UNKNOWN_MEMBER_ID
        at.client.close()


@pytest.mark.parametrize(("release", "rises"), [("4.0", False), ("4.1", True), ("4.3", True)])
def test_kip_1101_from_4_1_on_the_epoch_rises_with_the_racks_of_replicas(
    release: str, rises: bool
) -> None:
    settings = ClusterSettings(racks={1: "a", 2: "b"}, group_consumer_assignment_interval_ms=0)
    with LocalCluster(brokers=2, release=release, settings=settings) as cluster:
        cluster.create_topic(TOPIC, 3, 1)
        cluster.move_group_coordinator(GROUP, 1)
        at = Coordinator(cluster)
        epoch = at.beat("A", 0).member_epoch
        assert at.beat("A", epoch).member_epoch == epoch
        leader, _ = cluster.leaders(TOPIC)[0]
        cluster.move_leader(TOPIC, 0, 3 - leader)
        assert at.beat("A", epoch).member_epoch == epoch + rises
        cluster.kill_broker(2)
        assert at.beat("A", epoch + rises).member_epoch == epoch + rises  # a broker keeps its rack
        at.client.close()


def test_a_broker_that_does_not_coordinate_the_group_says_so() -> None:
    with LocalCluster(brokers=2, release="4.1") as cluster:
        at = Coordinator(cluster)
        answers = [
            at.client.request(broker, Beat(group_id=GROUP, member_id="A", member_epoch=1))
            for broker in (1, 2)
        ]
        assert sorted(answer.error_code for answer in answers) == [
            codes.NOT_COORDINATOR,
            codes.GROUP_ID_NOT_FOUND,
        ]
        at.client.close()
