"""Where brokers send clients: to the new leader (KIP-951, K14 to K17), and to the
replica in their rack (KIP-392).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from parley.devcluster import ClusterSettings, LocalCluster
from parley.messages import request_class
from parley.records import offsets_of
from parley.schema import ApiKey
from parley_laboratory.wire import Wire

Fetch: Any = request_class(ApiKey.FETCH)
Produce: Any = request_class(ApiKey.PRODUCE)
Talk = Any  # a connection and the requests of these tests: tests/cluster/conftest.py
Connect = Callable[..., Talk]
Batch = Callable[..., bytes]
NAMES = (f"hints{number}" for number in itertools.count())
NO_LEADER = (-1, -1)


@pytest.fixture(scope="module")
def shared() -> Iterator[LocalCluster]:
    settings = ClusterSettings(racks={1: "north", 2: "south", 3: "south"})
    with LocalCluster(brokers=4, release="4.3", seed=4, settings=settings) as cluster:
        yield cluster


def topic_on(cluster: LocalCluster, partitions: int = 1, replicas: int = 3) -> str:
    """Return a new topic with every partition led by broker 1, with followers on 2 and 3."""
    name = next(NAMES)
    assignment = [list(range(1, replicas + 1))] * partitions
    cluster._call(lambda: cluster._cluster.state.create_topic(name, assignment, {}, now_ms=0))
    return name


def ask_produce(
    cluster: LocalCluster, broker_id: int, name: str, indexes: list[int], data: bytes, version: int
) -> Any:
    parts = [Produce.PartitionProduceData(index=index, records=data) for index in indexes]
    known = cluster._cluster.state.image.topics.get(name)
    where = {"topic_id": known.topic_id} if version >= 13 and known else {"name": name}
    request = Produce(
        acks=1,
        timeout_ms=1_000,
        topic_data=[Produce.TopicProduceData(**where, partition_data=parts)],
    )
    with Wire(cluster.broker(broker_id).address) as wire:
        return wire.ask(request, version)


def ask_fetch(
    cluster: LocalCluster, broker_id: int, name: str, epochs: dict[int, int], version: int
) -> Any:
    parts = [
        Fetch.FetchPartition(
            partition=index, fetch_offset=0, partition_max_bytes=1 << 20, current_leader_epoch=epoch
        )
        for index, epoch in epochs.items()
    ]
    known = cluster._cluster.state.image.topics.get(name)
    where = {"topic_id": known.topic_id} if version >= 13 and known else {"topic": name}
    request = Fetch(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        topics=[Fetch.FetchTopic(**where, partitions=parts)],
    )
    with Wire(cluster.broker(broker_id).address) as wire:
        return wire.ask(request, version)


def reported(partitions: Any) -> list[tuple[int, tuple[int, int]]]:
    return [
        (one.error_code, (one.current_leader.leader_id, one.current_leader.leader_epoch))
        for one in partitions
    ]


def nodes(answer: Any) -> list[tuple[int, str, str | None]]:
    return sorted(
        (one.node_id, f"{one.host}:{one.port}", one.rack) for one in answer.node_endpoints
    )


# -- KIP-951 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [10, 12, 13])
def test_k14_produce_names_each_new_leader_once(
    cluster: LocalCluster, batch: Batch, version: int
) -> None:
    name = topic_on(cluster, 4)
    for index, to in ((0, 2), (1, 2), (2, 3)):
        cluster.move_leader(name, index, to)
    answer = ask_produce(cluster, 1, name, [0, 1, 2, 3], batch(1), version)
    leaders = cluster.leaders(name)
    assert reported(answer.responses[0].partition_responses) == [
        (6, leaders[0]), (6, leaders[1]), (6, leaders[2]), (0, NO_LEADER)
    ]  # fmt: skip
    assert nodes(answer) == [
        (2, cluster.broker(2).address, "south"),
        (3, cluster.broker(3).address, "south"),
    ]
    cluster.delete_topic(name)


def test_k14_fetch_names_them_for_fenced_epochs_too(cluster: LocalCluster) -> None:
    name = topic_on(cluster, 3)
    before = {index: epoch for index, (_, epoch) in cluster.leaders(name).items()}
    for index, to in ((0, 2), (1, 3)):
        cluster.move_leader(name, index, to)
    answer = ask_fetch(cluster, 1, name, before, 17)
    leaders = cluster.leaders(name)
    assert reported(answer.responses[0].partitions) == [
        (74, leaders[0]),
        (74, leaders[1]),
        (0, NO_LEADER),
    ]
    assert [one[0] for one in nodes(answer)] == [2, 3]
    newer = {0: leaders[0][1] + 1}
    answer = ask_fetch(cluster, 1, name, newer, 17)
    assert reported(answer.responses[0].partitions) == [(75, NO_LEADER)], (
        "who knows more than the broker learns nothing"
    )
    assert nodes(answer) == []
    cluster.delete_topic(name)


def test_k14_the_endpoint_is_of_the_listener_that_was_used(batch: Batch) -> None:
    """One listener per broker: what Metadata says on it is what the hint says."""
    with LocalCluster(
        brokers=2, release="3.9", settings=ClusterSettings(host="localhost")
    ) as cluster:
        cluster.create_topic("t", replication_factor=2)
        leader = cluster.leaders("t")[0][0]
        other = 3 - leader
        cluster.move_leader("t", 0, other)
        answer = ask_produce(cluster, leader, "t", [0], batch(1), 10)
        assert nodes(answer) == [(other, cluster.broker(other).address, None)]


def test_k15_a_broker_without_a_replica_reports_what_its_metadata_knows(
    cluster: LocalCluster, batch: Batch
) -> None:
    name = topic_on(cluster, 1)
    answer = ask_produce(cluster, 4, name, [0], batch(1), 10)
    assert reported(answer.responses[0].partition_responses) == [(6, cluster.leaders(name)[0])]
    assert [one[0] for one in nodes(answer)] == [1]
    answer = ask_fetch(cluster, 4, name, {0: -1}, 16)
    assert reported(answer.responses[0].partitions) == [(6, cluster.leaders(name)[0])]
    cluster.scenes.hold_metadata(4)
    old = cluster.leaders(name)[0]
    cluster.move_leader(name, 0, 2)
    answer = ask_produce(cluster, 4, name, [0], batch(1), 10)
    assert reported(answer.responses[0].partition_responses) == [(6, old)], (
        "its own metadata, stale as it may be"
    )
    cluster.scenes.release_metadata()
    cluster.delete_topic(name)


def test_k16_nothing_is_reported_of_what_is_unknown_or_not_led(
    cluster: LocalCluster, batch: Batch
) -> None:
    answer = ask_produce(cluster, 1, "nowhere", [0], batch(1), 10)
    assert reported(answer.responses[0].partition_responses) == [(3, NO_LEADER)]
    name = topic_on(cluster, 1, 1)
    cluster.kill(1)
    for version, answered in (
        (10, ask_produce(cluster, 2, name, [0], batch(1), 10).responses[0].partition_responses),
        (16, ask_fetch(cluster, 2, name, {0: -1}, 16).responses[0].partitions),
    ):
        assert reported(answered) == [(6, NO_LEADER)], version
    answer = ask_produce(cluster, 2, name, [0], batch(1), 10)
    assert nodes(answer) == []
    cluster.start_broker(1)
    cluster.delete_topic(name)


@pytest.mark.parametrize(("api", "version"), [("Produce", 9), ("Fetch", 12), ("Fetch", 15)])
def test_k17_below_produce_10_and_fetch_16_nothing_is_written(
    cluster: LocalCluster, batch: Batch, api: str, version: int
) -> None:
    name = topic_on(cluster)
    epoch = cluster.leaders(name)[0][1]
    cluster.move_leader(name, 0, 2)
    if api == "Produce":
        answer = ask_produce(cluster, 1, name, [0], batch(1), version)
        (partition,) = answer.responses[0].partition_responses
    else:
        answer = ask_fetch(cluster, 1, name, {0: epoch}, version)
        (partition,) = answer.responses[0].partitions
    assert partition.error_code in (6, 74)
    assert (reported([partition])[0][1], nodes(answer)) == (NO_LEADER, [])
    assert not partition.unknown_tagged_fields
    assert not answer.unknown_tagged_fields
    cluster.delete_topic(name)


# -- KIP-392 ---------------------------------------------------------------------------------------


def fetch_from(talk: Talk, offset: int, rack: str, version: int = 11) -> tuple[int, int, list[int]]:
    found = talk.fetch(offset, version=version, rack_id=rack)
    return found.error_code, found.preferred_read_replica, offsets_of(found.records)


@pytest.mark.parametrize("version", [11, 13, 18])
def test_a_consumer_is_sent_to_the_replica_in_its_rack(
    cluster: LocalCluster, talk_to: Connect, batch: Batch, version: int
) -> None:
    name = topic_on(cluster)
    leader = talk_to(cluster, 1, name)
    for _ in range(3):
        leader.produce(batch(1))
    assert fetch_from(leader, 0, "south", version) == (0, 3, []), (
        "the highest id of those that have as much"
    )
    assert fetch_from(leader, 0, "north", version) == (0, -1, [0, 1, 2]), "the leader's own rack"
    assert fetch_from(leader, 0, "", version) == (0, -1, [0, 1, 2])
    assert fetch_from(leader, 0, "nowhere", version) == (0, -1, [0, 1, 2])
    follower = talk_to(cluster, 3, name)
    assert fetch_from(follower, 0, "south", version) == (0, -1, [0, 1, 2])
    cluster.delete_topic(name)


def test_followers_serve_up_to_their_high_watermark(
    cluster: LocalCluster, talk_to: Connect, batch: Batch
) -> None:
    name = topic_on(cluster)
    leader, near = talk_to(cluster, 1, name), talk_to(cluster, 2, name)
    for _ in range(2):
        leader.produce(batch(1))
    cluster.scenes.lag(2)
    cluster.scenes.lag(3)
    for _ in range(2):
        leader.produce(batch(1), acks=1)
    assert fetch_from(near, 0, "south") == (0, -1, [0, 1])
    assert fetch_from(near, 3, "south")[0] == 1, (
        "OFFSET_OUT_OF_RANGE: the consumer asks the leader again"
    )
    assert fetch_from(leader, 3, "south") == (0, -1, []), (
        "no follower reaches so far, and it is not committed yet"
    )
    cluster.scenes.shrink_isr(name, 0, 2)
    cluster.scenes.shrink_isr(name, 0, 3)
    assert fetch_from(leader, 0, "south") == (0, -1, [0, 1, 2, 3]), (
        "only replicas in sync are preferred"
    )
    cluster.scenes.catch_up()
    assert fetch_from(leader, 3, "south") == (0, 3, [])
    assert fetch_from(near, 3, "south") == (0, -1, [3])
    cluster.delete_topic(name)


def test_before_2_4_nobody_is_sent_anywhere(talk_to: Connect, batch: Batch) -> None:
    settings = ClusterSettings(racks={1: "north", 2: "south"})
    with LocalCluster(brokers=2, releases={1: "2.3", 2: "2.4"}, settings=settings) as cluster:
        cluster.create_topic("events", replication_factor=2)
        for broker_id, rack, sent_to in ((1, "south", -1), (2, "north", 1)):
            if cluster.leaders("events")[0][0] != broker_id:
                cluster.move_leader("events", 0, broker_id)
            leader = talk_to(cluster, broker_id)
            leader.produce(batch(1), version=7)
            assert fetch_from(leader, 0, rack)[1] == sent_to
