"""Y1 to Y4, Y7 to Y9: records copied between clusters of any releases, each once, with its map."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pytest

from parley.client import ProduceOptions
from parley.devcluster import ClusterSettings, LocalCluster
from parley.errors import (
    ConfigError,
    DataLossError,
    InvalidTimestampError,
    ProducerFencedError,
    TopicRecreatedError,
    UnsupportedVersionError,
)
from parley.pipelines.replication import AsyncReplication
from parley.pipelines.replication.store import read_known

from ..support import GENEROUS_S, eventually_async
from .sides import KEPT, NAME, TOPIC, client, connection, kept, options, read, write

PARTITIONS = 3
MANUAL = ClusterSettings(auto_create_topics=False)


@pytest.fixture
def clusters() -> Iterator[Any]:
    """Starts two clusters with the topic, of the releases it is called with."""
    with ExitStack() as running:

        def start(*releases: str, brokers: int = 1) -> list[LocalCluster]:
            made = [
                running.enter_context(LocalCluster(brokers, release, settings=MANUAL))
                for release in releases
            ]
            for cluster in made:
                cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=brokers)
            return made

        yield start


async def copy(source: LocalCluster, target: LocalCluster, **given: Any) -> AsyncReplication:
    """Copy until caught up; return the replication, closed."""
    made = AsyncReplication(connection(source), connection(target), options(**given))
    async with made:
        await made.run(until_caught_up=True)
    return made


async def map_of(target: LocalCluster, isolation_level: str = "read_committed") -> dict[Any, int]:
    """Return source partition and offset -> target offset, as it stands in the target."""
    made = AsyncReplication(connection(target), connection(target), options())
    known = await read_known(
        made.target, f"{NAME}-offsets", isolation_level=isolation_level, source_id=None
    )
    await made.close()
    return {
        (tp.partition, run.source + at): run.target + at
        for tp, (runs, *_) in known.copied.items()
        for run in runs
        for at in range(run.records)
    }


def check_map(found: dict[Any, int], source: list[list[Any]], target: list[list[Any]]) -> None:
    """Each record of the source is where the map says, and no other is in the map."""
    assert found == {
        (index, row["offset"]): copied["offset"]
        for index, (rows, copies) in enumerate(zip(source, target, strict=True))
        for row, copied in zip(rows, copies, strict=True)
    }


@pytest.mark.parametrize(
    ("source_release", "target_release"),
    [("2.8", "3.9"), ("4.3", "0.11"), ("0.11", "4.3"), ("1.1", "2.4")],
)
async def test_every_record_arrives_once_with_all_it_has(
    clusters: Any, source_release: str, target_release: str
) -> None:
    source, target = clusters(source_release, target_release)
    write(source, range(500))
    await copy(source, target)
    write(source, range(500, 600))
    await copy(source, target)
    before, after = read(source, PARTITIONS), read(target, PARTITIONS)
    assert kept(before) == kept(after)
    assert sum(map(len, after)) == 600
    check_map(await map_of(target), before, after)


@pytest.mark.parametrize("missing", ["append", "zero", 1_700_000_000_000])
async def test_records_of_the_oldest_release_get_the_timestamps_that_were_chosen(
    clusters: Any, missing: str | int
) -> None:
    source, target = clusters("0.9", "4.3")
    write(source, range(300), headers=False)
    await copy(source, target, timestamp_when_missing=missing)
    before, after = (
        read(source, PARTITIONS, isolation_level="read_uncommitted"),
        read(target, PARTITIONS),
    )
    assert kept(before, ("key", "value")) == kept(after, ("key", "value"))
    times = {round(row["timestamp"].timestamp() * 1000) for rows in after for row in rows}
    if missing == "append":
        assert min(times) > 1_700_000_000_000
    else:
        assert times == {0 if missing == "zero" else missing}
    check_map(await map_of(target), before, after)


async def test_times_that_the_target_refuses_are_named_with_what_helps(clusters: Any) -> None:
    source, target = clusters("3.9", "4.3")
    with client(source) as writing:
        times = pa.array([0, 2**41], pa.int64())
        rows = pa.table({"value": [b"a", b"b"], "timestamp": times})
        writing.produce(TOPIC, rows, 1)
    with pytest.raises(InvalidTimestampError) as raised:
        await copy(source, target)
    notes = "\n".join(raised.value.__notes__)
    assert "message.timestamp.after.max.ms" in notes
    assert f"offsets 0 to 1 of {TOPIC}-1" in notes


async def test_records_that_were_written_without_a_time_keep_none(clusters: Any) -> None:
    source, target = clusters("4.3", "4.3")
    with client(source) as writing:
        rows = pa.table({"value": [b"a", b"b"], "timestamp": pa.array([-1, -1], pa.int64())})
        writing.produce(TOPIC, rows, 0)
    async with AsyncReplication(connection(source), connection(target), options()) as made:
        assert [one.code for one in (await made.plan()).findings] == []
        await made.run(until_caught_up=True)
    assert kept(read(source, PARTITIONS)) == kept(read(target, PARTITIONS))


async def test_a_target_without_transactions_takes_records_at_least_once(clusters: Any) -> None:
    source, target = clusters("4.3", "0.10.2")
    write(source, range(300))
    with pytest.raises(ConfigError, match=r"at-least-once.*\[exactly-once\]"):
        await copy(source, target, headers="drop")
    with pytest.raises(UnsupportedVersionError) as raised:
        await copy(source, target, headers="drop", accept=["exactly-once"])
    assert any("at-least-once" in note for note in raised.value.__notes__)
    with pytest.raises(ConfigError, match=r"\[headers\]"):
        await copy(source, target, delivery="at-least-once")
    await copy(source, target, delivery="at-least-once", headers="drop")
    write(source, range(300, 350))
    await copy(source, target, delivery="at-least-once", headers="drop")
    before = read(source, PARTITIONS)
    after = read(target, PARTITIONS, isolation_level="read_uncommitted")
    names = [name for name in KEPT if name != "headers"]
    assert kept(before, names) == kept(after, names)
    check_map(await map_of(target, "read_uncommitted"), before, after)


async def test_what_the_source_aborted_is_a_hole_in_the_map(clusters: Any) -> None:
    source, target = clusters("3.9", "4.3")
    from .sides import records

    with client(source) as writing, writing.transactions.producer("writer") as producer:
        for number in range(12):
            producer.begin_transaction()
            producer.produce(TOPIC, records(range(20 * number, 20 * number + 20)))
            if number % 3 == 1:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    made = AsyncReplication(connection(source), connection(target), options())
    async with made:
        await made.run(until_caught_up=True)
        assert [one.lag for one in await made.status()] == [0] * PARTITIONS
    before, after = read(source, PARTITIONS), read(target, PARTITIONS)
    assert kept(before) == kept(after)
    assert sum(map(len, after)) == 8 * 20
    check_map(await map_of(target), before, after)


async def test_what_leaders_do_meanwhile_changes_nothing(clusters: Any) -> None:
    source, target = clusters("2.8", "3.9", brokers=3)
    made = AsyncReplication(connection(source), connection(target), options())
    async with made:
        await made.start()
        copying = asyncio.ensure_future(made.run())
        for round_ in range(8):
            write(source, range(200 * round_, 200 * round_ + 200))
            for cluster in (source, target):
                for index in range(PARTITIONS):
                    leader, _ = cluster.leaders(TOPIC)[index]
                    cluster.move_leader(TOPIC, index, to=leader % 3 + 1)
            cluster.move_leader(f"{NAME}-offsets", 0, to=round_ % 3 + 1)
            target.move_coordinator(NAME, to=round_ % 3 + 1)
        await eventually_async(lambda: sum(map(len, read(target, PARTITIONS))) >= 1_600)
        made.stop()
        await asyncio.wait_for(copying, GENEROUS_S)
    before, after = read(source, PARTITIONS), read(target, PARTITIONS)
    assert kept(before) == kept(after)
    check_map(await map_of(target), before, after)


async def test_a_second_copy_fences_the_first(clusters: Any) -> None:
    source, target = clusters("3.9", "4.3")
    first = AsyncReplication(connection(source), connection(target), options())
    async with first:
        copying = asyncio.ensure_future(first.run())
        write(source, range(100))
        await eventually_async(lambda: sum(map(len, read(target, PARTITIONS))) == 100)
        await copy(source, target)
        write(source, range(100, 200))
        with pytest.raises(ProducerFencedError):
            await asyncio.wait_for(copying, GENEROUS_S)
    await copy(source, target)
    assert kept(read(source, PARTITIONS)) == kept(read(target, PARTITIONS))


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
async def test_a_second_copy_ends_the_first_although_nothing_is_to_be_copied(
    clusters: Any, delivery: str
) -> None:
    source, target = clusters("3.9", "4.3")
    given = {"delivery": delivery, "refresh_interval_ms": 10}
    first = AsyncReplication(connection(source), connection(target), options(**given))
    async with first:
        copying = asyncio.ensure_future(first.run())
        write(source, range(100))
        await eventually_async(lambda: first.records == 100)
        await copy(source, target, **given)
        with pytest.raises(ProducerFencedError, match=r"another replication named .* has begun"):
            await asyncio.wait_for(copying, GENEROUS_S)


async def test_histories_of_topics_that_were_made_again_are_not_mixed(clusters: Any) -> None:
    source, target = clusters("3.9", "4.3")
    write(source, range(100))
    await copy(source, target)
    source.delete_topic(TOPIC)
    source.create_topic(TOPIC, partitions=PARTITIONS)
    write(source, range(200))
    with pytest.raises(TopicRecreatedError, match="the source was deleted and created again"):
        await copy(source, target)
    assert sum(map(len, read(target, PARTITIONS))) == 100


async def test_what_the_source_has_deleted_before_it_was_copied_is_an_error(
    clusters: Any,
) -> None:
    source, target = clusters("3.9", "4.3")
    write(source, range(100))
    await copy(source, target)
    write(source, range(100, 300))
    first = read(source, PARTITIONS)[0]
    source.delete_records(TOPIC, 0, first[-10]["offset"])
    with pytest.raises(DataLossError, match="not copied yet"):
        await copy(source, target)
    copied = read(target, PARTITIONS)[0]
    await copy(source, target, on_data_loss="go-on")
    after = read(target, PARTITIONS)
    assert kept([after[0]]) == kept([copied + first[-10:]])
    assert kept(after[1:]) == kept(read(source, PARTITIONS)[1:])


async def test_a_record_that_is_larger_than_a_producers_default_is_copied(clusters: Any) -> None:
    source, target = clusters("3.9", "4.3")
    large = pa.table({"value": [os.urandom(3 * 2**20)]})
    for cluster in (source, target):
        cluster.create_topic("large", configs={"max.message.bytes": str(5 * 2**20)})
    with client(source) as writing:
        writing.produce("large", large, options=ProduceOptions(max_request_size=5 * 2**20))
    await copy(source, target, topics=["large"])
    assert kept(read(source, 1, topic="large")) == kept(read(target, 1, topic="large"))


async def test_two_ways_copy_nothing_back(clusters: Any) -> None:
    old, new = clusters("2.8", "3.9")
    write(old, range(60))
    write(new, range(60, 100))
    for _ in range(2):
        for source, target in ((old, new), (new, old)):
            await copy(source, target, two_way=True)
    for cluster in (old, new):
        values = [row["value"] for rows in read(cluster, PARTITIONS) for row in rows]
        assert sorted(map(str, values)) == sorted(
            str(None if n % 13 == 5 else str(n).encode()) for n in range(100)
        )
