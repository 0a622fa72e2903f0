"""Y5: groups go on in the target with the record that they would have read next at home."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from parley.client import AsyncConsumer, TopicPartition
from parley.devcluster import LocalCluster
from parley.pipelines.replication import AsyncReplication, GroupOffset

from ..support import GENEROUS_S, eventually_async
from .sides import TOPIC, client, connection, options, read, write

PARTITIONS = 2
GROUP = "nightly"


@pytest.fixture(params=[("2.8", "3.9"), ("0.10.1", "4.3"), ("4.3", "2.4")], ids="-".join)
def both(request: pytest.FixtureRequest) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    old, new = request.param
    with LocalCluster(1, old) as source, LocalCluster(1, new) as target:
        source.create_topic(TOPIC, partitions=PARTITIONS)
        yield source, target


def commit(cluster: LocalCluster, offsets: dict[int, int], group: str = GROUP) -> None:
    with client(cluster) as committing:
        committing.alter_group_offsets(
            group, {TopicPartition(TOPIC, index): offset for index, offset in offsets.items()}
        )


def committed(cluster: LocalCluster, group: str = GROUP) -> dict[int, int]:
    wanted = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
    with client(cluster) as looking:
        found = looking.list_group_offsets(group, wanted)
    return {tp.partition: one.offset for tp, one in found.items() if one is not None}


def replication(both: tuple[LocalCluster, LocalCluster], **given: Any) -> AsyncReplication:
    source, target = both
    return AsyncReplication(connection(source), connection(target), options(**given))


def outcomes(found: list[GroupOffset]) -> dict[int, str]:
    return {one.partition.partition: one.outcome for one in found}


def rest(cluster: LocalCluster, offsets: dict[int, int]) -> list[list[bytes | None]]:
    """Return the values that a group still reads, partition by partition."""
    return [
        [row["value"] for row in rows if row["offset"] >= offsets[index]]
        for index, rows in enumerate(read(cluster, PARTITIONS, isolation_level=LEVEL))
    ]


LEVEL = "read_uncommitted"  # 0.10 has no other


async def test_what_is_left_to_read_is_the_same_on_both_sides(
    both: tuple[LocalCluster, LocalCluster],
) -> None:
    source, target = both
    # some transactions of the target, so that its offsets are others
    for first in range(0, 400, 100):
        write(source, range(first, first + 100), headers=False)
        async with replication(both) as made:
            await made.run(until_caught_up=True)
    ends = [len(rows) for rows in read(source, PARTITIONS, isolation_level=LEVEL)]
    for offsets in ({0: 3, 1: 7}, {0: ends[0] // 2, 1: ends[1] - 1}, {0: ends[0], 1: ends[1]}):
        commit(source, offsets)
        async with replication(both) as made:
            shown = await made.translate_groups([GROUP], write=False)
            assert outcomes(shown) == {0: "written", 1: "written"}
            assert committed(target) != offsets or not committed(target)
            found = await made.translate_groups([GROUP])
            assert [one.target_offset for one in found] == [one.target_offset for one in shown]
        assert rest(target, committed(target)) == rest(source, offsets)
    before = committed(target)
    commit(source, {0: 0, 1: ends[1]})
    async with replication(both) as made:
        assert outcomes(await made.translate_groups([GROUP])) == {0: "not-back", 1: "unchanged"}
    assert committed(target) == before


async def test_a_group_that_is_used_in_the_target_is_left_alone(
    both: tuple[LocalCluster, LocalCluster],
) -> None:
    source, target = both
    write(source, range(50), headers=False)
    commit(source, {0: 5})
    async with replication(both) as made:
        await made.run(until_caught_up=True)
        member = AsyncConsumer(
            bootstrap_servers=target.bootstrap_servers,
            group_id=GROUP,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        async with member:
            member.subscribe([TOPIC])
            await asyncio.wait_for(member.getone(), GENEROUS_S)
            assert outcomes(await made.translate_groups()) == {0: "has-members"}
        assert committed(target) == {}
        assert outcomes(await made.translate_groups()) == {0: "written"}
    assert committed(target) == {0: 5}


async def test_a_map_that_is_behind_the_group_takes_the_lower_place_and_says_so(
    both: tuple[LocalCluster, LocalCluster],
) -> None:
    source, target = both
    write(source, range(60), headers=False)
    async with replication(both) as made:
        await made.run(until_caught_up=True)
    ends = [len(rows) for rows in read(source, PARTITIONS, isolation_level=LEVEL)]
    write(source, range(60, 120), headers=False)
    commit(source, {0: ends[0] + 3})
    async with replication(both) as made:
        assert outcomes(await made.translate_groups()) == {0: "behind"}
        assert committed(target) == {0: ends[0]}
        await made.run(until_caught_up=True)
        assert outcomes(await made.translate_groups()) == {0: "written"}
    wanted = rest(source, {0: ends[0] + 3, 1: 0})[0]
    assert rest(target, {0: committed(target)[0], 1: 0})[0] == wanted


async def test_groups_follow_while_records_are_copied(
    both: tuple[LocalCluster, LocalCluster],
) -> None:
    source, target = both
    write(source, range(100), headers=False)
    commit(source, {0: 9, 1: 4})
    commit(source, {0: 2}, "other")
    async with replication(both, groups=[GROUP], groups_interval_ms=30) as made:
        copying = asyncio.ensure_future(made.run())
        await eventually_async(lambda: committed(target) == {0: 9, 1: 4})
        commit(source, {0: 12, 1: 4})
        await eventually_async(lambda: committed(target) == {0: 12, 1: 4})
        made.stop()
        await asyncio.wait_for(copying, GENEROUS_S)
    assert committed(target, "other") == {}
