"""Q20: a topic's records once more: order, times, pace, each once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from parley.client import TopicPartition
from parley.devcluster import ClusterSettings, LocalCluster
from parley.errors import (
    ConfigError,
    DataLossError,
    ProducerFencedError,
    TopicRecreatedError,
    UnsupportedVersionError,
)
from parley.pipelines.replay import AsyncReplay, Replay, ReplayOptions

from ..replication.sides import BEGIN, TOPIC, client, connection, kept, read, records, write
from ..support import GENEROUS_S, eventually_async

TO, NAME = "flights-again", "again"
PARTITIONS = 3
MANUAL = ClusterSettings(auto_create_topics=False)
BEGIN_MS = int(BEGIN.timestamp() * 1000)


@pytest.fixture
def clusters() -> Iterator[Any]:
    """Starts clusters with the topic, of the releases it is called with."""
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


def replay(source: LocalCluster, target: LocalCluster | None = None, **given: Any) -> AsyncReplay:
    named = {"name": NAME, "topic": TOPIC, "to": TO, "commit_interval_ms": 50, **given}
    return AsyncReplay(connection(source), connection(target or source), ReplayOptions(**named))


async def replayed(
    source: LocalCluster, target: LocalCluster | None = None, **given: Any
) -> AsyncReplay:
    async with replay(source, target, **given) as made:
        await made.run()
    return made


def origins(rows: list[dict[str, Any]]) -> list[str]:
    """Return where records say that they come from, by the header that is last."""
    found = [row["headers"][-1] for row in rows]
    assert {header["key"] for header in found} <= {"parley-replayed-from"}
    return [header["value"].decode() for header in found]


def without_mark(partitions: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    return [[{**row, "headers": row["headers"][:-1]} for row in rows] for rows in partitions]


@pytest.mark.parametrize(
    ("source_release", "target_release"), [("2.8", "4.3"), ("4.3", "0.11"), ("0.11", "3.9")]
)
async def test_every_record_is_there_again_with_all_it_has(
    clusters: Any, source_release: str, target_release: str
) -> None:
    source, target = clusters(source_release, target_release)
    write(source, range(500))
    await replayed(source, target)
    before, after = read(source, PARTITIONS), read(target, PARTITIONS, topic=TO)
    assert kept(before) == kept(without_mark(after))
    for index, rows in enumerate(after):
        assert origins(rows) == [f"{TOPIC}/{index}/{row['offset']}" for row in before[index]]
    await replayed(source, target)  # it is over: nothing is written again
    assert kept(read(target, PARTITIONS, topic=TO)) == kept(after)


async def test_one_partition_has_all_records_in_the_order_of_their_times(clusters: Any) -> None:
    (cluster,) = clusters("3.9")
    for first in (400, 0, 200):  # written in another order than their times say
        write(cluster, range(first, first + 200))
    await replayed(cluster, partition_by="key", partitions=1)
    (after,) = read(cluster, 1, topic=TO)
    behind = {(row["key"], row["value"], row["timestamp"]) for row in after}
    assert len(after) == len(behind) == 600
    order = [tuple(origin.split("/")) for origin in origins(after)]
    for index in range(PARTITIONS):  # what one partition has stays as it is
        offsets = [int(offset) for _, partition, offset in order if int(partition) == index]
        assert offsets == sorted(offsets)
    reached: dict[str, datetime] = {}
    merged = []
    for row, (_, partition, _) in zip(after, order, strict=True):
        reached[partition] = max(row["timestamp"], reached.get(partition, row["timestamp"]))
        merged.append(reached[partition])
    assert merged == sorted(merged)


async def test_a_key_goes_where_javas_producer_puts_it(clusters: Any) -> None:
    source, target = clusters("2.8", "4.3")
    write(source, range(500))
    target.create_topic(TO, partitions=7)
    target.create_topic("direct", partitions=7)
    write(target, range(500), topic="direct")
    await replayed(source, target, partition_by="key")
    after, direct = read(target, 7, topic=TO), read(target, 7, topic="direct")
    for rows, expected in zip(after, direct, strict=True):
        keyed = [(row["key"], row["value"]) for row in rows if row["key"] is not None]
        assert keyed == [(row["key"], row["value"]) for row in expected if row["key"] is not None]
    assert sum(map(len, after)) == 500


async def test_times_choose_records_and_late_ones_belong_to_them(clusters: Any) -> None:
    (cluster,) = clusters("3.9")
    write(cluster, [*range(500), *range(100, 103)])  # three come late, behind younger ones
    chosen = {"from_timestamp_ms": BEGIN_MS + 100, "until_timestamp_ms": BEGIN_MS + 300}
    await replayed(cluster, **chosen)
    expected = [*range(100, 300), *range(100, 103)]

    def numbers(topic: str) -> list[int]:
        rows = [row for found in read(cluster, PARTITIONS, topic=topic) for row in found]
        return sorted(round(row["timestamp"].timestamp() * 1000) - BEGIN_MS for row in rows)

    assert numbers(TO) == sorted(expected)
    await replayed(cluster, name="strict", to="strict", late_ms=0, **chosen)
    assert numbers("strict") == list(range(100, 300))
    await replayed(cluster, name="none", to="none", from_timestamp_ms=BEGIN_MS + 10**6)
    assert numbers("none") == []


async def test_a_rate_is_not_exceeded_and_speed_keeps_the_gaps(clusters: Any) -> None:
    (cluster,) = clusters("3.9")
    rows = 200
    times = [BEGIN + timedelta(milliseconds=5 * n) for n in range(rows)]
    with client(cluster) as writing:
        columns = {"value": pa.array([b"x" * 100] * rows)}
        columns["timestamp"] = pa.array(times, pa.timestamp("ms", tz="UTC"))
        writing.produce(TOPIC, pa.table(columns))
    begun = time.monotonic()
    await replayed(cluster, bytes_per_second=40_000)
    # 20,000 bytes, of which a twentieth of a second's may go at once
    assert time.monotonic() - begun > 0.4
    begun = time.monotonic()
    await replayed(cluster, name="faster", to="faster", speed=2)
    assert time.monotonic() - begun > 0.49
    before = read(cluster, PARTITIONS)
    for topic in (TO, "faster"):
        assert kept(without_mark(read(cluster, PARTITIONS, topic=topic))) == kept(before)


async def test_what_was_stopped_goes_on_where_it_was(clusters: Any) -> None:
    (cluster,) = clusters("2.8")
    write(cluster, range(2_000))
    async with replay(cluster, bytes_per_second=5_000, commit_interval_ms=20) as made:
        running = asyncio.ensure_future(made.run())
        await eventually_async(lambda: cluster_has(cluster, TO, 100))
        made.stop()
        await asyncio.wait_for(running, GENEROUS_S)
        left = sum(one.lag for one in await made.status())
    assert 0 < left < 2_000
    assert sum(map(len, read(cluster, PARTITIONS, topic=TO))) == 2_000 - left
    async with replay(cluster) as made:
        assert sum(one.lag for one in await made.status()) == left
        await made.run()
        assert [one.lag for one in await made.status()] == [0] * PARTITIONS
    assert kept(without_mark(read(cluster, PARTITIONS, topic=TO))) == kept(
        read(cluster, PARTITIONS)
    )


def cluster_has(cluster: LocalCluster, topic: str, rows: int) -> bool:
    with client(cluster) as looking:
        if topic not in looking.metadata().topics:
            return False
    return sum(map(len, read(cluster, PARTITIONS, topic=topic))) >= rows


async def test_leaders_that_move_change_nothing(clusters: Any) -> None:
    source, target = clusters("2.8", "3.9", brokers=3)
    write(source, range(3_000))
    target.create_topic(TO, partitions=PARTITIONS, replication_factor=3)
    async with replay(source, target, bytes_per_second=8_000, commit_interval_ms=20) as made:
        await made.start()
        running = asyncio.ensure_future(made.run())
        moves = 0
        while not running.done():
            for cluster, topic in ((source, TOPIC), (target, TO)):
                leader, _ = cluster.leaders(topic)[moves % PARTITIONS]
                cluster.move_leader(topic, moves % PARTITIONS, to=leader % 3 + 1)
            target.move_coordinator(NAME, to=moves % 3 + 1)
            moves += 1
            await asyncio.wait([running], timeout=0.02)
        await running
    assert moves > 3
    assert kept(without_mark(read(target, PARTITIONS, topic=TO))) == kept(read(source, PARTITIONS))


async def test_what_was_aborted_is_not_replayed_and_the_end_is_reached(clusters: Any) -> None:
    source, target = clusters("3.9", "4.3")
    with client(source) as writing, writing.transactions.producer("writer") as producer:
        for number in range(6):
            producer.begin_transaction()
            producer.produce(TOPIC, records(range(20 * number, 20 * number + 20)))
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    async with replay(source, target) as made:
        await made.run()
        assert [one.lag for one in await made.status()] == [0] * PARTITIONS
    after = read(target, PARTITIONS, topic=TO)
    assert sum(map(len, after)) == 60
    assert kept(without_mark(after)) == kept(read(source, PARTITIONS))


async def test_a_topic_with_records_is_only_written_on_request(clusters: Any) -> None:
    (cluster,) = clusters("3.9")
    write(cluster, range(50))
    with pytest.raises(ConfigError, match=r"into_live.*\[not-empty\]"):
        await replayed(cluster, to=TOPIC)
    await replayed(cluster, to=TOPIC, into_live=True)
    after = read(cluster, PARTITIONS)
    assert sum(map(len, after)) == 100  # what it wrote itself is not replayed again
    await replayed(cluster, name="third", into_live=True)
    (row, *_) = [row for rows in read(cluster, PARTITIONS, topic=TO) for row in rows[-1:]]
    # what was replayed before keeps the place where it was first
    assert [one["key"] for one in row["headers"]].count("parley-replayed-from") == 1


async def test_another_replay_of_a_name_is_refused(clusters: Any) -> None:
    (cluster,) = clusters("3.9")
    write(cluster, range(50))
    await replayed(cluster)
    begun_with = r'"again" was begun with to=\'flights-again\''
    async with replay(cluster, to="elsewhere") as made:
        with pytest.raises(ConfigError, match=begun_with):
            await made.plan()
    with pytest.raises(ConfigError, match=begun_with):
        await replayed(cluster, to="elsewhere")
    cluster.create_topic("mine-offsets")
    write(cluster, range(5), topic="mine-offsets")
    with pytest.raises(ConfigError, match="does not belong to a replay"):
        await replayed(cluster, name="mine")
    async with replay(cluster, name="unknown") as made:
        with pytest.raises(ConfigError, match=r'no replay "unknown"'):
            await made.status()
    with pytest.raises(ConfigError, match="the source has no topic nowhere"):
        await replayed(cluster, name="new", topic="nowhere")


async def test_a_second_replay_of_a_name_fences_the_first(clusters: Any) -> None:
    (cluster,) = clusters("3.9")
    write(cluster, range(1_000))
    async with replay(cluster, bytes_per_second=1_000, commit_interval_ms=20) as first:
        running = asyncio.ensure_future(first.run())
        await eventually_async(lambda: cluster_has(cluster, TO, 10))
        await replayed(cluster)
        with pytest.raises(ProducerFencedError):
            await asyncio.wait_for(running, GENEROUS_S)
    assert kept(without_mark(read(cluster, PARTITIONS, topic=TO))) == kept(
        read(cluster, PARTITIONS)
    )


async def test_histories_are_not_mixed_and_what_is_gone_is_an_error(clusters: Any) -> None:
    source, target = clusters("3.9", "4.3")
    write(source, range(2_000))
    async with replay(source, target, bytes_per_second=5_000, commit_interval_ms=20) as made:
        running = asyncio.ensure_future(made.run())
        await eventually_async(lambda: cluster_has(target, TO, 10))
        made.stop()
        await asyncio.wait_for(running, GENEROUS_S)
    end = read(source, PARTITIONS)[0][-1]["offset"]
    source.delete_records(TOPIC, 0, end)
    with pytest.raises(DataLossError):
        await replayed(source, target)
    source.delete_topic(TOPIC)
    source.create_topic(TOPIC, partitions=PARTITIONS)
    write(source, range(200))
    with pytest.raises(TopicRecreatedError, match="the source was deleted and created again"):
        await replayed(source, target)


async def test_records_without_timestamps_have_no_times_to_go_by(clusters: Any) -> None:
    source, target = clusters("0.9", "4.3")
    write(source, range(300), headers=False)
    with pytest.raises(ConfigError, match=r"no timestamps.*\[times\]"):
        await replayed(source, target, speed=1)
    await replayed(source, target, timestamp_when_missing=BEGIN_MS)
    before = read(source, PARTITIONS, isolation_level="read_uncommitted")
    after = read(target, PARTITIONS, topic=TO)
    assert kept(before, ("key", "value")) == kept(after, ("key", "value"))
    assert {row["timestamp"] for rows in after for row in rows} == {BEGIN}


async def test_a_target_without_transactions_takes_records_at_least_once(clusters: Any) -> None:
    source, target = clusters("4.3", "0.10.2")
    write(source, range(300))
    with pytest.raises(ConfigError, match=r"\[exactly-once\]"):
        await replayed(source, target, headers="drop")
    with pytest.raises(UnsupportedVersionError):
        await replayed(source, target, headers="drop", accept=["exactly-once"])
    await replayed(source, target, headers="drop", delivery="at-least-once")
    names = ("key", "value", "timestamp")
    after = read(target, PARTITIONS, topic=TO, isolation_level="read_uncommitted")
    assert kept(after, names) == kept(read(source, PARTITIONS), names)


def test_blocking_code_has_the_same(clusters: Any) -> None:
    (cluster,) = clusters("4.3")
    write(cluster, range(200))
    given = ReplayOptions(name=NAME, topic=TOPIC, to=TO)
    with Replay(connection(cluster), connection(cluster), given) as made:
        plan = made.plan()
        assert [(one.name, one.num_partitions) for one in plan.create] == [(TO, PARTITIONS)]
        assert plan.ranges is not None
        assert sum(end - start for start, end in plan.ranges.values()) == 200
        made.run()
        assert sum(one.records for one in made.status()) == 200
        assert made.plan().ranges == {
            TopicPartition(TOPIC, index): (end, end)
            for index, (_, end) in ((tp.partition, found) for tp, found in plan.ranges.items())
        }


@pytest.mark.foreign
async def test_a_foreign_client_reads_what_was_replayed(clusters: Any) -> None:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition as Assigned

    source, target = clusters("2.8", "4.3")
    write(source, range(100))
    await replayed(source, target)
    reading = Consumer(
        {
            "bootstrap.servers": target.bootstrap_servers,
            "group.id": "reading",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    reading.assign([Assigned(TO, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
    found: dict[str, Any] = {}
    ends = 0
    while ends < PARTITIONS:
        message = reading.poll(GENEROUS_S)
        assert message is not None
        if message.error() is not None:
            ends += 1
            continue
        *headers, (name, place) = message.headers()
        assert name == "parley-replayed-from"
        moment = datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC)
        found[place.decode()] = (message.key(), message.value(), moment, headers)
    reading.close()
    assert found == {
        f"{TOPIC}/{index}/{row['offset']}": (
            row["key"],
            row["value"],
            row["timestamp"],
            [(one["key"], one["value"]) for one in row["headers"]],
        )
        for index, rows in enumerate(read(source, PARTITIONS))
        for row in rows
    }
