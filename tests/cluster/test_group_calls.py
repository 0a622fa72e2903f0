"""What the cluster does to groups by its clock, or when asked to: offsets expire
(H20), members are expired.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from parley.client import AsyncConsumer, Client, ConsumerRebalanceListener, TopicPartition
from parley.devcluster import ClusterSettings, LocalCluster
from parley.errors import ConfigError

from ..support import Polling, evenly_shared, eventually, eventually_async

TOPIC, GROUP = "events", "readers"
DAY_MS = 24 * 60 * 60 * 1000
CHECK_MS = ClusterSettings().offsets_retention_check_interval_ms
QUICK = ClusterSettings(
    group_consumer_heartbeat_interval_ms=50, group_consumer_assignment_interval_ms=0
)


def committed(client: Client) -> int | None:
    found = client.committed_offsets(GROUP, [TopicPartition(TOPIC, 0)])[TopicPartition(TOPIC, 0)]
    return None if found is None else found.offset


def groups(client: Client) -> list[str]:
    return [one.group_id for one in client.list_groups()]


@pytest.mark.parametrize(("release", "days"), [("1.1", 1), ("2.0", 7), ("4.3", 7)])
def test_h20_offsets_are_kept_as_long_as_the_release_keeps_them(release: str, days: int) -> None:
    with (
        LocalCluster(brokers=1, release=release) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        cluster.create_topic(TOPIC)
        client.commit_offsets(GROUP, {TopicPartition(TOPIC, 0): 3})
        assert cluster.groups.expire_offsets() == {}
        cluster.advance(days * DAY_MS - CHECK_MS)
        assert committed(client) == 3
        cluster.advance(2 * CHECK_MS)
        eventually(lambda: committed(client) is None)
        assert groups(client) == []


def test_h20_the_time_is_kept_through_a_restart(tmp_path: Path) -> None:
    settings = ClusterSettings(offsets_retention_minutes=1)
    for life in range(2):
        with (
            LocalCluster(brokers=1, data_dir=tmp_path, settings=settings) as cluster,
            Client(bootstrap_servers=cluster.bootstrap_servers) as client,
        ):
            if not life:
                cluster.create_topic(TOPIC)
                client.commit_offsets(GROUP, {TopicPartition(TOPIC, 0): 3})
                continue
            assert committed(client) == 3
            cluster.advance(60_000)
            assert cluster.groups.expire_offsets() == {GROUP: {TOPIC: [0]}}
            assert groups(client) == []


async def test_h20_an_empty_group_counts_from_its_last_member(tmp_path: Path) -> None:
    """Also after a restart: when it became Empty is in the journal."""
    settings = ClusterSettings(offsets_retention_minutes=60)
    with LocalCluster(brokers=1, data_dir=tmp_path, settings=settings) as cluster:
        cluster.create_topic(TOPIC)
        async with AsyncConsumer(
            bootstrap_servers=cluster.bootstrap_servers, group_id=GROUP, session_timeout_ms=300_000
        ) as consumer:
            consumer.subscribe([TOPIC])
            polling = Polling(consumer)
            await evenly_shared(1, polling)
            await polling.stop()
            await consumer.commit({TopicPartition(TOPIC, 0): 3})
            committed_ms = cluster._cluster.now_ms
    with LocalCluster(brokers=1, data_dir=tmp_path, settings=settings) as cluster:
        group = cluster._cluster.state.classic_groups.get(GROUP)
        assert group is not None
        assert group.empty_since_ms >= committed_ms
        cluster.advance(3_600_000 - 60_000)
        assert cluster.groups.expire_offsets() == {}
        cluster.advance(60_000)
        assert cluster.groups.expire_offsets() == {GROUP: {TOPIC: [0]}}
        assert cluster._cluster.state.classic_groups.get(GROUP) is None


class Lost(ConsumerRebalanceListener):
    """Counts the partitions that were lost."""

    def __init__(self) -> None:
        self.partitions = 0

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self.partitions += len(lost)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_member_is_expired_on_request_and_comes_back(protocol: str) -> None:
    with LocalCluster(brokers=2, release="4.3", settings=QUICK) as cluster:
        cluster.create_topic(TOPIC, 4)
        options = {"heartbeat_interval_ms": 50} if protocol == "classic" else {}
        lost = Lost()
        both = [
            AsyncConsumer(
                bootstrap_servers=cluster.bootstrap_servers,
                group_id=GROUP,
                group_protocol=protocol,
                **options,
            )
            for _ in range(2)
        ]
        for consumer, listener in zip(both, (lost, None), strict=True):
            await consumer.start()
            consumer.subscribe([TOPIC], listener=listener)
        polling = [Polling(consumer) for consumer in both]
        await evenly_shared(4, *polling)
        with pytest.raises(ConfigError, match="no member 'nobody'"):
            cluster.groups.expire_member(GROUP, "nobody")
        with pytest.raises(ConfigError, match="no group 'other'"):
            cluster.groups.expire_member("other", "nobody")
        cluster.groups.expire_member(GROUP, both[0].group_metadata().member_id)
        await eventually_async(lambda: lost.partitions == 2)
        await evenly_shared(4, *polling)
        for one, consumer in zip(polling, both, strict=True):
            await one.stop()
            await consumer.stop()
