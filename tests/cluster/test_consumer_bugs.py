"""Bugs that other consumers had, played again (labels L and P): brokers that answer late, wrongly or not at all."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from parley.client import EARLIEST, AsyncClient, Consumer, OffsetAndMetadata, PartitionRange, TopicPartition
from parley.client.positions import Stage
from parley.errors import BrokerError, CorruptRecordError
from parley.messages import FetchResponse, ListOffsetsResponse, MetadataResponse
from parley.schema import ApiKey

_SPEC = importlib.util.spec_from_file_location("parley_tests_scripted", Path(__file__).with_name("scripted.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
scripted = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(scripted)

TP = TopicPartition("t", 0)
EPOCHS = ApiKey.OFFSET_FOR_LEADER_EPOCH
QUICK = {
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 20,
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 20,
    "default_api_timeout_ms": 5_000,
    "fetch_max_wait_ms": 1,
}


def consumer_of(cluster: Any, **options: Any) -> Consumer:
    return Consumer(
        bootstrap_servers=cluster.bootstrap_servers, **{**QUICK, "auto_offset_reset": "earliest", **options}
    )


async def offsets(consumer: Consumer, count: int) -> list[int]:
    """Return the offsets of exactly so many records."""
    found: list[int] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            got = await consumer.getmany(timeout_ms=5_000, max_records=count - len(found))
            found += [record.offset for records in got.values() for record in records]
    return found


def move(cluster: Any, leader: int, epoch: int) -> None:
    """Let another broker lead; the one before refuses from now on, without a hint."""
    before, cluster.leader, cluster.epoch = cluster.leader, leader, epoch
    cluster.answers.pop((leader, ApiKey.FETCH), None)
    if before != leader:
        cluster.answers[before, ApiKey.FETCH] = lambda _: cluster.fetched(None, error_code=6)


def short_log(cluster: Any, count: int) -> None:
    """Let the log end at an offset, so that a reader waits there."""

    def since(request: Any) -> bytes:
        topics = request.topics
        offset = topics[0].partitions[0].fetch_offset if topics else count
        return scripted.batch(offset, count - offset, cluster.epoch) if offset < count else b""

    cluster.since = since


async def test_l01_a_fetch_and_a_validation_never_overlap_and_nothing_comes_twice() -> None:
    async with scripted.Scripted(2) as cluster, consumer_of(cluster) as consumer:
        short_log(cluster, 5)
        consumer.assign([TP])
        assert await offsets(consumer, 5) == [0, 1, 2, 3, 4]
        held = asyncio.Event()
        cluster.answers[2, EPOCHS] = lambda r: (held.set(), cluster.epoch_end(5, 5, error_code=75))[1]
        move(cluster, 2, 6)
        await held.wait()
        asked = cluster.count(ApiKey.FETCH, 2)
        await cluster.until(lambda: cluster.count(EPOCHS, 2) > 3)
        assert cluster.count(ApiKey.FETCH, 2) == asked == 0, "P13: no fetch while the position awaits validation"
        short_log(cluster, 9)
        cluster.answers[2, EPOCHS] = lambda r: cluster.epoch_end(5, 9)
        assert await offsets(consumer, 4) == [5, 6, 7, 8]


async def test_l02_a_local_error_during_validation_is_retried_and_resets_nothing() -> None:
    async with scripted.Scripted(2) as cluster, consumer_of(cluster) as consumer:
        short_log(cluster, 5)
        consumer.assign([TP])
        await offsets(consumer, 5)
        cluster.answers[2, EPOCHS] = lambda _: None  # the connection is cut instead of an answer
        move(cluster, 2, 6)
        await cluster.until(lambda: cluster.count(EPOCHS, 2) >= 4)
        listed = cluster.count(ApiKey.LIST_OFFSETS)
        assert await consumer.position(TP) == 5
        cluster.answers[2, EPOCHS] = lambda _: cluster.epoch_end(5, 99)
        short_log(cluster, 7)
        assert await offsets(consumer, 2) == [5, 6]
        assert cluster.count(ApiKey.LIST_OFFSETS) == listed, "no reset"
        assert consumer.data_losses == ()


async def test_l03_two_moves_while_a_retry_is_pending_end_with_the_newest_epoch() -> None:
    async with scripted.Scripted(2) as cluster, consumer_of(cluster) as consumer:
        short_log(cluster, 5)
        consumer.assign([TP])
        await offsets(consumer, 5)

        def fenced_until_eight(request: Any) -> Any:
            current = request.topics[0].partitions[0].current_leader_epoch
            return cluster.epoch_end(5, 99) if current == 8 else cluster.epoch_end(-1, -1, error_code=74)

        cluster.answers[2, EPOCHS] = fenced_until_eight
        move(cluster, 2, 6)
        await cluster.until(lambda: cluster.count(EPOCHS, 2) >= 2)
        cluster.epoch = 7
        await cluster.until(lambda: cluster.count(EPOCHS, 2) >= 4)
        cluster.epoch = 8
        short_log(cluster, 7)
        assert await offsets(consumer, 2) == [5, 6]
        asked = [m.topics[0].partitions[0].current_leader_epoch for _, key, m in cluster.asked if key is EPOCHS]
        assert asked == sorted(asked), "no retry with the epoch of before"
        assert asked[-1] == 8


async def test_l05_a_partition_that_had_no_leader_is_validated_when_it_has_one_again() -> None:
    async with scripted.Scripted(2) as cluster, consumer_of(cluster) as consumer:
        short_log(cluster, 5)
        consumer.assign([TP])
        await offsets(consumer, 5)
        cluster.answers[2, EPOCHS] = lambda _: cluster.epoch_end(-1, -1, error_code=6)
        move(cluster, 2, 6)
        await cluster.until(lambda: cluster.count(EPOCHS, 2) >= 1)
        cluster.leader = -1
        await cluster.until(lambda: consumer._core.cluster.leader(TP).node is None)
        cluster.answers.pop((2, EPOCHS))
        short_log(cluster, 7)
        cluster.leader = 2  # the same one, in the same epoch
        assert await offsets(consumer, 2) == [5, 6]


async def test_l06_a_second_leader_without_epochs_is_fetched_from_at_once() -> None:
    async with scripted.Scripted(2) as cluster, consumer_of(cluster) as consumer:
        short_log(cluster, 5)
        consumer.assign([TP])
        await offsets(consumer, 5)
        part = consumer._core.part(TP)
        part.place.meet(2, -1)
        assert part.place.stage is Stage.FETCHING
        short_log(cluster, 7)
        assert await offsets(consumer, 2) == [5, 6]


async def test_l07_a_list_offsets_during_a_leader_change_takes_one_retry_and_the_epoch_of_metadata() -> None:
    async with scripted.Scripted(2) as cluster, AsyncClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        await client.metadata(["t"])
        cluster.leader, cluster.epoch = 2, 6

        def moved(_: Any) -> Any:
            part = ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=0, error_code=6)
            make = ListOffsetsResponse.ListOffsetsTopicResponse
            return ListOffsetsResponse(topics=[make(name="t", partitions=[part])])

        cluster.answers[1, ApiKey.LIST_OFFSETS] = moved
        assert (await client.list_offsets({TP: EARLIEST}))[TP].offset == 0
        assert (cluster.count(ApiKey.LIST_OFFSETS, 1), cluster.count(ApiKey.LIST_OFFSETS, 2)) == (1, 1)
        sent = [
            message.topics[0].partitions[0].current_leader_epoch
            for _, key, message in cluster.asked
            if key is ApiKey.LIST_OFFSETS
        ]
        assert sent == [5, 6]
        async for _ in client.fetch_many({TP: PartitionRange(3, 4, leader_epoch=1234)}):
            pass
        fetched = [m.topics[0].partitions[0] for _, key, m in cluster.asked if key is ApiKey.FETCH]
        assert {part.current_leader_epoch for part in fetched} == {6}, "an epoch of the caller is no leader's epoch"


async def test_l08_metadata_that_fails_for_ever_is_no_storm_and_no_error() -> None:
    async with scripted.Scripted(1) as cluster, consumer_of(cluster, retry_backoff_max_ms=200) as consumer:
        short_log(cluster, 5)
        consumer.assign([TP])
        await offsets(consumer, 5)
        before = cluster.count(ApiKey.METADATA)
        cluster.answers[1, ApiKey.FETCH] = lambda _: cluster.fetched(None, error_code=6)
        cluster.answers[1, ApiKey.METADATA] = lambda _: None
        assert await consumer.getmany(timeout_ms=600) == {}
        assert cluster.count(ApiKey.METADATA) - before <= 20
        del cluster.answers[1, ApiKey.METADATA], cluster.answers[1, ApiKey.FETCH]
        short_log(cluster, 6)
        assert await offsets(consumer, 1) == [5], "the topic was kept"


async def test_l10_metadata_right_after_an_assignment_knows_the_topic() -> None:
    async with (
        scripted.Scripted(1) as cluster,
        AsyncClient(bootstrap_servers=cluster.bootstrap_servers) as client,
        Consumer(client) as consumer,
    ):
        consumer.assign([TP])
        assert "t" in (await client.metadata(["t"])).topics
        assert await consumer.position(TP) == 10


async def test_l14_a_partition_that_moved_is_fetched_without_the_pause_of_its_old_leader() -> None:
    async with scripted.Scripted(2) as cluster, consumer_of(cluster) as consumer:
        short_log(cluster, 5)
        consumer.assign([TP])
        await offsets(consumer, 5)
        part = consumer._core.part(TP)
        part.failed(BrokerError("slow"), consumer._core.cluster.now_ms(), delay_ms=10**6, patience_ms=None, epoch=5)
        assert part.must_wait(consumer._core.cluster.now_ms(), 5)
        short_log(cluster, 7)
        move(cluster, 2, 6)
        await consumer._core.cluster.refresh(consumer._core.cluster.deadline())
        assert await offsets(consumer, 2) == [5, 6]


async def test_brokers_that_share_an_address_are_told_apart_by_their_ids() -> None:
    async with scripted.Scripted(1) as cluster, consumer_of(cluster) as consumer:
        plain = cluster.metadata

        def shared(_: Any) -> Any:
            found = plain()
            (_, host, port), *_ = cluster.nodes()
            make = MetadataResponse.MetadataResponseBroker
            found.brokers = [make(node_id=i, host=host, port=port) for i in (1, 2, 3)]
            return found

        cluster.answers[1, ApiKey.METADATA] = shared
        short_log(cluster, 5)
        consumer.assign([TP])
        assert await offsets(consumer, 5) == [0, 1, 2, 3, 4]
        cluster.leader, cluster.epoch = 3, 6
        await consumer._core.cluster.refresh(consumer._core.cluster.deadline())
        short_log(cluster, 7)
        assert await offsets(consumer, 2) == [5, 6]


async def test_p04_p05_a_leader_that_cannot_tell_epochs_is_found_out_when_it_is_connected_to() -> None:
    old = {EPOCHS: (0, 2)}
    async with scripted.Scripted(1, ranges=old) as cluster, consumer_of(cluster) as consumer:
        consumer.assign([TP])
        consumer.seek(TP, OffsetAndMetadata(3, "", 4))
        assert await consumer.position(TP) == 3
        assert await offsets(consumer, 7) == [*range(3, 10)]
        assert cluster.count(EPOCHS) == 0


async def test_p06_one_request_per_leader_asks_for_all_its_partitions() -> None:
    async with scripted.Scripted(1) as cluster, consumer_of(cluster) as consumer:
        cluster.answers[1, ApiKey.METADATA] = lambda _: cluster.metadata(partitions=3)

        def ends(request: Any) -> Any:
            found = cluster.epoch_end(4, 10)
            make = type(found).EpochEndOffset
            asked = request.topics[0].partitions
            found.topics[0].partitions = [make(partition=p.partition, leader_epoch=4, end_offset=10) for p in asked]
            return found

        cluster.answers[1, EPOCHS] = ends
        tps = [TopicPartition("t", index) for index in range(3)]
        consumer.assign(tps)
        for tp in tps:
            consumer.seek(tp, OffsetAndMetadata(3, "", 4))
        await cluster.until(lambda: all(consumer._core.part(tp).place.stage is Stage.FETCHING for tp in tps))
        asked = [message.topics for _, key, message in cluster.asked if key is EPOCHS]
        assert sum(len(topic.partitions) for topics in asked for topic in topics) >= 3
        assert max(len(topics[0].partitions) for topics in asked) >= 2


async def test_p11_an_unauthorized_validation_is_told_and_tried_again() -> None:
    async with scripted.Scripted(1) as cluster, consumer_of(cluster) as consumer:
        cluster.answers[1, EPOCHS] = lambda _: cluster.epoch_end(-1, -1, error_code=29)
        consumer.assign([TP])
        consumer.seek(TP, OffsetAndMetadata(3, "", 4))
        with pytest.raises(BrokerError) as raised:
            await consumer.getmany(timeout_ms=5_000)
        assert (raised.value.code, raised.value.topic, raised.value.partition) == (29, "t", 0)
        cluster.answers.pop((1, EPOCHS))
        assert await offsets(consumer, 2) == [3, 4], "once it is allowed, reading goes on where it was"


@pytest.mark.parametrize(
    ("code", "refreshes"), [(6, True), (3, True), (100, True), (103, True), (74, True), (75, False)]
)
async def test_p14_fetch_errors_call_for_metadata_but_for_one_and_move_nothing(code: int, refreshes: bool) -> None:
    async with scripted.Scripted(1) as cluster, consumer_of(cluster) as consumer:
        short_log(cluster, 5)
        consumer.assign([TP])
        await offsets(consumer, 5)
        before, errors = cluster.count(ApiKey.METADATA), [code, code]
        good = cluster.fetched

        def failing(request: Any) -> Any:
            return good(None, error_code=errors.pop()) if errors else good(cluster.since(request))

        cluster.answers[1, ApiKey.FETCH] = failing
        await cluster.until(lambda: not errors)
        assert await consumer.position(TP) == 5
        short_log(cluster, 6)
        assert await offsets(consumer, 1) == [5]
        assert (cluster.count(ApiKey.METADATA) > before) is refreshes


async def test_p14_a_broker_that_stays_behind_is_asked_about_in_the_end() -> None:
    async with scripted.Scripted(2) as cluster, consumer_of(cluster) as consumer:
        short_log(cluster, 5)
        consumer.assign([TP])
        await offsets(consumer, 5)
        cluster.leader, cluster.epoch = 2, 6
        cluster.answers[1, ApiKey.FETCH] = lambda _: cluster.fetched(None, error_code=75)
        short_log(cluster, 7)
        assert await offsets(consumer, 2) == [5, 6]


async def test_p15_a_follower_that_is_out_of_range_sends_the_reader_back_to_the_leader() -> None:
    async with scripted.Scripted(2) as cluster, consumer_of(cluster, client_rack="near") as consumer:
        short_log(cluster, 5)
        hints = [2]

        def leader(request: Any) -> Any:
            if hints:
                return cluster.fetched(None, preferred_read_replica=hints.pop())
            return cluster.fetched(cluster.since(request))

        cluster.answers[1, ApiKey.FETCH] = leader
        cluster.answers[2, ApiKey.FETCH] = lambda _: cluster.fetched(None, error_code=1)
        consumer.assign([TP])
        listed_before = 1  # the reset to the beginning
        assert await offsets(consumer, 5) == [0, 1, 2, 3, 4]
        assert cluster.count(ApiKey.LIST_OFFSETS) == listed_before
        to_follower = [
            m.topics[0].partitions[0] for broker, key, m in cluster.asked if (broker, key) == (2, ApiKey.FETCH)
        ]
        assert {part.last_fetched_epoch for part in to_follower} == {-1}, "a follower may not know the epoch yet"


async def test_p16_a_reset_at_an_old_leader_stays_a_reset() -> None:
    async with scripted.Scripted(1) as cluster, consumer_of(cluster) as consumer:
        errors = [75, 74]

        def answer(request: Any) -> Any:
            if not errors:
                return cluster.offsets(request)
            part = ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=0, error_code=errors.pop())
            make = ListOffsetsResponse.ListOffsetsTopicResponse
            return ListOffsetsResponse(topics=[make(name="t", partitions=[part])])

        cluster.answers[1, ApiKey.LIST_OFFSETS] = answer
        consumer.assign([TP])
        assert await consumer.position(TP) == 0
        assert cluster.count(ApiKey.LIST_OFFSETS) == 3


async def test_p18_gaps_and_batches_without_records_move_the_position() -> None:
    async with scripted.Scripted(1) as cluster, consumer_of(cluster) as consumer:
        log = scripted.batch(0, 3) + scripted.batch(7, 2)
        cluster.since = lambda r: log if r.topics and r.topics[0].partitions[0].fetch_offset < 9 else b""
        consumer.assign([TP])
        consumer.seek(TP, 0)
        assert await offsets(consumer, 5) == [0, 1, 2, 7, 8]
        assert await consumer.position(TP) == 9
        where = await consumer.position_with_epoch(TP)
        assert where.leader_epoch == 0


@pytest.mark.parametrize("as_batches", [False, True])
async def test_p19_damage_is_told_each_time_and_a_seek_passes_it(as_batches: bool) -> None:
    async with scripted.Scripted(1) as cluster, consumer_of(cluster) as consumer:
        broken = bytearray(scripted.batch(3, 2))
        broken[-1] ^= 1
        log = {0: scripted.batch(0, 3) + bytes(broken) + scripted.batch(5, 2), 5: scripted.batch(5, 2)}
        cluster.since = lambda r: log.get(r.topics[0].partitions[0].fetch_offset, b"") if r.topics else b""
        consumer.assign([TP])
        consumer.seek(TP, 0)
        if as_batches:
            found = await anext(consumer.batches())
            assert found.batch.column("offset").to_pylist() == [0, 1, 2]
        else:
            assert await offsets(consumer, 3) == [0, 1, 2]
        for _ in range(2):
            with pytest.raises(CorruptRecordError, match="offset 3") as raised:
                await consumer.getone()
            assert (raised.value.topic, raised.value.partition, raised.value.offset) == (*TP, 3)
        assert await consumer.position(TP) == 3
        consumer.seek(TP, 5)
        assert await offsets(consumer, 2) == [5, 6]


async def test_p17_sessions_send_only_changes_and_begin_anew_after_an_error() -> None:
    async with scripted.Scripted(1) as cluster, consumer_of(cluster) as consumer:
        count = [0]

        def answer(request: Any) -> Any:
            count[0] += 1
            if request.session_epoch < 0:
                return FetchResponse(session_id=0)
            if count[0] == 4:
                return FetchResponse(error_code=71)
            if not request.topics:
                return FetchResponse(session_id=9)
            found = cluster.fetched(cluster.since(request))
            found.session_id = 9
            return found

        short_log(cluster, 5)
        cluster.answers[1, ApiKey.FETCH] = answer
        consumer.assign([TP])
        assert await offsets(consumer, 5) == [0, 1, 2, 3, 4]
        await cluster.until(lambda: count[0] >= 8)
    asked = [(m.session_id, m.session_epoch, len(m.topics)) for _, key, m in cluster.asked if key is ApiKey.FETCH]
    assert asked[:3] == [(0, 0, 1), (9, 1, 1), (9, 2, 0)], "the second one tells the new offset, the third nothing"
    assert asked[4][1:] == (0, 1), "after the error a full request, which closes the old session"
    assert asked[-1][:2] == (9, -1), "the end is told"
