"""Classic groups over sockets: versions, releases, commits, moves of the coordinator, restarts."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from parley import Client
from parley.devcluster import LocalCluster
from parley.errors import codes
from parley.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from parley.schema import VersionRange

from ..support import eventually

GROUP, TOPIC = "readers", "events"
METADATA = bytes.fromhex("0000 00000001 0006") + b"events" + bytes.fromhex("ffffffff")


class Coordinator:
    """A cluster with one topic, and clients that speak for members: each on its own connection."""

    def __init__(self, cluster: LocalCluster, broker: int = 1) -> None:
        self.cluster, self.broker = cluster, broker
        self.clients = [Client(bootstrap_servers=cluster.bootstrap_servers) for _ in range(2)]
        self.pool = ThreadPoolExecutor(2)

    def close(self) -> None:
        self.pool.shutdown()
        for client in self.clients:
            client.close()

    def ask(self, request, version: int | None = None, client: int = 0):  # type: ignore[no-untyped-def]
        allowed = None if version is None else VersionRange(version, version)
        return self.clients[client].request(self.broker, request, allowed=allowed)

    def join(
        self, member: str = "", version: int | None = None, client: int = 0, **said: object
    ) -> JoinGroupResponse:
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=METADATA)
        request = JoinGroupRequest(
            group_id=GROUP, session_timeout_ms=10_000, rebalance_timeout_ms=10_000,
            member_id=member, protocol_type="consumer", protocols=[protocol], **said,
        )  # fmt: skip
        answer: JoinGroupResponse = self.ask(request, version, client)
        if answer.error_code == codes.MEMBER_ID_REQUIRED:
            assert not member
            return self.join(answer.member_id, version, client, **said)
        return answer

    def sync(
        self, member: str, generation: int, version: int | None = None, **assignments: bytes
    ) -> SyncGroupResponse:
        given = [
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=name, assignment=data)
            for name, data in assignments.items()
        ]
        request = SyncGroupRequest(
            group_id=GROUP, generation_id=generation, member_id=member, protocol_type="consumer",
            protocol_name="range", assignments=given,
        )  # fmt: skip
        answer: SyncGroupResponse = self.ask(request, version)
        return answer

    def beat(self, member: str, generation: int) -> int:
        request = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member)
        code: int = self.ask(request).error_code
        return code

    def commit(self, member: str, generation: int) -> int:
        part = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=5
        )
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[part])
        request = OffsetCommitRequest(
            group_id=GROUP,
            member_id=member,
            generation_id_or_member_epoch=generation,
            topics=[topic],
        )
        versions = self.clients[0].request(self.broker, request, allowed=VersionRange(1, 8))
        return versions.topics[0].partitions[0].error_code

    def state(self) -> str:
        described = self.ask(DescribeGroupsRequest(groups=[GROUP]), 0)
        state: str = described.groups[0].group_state
        return state

    def later(self, member: str = "", client: int = 1) -> Future[JoinGroupResponse]:
        return self.pool.submit(self.join, member, None, client)


@pytest.fixture
def at(release: str) -> Iterator[Coordinator]:
    with LocalCluster(brokers=1, release=release) as cluster:
        cluster.create_topic(TOPIC, 3)
        coordinator = Coordinator(cluster)
        yield coordinator
        coordinator.close()


EVERY = pytest.mark.parametrize("release", ["0.9", "0.11", "2.2", "2.5", "4.3"])


@EVERY
def test_two_members_of_one_group(at: Coordinator) -> None:
    alone = at.join()
    me, generation = alone.member_id, alone.generation_id
    assert (alone.error_code, alone.leader, [one.member_id for one in alone.members]) == (
        0,
        me,
        [me],
    )
    assert at.sync(me, generation, **{me: b"all"}).assignment == b"all"
    assert at.beat(me, generation) == codes.NONE
    assert at.commit(me, generation) == codes.NONE
    assert at.commit("", -1) == codes.UNKNOWN_MEMBER_ID  # H11
    assert at.commit(me, 7) == codes.ILLEGAL_GENERATION
    other = at.later()
    eventually(lambda: at.beat(me, generation) == codes.REBALANCE_IN_PROGRESS)
    assert at.commit(me, generation) == codes.NONE  # H5
    again = at.join(me)
    assert len(again.members) == 2
    assert again.generation_id == other.result().generation_id == generation + 1
    assert at.commit(me, generation + 1) == codes.REBALANCE_IN_PROGRESS  # H7
    you = other.result().member_id
    assert at.sync(me, generation + 1, **{me: b"mine", you: b"yours"}).assignment == b"mine"
    assert at.sync(you, generation + 1).assignment == b"yours"
    described = at.ask(DescribeGroupsRequest(groups=[GROUP])).groups[0]
    assert (described.group_state, described.protocol_type, described.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert {one.member_id: one.member_assignment for one in described.members} == {
        me: b"mine",
        you: b"yours",
    }
    assert {one.client_host for one in described.members} == {"/127.0.0.1"}
    listed = at.ask(ListGroupsRequest()).groups
    assert [(one.group_id, one.protocol_type) for one in listed] == [(GROUP, "consumer")]


@pytest.mark.parametrize(
    ("release", "between", "empty"),
    [("0.9", "AwaitingSync", "Dead"), ("1.1", "CompletingRebalance", "Empty")],
)
def test_states_have_the_names_of_the_release(at: Coordinator, between: str, empty: str) -> None:
    answer = at.join()
    assert at.state() == between
    at.sync(answer.member_id, answer.generation_id)
    assert at.state() == "Stable"
    at.ask(LeaveGroupRequest(group_id=GROUP, member_id=answer.member_id), 0)
    assert at.state() == empty


@pytest.mark.parametrize(
    ("release", "longest_ms"),
    [("0.9", 30_000), ("0.11", 300_000), ("2.4", 1_800_000), ("4.3", 1_800_000)],
)
def test_g9_each_release_has_a_longest_session(at: Coordinator, longest_ms: int) -> None:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=METADATA)
    for session_ms, refused in [(5_999, True), (longest_ms + 1, True), (longest_ms, False)]:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=session_ms,
            protocol_type="consumer",
            protocols=[protocol],
        )
        assert (at.ask(request).error_code == codes.INVALID_SESSION_TIMEOUT) is refused


@pytest.mark.parametrize("release", ["2.4"])
def test_a_group_with_members_is_not_deleted(at: Coordinator) -> None:
    answer = at.join()
    delete = DeleteGroupsRequest(groups_names=[GROUP])
    assert at.ask(delete).results[0].error_code == codes.NON_EMPTY_GROUP
    member = LeaveGroupRequest.MemberIdentity(member_id=answer.member_id)
    left = at.ask(
        LeaveGroupRequest(
            group_id=GROUP, members=[member, LeaveGroupRequest.MemberIdentity(member_id="x")]
        )
    )
    # H14
    assert (left.error_code, [one.error_code for one in left.members]) == (
        0,
        [0, codes.UNKNOWN_MEMBER_ID],
    )
    assert at.ask(delete).results[0].error_code == codes.NONE


@pytest.mark.parametrize("release", ["2.5", "4.3"])
def test_sync_group_names_the_protocol(at: Coordinator) -> None:
    answer = at.join()
    request = SyncGroupRequest(
        group_id=GROUP, generation_id=answer.generation_id, member_id=answer.member_id
    )
    assert at.ask(request).error_code == codes.INCONSISTENT_GROUP_PROTOCOL


def test_h19_members_go_on_where_their_coordinator_has_moved() -> None:
    with LocalCluster(brokers=2, release="3.9") as cluster:
        cluster.create_topic(TOPIC, 3)
        cluster.move_group_coordinator(GROUP, 1)
        at = Coordinator(cluster)
        stable = at.join()
        me, generation = stable.member_id, stable.generation_id
        at.sync(me, generation, **{me: b"all"})
        waiting = at.later()
        eventually(lambda: at.beat(me, generation) == codes.REBALANCE_IN_PROGRESS)
        cluster.move_group_coordinator(GROUP, 2)
        assert waiting.result().error_code == codes.NOT_COORDINATOR
        assert at.beat(me, generation) == codes.NOT_COORDINATOR
        at.broker = 2
        assert at.beat(me, generation) == codes.NONE  # the newcomer's rebalance was never written
        assert at.sync(me, generation).assignment == b"all"
        at.close()


@pytest.mark.parametrize("abrupt", [False, True])
def test_h18_members_go_on_after_a_restart(tmp_path: Path, abrupt: bool) -> None:
    with LocalCluster(brokers=1, release="3.9", data_dir=tmp_path) as cluster:
        cluster.create_topic(TOPIC, 3)
        at = Coordinator(cluster)
        stable = at.join(group_instance_id="seat")
        me, generation = stable.member_id, stable.generation_id
        at.sync(me, generation, **{me: b"all"})
        at.commit(me, generation)
        (cluster.kill_broker if abrupt else cluster.stop_broker)(1)
        cluster.start_broker(1)
        assert at.beat(me, generation) == codes.NONE
        at.close()
    with LocalCluster(brokers=1, release="3.9", data_dir=tmp_path) as cluster:
        at = Coordinator(cluster)
        assert at.beat(me, generation) == codes.NONE
        assert at.sync(me, generation).assignment == b"all"
        assert at.beat("somebody", generation) == codes.UNKNOWN_MEMBER_ID
        at.close()
