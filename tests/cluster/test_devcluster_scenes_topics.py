"""Scenes of topics in the embedded cluster: made again, more partitions, records deleted
on request or by retention.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from parley.devcluster import AsyncLocalCluster, ClusterSettings, LocalCluster
from parley.devcluster.state.log.batches import read_facts
from parley.devcluster.state.log.replica import Prepared
from parley.devcluster.state.refused import Refused
from parley.errors import ConfigError
from parley.net import ManualClock
from parley.records import offsets_of

from .conftest import NAMES

Talk = Any  # a connection and the requests of these tests: tests/cluster/conftest.py
Connect = Callable[..., Talk]
Batch = Callable[..., bytes]


@pytest.mark.parametrize("partitions", [2, 3, 5])
def test_a_topic_made_again_is_another(cluster: LocalCluster, partitions: int) -> None:
    """The same number of partitions, more, and fewer, from 3."""
    name = next(NAMES)
    cluster.create_topic(name, 3, configs={"min.insync.replicas": "2"})
    before = cluster._cluster.state.image.topics[name]
    cluster.move_leader(name, 0, before.partitions[0].replicas[1])
    cluster.scenes.recreate_topic(name, partitions)
    after = cluster._cluster.state.image.topics[name]
    assert after.topic_id != before.topic_id
    assert cluster.leaders(name).keys() == set(range(partitions))
    assert {epoch for _, epoch in cluster.leaders(name).values()} == {0}
    assert after.configs == before.configs
    cluster.replicas_agree()
    cluster.delete_topic(name)


def test_recreation_and_new_partitions_spread_as_reported(
    cluster: LocalCluster, topic: str
) -> None:
    first = cluster._cluster.state.image.topics[topic].topic_id
    cluster.scenes.recreate_topic(topic, unaware=[3])
    seen = {
        b.id: b.image.topics[topic].topic_id
        for b in cluster._cluster.state.replication.brokers.values()
    }
    assert seen[3] == first
    assert seen[1] == seen[2] != first
    cluster.scenes.release_metadata()
    cluster.add_partitions(topic, 4, unaware=[1])
    reported = {
        b.id: len(b.image.topics[topic].partitions)
        for b in cluster._cluster.state.replication.brokers.values()
    }
    assert reported == {1: 1, 2: 4, 3: 4}
    with pytest.raises(ConfigError, match="larger total"):
        cluster.add_partitions(topic, 4)
    cluster.scenes.release_metadata()
    cluster.replicas_agree()


def test_records_deleted_below_an_offset(
    cluster: LocalCluster, topic: str, talk_to: Connect, batch: Batch
) -> None:
    leader = talk_to(cluster, 1, topic)
    for _ in range(5):
        leader.produce(batch(1))
    assert cluster.delete_records(topic, 0, 3) == 3
    assert leader.fetch(2).error_code == 1
    assert offsets_of(leader.fetch(3).records) == [3, 4]
    assert cluster.replicas_agree().agrees, "what was deleted on request is not missed"
    with pytest.raises(ConfigError, match="no offset"):
        cluster.delete_records(topic, 0, 99)


def test_a_topic_that_keeps_no_bytes_is_emptied(
    cluster: LocalCluster, topic: str, talk_to: Connect, batch: Batch
) -> None:
    name = f"{topic}-empty"
    cluster.create_topic(name, configs={"retention.bytes": "0"})
    leader = talk_to(cluster, cluster.leaders(name)[0][0], name)
    assert leader.produce(batch(3)).base_offset == 0
    assert cluster.apply_retention() == {name: {0: 3}}
    assert leader.produce(batch(1)).base_offset == 3
    cluster.delete_topic(name)


async def test_topics_inherit_the_retention_of_brokers(batch: Batch) -> None:
    """The leader's own before that of all brokers, and a topic's own before both."""
    async with AsyncLocalCluster(2, "3.9", clock=ManualClock(), seed=1) as cluster:
        rolled = {"segment.bytes": str(len(batch(1)) + 10)}
        cluster.create_topic("inheriting", partitions=2, replication_factor=1, configs=rolled)
        cluster.create_topic(
            "own", replication_factor=1, configs={"retention.bytes": "-1", **rolled}
        )
        cluster.create_topic(
            "compacted", replication_factor=1, configs={"cleanup.policy": "compact", **rolled}
        )
        for topic in cluster.state.image.topics:
            for partition, (leader, _) in cluster.leaders(topic).items():
                replica, data = (
                    cluster.state.replication.brokers[leader].find(topic, partition),
                    batch(1),
                )
                for _ in range(5):
                    cluster.state.append(replica, [Prepared(data, read_facts(data))], now_ms=1)
        assert cluster.apply_retention() == {}
        cluster.state.configs.alter_broker("", {"log.retention.bytes": str(3 * len(batch(1)))})
        kept_whole, _ = cluster.leaders("inheriting")[0]
        cluster.state.configs.alter_broker(str(kept_whole), {"log.retention.bytes": "-1"})
        assert cluster.apply_retention() == {"inheriting": {1: 2}}
        with pytest.raises(Refused, match=r"retention\.bytes"):
            cluster.state.configs.alter_broker("", {"log.retention.bytes": "much"})


async def test_retention_passes_by_the_clock(batch: Batch) -> None:
    """Whole segments, from the front; what sets no retention of its own stays."""
    clock = ManualClock()
    settings = ClusterSettings(start_time_ms=1_000_000)
    async with AsyncLocalCluster(2, "3.9", clock=clock, settings=settings, seed=1) as cluster:
        rolled = {"segment.bytes": str(len(batch(1)) + 10)}
        for name, configs in (
            ("timed", {"retention.ms": "60000", **rolled}),
            ("sized", {"retention.bytes": str(3 * len(batch(1)) - 1), **rolled}),
            ("compacted", {"retention.ms": "60000", "cleanup.policy": "compact", **rolled}),
            ("kept", rolled),
        ):
            cluster.create_topic(name, replication_factor=2, configs=configs)

        def fill(timestamp_ms: int) -> None:
            data = batch(1, timestamp_ms=timestamp_ms)
            for name in cluster.state.image.topics:
                leader = cluster.state.replication.brokers[cluster.leaders(name)[0][0]].find(
                    name, 0
                )
                cluster.state.append(
                    leader, [Prepared(data, read_facts(data))], now_ms=timestamp_ms
                )

        for seconds in range(5):
            fill(1_000_000 + 10_000 * seconds)
        assert cluster.apply_retention() == {"sized": {0: 2}}, (
            "without two segments there are still as many bytes"
        )
        await clock.advance(80_000)
        assert cluster.apply_retention() == {"timed": {0: 2}}, "the records of the first 20 seconds"
        await clock.advance(settings.log_retention_check_interval_ms)
        starts = {
            name: {
                b.find(name, 0).log.start_offset for b in cluster.state.replication.brokers.values()
            }
            for name in cluster.state.image.topics
        }
        assert starts == {"timed": {5}, "sized": {2}, "compacted": {0}, "kept": {0}}, (
            "the last segment as well"
        )
        fill(1_400_000)
        cluster.replicas_agree()
        with pytest.raises(ConfigError, match=r"Invalid value x for configuration retention\.ms"):
            cluster.create_topic("wrong", configs={"retention.ms": "x"})
