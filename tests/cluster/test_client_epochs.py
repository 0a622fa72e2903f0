"""Where leader epochs end, and ranges that know the history they were planned in (KIP-320)."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pyarrow as pa
import pytest

from parley.client import (
    AsyncClient,
    Client,
    EpochEndOffset,
    FetchOptions,
    PartitionRange,
    TopicPartition,
)
from parley.devcluster import LocalCluster
from parley.errors import BrokerError, ConfigError, LogTruncationError, TopicRecreatedError
from parley.messages import OffsetForLeaderEpochResponse
from parley.schema import ApiKey

from .scripted import Scripted

TP = TopicPartition("t", 0)
QUICK = {
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 20,
    "default_api_timeout_ms": 800,
    "request_timeout_ms": 600,
}


@pytest.fixture(scope="module", params=["2.4", "4.3"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, release=request.param) as running:
        yield running


@pytest.fixture
def topic(cluster: LocalCluster) -> Iterator[str]:
    cluster.create_topic("epochs", partitions=1, replication_factor=3)
    cluster.move_leader("epochs", 0, 1 if cluster.leaders("epochs")[0][0] != 1 else 2)
    yield "epochs"
    cluster.delete_topic("epochs")


def values(count: int) -> pa.Table:
    return pa.table({"value": [str(i) for i in range(count)]})


def test_each_leader_reports_where_an_epoch_ended(cluster: LocalCluster, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        client.produce(topic, values(3))
        leader, first = cluster.leaders(topic)[0]
        cluster.move_leader(topic, 0, leader % 3 + 1)
        client.produce(topic, values(2))
        assert client.offsets_for_leader_epochs({tp: first}) == {tp: EpochEndOffset(first, 3)}
        assert client.offsets_for_leader_epochs({tp: (first + 1,)}) == {
            tp: EpochEndOffset(first + 1, 5)
        }
        assert client.offsets_for_leader_epochs({tp: (first + 9, first + 1)}) == {
            tp: EpochEndOffset(-1, -1)
        }
        with pytest.raises(BrokerError) as fenced:
            client.offsets_for_leader_epochs({tp: (first, first)})
        assert fenced.value.code == 74
        with pytest.raises(ConfigError, match="-1 is no leader epoch"):
            client.offsets_for_leader_epochs({tp: -1})


@pytest.mark.parametrize("release", ["1.1", "2.3"])
def test_p04_old_leaders_are_not_asked(release: str) -> None:
    with LocalCluster(brokers=1, release=release) as cluster:
        cluster.create_topic("t", partitions=1)
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            client.produce("t", values(3))
            found = client.offsets_for_leader_epochs({TP: 0})
            assert found == {TP: EpochEndOffset(-1, -1, available=False)}
            read = [
                batch.batch.num_rows
                for batch in client.fetch_many({TP: PartitionRange(0, 3, leader_epoch=7)})
            ]
        assert sum(read) == 3
        assert cluster.requests("OffsetForLeaderEpoch") == []


async def read(client: AsyncClient, wanted: PartitionRange) -> list[int]:
    found: list[int] = []
    async with aclosing(
        client.fetch_many({TP: wanted}, FetchOptions(fetch_max_wait_ms=1))
    ) as batches:
        async for part in batches:
            found += [int(value) for value in part.batch.column("value").to_pylist()]
    return found


async def test_p07_a_range_planned_in_another_history_is_not_read() -> None:
    async with (
        Scripted(1) as cluster,
        AsyncClient(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        assert await read(client, PartitionRange(8, 10, leader_epoch=4)) == [*range(10)][8:]
        cluster.answers[1, ApiKey.OFFSET_FOR_LEADER_EPOCH] = lambda _: cluster.epoch_end(3, 6)
        with pytest.raises(
            LogTruncationError, match="t-0: the log was truncated below offset 8"
        ) as raised:
            await read(client, PartitionRange(8, 10, leader_epoch=4))
        error = pickle.loads(pickle.dumps(raised.value))  # Spark's workers send it to the driver
        assert (error.topic, error.partition) == TP
        assert (
            error.position,
            error.position_epoch,
            error.divergent_offset,
            error.divergent_epoch,
        ) == (8, 4, 6, 3)


async def test_p08_a_range_of_an_epoch_that_nobody_knows_is_not_read() -> None:
    async with (
        Scripted(1) as cluster,
        AsyncClient(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        cluster.answers[1, ApiKey.OFFSET_FOR_LEADER_EPOCH] = lambda _: cluster.epoch_end(-1, -1)
        with pytest.raises(LogTruncationError, match="knows nothing of that epoch") as raised:
            await read(client, PartitionRange(8, 10, leader_epoch=4))
        assert raised.value.divergent_offset is None


async def test_p11_an_answer_that_leaves_the_partition_out_is_asked_for_again() -> None:
    async with (
        Scripted(1) as cluster,
        AsyncClient(bootstrap_servers=cluster.bootstrap_servers, **QUICK) as c,
    ):
        answers: list[Any] = [cluster.epoch_end(4, 10, error_code=75), None]

        def answer(_: Any) -> Any:
            if answers:
                found = answers.pop(0)
                return found or OffsetForLeaderEpochResponse(topics=[])
            return cluster.epoch_end(4, 10)

        cluster.answers[1, ApiKey.OFFSET_FOR_LEADER_EPOCH] = answer
        assert await c.offsets_for_leader_epochs({TP: 4}) == {TP: EpochEndOffset(4, 10)}
        assert cluster.count(ApiKey.OFFSET_FOR_LEADER_EPOCH) == 3


def test_a_range_of_a_topic_created_again_is_not_read(cluster: LocalCluster, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        client.produce(topic, values(5))
        found = client.metadata([topic]).topic_id(topic)
        wanted = PartitionRange(0, 5, topic_id=b"another topic id")
        if found == bytes(16):
            assert sum(batch.batch.num_rows for batch in client.fetch_many({tp: wanted})) == 5
            return
        with pytest.raises(TopicRecreatedError, match="deleted and created again") as raised:
            list(client.fetch_many({tp: wanted}))
        error = pickle.loads(pickle.dumps(raised.value))
        assert (error.topic, error.partition, error.planned_id, error.found_id) == (
            *tp,
            b"another topic id",
            found,
        )
