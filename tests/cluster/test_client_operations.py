"""Every operation of the client against embedded brokers of every kind of
release, alone and mixed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing

import pyarrow as pa
import pytest

from parley.client import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    AsyncClient,
    Client,
    FetchOptions,
    NewTopic,
    OffsetAndMetadata,
    ProduceOptions,
    Timestamp,
    TopicPartition,
    record_shape,
    spark_shape,
)
from parley.devcluster import LocalCluster
from parley.errors import BrokerError, ConfigError, DataLossError, UnsupportedVersionError
from parley.messages import MetadataRequest
from parley.schema import ApiKey

from ..support import GENEROUS_MS

RELEASES = ("0.9.0.1", "0.10.0.1", "0.10.2", "0.11.0.3", "1.1", "2.4", "2.8", "3.9", "4.3")
MIXED = {1: "2.4", 2: "3.9", 3: "4.3"}


@pytest.fixture(scope="module", params=[*RELEASES, "mixed"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    releases = MIXED if request.param == "mixed" else None
    release = "4.3" if request.param == "mixed" else request.param
    with LocalCluster(brokers=3, release=release, releases=releases) as running:
        yield running


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(
        bootstrap_servers=cluster.bootstrap_servers, default_api_timeout_ms=GENEROUS_MS
    ) as made:
        yield made


@pytest.fixture
def topic(cluster: LocalCluster, request: pytest.FixtureRequest) -> str:
    name = f"t{abs(hash(request.node.nodeid)) % 10**9}"
    cluster.create_topic(name, partitions=4, replication_factor=3)
    return name


def table(count: int, start: int = 0) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table(
        {"key": [f"k{i % 50}" for i in numbers], "value": [f"value {i}" for i in numbers]}
    )


def read_all(client: Client, topic: str, **options: object) -> list[bytes]:
    tps = [TopicPartition(topic, index) for index in range(4)]
    reading = client.fetch_many(dict.fromkeys(tps, (EARLIEST, LATEST)), FetchOptions(**options))
    return [value for found in reading for value in found.batch.column("value").to_pylist()]


def magic(client: Client) -> int:
    highest = client.api_versions().choose(ApiKey.PRODUCE)
    return 2 if highest >= 3 else highest - 1 if highest else 0


def codecs(client: Client) -> list[str]:
    zstd = client.api_versions().usable(ApiKey.PRODUCE).max >= 7
    return ["none", "gzip", "snappy", "lz4", *(["zstd"] if zstd else [])]


def test_what_is_written_is_read_with_every_codec(client: Client, topic: str) -> None:
    sent = 0
    for codec in codecs(client):
        options = ProduceOptions(compression_type=codec, batch_size=2_000)
        result = client.produce(topic, table(500, sent), options=options)
        assert result.records == 500
        assert result.idempotent is (magic(client) == 2)
        sent += 500
    found = read_all(client, topic)
    assert sorted(found) == sorted(f"value {i}".encode() for i in range(sent))


def test_offsets_of_the_acknowledgements_are_where_the_rows_lie(client: Client, topic: str) -> None:
    for start in (0, 300):
        result = client.produce(topic, table(300, start), options=ProduceOptions(batch_size=1_000))
        for tp, ack in result.partitions.items():
            (batch,) = list(client.fetch(tp, ack.base_offset, ack.base_offset + 1))
            assert batch.num_rows == 1
            assert batch.column("offset").to_pylist() == [ack.base_offset]
            assert sum(part.records for part in ack.batches) == ack.records
            following = ack.base_offset
            for part in ack.batches:
                assert part.base_offset == following
                following += part.records


def test_a_range_is_read_exactly(client: Client, topic: str) -> None:
    tp = TopicPartition(topic, 2)
    rows = pa.table({"value": [str(i) for i in range(100)]})
    client.produce(
        topic, rows, partition=2, options=ProduceOptions(batch_size=300, compression_type="gzip")
    )
    for start, end in ((0, 100), (0, 1), (99, 100), (13, 57), (50, 50), (0, 0)):
        batches = list(client.fetch(tp, start, end))
        assert [int(v) for b in batches for v in b.column("value").to_pylist()] == list(
            range(start, end)
        )
        assert [o for b in batches for o in b.column("offset").to_pylist()] == list(
            range(start, end)
        )


def test_list_offsets_at_both_ends_and_by_time(client: Client, topic: str) -> None:
    tp, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)
    times = pa.array([1_000, 2_000, 3_000, 4_000], pa.timestamp("ms"))
    client.produce(
        topic, pa.table({"value": ["a", "b", "c", "d"], "timestamp": times}), partition=0
    )
    assert {
        tp: found.offset for tp, found in client.list_offsets({tp: EARLIEST, empty: LATEST}).items()
    } == {
        tp: 0,
        empty: 0,
    }
    assert client.list_offsets({tp: LATEST})[tp].offset == 4
    highest = client.api_versions().usable(ApiKey.LIST_OFFSETS).max
    if highest >= 1:
        found = client.list_offsets({tp: Timestamp(2_500)})[tp]
        assert (found.offset, found.timestamp_ms) == (2, 3_000)
        assert client.list_offsets({tp: Timestamp(9_999)})[tp].offset == -1
        assert [b.num_rows for b in client.fetch(tp, Timestamp(1_500), Timestamp(3_500))] == [2]
    else:
        with pytest.raises(UnsupportedVersionError) as caught:
            client.list_offsets({tp: Timestamp(2_500)})
        assert (caught.value.feature, caught.value.local) == ("offsets-by-time", True)
    if highest >= 7:
        assert client.list_offsets({tp: MAX_TIMESTAMP})[tp].offset == 3


def test_headers_arrive_or_are_refused_before_anything_is_sent(client: Client, topic: str) -> None:
    headers = pa.array([[{"key": "h", "value": b"1"}, {"key": "n", "value": None}], []])
    rows = pa.table({"value": ["a", "b"], "headers": headers})
    if magic(client) == 2:
        client.produce(topic, rows, partition=0)
        (batch,) = client.fetch(TopicPartition(topic, 0), 0, 2)
        assert batch.column("headers").to_pylist() == headers.to_pylist()
    else:
        with pytest.raises(UnsupportedVersionError) as caught:
            client.produce(topic, rows, partition=0)
        assert (caught.value.feature, caught.value.local) == ("record-headers", True)
        assert (
            client.list_offsets({TopicPartition(topic, 0): LATEST})[TopicPartition(topic, 0)].offset
            == 0
        )


def test_nulls_empties_and_times_survive(client: Client, topic: str) -> None:
    keys, values = pa.array([None, b"", b"k", b"x"]), pa.array([b"v", None, b"", b"y"])
    times = pa.array([0, 5, 2**40, 7], pa.int64())
    client.produce(topic, pa.table({"key": keys, "value": values, "timestamp": times}), partition=3)
    (batch,) = client.fetch(TopicPartition(topic, 3), 0, 4)
    assert batch.column("key").to_pylist() == keys.to_pylist()
    assert batch.column("value").to_pylist() == values.to_pylist()
    found = batch.column("timestamp").cast(pa.int64()).to_pylist()
    assert found == (times.to_pylist() if magic(client) > 0 else [-1] * 4)


def test_guarantees_that_a_broker_lacks(client: Client, topic: str) -> None:
    explicit = ProduceOptions(enable_idempotence=True)
    committed = FetchOptions(isolation_level="read_committed")
    if magic(client) == 2:
        assert client.produce(topic, table(5), options=explicit).idempotent
        assert len(read_all(client, topic, isolation_level="read_committed")) == 5
        return
    # silently without, where it was not asked for
    assert not client.produce(topic, table(5)).idempotent
    with pytest.raises(UnsupportedVersionError) as caught:
        client.produce(topic, table(5), options=explicit)
    assert caught.value.feature == "idempotent-producer"
    with pytest.raises(UnsupportedVersionError) as caught:
        list(client.fetch(TopicPartition(topic, 0), 0, 1, committed))
    assert caught.value.feature == "read-committed"
    if not client.api_versions().usable(ApiKey.PRODUCE).max >= 7:
        with pytest.raises(UnsupportedVersionError) as caught:
            client.produce(topic, table(5), options=ProduceOptions(compression_type="zstd"))
        assert caught.value.feature == "zstd"


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_each_kind_of_acknowledgement(client: Client, topic: str, acks: str) -> None:
    result = client.produce(topic, table(50), options=ProduceOptions(acks=acks))
    assert result.records == 50
    if acks == "0":
        assert all(ack.base_offset == -1 for ack in result.partitions.values())
        tps = [TopicPartition(topic, index) for index in range(4)]
        ends = {
            tp: (0, result.partitions[tp].records if tp in result.partitions else 0) for tp in tps
        }
        assert sum(found.batch.num_rows for found in client.fetch_many(ends)) == 50
    else:
        assert len(read_all(client, topic)) == 50


def test_offsets_are_committed_and_come_back(client: Client, topic: str) -> None:
    tp, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert client.committed_offsets(f"g-{topic}", [tp, other]) == {tp: None, other: None}
    client.commit_offsets(f"g-{topic}", {tp: OffsetAndMetadata(5, "note")})
    found = client.committed_offsets(f"g-{topic}", [tp, other])
    assert (found[tp].offset, found[tp].metadata, found[other]) == (5, "note", None)
    assert client.committed_offsets(f"g-{topic}", []) == {}


def test_metadata_of_one_topic_and_of_all(client: Client, topic: str) -> None:
    view = client.metadata([topic])
    assert sorted(view.topics[topic].partitions) == [0, 1, 2, 3]
    assert set(view.brokers) == {1, 2, 3}
    assert all(view.leader(TopicPartition(topic, index)) is not None for index in range(4))
    assert topic in client.metadata().topics
    assert client.metadata([topic]).topics.keys() >= {topic}


def test_what_does_not_exist_is_said_and_not_made(
    client: Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.client.cluster.wanted_topics.UNKNOWN_TOPIC_GRACE_MS", 200)
    with pytest.raises(BrokerError) as caught:
        list(client.fetch(TopicPartition("no-such-topic", 0), EARLIEST, 1))
    assert (caught.value.code, caught.value.topic) == (3, "no-such-topic")
    assert "no-such-topic" not in client.metadata().topics
    for call in (
        lambda: client.list_offsets({TopicPartition(topic, 9): EARLIEST}),
        lambda: list(client.fetch(TopicPartition(topic, 9), 0, 1)),
        lambda: client.produce(
            topic, table(1), partition=9, options=ProduceOptions(max_block_ms=300)
        ),
    ):
        with pytest.raises(BrokerError) as caught:
            call()
        assert (caught.value.code, caught.value.topic, caught.value.partition) == (3, topic, 9)


def test_topics_are_created_used_at_once_and_deleted(client: Client, cluster: LocalCluster) -> None:
    if client.api_versions().usable(ApiKey.CREATE_TOPICS) is None:
        with pytest.raises(UnsupportedVersionError) as caught:
            client.create_topics([NewTopic("fresh")])
        assert caught.value.feature == "create-topics"
        return
    made = client.create_topics(
        [NewTopic("fresh", num_partitions=2, replication_factor=3), NewTopic("other")]
    )
    assert set(made) == {"fresh", "other"}
    assert client.produce("fresh", table(10)).records == 10
    with pytest.raises(BrokerError) as caught:
        client.create_topics([NewTopic("fresh"), NewTopic("third")])
    assert (caught.value.code, caught.value.topic) == (36, "fresh")
    assert "third" in client.metadata().topics
    client.delete_topics(["fresh", "other", "third"])
    assert not {"fresh", "other", "third"} & set(client.metadata().topics)
    with pytest.raises(BrokerError) as caught:
        client.delete_topics(["fresh"])
    assert caught.value.code == 3


def test_any_request_can_be_sent(client: Client, topic: str) -> None:
    answer = client.request(
        2, MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
    )
    assert [found.name for found in answer.topics] == [topic]


def test_shapes_choose_columns_and_types(client: Client, topic: str) -> None:
    client.produce(
        topic,
        pa.table({"key": ["k"], "value": ["v"], "timestamp": pa.array([5], pa.int64())}),
        partition=0,
    )
    tp = TopicPartition(topic, 0)
    (batch,) = client.fetch(tp, 0, 1, FetchOptions(shape=record_shape(["value", "offset"])))
    assert batch.to_pylist() == [{"offset": 0, "value": b"v"}]
    (batch,) = client.fetch(tp, 0, 1, FetchOptions(shape=spark_shape(include_headers=True)))
    row = batch.to_pylist()[0]
    assert (row["topic"], row["partition"], row["key"], row["timestampType"]) == (
        topic,
        0,
        b"k",
        0 if magic(client) else -1,
    )
    assert batch.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    with pytest.raises(ConfigError, match="valu"):
        record_shape(["valu"])


def test_a_message_larger_than_the_fetch_is_read_all_the_same(client: Client, topic: str) -> None:
    """Brokers before Fetch v3 return nothing whole then; the fetch grows (KIP-74)."""
    tp = TopicPartition(topic, 0)
    values = ["s", "x" * 5_000, "y" * 700_000, "z"]
    client.produce(
        topic, pa.table({"value": values}), partition=0, options=ProduceOptions(batch_size=1)
    )
    options = FetchOptions(max_partition_fetch_bytes=100)
    assert [
        v.decode() for b in client.fetch(tp, 0, 4, options) for v in b.column("value").to_pylist()
    ] == values
    if client.api_versions().usable(ApiKey.FETCH).max < 3:
        with pytest.raises(BrokerError) as caught:
            list(
                client.fetch(
                    tp, 2, 4, FetchOptions(max_partition_fetch_bytes=100, fetch_max_bytes=10_000)
                )
            )
        assert (caught.value.code, caught.value.partition) == (10, 0)


def test_an_offset_that_is_not_there_is_data_loss(client: Client, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    client.produce(topic, table(10), partition=0)
    with pytest.raises(DataLossError) as caught:
        list(client.fetch(tp, 50, 60))
    error = caught.value
    assert (error.topic, error.partition, error.expected_offset, error.available_offset) == (
        topic,
        0,
        50,
        10,
    )


def test_rows_name_their_own_topics_and_partitions(
    client: Client, cluster: LocalCluster, topic: str
) -> None:
    other = topic + "-b"
    cluster.create_topic(other, partitions=4)
    rows = pa.table(
        {
            "value": ["1", "2", "3", "4"],
            "topic": [topic, other, topic, other],
            "partition": pa.array([0, 1, 2, 3], pa.int32()),
        }
    )
    result = client.produce(None, rows)
    assert set(result.partitions) == {
        TopicPartition(topic, 0),
        TopicPartition(other, 1),
        TopicPartition(topic, 2),
        TopicPartition(other, 3),
    }
    assert sorted(read_all(client, other)) == [b"2", b"4"]


def test_the_newest_common_versions_are_spoken(
    client: Client, cluster: LocalCluster, topic: str
) -> None:
    client.produce(topic, table(200))
    assert len(read_all(client, topic)) == 200
    used = client.versions_in_use()
    for node_id, versions in used.items():
        offered = client.api_versions(node_id)
        for key in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS):
            if key in versions:
                assert versions[key] == offered.choose(key), (node_id, key)
    assert {key for versions in used.values() for key in versions} >= {ApiKey.PRODUCE, ApiKey.FETCH}


async def test_the_asynchronous_face_does_the_same(cluster: LocalCluster, topic: str) -> None:
    tp = TopicPartition(topic, 1)
    async with AsyncClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        results = await asyncio.gather(
            *(client.produce(topic, table(100, 100 * i), partition=1) for i in range(5))
        )
        assert sum(result.records for result in results) == 500
        seen = 0
        async with aclosing(client.fetch(tp, EARLIEST, LATEST)) as batches:
            async for batch in batches:
                seen += batch.num_rows
        assert seen == 500
        async with aclosing(client.fetch(tp, 0)) as batches:  # without end: left early
            async for batch in batches:
                assert batch.num_rows
                break
