"""Leaders, epochs, hints: what a broker answers that does not lead, or no
longer (KIP-320, KIP-951).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from parley.devcluster import LocalCluster
from parley.messages import request_class
from parley.records import offsets_of
from parley.schema import ApiKey

TOPIC = "events"
Produce: Any = request_class(ApiKey.PRODUCE)
Fetch: Any = request_class(ApiKey.FETCH)
EpochEnd: Any = request_class(ApiKey.OFFSET_FOR_LEADER_EPOCH)
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
Talk = Any  # a connection and the requests of these tests: tests/cluster/conftest.py
Batch = Callable[..., bytes]
pytestmark = pytest.mark.usefixtures("events")


# -- leadership ------------------------------------------------------------------------------------


def test_only_the_leader_takes_and_gives(
    leader: Talk, cluster: LocalCluster, talk_to: Callable[..., Talk], batch: Batch
) -> None:
    leader.produce(batch(1))
    follower = talk_to(cluster, 2)
    assert follower.produce(batch(1)).error_code == 6
    assert follower.fetch(0, version=10).error_code == 6
    assert follower.offset(LATEST).error_code == 6
    found = follower.fetch(0, version=11)
    assert (found.error_code, offsets_of(found.records)) == (0, [0]), (
        "followers serve consumers since v11 (KIP-392)"
    )


@pytest.mark.parametrize(("known", "code"), [(-1, 0), (0, 74), (1, 0), (2, 75)])
def test_leader_epochs_are_checked(
    leader: Talk, cluster: LocalCluster, known: int, code: int
) -> None:
    # epoch 1 exactly: the fixture may have moved it there
    while cluster.leaders(TOPIC)[0] != (1, 1):
        if cluster.leaders(TOPIC)[0][1] >= 1:
            cluster.delete_topic(TOPIC)
            cluster.create_topic(TOPIC)
        cluster.move_leader(TOPIC, 0, 1)
    assert leader.fetch(0, current_leader_epoch=known).error_code == code
    assert leader.offset(EARLIEST, current_leader_epoch=known).error_code == code
    asked = EpochEnd.OffsetForLeaderPartition(
        partition=0, current_leader_epoch=known, leader_epoch=1
    )
    request = EpochEnd(topics=[EpochEnd.OffsetForLeaderTopic(topic=TOPIC, partitions=[asked])])
    assert leader.wire.ask(request, 3).topics[0].partitions[0].error_code == code


def test_where_an_epoch_ended(
    leader: Talk, cluster: LocalCluster, talk_to: Callable[..., Talk], batch: Batch
) -> None:
    first = cluster.leaders(TOPIC)[0][1]
    leader.produce(batch(3))
    cluster.move_leader(TOPIC, 0, 2)
    second = talk_to(cluster, 2)
    second.produce(batch(2))
    for asked, answer in ((first, (first, 3)), (first + 1, (first + 1, 5)), (first + 2, (-1, -1))):
        partition = EpochEnd.OffsetForLeaderPartition(partition=0, leader_epoch=asked)
        request = EpochEnd(
            topics=[EpochEnd.OffsetForLeaderTopic(topic=TOPIC, partitions=[partition])]
        )
        found = second.wire.ask(request, 4).topics[0].partitions[0]
        assert (found.leader_epoch, found.end_offset) == answer
    diverging = second.fetch(4, version=12, last_fetched_epoch=first).diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == (first, 3), (
        "KIP-595: a history of its own beyond 3"
    )
    assert second.fetch(3, version=12, last_fetched_epoch=first).diverging_epoch.epoch == -1


@pytest.mark.parametrize("version", [9, 10, 11])
def test_k17_produce_names_the_new_leader_since_v10(
    leader: Talk, cluster: LocalCluster, version: int, batch: Batch
) -> None:
    """K14, K17 of KIP-951."""
    cluster.move_leader(TOPIC, 0, 2)
    answer = leader.wire.ask(leader.produce_request(batch(1), version=version), version)
    partition = answer.responses[0].partition_responses[0]
    assert partition.error_code == 6
    reported = (partition.current_leader.leader_id, partition.current_leader.leader_epoch)
    nodes = [(node.node_id, f"{node.host}:{node.port}") for node in answer.node_endpoints]
    if version < 10:
        assert (reported, nodes) == ((-1, -1), [])
    else:
        assert reported == cluster.leaders(TOPIC)[0]
        assert nodes == [(2, cluster.broker(2).address)]


def test_k14_fetch_names_the_new_leader_and_its_endpoint_since_v16(
    cluster: LocalCluster, leader: Talk
) -> None:
    """K14: with FENCED_LEADER_EPOCH too. A follower serves v16 itself, so
    the epoch shows the move.
    """
    epoch = cluster.leaders(TOPIC)[0][1]
    cluster.move_leader(TOPIC, 0, 2)
    for version in (15, 16):
        answer = leader.wire.ask(
            leader.fetch_request(0, version=version, current_leader_epoch=epoch), version
        )
        partition = answer.responses[0].partitions[0]
        assert partition.error_code == 74
        reported = (partition.current_leader.leader_id, partition.current_leader.leader_epoch)
        assert reported == ((-1, -1) if version < 16 else cluster.leaders(TOPIC)[0])
        assert [node.node_id for node in answer.node_endpoints] == ([] if version < 16 else [2])


def test_k16_a_hint_without_a_living_leader_is_empty(
    cluster: LocalCluster, talk_to: Callable[..., Talk], batch: Batch
) -> None:
    """K16."""
    cluster.create_topic("lonely", 1, 1)
    holder = cluster.leaders("lonely")[0][0]
    talk = talk_to(cluster, holder % 3 + 1, "lonely")
    cluster.stop_broker(holder)
    answer = talk.wire.ask(talk.produce_request(batch(1), version=10), 10)
    partition = answer.responses[0].partition_responses[0]
    assert (partition.error_code, partition.current_leader.leader_id, answer.node_endpoints) == (
        6,
        -1,
        [],
    )
    cluster.start_broker(holder)
    cluster.delete_topic("lonely")


def test_k15_a_broker_without_a_replica_names_the_leader_that_its_metadata_has(
    cluster: LocalCluster, talk_to: Callable[..., Talk], batch: Batch
) -> None:
    cluster.create_topic("elsewhere", 1, 1)
    holder, epoch = cluster.leaders("elsewhere")[0]
    talk = talk_to(cluster, holder % 3 + 1, "elsewhere")
    answer = talk.wire.ask(talk.produce_request(batch(1), version=10), 10)
    partition = answer.responses[0].partition_responses[0]
    assert (
        partition.error_code,
        partition.current_leader.leader_id,
        partition.current_leader.leader_epoch,
    ) == (
        6,
        holder,
        epoch,
    )
    assert [node.node_id for node in answer.node_endpoints] == [holder]
    cluster.delete_topic("elsewhere")
