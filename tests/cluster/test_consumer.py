"""The consumer by assigned partitions against embedded clusters: positions,
commits, records and batches.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import aclosing

import pyarrow as pa
import pytest

from parley.client import (
    AsyncConsumer,
    Client,
    Consumer,
    OffsetAndMetadata,
    TopicPartition,
    record_shape,
)
from parley.devcluster import LocalCluster
from parley.errors import ConfigError, DataLossError, KafkaError, LocalProtocolError
from parley.schema import ApiKey
from parley.versions import Feature

from ..support import GENEROUS_MS, GENEROUS_S

PARTITIONS = 2
COUNT = 200


@pytest.fixture(scope="module", params=["0.9.0.1", "0.10.2", "1.1", "2.4", "2.8", "4.3"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2, release=request.param) as running:
        yield running


@pytest.fixture
def topic(cluster: LocalCluster, request: pytest.FixtureRequest) -> str:
    name = f"t{abs(hash(request.node.nodeid)) % 10**9}"
    cluster.create_topic(name, partitions=PARTITIONS, replication_factor=2)
    rows = pa.table(
        {
            "value": [str(i) for i in range(COUNT)],
            "partition": pa.array([i % PARTITIONS for i in range(COUNT)], pa.int32()),
        }
    )
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        client.produce(name, rows)
    return name


def tps(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in range(PARTITIONS)]


def group(topic: str) -> str:
    return f"group-of-{topic}"


async def test_records_come_in_order_and_positions_follow(
    cluster: LocalCluster, topic: str
) -> None:
    async with AsyncConsumer(
        bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign(tps(topic))
        seen: dict[TopicPartition, list[int]] = {tp: [] for tp in tps(topic)}
        first = await consumer.getone()
        seen[TopicPartition(first.topic, first.partition)].append(first.offset)
        while sum(map(len, seen.values())) < COUNT:
            for tp, records in (
                await consumer.getmany(timeout_ms=GENEROUS_MS, max_records=7)
            ).items():
                assert len(records) <= 7
                seen[tp] += [record.offset for record in records]
                assert await consumer.position(tp) == records[-1].offset + 1
                assert all(
                    int(record.value or b"") == record.offset * 2 + tp.partition
                    for record in records
                )
        assert all(offsets == list(range(COUNT // 2)) for offsets in seen.values())
        assert await consumer.getmany(timeout_ms=0) == {}
        assert {consumer.highwater(tp) for tp in tps(topic)} == {COUNT // 2}


async def test_batches_and_records_may_alternate(cluster: LocalCluster, topic: str) -> None:
    options = {
        "auto_offset_reset": "earliest",
        "shape": record_shape(["offset", "value"]),
        "max_batch_rows": 10,
    }
    async with AsyncConsumer(bootstrap_servers=cluster.bootstrap_servers, **options) as consumer:
        tp = tps(topic)[0]
        consumer.assign([tp])
        offsets = [(await consumer.getone()).offset]
        async with aclosing(consumer.batches()) as batches:
            async for found in batches:
                assert (found.partition, found.batch.schema.names) == (tp, ["offset", "value"])
                offsets += found.batch.column("offset").to_pylist()
                assert await consumer.position(tp) == found.next_offset
                break
        while len(offsets) < COUNT // 2:
            offsets += [
                record.offset
                for record in (await consumer.getmany(timeout_ms=GENEROUS_MS, max_records=3))[tp]
            ]
        assert offsets == list(range(COUNT // 2))


async def test_seek_pause_and_the_ends(cluster: LocalCluster, topic: str) -> None:
    async with AsyncConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        consumer.assign(tps(topic))
        first, second = tps(topic)
        assert await consumer.position(first) == COUNT // 2, "latest is the default"
        await consumer.seek_to_beginning(first)
        consumer.seek(second, 90)
        assert (await consumer.position(first), await consumer.position(second)) == (0, 90)
        consumer.pause(first)
        assert consumer.paused() == {first}
        got = await consumer.getmany(timeout_ms=GENEROUS_MS)
        assert {tp: len(records) for tp, records in got.items()} == {second: 10}
        consumer.resume(first)
        assert (await consumer.getone(first)).offset == 0
        consumer.seek(first, 50)
        assert (await consumer.getone(first)).offset == 50, (
            "what was fetched before the seek is dropped"
        )
        await consumer.seek_to_end()
        assert [await consumer.position(tp) for tp in tps(topic)] == [COUNT // 2] * 2
        assert await consumer.beginning_offsets(tps(topic)) == dict.fromkeys(tps(topic), 0)
        assert await consumer.end_offsets(tps(topic)) == dict.fromkeys(tps(topic), COUNT // 2)
        with pytest.raises(LocalProtocolError, match="not assigned"):
            consumer.seek(TopicPartition("other", 0), 0)
        with pytest.raises(ConfigError, match="offsets start at 0"):
            consumer.seek(first, -1)


async def test_what_is_assigned_again_is_read_and_the_rest_forgotten(
    cluster: LocalCluster, topic: str
) -> None:
    async with AsyncConsumer(
        bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        first, second = tps(topic)
        with pytest.raises(LocalProtocolError, match="nothing is assigned"):
            await consumer.getone()
        consumer.assign([first])
        assert (await consumer.getone()).partition == 0
        consumer.assign([second])
        assert consumer.assignment() == {second}
        assert (await consumer.getone()).partition == 1
        consumer.assign([first, second])
        got = await consumer.getmany(first, timeout_ms=GENEROUS_MS)
        assert got[first][0].offset == 0, "a partition taken back begins again"
        assert (await consumer.getone(second)).offset == 1, "one that was kept goes on"


def test_a_group_without_members_keeps_positions_with_their_epochs(
    cluster: LocalCluster, topic: str
) -> None:
    options = {"group_id": group(topic), "auto_offset_reset": "earliest"}
    first, second = tps(topic)
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, **options) as consumer:
        consumer.assign([first])
        assert consumer.committed(first) is None
        consumer.getmany(timeout_ms=GENEROUS_MS, max_records=30)
        where = consumer.position_with_epoch(first)
        assert where.offset == 30
        consumer.commit()
        consumer.commit({second: (40, "by hand")})
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            carried = client.supports(Feature.COMMITTED_LEADER_EPOCH)
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, **options) as consumer:
        consumer.assign([first, second])
        assert (consumer.position(first), consumer.position(second)) == (30, 40)
        found = consumer.committed(first)
        assert found is not None
        assert found.offset == 30
        assert found.leader_epoch == (where.leader_epoch if carried else -1)
        assert not carried or found.leader_epoch >= 0
        by_hand = consumer.committed(second)
        assert by_hand is not None
        assert (by_hand.metadata, by_hand.leader_epoch) == ("by hand", -1)
        assert consumer.getone(first).offset == 30
        assert next(consumer.batches(second)).batch.column("offset").to_pylist()[0] == 40


async def test_without_a_position_and_a_policy_the_call_fails_until_a_seek(
    cluster: LocalCluster, topic: str
) -> None:
    options = {"group_id": group(topic), "auto_offset_reset": "none"}
    async with AsyncConsumer(bootstrap_servers=cluster.bootstrap_servers, **options) as consumer:
        tp = tps(topic)[0]
        consumer.assign([tp])
        for _ in range(2):
            with pytest.raises(DataLossError, match="has no position"):
                await consumer.getmany(timeout_ms=GENEROUS_MS)
            with pytest.raises(DataLossError, match="has no position"):
                await consumer.position(tp)
        consumer.seek(tp, 3)
        assert (await consumer.getone()).offset == 3


def test_l04_an_offset_of_a_history_that_is_gone_is_not_committed(
    cluster: LocalCluster, topic: str
) -> None:
    tp = tps(topic)[0]
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group(topic)) as consumer:
        consumer.assign([tp])
        for offset, epoch in ((6, 0), (7, -1), (6, -1), (5, 0), (6, 0)):
            consumer.commit({tp: OffsetAndMetadata(offset, "", epoch)})
        commits = consumer._core.group._commits
        assert commits is not None
        commits._last[tp] = OffsetAndMetadata(6, "", 1)
        with pytest.raises(
            DataLossError,
            match="offset 7 of epoch 0 cannot follow the committed offset 6 of epoch 1",
        ):
            consumer.commit({tp: OffsetAndMetadata(7, "", 0)})
        consumer.commit({tp: OffsetAndMetadata(7, "", -1)})
        consumer.commit({tp: 7})


async def test_two_tasks_may_wait_for_different_partitions(
    cluster: LocalCluster, topic: str
) -> None:
    async with AsyncConsumer(
        bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        first, second = tps(topic)
        consumer.assign([first, second])
        got = await asyncio.gather(consumer.getone(first), consumer.getone(second))
        assert [record.partition for record in got] == [0, 1]


async def test_bad_options_are_named(cluster: LocalCluster) -> None:
    for wrong, text in (
        ({"auto_offset_reset": "smallest"}, "earliest, latest, none or by_duration"),
        ({"auto_offset_reset": "by_duration:1h"}, "ISO 8601"),
        ({"group": "g"}, "group_id"),
    ):
        with pytest.raises(ConfigError, match=text):
            AsyncConsumer(bootstrap_servers=cluster.bootstrap_servers, **wrong)
    consumer = AsyncConsumer(bootstrap_servers=cluster.bootstrap_servers)
    with pytest.raises(LocalProtocolError, match="not started"):
        await consumer.getone()
    async with AsyncConsumer(bootstrap_servers=cluster.bootstrap_servers) as started:
        with pytest.raises(ConfigError, match="group_id"):
            await started.commit()


def test_p17_a_session_reports_brokers_only_what_changed() -> None:
    with LocalCluster(brokers=1, release="4.3") as cluster:
        cluster.create_topic("t", partitions=3, replication_factor=1)
        with Consumer(
            bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign(tps("t"))
            consumer.getmany(timeout_ms=50)
        asked = [entry.message for entry in cluster.requests(ApiKey.FETCH)]
        assert asked
        assert all(message.session_epoch == 0 for message in asked), (
            "this broker has no sessions: all are full"
        )


async def test_a_consumer_stops_although_its_broker_is_gone() -> None:
    with LocalCluster(brokers=1, release="4.3") as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=1)
        consumer = AsyncConsumer(
            bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
        )
        await consumer.start()
        consumer.assign([TopicPartition("t", 0)])
        assert await consumer.getmany(timeout_ms=50) == {}
        cluster.kill_broker(1)
        async with asyncio.timeout(GENEROUS_S):
            await consumer.stop()
        await consumer.stop()
        with pytest.raises(LocalProtocolError, match="closed"):
            await consumer.start()


async def test_many_partitions_are_placed_with_few_requests() -> None:
    with LocalCluster(brokers=1, release="4.3") as cluster:
        cluster.create_topic("t", partitions=300, replication_factor=1)
        async with AsyncConsumer(
            bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer:
            many = [TopicPartition("t", index) for index in range(300)]
            consumer.assign(many)
            assert [await consumer.position(tp) for tp in many] == [0] * 300
            await consumer.seek_to_end()
        assert len(cluster.requests(ApiKey.LIST_OFFSETS)) <= 6


async def test_new_topics_are_placed_with_one_request_to_each_leader() -> None:
    with LocalCluster(brokers=3, release="4.3") as cluster:
        many = [TopicPartition(f"t-{index}", 0) for index in range(60)]
        for tp in many:
            cluster.create_topic(tp.topic, partitions=1, replication_factor=1)
        async with AsyncConsumer(
            bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign(many)
            assert [await consumer.position(tp) for tp in many] == [0] * 60
        assert len(cluster.requests(ApiKey.LIST_OFFSETS)) == 3


async def test_a_missing_topic_keeps_no_other_new_one_from_being_read() -> None:
    with LocalCluster(brokers=1, release="4.3") as cluster:
        there = [TopicPartition(f"t-{index}", 0) for index in range(3)]
        for tp in there:
            cluster.create_topic(tp.topic, partitions=1, replication_factor=1)
            with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
                client.produce(tp.topic, pa.table({"value": ["one"]}))
        before = len(cluster.requests(ApiKey.METADATA))
        async with AsyncConsumer(
            bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([TopicPartition("missing", 0), *there])
            found = [await consumer.getone() for _ in there]
            assert {one.topic for one in found} == {tp.topic for tp in there}
            # while it may still be created, it is asked for again and again
            assert len(cluster.requests(ApiKey.METADATA)) - before <= 3
            with pytest.raises(KafkaError, match="missing"):
                await consumer.getone()


def test_a_consumer_of_the_parent_is_refused_after_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = Consumer(bootstrap_servers="127.0.0.1:1")
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: -1)
        with pytest.raises(LocalProtocolError, match="make a new one after a fork"):
            consumer.start()
    consumer.stop()
