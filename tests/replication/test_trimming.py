"""The map of offsets forgets what the source has deleted, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from parley.client import TopicPartition
from parley.devcluster import LocalCluster
from parley.pipelines.replication import AsyncReplication, chunks
from parley.pipelines.replication.store import read_newest

from ..support import GENEROUS_S, eventually_async
from .sides import NAME, TOPIC, connection, options, read, write

Sides = tuple[LocalCluster, LocalCluster]
TP = TopicPartition(TOPIC, 0)


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sides]:
    """Two clusters, and chunks of two runs: each transaction makes a run."""
    monkeypatch.setattr(chunks, "CHUNK_RUNS", 2)
    with LocalCluster(1, "3.9") as source, LocalCluster(1, "4.3") as target:
        source.create_topic(TOPIC, partitions=1)
        yield source, target


def replication(both: Sides) -> AsyncReplication:
    return AsyncReplication(connection(both[0]), connection(both[1]), options())


async def copy(both: Sides, rounds: int) -> None:
    for _ in range(rounds):
        write(both[0], range(10))
        async with replication(both) as made:
            await made.run(until_caught_up=True)


async def held(target: LocalCluster) -> list[int]:
    """Return the first offset of each chunk that the target has."""
    looking = AsyncReplication(connection(target), connection(target), options())
    newest = await read_newest(looking.target, f"{NAME}-offsets", isolation_level="read_committed")
    await looking.close()
    keys = [key.split(b"/") for key, value in newest.items() if value is not None]
    return sorted(int(key[2]) for key in keys if len(key) == 3)


async def places(both: Sides, offsets: list[int]) -> list[int]:
    """Return where readers of these offsets go on, as a replication says that begins now."""
    async with replication(both) as made:
        lane = (await made._lanes())[TP]
    found = [lane.map.place(offset) for offset in offsets]
    return [place.offset for place in found if place is not None]


async def test_what_the_source_deleted_is_forgotten_at_the_next_start(both: Sides) -> None:
    source, target = both
    await copy(both, 8)
    assert await held(target) == [0, 20, 40, 60]
    wanted = list(range(50, 80))
    before = await places(both, wanted)
    source.delete_records(TOPIC, 0, 45)  # within the third chunk
    await copy(both, 1)
    assert await held(target) == [40, 60, 80]
    assert await places(both, wanted) == before
    async with replication(both) as made:
        assert (await made.verify()).equal
    source.delete_records(TOPIC, 0, 90)  # the newest chunk has the position, and stays
    await copy(both, 1)
    assert await held(target) == [80]
    async with replication(both) as made:
        assert [one.next_offset for one in await made.status()] == [100]


async def test_a_copy_that_runs_forgets_too(both: Sides) -> None:
    source, target = both
    async with replication(both) as made:
        await made.start()
        copying = asyncio.ensure_future(made.run())
        for round_ in range(1, 9):
            write(source, range(10))
            await eventually_async(lambda: len(read(target, 1)[0]) == 10 * round_)  # noqa: B023
        lane = (await made._lanes())[TP]
        before = len(lane.map)
        end = lane.map.end()
        source.delete_records(TOPIC, 0, 70)
        await made.trim()
        write(source, range(10))
        await eventually_async(lambda: len(read(target, 1)[0]) == 90)
        await eventually_async(lambda: len(lane.map) < before)
        assert lane.map.end() > end
        made.stop()
        await asyncio.wait_for(copying, GENEROUS_S)
    assert min(await held(target)) >= 60
    async with replication(both) as made:
        assert (await made.verify()).equal
