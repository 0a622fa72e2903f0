"""Share groups on the embedded cluster, request by request (KIP-932, KIP-1206, KIP-1222)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest

from parley import Client
from parley.devcluster import AsyncLocalCluster, ClusterSettings, LocalCluster
from parley.errors import codes
from parley.messages import (
    AlterShareGroupOffsetsRequest,
    ApiVersionsRequest,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeConfigsRequest,
    DescribeShareGroupOffsetsRequest,
    FindCoordinatorRequest,
    ListGroupsRequest,
    ShareGroupDescribeRequest,
)
from parley.net import ManualClock
from parley.types import format_uuid
from parley_laboratory.shares import GROUP_RESOURCE, ShareMember, given, set_group
from parley_laboratory.wire import Wire

from .conftest import Talk, make_batch

GROUP, TOPIC = "workers", "jobs"
ACCEPT, RELEASE, REJECT = (1,), (2,), (3,)
T = TypeVar("T")


class Bench:
    """A cluster with a topic of one partition, and a group that begins at its first record."""

    def __init__(self, cluster: LocalCluster, group: str = GROUP) -> None:
        self.cluster, self.group = cluster, group
        self.members: list[ShareMember] = []
        self.talk = Talk(cluster, self.leader, TOPIC)

    @property
    def leader(self) -> int:
        return self.cluster._cluster.state.image.topics[TOPIC].partitions[0].leader

    @property
    def topic_id(self) -> bytes:
        return self.talk.topic_id

    @property
    def coordinator(self) -> str:
        """The address of the broker that coordinates the group."""
        with Wire(self.cluster.broker(1).address) as wire:
            asked = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group])
            (found,) = wire.ask(asked, 4).coordinators
            return f"{found.host}:{found.port}"

    def produce(self, *sizes: int) -> None:
        for size in sizes:
            assert self.talk.produce(make_batch(size)).error_code == codes.NONE

    def join(self, member: str) -> None:
        """Make a member of the group; it says its heartbeats to the coordinator."""
        joining = ShareMember(self.coordinator, self.group, member)
        assert joining.heartbeat([TOPIC]).error_code == codes.NONE
        joining.close()

    def reader(self, member: str) -> ShareMember:
        """Return a member's connection to the partition's leader."""
        made = ShareMember(self.cluster.broker(self.leader).address, self.group, member)
        self.members.append(made)
        return made

    def close(self) -> None:
        for member in self.members:
            member.close()
        self.talk.wire.close()


@pytest.fixture(params=["4.3", "4.2"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    with LocalCluster(brokers=1, release=request.param) as cluster:
        yield from made(cluster)


def made(cluster: LocalCluster) -> Iterator[Bench]:
    cluster.create_topic(TOPIC, 1)
    bench = Bench(cluster)
    set_group(cluster.broker(1).address, GROUP, {"share.auto.offset.reset": "earliest"})
    bench.join("A")
    yield bench
    bench.close()


def ask(bench: Bench, message: Any, version: int) -> Any:
    with Wire(bench.coordinator) as wire:
        return wire.ask(message, version)


def test_a_record_is_released_rejected_accepted(bench: Bench) -> None:
    bench.produce(3)
    here, other = bench.reader("A"), bench.reader("B")
    assert given(here.fetch((bench.topic_id, 0, []))) == [(0, 2, 1)]
    assert given(other.fetch((bench.topic_id, 0, []))) == []
    released = here.fetch((bench.topic_id, 0, [(0, 0, ACCEPT), (1, 1, RELEASE), (2, 2, REJECT)]))
    assert given(released) == [(1, 1, 2)]
    assert other.acknowledge(bench.topic_id, 0, (1, 1, ACCEPT)) == codes.INVALID_RECORD_STATE
    assert here.acknowledge(bench.topic_id, 0, (1, 1, ACCEPT)) == codes.NONE
    assert given(other.fetch()) == []


def test_a_fetch_waits_for_records_and_for_released_ones(bench: Bench) -> None:
    here, other = bench.reader("A"), bench.reader("B")
    here.wire.send(waiting := here.request((bench.topic_id, 0, [])), 2)
    bench.produce(2)
    answer = here.wire.receive(waiting, 2)
    here.session_epoch += 1
    assert given(answer) == [(0, 1, 1)]
    assert [len(bytes(part.records)) > 0 for part in answer.responses[0].partitions] == [True]
    other.fetch((bench.topic_id, 0, []))
    other.wire.send(waiting := other.request(), 2)
    assert here.acknowledge(bench.topic_id, 0, (1, 1, RELEASE)) == codes.NONE
    assert given(other.wire.receive(waiting, 2)) == [(1, 1, 2)]


def test_a_session_ends_with_its_connection(bench: Bench) -> None:
    bench.produce(2)
    gone, stays = bench.reader("A"), bench.reader("B")
    assert given(gone.fetch((bench.topic_id, 0, []))) == [(0, 1, 1)]
    stays.fetch((bench.topic_id, 0, []))
    stays.wire.send(waiting := stays.request(), 2)
    gone.close()
    assert given(stays.wire.receive(waiting, 2)) == [(0, 1, 2)]
    back = bench.reader("A")
    back.session_epoch = gone.session_epoch
    assert back.fetch().error_code == codes.SHARE_SESSION_NOT_FOUND


def test_a_closed_session_gives_back_what_it_holds(bench: Bench) -> None:
    bench.produce(2)
    here, other = bench.reader("A"), bench.reader("B")
    here.fetch((bench.topic_id, 0, []))
    here.session_epoch = -1
    assert here.acknowledge(bench.topic_id, 0, (0, 0, ACCEPT)) == codes.NONE
    assert here.fetch().error_code == codes.SHARE_SESSION_NOT_FOUND
    assert given(other.fetch((bench.topic_id, 0, []))) == [(1, 1, 2)]


def test_settings_of_the_group_hold_at_once(bench: Bench) -> None:
    address = bench.cluster.broker(1).address
    set_group(address, GROUP, {"share.record.lock.duration.ms": "20000"})
    answer = bench.reader("A").fetch((bench.topic_id, 0, []))
    assert answer.acquisition_lock_timeout_ms == 20_000
    for name, value in (
        ("share.record.lock.duration.ms", "1"), ("share.record.lock.duration.ms", "a minute"),
        ("share.auto.offset.reset", "sometimes"), ("share.isolation.level", "none"),
        ("share.x", "1"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=name):
            set_group(address, GROUP, {name: value})
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=GROUP, configuration_keys=None
    )
    asked = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (described,) = ask(bench, asked, 4).results
    found = {one.name: (one.value, one.config_source) for one in described.configs}
    assert found["share.record.lock.duration.ms"] == ("20000", 8)
    assert found["share.session.timeout.ms"] == ("45000", 5)


def test_what_operators_see_and_do(bench: Bench) -> None:
    bench.produce(5)
    here = bench.reader("A")
    here.fetch((bench.topic_id, 0, []))
    here.acknowledge(bench.topic_id, 0, (0, 0, ACCEPT), (3, 3, REJECT))
    assert offsets(bench) == [(1, 3)]
    listed = ask(bench, ListGroupsRequest(types_filter=["share"]), 5).groups
    assert [(one.group_id, one.group_state, one.group_type) for one in listed] == [
        (GROUP, "Stable", "share")
    ]
    (found,) = ask(bench, ShareGroupDescribeRequest(group_ids=[GROUP]), 1).groups
    (member,) = found.members
    assert (member.member_id, member.subscribed_topic_names) == ("A", [TOPIC])
    assert member.assignment.topic_partitions[0].partitions == [0]
    assert altered(bench, 2) == codes.NON_EMPTY_GROUP
    assert deleted(bench) == codes.NON_EMPTY_GROUP
    beat = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="C", rebalance_timeout_ms=5, subscribed_topic_names=[TOPIC],
        topic_partitions=[],
    )  # fmt: skip
    assert ask(bench, beat, 1).error_code == codes.GROUP_ID_NOT_FOUND
    leave(bench, "A")
    assert altered(bench, 2) == codes.NONE
    assert offsets(bench) == [(2, 3)]
    forget = DeleteShareGroupOffsetsRequest(
        group_id=GROUP,
        topics=[
            DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic(topic_name=TOPIC)
        ],
    )
    assert ask(bench, forget, 0).responses[0].error_code == codes.NONE
    assert offsets(bench) == []
    assert deleted(bench) == codes.NONE
    assert ask(bench, ListGroupsRequest(), 5).groups == []


def offsets(bench: Bench) -> list[tuple[int, int]]:
    """Return start offset and lag of each partition that the group knows."""
    made = DescribeShareGroupOffsetsRequest
    asked = made(groups=[made.DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=None)])
    (group,) = ask(bench, asked, 1).groups
    return [(one.start_offset, one.lag) for topic in group.topics for one in topic.partitions]


def altered(bench: Bench, offset: int) -> int:
    made = AlterShareGroupOffsetsRequest
    part = made.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=offset)
    topic = made.AlterShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=[part])
    answer = ask(bench, made(group_id=GROUP, topics=[topic]), 0)
    return int(answer.error_code)


def deleted(bench: Bench) -> int:
    answer = ask(bench, DeleteGroupsRequest(groups_names=[GROUP]), 2)
    return int(answer.results[0].error_code)


def leave(bench: Bench, member: str) -> None:
    leaving = ShareMember(bench.coordinator, GROUP, member)
    leaving.epoch = -1
    assert leaving.heartbeat().error_code == codes.NONE
    leaving.close()


def test_find_coordinator_knows_share_partitions(bench: Bench) -> None:
    keys = [f"{GROUP}:{format_uuid(bench.topic_id)}:0", GROUP, f"{GROUP}:x:0"]
    found = ask(bench, FindCoordinatorRequest(key_type=2, coordinator_keys=keys), 6)
    assert [(one.node_id, one.error_code) for one in found.coordinators] == [
        (1, codes.NONE), (-1, codes.INVALID_REQUEST), (-1, codes.INVALID_REQUEST),
    ]  # fmt: skip


def test_a_moved_partition_is_found_by_its_hint_and_locks_are_over() -> None:
    with LocalCluster(brokers=2, release="4.3") as cluster:
        for bench in made(cluster):
            bench.produce(3)
            old, leader = bench.reader("A"), bench.leader
            assert given(old.fetch((bench.topic_id, 0, []))) == [(0, 2, 1)]
            assert old.acknowledge(bench.topic_id, 0, (1, 1, ACCEPT)) == codes.NONE
            cluster.move_leader(TOPIC, 0, to=3 - leader)
            moved = old.fetch()
            (part,) = moved.responses[0].partitions
            assert part.error_code == codes.NOT_LEADER_OR_FOLLOWER
            assert part.current_leader.leader_id == 3 - leader
            assert [node.node_id for node in moved.node_endpoints] == [3 - leader]
            assert (
                old.acknowledge(bench.topic_id, 0, (0, 0, ACCEPT)) == codes.NOT_LEADER_OR_FOLLOWER
            )
            assert given(bench.reader("A").fetch((bench.topic_id, 0, []))) == [(0, 0, 1), (2, 2, 1)]


def test_a_group_goes_on_after_a_restart(tmp_path: Path) -> None:
    with LocalCluster(brokers=1, release="4.3", data_dir=tmp_path) as cluster:
        for bench in made(cluster):
            bench.produce(5)
            here = bench.reader("A")
            here.fetch((bench.topic_id, 0, []))
            here.acknowledge(bench.topic_id, 0, (0, 0, ACCEPT), (2, 2, REJECT), (3, 3, RELEASE))
            before = offsets(bench)
    with LocalCluster(brokers=1, release="4.3", data_dir=tmp_path) as cluster:
        bench = Bench(cluster)
        assert offsets(bench) == before == [(1, 3)]
        again = ShareMember(bench.coordinator, GROUP, "A")
        again.epoch = 2
        assert again.heartbeat().error_code == codes.NONE  # it is a member still
        again.close()
        # The first connection's end had released what was acquired there.
        found = bench.reader("A").fetch((bench.topic_id, 0, []))
        assert given(found) == [(1, 1, 2), (3, 4, 2)]
        assert cluster._cluster.state.configs.of_group(GROUP) == {
            "share.auto.offset.reset": "earliest"
        }
        bench.close()


async def test_the_clock_ends_locks_and_members() -> None:
    clock = ManualClock()
    settings = ClusterSettings(
        start_time_ms=1_700_000_000_000,
        connections_max_idle_ms=0,
        group_share_session_timeout_ms=20_000,
    )
    async with AsyncLocalCluster(
        brokers=1, release="4.3", clock=clock, settings=settings
    ) as cluster:
        cluster.create_topic(TOPIC)
        topic_id, address = (
            cluster.state.image.topics[TOPIC].topic_id,
            str(cluster.broker(1).address),
        )

        async def run(work: Callable[[], T]) -> T:
            return await asyncio.to_thread(work)

        def begin() -> ShareMember:
            set_group(address, GROUP, {"share.auto.offset.reset": "earliest"})
            made = ShareMember(address, GROUP, "A")
            made.heartbeat([TOPIC])
            with Client(bootstrap_servers=address) as client:
                client.produce(TOPIC, pa.table({"value": [b"0"]}))
            return made

        one = await run(begin)
        two = ShareMember(address, GROUP, "B")
        assert given(await run(lambda: one.fetch((topic_id, 0, [])))) == [(0, 0, 1)]
        await clock.advance(29_999)
        assert given(await run(lambda: two.fetch((topic_id, 0, [])))) == []
        await clock.advance(2)
        assert given(await run(two.fetch)) == [(0, 0, 2)]
        assert (
            await run(lambda: one.acknowledge(topic_id, 0, (0, 0, ACCEPT)))
            == codes.INVALID_RECORD_STATE
        )
        assert (await run(one.heartbeat)).error_code == codes.UNKNOWN_MEMBER_ID  # silent for 30 s
        one.close()
        two.close()


def test_4_1_has_share_groups_switched_off() -> None:
    with LocalCluster(brokers=1, release="4.1") as cluster:
        cluster.create_topic(TOPIC, 1)
        member = ShareMember(cluster.broker(1).address, GROUP)
        assert member.heartbeat([TOPIC]).error_code == codes.UNSUPPORTED_VERSION
        assert member.fetch(version=1).error_code == codes.UNSUPPORTED_VERSION
        member.close()


@pytest.mark.parametrize(("release", "level"), [("4.1", None), ("4.2", 1), ("4.3", 1)])
def test_the_feature_is_finalized_where_share_groups_are_on(
    release: str, level: int | None
) -> None:
    with (
        LocalCluster(brokers=1, release=release) as cluster,
        Wire(cluster.broker(1).address) as wire,
    ):
        answer = wire.ask(
            ApiVersionsRequest(client_software_name="t", client_software_version="1"), 4
        )
        found = {one.name: one.max_version_level for one in answer.finalized_features}
        assert found.get("share.version") == level
