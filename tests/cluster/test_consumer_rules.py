"""How a consumer treats fetch errors, validations and damage (labels P): brokers answer
late, wrongly or not at all.
"""

from __future__ import annotations

from typing import Any

import pytest

from parley.client import OffsetAndMetadata, TopicPartition
from parley.client.fetch.positions import Stage
from parley.errors import BrokerError, CorruptRecordError
from parley.messages import FetchResponse, ListOffsetsResponse
from parley.schema import ApiKey

from ..support import GENEROUS_MS
from .scripted import Scripted, batch
from .scripted_consumers import consumer_of, offsets, short_log

TP = TopicPartition("t", 0)
EPOCHS = ApiKey.OFFSET_FOR_LEADER_EPOCH


async def test_p04_p05_a_leader_that_cannot_report_epochs_is_found_out_when_connected_to() -> None:
    old = {EPOCHS: (0, 2)}
    async with Scripted(1, ranges=old) as cluster, consumer_of(cluster) as consumer:
        consumer.assign([TP])
        consumer.seek(TP, OffsetAndMetadata(3, "", 4))
        assert await consumer.position(TP) == 3
        assert await offsets(consumer, 7) == [*range(3, 10)]
        assert cluster.count(EPOCHS) == 0


async def test_p06_one_request_per_leader_asks_for_all_its_partitions() -> None:
    async with Scripted(1) as cluster, consumer_of(cluster) as consumer:
        cluster.answers[1, ApiKey.METADATA] = lambda _: cluster.metadata(partitions=3)

        def ends(request: Any) -> Any:
            found = cluster.epoch_end(4, 10)
            make = type(found).EpochEndOffset
            asked = request.topics[0].partitions
            found.topics[0].partitions = [
                make(partition=p.partition, leader_epoch=4, end_offset=10) for p in asked
            ]
            return found

        cluster.answers[1, EPOCHS] = ends
        tps = [TopicPartition("t", index) for index in range(3)]
        consumer.assign(tps)
        for tp in tps:
            consumer.seek(tp, OffsetAndMetadata(3, "", 4))
        await cluster.until(
            lambda: all(consumer._core.part(tp).positions.stage is Stage.FETCHING for tp in tps)
        )
        asked = [message.topics for _, key, message in cluster.asked if key is EPOCHS]
        assert sum(len(topic.partitions) for topics in asked for topic in topics) >= 3
        assert max(len(topics[0].partitions) for topics in asked) >= 2


async def test_p11_an_unauthorized_validation_is_reported_and_tried_again() -> None:
    async with Scripted(1) as cluster, consumer_of(cluster) as consumer:
        cluster.answers[1, EPOCHS] = lambda _: cluster.epoch_end(-1, -1, error_code=29)
        consumer.assign([TP])
        consumer.seek(TP, OffsetAndMetadata(3, "", 4))
        with pytest.raises(BrokerError) as raised:
            await consumer.getmany(timeout_ms=GENEROUS_MS)
        assert (raised.value.code, raised.value.topic, raised.value.partition) == (29, "t", 0)
        cluster.answers.pop((1, EPOCHS))
        assert await offsets(consumer, 2) == [3, 4], (
            "once it is allowed, reading goes on where it was"
        )


@pytest.mark.parametrize(
    ("code", "refreshes"), [(6, True), (3, True), (100, True), (103, True), (74, True), (75, False)]
)
async def test_p14_fetch_errors_call_for_metadata_but_for_one_and_move_nothing(
    code: int, refreshes: bool
) -> None:
    async with Scripted(1) as cluster, consumer_of(cluster) as consumer:
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
    async with Scripted(2) as cluster, consumer_of(cluster) as consumer:
        short_log(cluster, 5)
        consumer.assign([TP])
        await offsets(consumer, 5)
        cluster.leader, cluster.epoch = 2, 6
        cluster.answers[1, ApiKey.FETCH] = lambda _: cluster.fetched(None, error_code=75)
        short_log(cluster, 7)
        assert await offsets(consumer, 2) == [5, 6]


async def test_p15_a_follower_that_is_out_of_range_sends_the_reader_back_to_the_leader() -> None:
    async with Scripted(2) as cluster, consumer_of(cluster, client_rack="near") as consumer:
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
            m.topics[0].partitions[0]
            for broker, key, m in cluster.asked
            if (broker, key) == (2, ApiKey.FETCH)
        ]
        assert {part.last_fetched_epoch for part in to_follower} == {-1}, (
            "a follower may not know the epoch yet"
        )


async def test_what_is_written_while_a_time_is_looked_up_is_not_skipped() -> None:
    """No record is as late as asked for, so that reading begins at the end: the
    one of before the look-up.
    """
    async with (
        Scripted(1) as cluster,
        consumer_of(cluster, auto_offset_reset="by_duration:PT1S") as consumer,
    ):

        def answer(request: Any) -> Any:
            found = cluster.offsets(request)
            part = found.topics[0].partitions[0]
            part.offset = -1 if request.topics[0].partitions[0].timestamp >= 0 else end_after[0]
            end_after[0] += 30  # records that are as old as the others
            return found

        end_after = [10]
        cluster.answers[1, ApiKey.LIST_OFFSETS] = answer
        cluster.since = lambda request: batch(
            offset := request.topics[0].partitions[0].fetch_offset, 40 - offset
        )
        consumer.assign([TP])
        assert await offsets(consumer, 30) == list(range(10, 40))


async def test_p16_a_reset_at_an_old_leader_stays_a_reset() -> None:
    async with Scripted(1) as cluster, consumer_of(cluster) as consumer:
        errors = [75, 74]

        def answer(request: Any) -> Any:
            if not errors:
                return cluster.offsets(request)
            part = ListOffsetsResponse.ListOffsetsPartitionResponse(
                partition_index=0, error_code=errors.pop()
            )
            make = ListOffsetsResponse.ListOffsetsTopicResponse
            return ListOffsetsResponse(topics=[make(name="t", partitions=[part])])

        cluster.answers[1, ApiKey.LIST_OFFSETS] = answer
        consumer.assign([TP])
        assert await consumer.position(TP) == 0
        assert cluster.count(ApiKey.LIST_OFFSETS) == 3


async def test_p18_gaps_and_batches_without_records_move_the_position() -> None:
    async with Scripted(1) as cluster, consumer_of(cluster) as consumer:
        log = batch(0, 3) + batch(7, 2)
        cluster.since = lambda r: (
            log if r.topics and r.topics[0].partitions[0].fetch_offset < 9 else b""
        )
        consumer.assign([TP])
        consumer.seek(TP, 0)
        assert await offsets(consumer, 5) == [0, 1, 2, 7, 8]
        assert await consumer.position(TP) == 9
        where = await consumer.position_with_epoch(TP)
        assert where.leader_epoch == 0


@pytest.mark.parametrize("as_batches", [False, True])
async def test_p19_damage_is_reported_each_time_and_a_seek_passes_it(as_batches: bool) -> None:
    async with Scripted(1) as cluster, consumer_of(cluster) as consumer:
        broken = bytearray(batch(3, 2))
        broken[-1] ^= 1
        log = {0: batch(0, 3) + bytes(broken) + batch(5, 2), 5: batch(5, 2)}
        cluster.since = lambda r: (
            log.get(r.topics[0].partitions[0].fetch_offset, b"") if r.topics else b""
        )
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


async def test_p17_sessions_send_only_changes_and_begin_again_after_an_error() -> None:
    async with Scripted(1) as cluster, consumer_of(cluster) as consumer:
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
    asked = [
        (m.session_id, m.session_epoch, len(m.topics))
        for _, key, m in cluster.asked
        if key is ApiKey.FETCH
    ]
    assert asked[:3] == [(0, 0, 1), (9, 1, 1), (9, 2, 0)], (
        "the second one reports the new offset, the third nothing"
    )
    assert asked[4][1:] == (0, 1), "after the error a full request, which closes the old session"
    assert asked[-1][:2] == (9, -1), "the end is reported"
