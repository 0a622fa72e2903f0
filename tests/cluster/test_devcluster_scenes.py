"""Scenes inside the embedded cluster: brokers cut off,
followers late, elections, topics made again (B8).

After each of them all replicas agree: `replicas_agree` is part of every test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from parley.devcluster import AsyncLocalCluster, ClusterSettings, LocalCluster
from parley.devcluster.state.log.batches import read_facts
from parley.devcluster.state.log.replica import Prepared
from parley.errors import ConfigError, DataLossError
from parley.messages import request_class
from parley.net import ManualClock
from parley.records import offsets_of
from parley.schema import ApiKey
from parley_laboratory.wire import Wire

from ..support import GENEROUS_MS, GENEROUS_S

Metadata: Any = request_class(ApiKey.METADATA)
LATEST = -1
Talk = Any  # a connection and the requests of these tests: tests/cluster/conftest.py
Connect = Callable[..., Talk]
Batch = Callable[..., bytes]


def ends(cluster: LocalCluster, topic: str, index: int = 0) -> dict[int, tuple[int, int]]:
    """High watermark and end offset of each broker's replica."""
    found = {}
    for broker in cluster._cluster.state.replication.brokers.values():
        for replica in broker.replicas.values():
            if replica.topic == topic and replica.key.partition == index:
                found[broker.id] = (replica.high_watermark, replica.log.end_offset)
    return found


def leader_reported_by(cluster: LocalCluster, broker_id: int, topic: str) -> tuple[int, int]:
    with Wire(cluster.broker(broker_id).address) as wire:
        asked = Metadata(
            topics=[Metadata.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        partition = wire.ask(asked, 9).topics[0].partitions[0]
        return partition.leader_id, partition.leader_epoch


# -- a broker cut off ------------------------------------------------------------------------------


def test_b08_an_isolated_leader_goes_on_alone_and_is_cut_back(
    cluster: LocalCluster, topic: str, talk_to: Connect, batch: Batch
) -> None:
    old = talk_to(cluster, 1, topic)
    old.produce(batch(3))
    epoch = cluster.leaders(topic)[0][1]
    cluster.scenes.isolate(1)
    assert cluster.leaders(topic)[0][0] != 1
    assert cluster.leaders(topic)[0][1] == epoch + 1
    assert set(cluster.isr(topic)[0]) == {2, 3}
    assert leader_reported_by(cluster, 1, topic) == (1, epoch), "it has not heard of the election"
    assert old.produce(batch(2, size=20), acks=1).error_code == 0, (
        "and takes records that nobody else has"
    )
    assert old.produce(batch(1), acks=-1, timeout_ms=50).error_code == 7, (
        "acks=all waits for followers without success"
    )
    new_id = cluster.leaders(topic)[0][0]
    new = talk_to(cluster, new_id, topic)
    assert new.produce(batch(4)).base_offset == 3
    assert "in-sync replicas" in str(cluster.replicas_agree())

    cluster.scenes.heal(1)
    assert ends(cluster, topic) == {1: (7, 7), 2: (7, 7), 3: (7, 7)}
    assert set(cluster.isr(topic)[0]) == {1, 2, 3}
    assert old.produce(batch(1)).error_code == 6
    lost = [one for one in cluster.replicas_agree().lost if one.topic == topic]
    assert lost == [], "acks=1 promised nothing"


def test_an_isolated_follower_is_missed_only_after_its_session(
    cluster: LocalCluster, topic: str, talk_to: Connect, batch: Batch
) -> None:
    leader = talk_to(cluster, 1, topic)
    cluster.scenes.isolate(3, noticed=False)
    assert leader.produce(batch(1), timeout_ms=50).error_code == 7, (
        "it is still in sync and copies nothing"
    )
    assert ends(cluster, topic)[1] == (0, 1)
    cluster.scenes.isolate(3)
    assert set(cluster.isr(topic)[0]) == {1, 2}
    assert leader.produce(batch(1)).error_code == 0
    cluster.scenes.heal()
    assert ends(cluster, topic) == {1: (2, 2), 2: (2, 2), 3: (2, 2)}
    cluster.replicas_agree()


def test_b04_a_frozen_broker_is_half_open_and_answers_when_it_thaws(
    cluster: LocalCluster, topic: str, talk_to: Connect, batch: Batch
) -> None:
    """SIGSTOP: connections are made and stay, nothing is answered; afterwards the old
    leader knows that it is none.
    """
    open_before = talk_to(cluster, 1, topic)
    open_before.produce(batch(1))
    cluster.scenes.freeze(1, noticed=True)
    assert cluster.leaders(topic)[0][0] != 1
    request = open_before.produce_request(batch(1), version=8)
    open_before.wire.send(request, 8)
    fresh = talk_to(cluster, 1, topic)  # connects: the kernel accepts
    fresh.wire.send(request, 8)
    open_before.wire.socket.settimeout(0.1)
    with pytest.raises(TimeoutError):
        open_before.wire.receive(request, 8)
    cluster.scenes.thaw(1)
    for talk in (open_before, fresh):
        talk.wire.socket.settimeout(GENEROUS_S)
        assert talk.wire.receive(request, 8).responses[0].partition_responses[0].error_code == 6
    assert ends(cluster, topic) == {1: (1, 1), 2: (1, 1), 3: (1, 1)}


def test_a_frozen_broker_can_be_stopped_and_killed(cluster: LocalCluster, topic: str) -> None:
    for end in (cluster.stop_broker, cluster.kill):
        cluster.scenes.freeze(2, noticed=True)
        end(2)
        cluster.start_broker(2)
        assert leader_reported_by(cluster, 2, topic)[0] == 1, "it answers again"
        cluster.replicas_agree()


def test_stale_metadata_until_reported(
    cluster: LocalCluster, topic: str, talk_to: Connect, batch: Batch
) -> None:
    before = cluster.leaders(topic)[0]
    cluster.scenes.hold_metadata(1)
    cluster.move_leader(topic, 0, 2)
    assert leader_reported_by(cluster, 1, topic) == before
    assert leader_reported_by(cluster, 2, topic) == (2, before[1] + 1)
    talk_to(cluster, 2, topic).produce(batch(1), acks=1)
    cluster.scenes.release_metadata(1)
    assert leader_reported_by(cluster, 1, topic) == (2, before[1] + 1)
    assert ends(cluster, topic) == {1: (1, 1), 2: (1, 1), 3: (1, 1)}
    cluster.replicas_agree()


# -- followers that are late -----------------------------------------------------------------------


def test_a_follower_behind_by_records_holds_the_high_watermark(
    cluster: LocalCluster, topic: str, talk_to: Connect, batch: Batch
) -> None:
    leader = talk_to(cluster, 1, topic)
    cluster.scenes.lag(3, 2)
    for _ in range(5):
        leader.produce(batch(1), acks=1)
    assert ends(cluster, topic) == {1: (3, 5), 2: (3, 5), 3: (3, 3)}
    assert offsets_of(leader.fetch(0).records) == [0, 1, 2]
    assert leader.offset(LATEST).offset == 3
    assert cluster.replicas_agree().agrees
    cluster.scenes.catch_up(3)
    assert ends(cluster, topic) == {1: (5, 5), 2: (5, 5), 3: (5, 5)}


def test_lag_behind_one_leader_only(
    cluster: LocalCluster, topic: str, talk_to: Connect, batch: Batch
) -> None:
    cluster.scenes.lag(3, leader=1)
    talk_to(cluster, 1, topic).produce(batch(1), acks=1)
    assert ends(cluster, topic)[3] == (0, 0)
    cluster.move_leader(topic, 0, 2)
    assert ends(cluster, topic)[3] == (1, 1), "it copies from broker 2 without delay"
    cluster.replicas_agree()


@pytest.mark.parametrize(("release", "code"), [("2.4", 20), ("3.6", 20), ("3.7", 7), ("3.9", 7)])
def test_min_insync_replicas_before_and_after_the_append(
    release: str, code: int, talk_to: Connect, batch: Batch
) -> None:
    """19 when there are too few before; 20 when they are lost while the producer
    waits, or nothing since 3.7.
    """
    with LocalCluster(brokers=3, release=release) as cluster:
        cluster.create_topic("events", configs={"min.insync.replicas": "2"})
        if cluster.leaders("events")[0][0] != 1:
            cluster.move_leader("events", 0, 1)
        leader = talk_to(cluster)
        cluster.scenes.lag(2)
        cluster.scenes.lag(3)
        timeout_ms = GENEROUS_MS if code == 20 else 300  # 7 is said when the time is over
        request = leader.produce_request(batch(1), version=7, timeout_ms=timeout_ms)
        leader.wire.send(request, 7)
        while ends(cluster, "events")[1] != (0, 1):
            pass
        cluster.scenes.shrink_isr("events", 0, 2)
        cluster.scenes.shrink_isr("events", 0, 3)
        assert (
            leader.wire.receive(request, 7).responses[0].partition_responses[0].error_code == code
        )
        assert ends(cluster, "events")[1] == ((1, 1) if code == 20 else (0, 1)), "KAFKA-15583"
        assert leader.produce(batch(1), version=7).error_code == 19
        assert leader.produce(batch(1), version=7, acks=1).error_code == 0
        cluster.scenes.catch_up()
        assert set(cluster.isr("events")[0]) == {1, 2, 3}
        assert leader.produce(batch(1), version=7).base_offset == 2
        cluster.replicas_agree()


@pytest.mark.parametrize(
    ("release", "leader_dies", "follower_dies"),
    [("2.4", 2, 1), ("3.3", 1, 1), ("3.6", 1, 0), ("4.3", 1, 0)],
)
def test_b08_leader_epochs_rise_as_the_release_has_it(
    release: str, leader_dies: int, follower_dies: int
) -> None:
    """Broker 1 is the controller too. Measured at 2.4.1 and 3.9.1, in tests/real."""
    with LocalCluster(brokers=3, release=release) as cluster:
        cluster.create_topic("events")
        if cluster.leaders("events")[0][0] != 1:
            cluster.move_leader("events", 0, 1)
        epoch = cluster.leaders("events")[0][1]
        cluster.kill(3)
        assert cluster.leaders("events")[0] == (1, epoch + follower_dies)
        cluster.start_broker(3)
        epoch = cluster.leaders("events")[0][1]
        cluster.kill(1)
        assert cluster.leaders("events")[0][1] == epoch + leader_dies
        cluster.replicas_agree()


async def test_followers_leave_and_brokers_are_missed_when_the_clock_says_so(batch: Batch) -> None:
    clock = ManualClock()
    settings = ClusterSettings(replica_lag_time_max_ms=30_000, broker_session_timeout_ms=9_000)
    async with AsyncLocalCluster(3, "3.9", clock=clock, settings=settings, seed=1) as cluster:
        cluster.create_topic("events")
        cluster.move_leader("events", 0, 1)
        cluster.scenes.lag(3)
        await clock.advance(30_000)
        assert set(cluster.isr("events")[0]) == {1, 2, 3}, "nothing was appended: it is not behind"
        cluster.scenes.lag(3)
        data = batch(1)
        cluster.state.append(
            cluster.state.replication.brokers[1].find("events", 0),
            [Prepared(data, read_facts(data))],
            now_ms=0,
        )
        await clock.advance(29_999)
        assert set(cluster.isr("events")[0]) == {1, 2, 3}
        await clock.advance(1)
        assert set(cluster.isr("events")[0]) == {1, 2}
        await cluster.scenes.isolate(2, noticed=False)
        await clock.advance(8_999)
        assert 2 in cluster.state.image.brokers
        await clock.advance(2)
        assert 2 not in cluster.state.image.brokers
        await cluster.scenes.heal()
        cluster.scenes.catch_up()
        assert set(cluster.isr("events")[0]) == {1, 2, 3}
        cluster.replicas_agree()


# -- elections -------------------------------------------------------------------------------------


def test_preferred_election(cluster: LocalCluster, topic: str) -> None:
    first = cluster._cluster.state.image.topics[topic].partitions[0].replicas[0]
    cluster.move_leader(topic, 0, first % 3 + 1)
    epoch = cluster.leaders(topic)[0][1]
    assert cluster.scenes.elect_preferred(topic, 0) == [(topic, 0)]
    assert cluster.leaders(topic)[0] == (first, epoch + 1)
    assert cluster.scenes.elect_preferred(topic) == [], "it leads already"
    with pytest.raises(ConfigError, match="no partition"):
        cluster.scenes.elect_preferred(topic, 7)


def test_b08_an_unclean_election_loses_what_it_names(
    cluster: LocalCluster, topic: str, talk_to: Connect, batch: Batch
) -> None:
    """The leader dies with records that only it has; who is behind leads, and
    the old one cuts its log.
    """
    leader = talk_to(cluster, 1, topic)
    leader.produce(batch(5))
    cluster.scenes.lag(2, in_sync=False)
    cluster.scenes.lag(3, in_sync=False)
    assert cluster.isr(topic)[0] == (1,)
    for _ in range(3):
        assert leader.produce(batch(1)).error_code == 0, "acknowledged by all that are in sync"
    epoch = cluster.leaders(topic)[0][1]
    cluster.kill(1)
    assert cluster.leaders(topic)[0] == (-1, epoch + 1)
    cluster.scenes.catch_up()
    lost = cluster.scenes.elect_unclean(topic, 0, 2)
    assert (lost.first_offset, lost.next_offset, lost.records) == (5, 8, 3)
    assert cluster.leaders(topic)[0] == (2, epoch + 2)
    new = talk_to(cluster, 2, topic)
    assert new.produce(batch(1, size=30)).base_offset == 5
    assert cluster.replicas_agree().lost[-1] == lost

    cluster.start_broker(1)
    assert ends(cluster, topic) == {1: (6, 6), 2: (6, 6), 3: (6, 6)}, (
        "the old leader's 5 to 7 are gone"
    )
    assert set(cluster.isr(topic)[0]) == {1, 2, 3}
    cluster.replicas_agree()


def test_c09_exactly_k_records_are_lost_on_request(
    cluster: LocalCluster, topic: str, talk_to: Connect, batch: Batch
) -> None:
    leader = talk_to(cluster, 1, topic)
    for _ in range(10):
        leader.produce(batch(1))
    lost = cluster.scenes.elect_unclean(topic, 0, lose=4)
    assert (lost.first_offset, lost.next_offset) == (6, 10)
    new = cluster.leaders(topic)[0][0]
    assert new != 1
    assert ends(cluster, topic) == {1: (6, 6), 2: (6, 6), 3: (6, 6)}
    assert offsets_of(talk_to(cluster, new, topic).fetch(0).records) == [0, 1, 2, 3, 4, 5]
    assert cluster.replicas_agree().lost[-1] == lost


@pytest.mark.parametrize("when", ["others live", "one returns", "it is allowed later"])
def test_topics_may_allow_unclean_elections(when: str, talk_to: Connect, batch: Batch) -> None:
    """The last in-sync replica dies; another that lives or returns leads without its records."""
    name, allowed = "events", {"unclean.leader.election.enable": "true"}
    with LocalCluster(brokers=3, release="3.9") as cluster:
        cluster.create_topic(name, configs={} if when == "it is allowed later" else allowed)
        cluster.create_topic("strict")
        for topic in (name, "strict"):
            if cluster.leaders(topic)[0][0] != 1:
                cluster.move_leader(topic, 0, 1)
        leader = talk_to(cluster, 1, name)
        leader.produce(batch(5))
        for follower in (2, 3):
            cluster.scenes.lag(follower, in_sync=False)
        leader.produce(batch(3))
        epoch = cluster.leaders(name)[0][1]
        if when == "one returns":
            cluster.kill(2)
            cluster.kill(3)
        cluster.kill(1)
        if when == "others live":
            assert cluster.leaders(name)[0] == (2, epoch + 1)
        else:
            assert cluster.leaders(name)[0] == (-1, epoch + 1)
            if when == "one returns":
                cluster.start_broker(2)
            else:
                cluster._cluster.state.alter_topic(name, allowed, now_ms=0)
            assert cluster.leaders(name)[0] == (2, epoch + 2)
        assert cluster.leaders("strict")[0][0] == -1
        assert [one.records for one in cluster.check_replicas().lost] == [3]
        cluster.scenes.catch_up()
        assert talk_to(cluster, 2, name).produce(batch(1)).base_offset == 5
        cluster.start_broker(1)
        assert ends(cluster, name)[1] == (6, 6), "what it alone had is gone"
        cluster.replicas_agree()


def test_an_unclean_election_without_a_candidate_says_what_to_do(
    cluster: LocalCluster, topic: str
) -> None:
    with pytest.raises(ConfigError, match="lose=N"):
        cluster.scenes.elect_unclean(topic)
    with pytest.raises(ConfigError, match="move_leader"):
        cluster.scenes.elect_unclean(topic, 0, 2)
    with pytest.raises(ConfigError, match="no replica"):
        cluster.scenes.elect_unclean(topic, 0, 9)
    with pytest.raises(ConfigError, match="hold it back"):
        cluster.scenes.shrink_isr(topic, 0, 2)


# -- the check itself ------------------------------------------------------------------------------


def test_the_check_finds_other_bytes_a_short_log_and_a_lost_record(
    talk_to: Connect, batch: Batch
) -> None:
    with LocalCluster(brokers=2, release="3.9") as cluster:
        cluster.create_topic("events", replication_factor=2)
        cluster.move_leader("events", 0, 1)
        leader = talk_to(cluster, 1)
        for _ in range(3):
            leader.produce(batch(1))
        replicas = [
            b.find("events", 0) for b in cluster._cluster.state.replication.brokers.values()
        ]
        first, second = replicas
        second.truncate_to(2)
        with pytest.raises(DataLossError, match=r"broker 2 ends at 2, its leader 1 at 3"):
            cluster.replicas_agree()
        facts, data = next(iter(first.log.batches_from(2)))
        other = bytearray(data)
        other[-1] ^= 1
        second.replicate(((facts,), bytes(other)), leader_epoch=facts.leader_epoch, now_ms=0)
        with pytest.raises(DataLossError, match=r"other bytes than its leader 1 from offset 2 on"):
            cluster.replicas_agree()
        for replica in replicas:
            replica.truncate_to(1)
        with pytest.raises(
            DataLossError, match=r"acknowledged batch at offset 1 is not on the leader"
        ):
            cluster.replicas_agree()
