"""Y6: topics and partitions of a target as the plan says, while records are copied, too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from parley.client import AclOperation, Client, NewTopic
from parley.devcluster import ClusterSettings, LocalCluster
from parley.devcluster.handlers import h03_metadata
from parley.errors import ConfigError
from parley.pipelines.replication import AsyncReplication

from ..support import GENEROUS_S, eventually_async
from .sides import TOPIC, client, connection, kept, options, read, write

MANUAL = ClusterSettings(auto_create_topics=False)


@pytest.fixture
def source() -> Iterator[LocalCluster]:
    with LocalCluster(3, "2.8", settings=MANUAL) as cluster:
        yield cluster


@pytest.fixture
def target() -> Iterator[LocalCluster]:
    with LocalCluster(2, "4.3", settings=MANUAL) as cluster:
        yield cluster


def topics(cluster: LocalCluster) -> set[str]:
    with client(cluster) as looking:
        return set(looking.metadata().topics)


def create(cluster: LocalCluster, name: str, partitions: int, **configs: str) -> None:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    with client(cluster) as creating:
        creating.create_topics([NewTopic(name, partitions, 2, named)])


async def test_a_plan_is_shown_and_changes_nothing_until_it_is_carried_out(
    source: LocalCluster, target: LocalCluster
) -> None:
    create(source, TOPIC, 3, retention_ms="86400000", cleanup_policy="compact,delete")
    create(target, "other", 1)
    async with AsyncReplication(connection(source), connection(target), options()) as made:
        (found,) = (await made.plan()).create
        assert found == NewTopic(
            TOPIC, 3, 2, {"cleanup.policy": "compact,delete", "retention.ms": "86400000"}
        )
        assert topics(target) == {"other"}
        await made.run(until_caught_up=True)
        assert topics(target) >= {"other", TOPIC, "to-new-offsets"}
        again = await made.plan()
        assert (again.create, again.add_partitions) == ((), {})


async def test_a_plan_says_which_topics_have_records_of_others(
    source: LocalCluster, target: LocalCluster
) -> None:
    for cluster in (source, target):
        create(cluster, TOPIC, 1)
        write(cluster, range(7))
    async with AsyncReplication(connection(source), connection(target), options()) as made:
        (found,) = [one for one in (await made.plan()).findings if one.code == "not-empty"]
        assert (found.topic, found.stops) == (TOPIC, False)
        assert "7 offsets in use that this replication did not write" in found.text
        await made.run(until_caught_up=True)
        assert "not-empty" not in [one.code for one in (await made.plan()).findings]


async def test_what_stands_in_the_way_is_said_before_anything_is_changed(
    source: LocalCluster, target: LocalCluster
) -> None:
    create(source, TOPIC, 3)
    create(target, TOPIC, 1, message_timestamp_type="LogAppendTime")
    async with AsyncReplication(connection(source), connection(target), options()) as made:
        with pytest.raises(ConfigError, match=r"overwrites timestamps.*\[timestamps\]"):
            await made.run(until_caught_up=True)
    assert topics(target) == {TOPIC}
    with client(target) as looking:
        assert len(looking.metadata([TOPIC]).topics[TOPIC].partitions) == 1
    write(source, range(30))
    accepting = options(accept=["timestamps"])
    async with AsyncReplication(connection(source), connection(target), accepting) as made:
        await made.run(until_caught_up=True)
    assert kept(read(source, 3), ("key", "value")) == kept(read(target, 3), ("key", "value"))


async def test_partitions_and_topics_that_come_later_are_followed(
    source: LocalCluster, target: LocalCluster
) -> None:
    create(source, TOPIC, 2)
    write(source, range(100))
    given = options(topics=(), topics_pattern="flights.*", refresh_interval_ms=50)
    made = AsyncReplication(connection(source), connection(target), given)
    async with made:
        copying = asyncio.ensure_future(made.run())
        await eventually_async(lambda: TOPIC in topics(target))
        source.add_partitions(TOPIC, 4)
        create(source, "flights-of-today", 1)
        write(source, range(100, 300))
        write(source, range(50), topic="flights-of-today")
        await eventually_async(
            lambda: "flights-of-today" in topics(target) and len(every(target)) == 350
        )
        made.stop()
        await asyncio.wait_for(copying, GENEROUS_S)
    assert kept(read(source, 4)) == kept(read(target, 4))


def every(cluster: LocalCluster) -> list[object]:
    """Return all records of both topics; none while a partition is still missing."""
    with Client(connection(cluster)) as looking:
        partitions = looking.metadata([TOPIC]).topics[TOPIC].partitions
    if len(partitions) < 4:
        return []
    found = read(cluster, 4) + read(cluster, 1, topic="flights-of-today")
    return [row for rows in found for row in rows]


async def test_a_topic_that_the_source_lacks_is_an_error(
    source: LocalCluster, target: LocalCluster
) -> None:
    async with AsyncReplication(connection(source), connection(target), options()) as made:
        with pytest.raises(ConfigError, match=f"the source has no topic {TOPIC}"):
            await made.plan()


async def test_the_same_cluster_is_no_target(source: LocalCluster) -> None:
    create(source, TOPIC, 1)
    async with AsyncReplication(connection(source), connection(source), options()) as made:
        with pytest.raises(ConfigError, match="the same cluster"):
            await made.run(until_caught_up=True)


async def test_a_right_that_is_missing_stops_before_anything_is_changed(
    source: LocalCluster, target: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(source, TOPIC, 3)
    create(source, "new", 1)
    create(target, TOPIC, 2)
    reads_and_describes = 1 << AclOperation.READ | 1 << AclOperation.DESCRIBE
    monkeypatch.setattr(h03_metadata, "TOPIC_OPERATIONS", reads_and_describes)
    wanted = options(topics=[TOPIC, "new"])
    async with AsyncReplication(connection(source), connection(target), wanted) as made:
        assert [(one.topic, one.stops, one.text) for one in (await made.plan()).rights] == [
            (None, False, "the source's user may Read and Describe 2 topics"),
            (TOPIC, True, "the target's user may not Write and Alter it, and needs Write, Describe "
             "and Alter: add ACLs"),
        ]  # fmt: skip
        with pytest.raises(ConfigError, match=rf"{TOPIC}: .* may not Write and Alter .*\[rights\]"):
            await made.run(until_caught_up=True)
        assert topics(target) == {TOPIC}
    accepting = options(topics=[TOPIC, "new"], accept=["rights"])
    async with AsyncReplication(connection(source), connection(target), accepting) as made:
        await made.run(until_caught_up=True)
        assert topics(target) >= {TOPIC, "new"}
