"""Bugs that other consumers had, played again (labels L): brokers that answer
late, wrongly or not at all.
"""

from __future__ import annotations

import asyncio
from typing import Any

from parley.client import EARLIEST, AsyncClient, AsyncConsumer, PartitionRange, TopicPartition
from parley.client.fetch.positions import Stage
from parley.errors import BrokerError
from parley.messages import ListOffsetsResponse, MetadataResponse
from parley.schema import ApiKey

from .scripted import Scripted
from .scripted_consumers import consumer_of, move, offsets, short_log

TP = TopicPartition("t", 0)
EPOCHS = ApiKey.OFFSET_FOR_LEADER_EPOCH


async def test_l01_a_fetch_and_a_validation_never_overlap_and_nothing_comes_twice() -> None:
    async with Scripted(2) as cluster, consumer_of(cluster) as consumer:
        short_log(cluster, 5)
        consumer.assign([TP])
        assert await offsets(consumer, 5) == [0, 1, 2, 3, 4]
        held = asyncio.Event()
        cluster.answers[2, EPOCHS] = lambda r: (held.set(), cluster.epoch_end(5, 5, error_code=75))[
            1
        ]
        move(cluster, 2, 6)
        await held.wait()
        asked = cluster.count(ApiKey.FETCH, 2)
        await cluster.until(lambda: cluster.count(EPOCHS, 2) > 3)
        assert cluster.count(ApiKey.FETCH, 2) == asked == 0, (
            "P13: no fetch while the position awaits validation"
        )
        short_log(cluster, 9)
        cluster.answers[2, EPOCHS] = lambda r: cluster.epoch_end(5, 9)
        assert await offsets(consumer, 4) == [5, 6, 7, 8]


async def test_l02_a_local_error_during_validation_is_retried_and_resets_nothing() -> None:
    async with Scripted(2) as cluster, consumer_of(cluster) as consumer:
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
    async with Scripted(2) as cluster, consumer_of(cluster) as consumer:
        short_log(cluster, 5)
        consumer.assign([TP])
        await offsets(consumer, 5)

        def fenced_until_eight(request: Any) -> Any:
            current = request.topics[0].partitions[0].current_leader_epoch
            return (
                cluster.epoch_end(5, 99)
                if current == 8
                else cluster.epoch_end(-1, -1, error_code=74)
            )

        cluster.answers[2, EPOCHS] = fenced_until_eight
        move(cluster, 2, 6)
        await cluster.until(lambda: cluster.count(EPOCHS, 2) >= 2)
        cluster.epoch = 7
        await cluster.until(lambda: cluster.count(EPOCHS, 2) >= 4)
        cluster.epoch = 8
        short_log(cluster, 7)
        assert await offsets(consumer, 2) == [5, 6]
        asked = [
            m.topics[0].partitions[0].current_leader_epoch
            for _, key, m in cluster.asked
            if key is EPOCHS
        ]
        assert asked == sorted(asked), "no retry with the epoch of before"
        assert asked[-1] == 8


async def test_l05_a_partition_that_had_no_leader_is_validated_when_it_has_one_again() -> None:
    async with Scripted(2) as cluster, consumer_of(cluster) as consumer:
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
    async with Scripted(2) as cluster, consumer_of(cluster) as consumer:
        short_log(cluster, 5)
        consumer.assign([TP])
        await offsets(consumer, 5)
        part = consumer._core.part(TP)
        part.positions.meet(2, -1)
        assert part.positions.stage is Stage.FETCHING
        short_log(cluster, 7)
        assert await offsets(consumer, 2) == [5, 6]


async def test_l07_list_offsets_in_a_leader_change_retries_once_with_metadatas_epoch() -> None:
    async with (
        Scripted(2) as cluster,
        AsyncClient(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        await client.metadata(["t"])
        cluster.leader, cluster.epoch = 2, 6

        def moved(_: Any) -> Any:
            part = ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=0, error_code=6)
            make = ListOffsetsResponse.ListOffsetsTopicResponse
            return ListOffsetsResponse(topics=[make(name="t", partitions=[part])])

        cluster.answers[1, ApiKey.LIST_OFFSETS] = moved
        assert (await client.list_offsets({TP: EARLIEST}))[TP].offset == 0
        assert (cluster.count(ApiKey.LIST_OFFSETS, 1), cluster.count(ApiKey.LIST_OFFSETS, 2)) == (
            1,
            1,
        )
        sent = [
            message.topics[0].partitions[0].current_leader_epoch
            for _, key, message in cluster.asked
            if key is ApiKey.LIST_OFFSETS
        ]
        assert sent == [5, 6]
        async for _ in client.fetch_many({TP: PartitionRange(3, 4, leader_epoch=1234)}):
            pass
        fetched = [m.topics[0].partitions[0] for _, key, m in cluster.asked if key is ApiKey.FETCH]
        assert {part.current_leader_epoch for part in fetched} == {6}, (
            "an epoch of the caller is no leader's epoch"
        )


async def test_l08_metadata_that_fails_forever_is_no_storm_and_no_error() -> None:
    async with Scripted(1) as cluster, consumer_of(cluster, retry_backoff_max_ms=200) as consumer:
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
        Scripted(1) as cluster,
        AsyncClient(bootstrap_servers=cluster.bootstrap_servers) as client,
        AsyncConsumer(client) as consumer,
    ):
        consumer.assign([TP])
        assert "t" in (await client.metadata(["t"])).topics
        assert await consumer.position(TP) == 10


async def test_l14_a_partition_that_moved_is_fetched_without_the_pause_of_its_old_leader() -> None:
    async with Scripted(2) as cluster, consumer_of(cluster) as consumer:
        short_log(cluster, 5)
        consumer.assign([TP])
        await offsets(consumer, 5)
        part = consumer._core.part(TP)
        part.failed(
            BrokerError("slow"),
            consumer._core.cluster.now_ms(),
            delay_ms=10**6,
            patience_ms=None,
            epoch=5,
        )
        assert part.must_wait(consumer._core.cluster.now_ms(), 5)
        short_log(cluster, 7)
        move(cluster, 2, 6)
        await consumer._core.cluster.refresh(consumer._core.cluster.deadline())
        assert await offsets(consumer, 2) == [5, 6]


async def test_brokers_that_share_an_address_are_kept_apart_by_their_ids() -> None:
    async with Scripted(1) as cluster, consumer_of(cluster) as consumer:
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
