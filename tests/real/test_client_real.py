"""The client against real brokers: every operation on every release, and a real
cluster that loses brokers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from parley.client import (
    EARLIEST,
    LATEST,
    Client,
    FetchOptions,
    NewTopic,
    OffsetAndMetadata,
    ProduceOptions,
    Timestamp,
    TopicPartition,
)
from parley.errors import BrokerError, DataLossError, UnsupportedVersionError
from parley.schema import ApiKey
from parley.testing.realbroker import RealCluster

from ..support import GENEROUS_S


@pytest.fixture
def client(real_broker: RealCluster) -> Iterator[Client]:
    with Client(bootstrap_servers=real_broker.bootstrap_servers) as made:
        yield made


@pytest.fixture
def topic(client: Client, topic_name: str) -> str:
    """A topic of one partition: created, or where the broker cannot do that,
    made by asking for it.
    """
    if client.api_versions().usable(ApiKey.CREATE_TOPICS) is not None:
        client.create_topics([NewTopic(topic_name)])
    else:
        with pytest.raises(UnsupportedVersionError) as caught:
            client.create_topics([NewTopic(topic_name)])
        assert (caught.value.feature, caught.value.local) == ("create-topics", True)
    return topic_name


def magic(client: Client) -> int:
    highest = client.api_versions().choose(ApiKey.PRODUCE)
    return 2 if highest >= 3 else 1 if highest == 2 else 0


def table(start: int, count: int) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table(
        {"key": [f"k{i % 17}" for i in numbers], "value": [f"value {i}" * 3 for i in numbers]}
    )


def test_every_codec_there_and_back(client: Client, topic: str) -> None:
    codecs = ["none", "gzip", "snappy", "lz4"]
    if client.api_versions().usable(ApiKey.PRODUCE).max >= 7:
        codecs.append("zstd")
    tp, sent = TopicPartition(topic, 0), 0
    for codec in codecs:
        for batch_size in (500, 200_000):
            options = ProduceOptions(compression_type=codec, batch_size=batch_size)
            result = client.produce(topic, table(sent, 700), options=options)
            assert result.partitions[tp].base_offset == sent
            assert result.idempotent is (magic(client) == 2)
            sent += 700
    expected = [row for start in range(0, sent, 700) for row in table(start, 700).to_pylist()]
    for limit in (5_000, 1 << 20):
        found: list[dict[str, Any]] = []
        for batch in client.fetch(
            tp, EARLIEST, LATEST, FetchOptions(max_partition_fetch_bytes=limit)
        ):
            found += batch.to_pylist()
        assert [row["offset"] for row in found] == list(range(sent))
        assert [(row["key"].decode(), row["value"].decode()) for row in found] == [
            (row["key"], row["value"]) for row in expected
        ]
    (middle,) = client.fetch(tp, 345, 346)
    assert middle.to_pylist()[0]["value"].decode() == expected[345]["value"]


def test_offsets_by_place_and_by_time(client: Client, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    now = 1_700_000_000_000
    times = pa.array([now + 1_000 * i for i in range(10)], pa.int64())
    options = ProduceOptions(batch_size=1)
    client.produce(
        topic, pa.table({"value": [str(i) for i in range(10)], "timestamp": times}), options=options
    )
    assert client.list_offsets({tp: EARLIEST})[tp].offset == 0
    assert client.list_offsets({tp: LATEST})[tp].offset == 10
    if client.api_versions().usable(ApiKey.LIST_OFFSETS).max >= 1:
        assert client.list_offsets({tp: Timestamp(now + 4_500)})[tp][:2] == (5, now + 5_000)
        assert client.list_offsets({tp: Timestamp(now + 10**9)})[tp].offset == -1
    else:
        with pytest.raises(UnsupportedVersionError) as caught:
            client.list_offsets({tp: Timestamp(now)})
        assert caught.value.feature == "offsets-by-time"
    (batch,) = client.fetch(tp, 3, 4)
    found = batch.column("timestamp").cast(pa.int64()).to_pylist()
    assert found == ([now + 3_000] if magic(client) else [-1])


def test_committed_offsets(client: Client, topic: str) -> None:
    client.produce(topic, table(0, 5))
    tp, group = TopicPartition(topic, 0), f"group-{topic}"
    assert client.committed_offsets(group, [tp]) == {tp: None}
    client.commit_offsets(group, {tp: OffsetAndMetadata(3, "so far")})
    found = client.committed_offsets(group, [tp])[tp]
    assert (found.offset, found.metadata) == (3, "so far")


def test_headers_and_guarantees(client: Client, topic: str) -> None:
    headers = pa.array([[{"key": "h", "value": b"x"}, {"key": "h", "value": None}]])
    rows = pa.table({"value": pa.array([None], pa.binary()), "key": ["k"], "headers": headers})
    if magic(client) == 2:
        client.produce(topic, rows, options=ProduceOptions(enable_idempotence=True))
        (batch,) = client.fetch(
            TopicPartition(topic, 0), 0, 1, FetchOptions(isolation_level="read_committed")
        )
        assert batch.to_pylist()[0]["headers"] == headers.to_pylist()[0]
        return
    for options, data in (
        (ProduceOptions(), rows),
        (ProduceOptions(enable_idempotence=True), table(0, 1)),
    ):
        with pytest.raises(UnsupportedVersionError) as caught:
            client.produce(topic, data, options=options)
        assert caught.value.local
    with pytest.raises(UnsupportedVersionError):
        list(
            client.fetch(
                TopicPartition(topic, 0), 0, 1, FetchOptions(isolation_level="read_committed")
            )
        )


def test_a_large_message_and_a_lost_offset(client: Client, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    values = ["a", "b" * 600_000, "c"]
    client.produce(topic, pa.table({"value": values}), options=ProduceOptions(batch_size=1))
    found = [
        v
        for b in client.fetch(tp, 0, 3, FetchOptions(max_partition_fetch_bytes=200))
        for v in b["value"].to_pylist()
    ]
    assert [value.decode() for value in found] == values
    with pytest.raises(DataLossError) as caught:
        list(client.fetch(tp, 100, 101))
    assert (caught.value.expected_offset, caught.value.available_offset) == (100, 3)


def test_what_is_missing_is_said(client: Client, topic: str) -> None:
    client.produce(topic, table(0, 1))
    with pytest.raises(BrokerError) as caught:
        client.list_offsets({TopicPartition(topic, 3): EARLIEST})
    assert (caught.value.code, caught.value.partition) == (3, 3)
    missing = topic + "-missing"
    with pytest.raises(BrokerError) as caught:
        client.metadata([missing])
    assert (caught.value.code, caught.value.topic) == (3, missing)
    assert missing not in client.metadata().topics  # asking did not make it


def test_a_batch_beyond_the_topics_limit_is_sent_in_halves(client: Client, topic_name: str) -> None:
    if client.api_versions().usable(ApiKey.CREATE_TOPICS) is None:
        return  # without topic configs there is no small limit to meet
    client.create_topics([NewTopic(topic_name, configs={"max.message.bytes": "3000"})])
    for start in (0, 500):
        result = client.produce(
            topic_name, table(start, 500), options=ProduceOptions(batch_size=100_000)
        )
        (ack,) = result.partitions.values()
        assert (ack.base_offset, ack.records) == (start, 500)
        assert len(ack.batches) > 4
    found = [
        v
        for b in client.fetch(TopicPartition(topic_name, 0), 0, 1_000)
        for v in b["value"].to_pylist()
    ]
    assert [v.decode() for v in found] == table(0, 1_000)["value"].to_pylist()


@pytest.mark.foreign
def test_another_client_reads_what_was_written(
    client: Client, real_broker: RealCluster, topic: str
) -> None:
    """librdkafka checks every checksum and finds keys, values, times and
    offsets as they were given.
    """
    from confluent_kafka import Consumer, TopicPartition as Theirs

    codecs = ["none", "gzip", "snappy", "lz4"]
    for index, codec in enumerate(codecs):
        options = ProduceOptions(compression_type=codec, batch_size=1_000)
        client.produce(topic, table(100 * index, 100), options=options)
    pinned = (
        {"api.version.request": False, "broker.version.fallback": "0.9.0"}
        if magic(client) == 0
        else {}
    )
    consumer = Consumer(
        {
            "bootstrap.servers": real_broker.bootstrap_servers,
            "group.id": "x",
            "check.crcs": True,
            **pinned,
        }
    )
    consumer.assign([Theirs(topic, 0, 0)])
    found: list[Any] = []
    while len(found) < 400:
        found += consumer.consume(400 - len(found), timeout=GENEROUS_S)
    consumer.close()
    expected = table(0, 400).to_pylist()
    assert [message.offset() for message in found] == list(range(400))
    assert [(message.key().decode(), message.value().decode()) for message in found] == [
        (row["key"], row["value"]) for row in expected
    ]


@pytest.mark.kills
@pytest.mark.parametrize(
    "release",
    [
        pytest.param("2.4.1", marks=pytest.mark.long),
        "3.9.1",
        pytest.param("4.3.0", marks=pytest.mark.long),
    ],
)
def test_real_brokers_die_and_return_under_load(release: str) -> None:
    """Two of three brokers are killed in turn: nothing lost, nothing twice, all in order."""
    settings = {
        "offsets.topic.replication.factor": "3",
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
        "zookeeper.session.timeout.ms": "2000",
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "300",
        "controlled.shutdown.enable": "false",
    }
    with (
        RealCluster(
            release, brokers=3, properties=settings, separate_controller=release >= "3.3"
        ) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        client.create_topics([NewTopic("t", num_partitions=3, replication_factor=3)])
        stop, sent, errors = threading.Event(), [0], []

        def write() -> None:
            try:
                while not stop.is_set():
                    client.produce(
                        "t", table(sent[0], 300), options=ProduceOptions(batch_size=1_000)
                    )
                    sent[0] += 300
            except BaseException as error:
                errors.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        for broker_id in (2, 3):
            progress(sent, errors, 3_000)
            cluster.kill(broker_id)
            progress(sent, errors, 600)
            cluster.start_broker(broker_id)
        progress(sent, errors, 600)
        stop.set()
        writer.join(GENEROUS_S)
        assert not errors
        tps = [TopicPartition("t", index) for index in range(3)]
        found: dict[int, list[int]] = {index: [] for index in range(3)}
        for part in client.fetch_many(dict.fromkeys(tps, (EARLIEST, LATEST))):
            for value in part.batch.column("value").to_pylist():
                found[part.partition.partition].append(
                    int(value.split()[1].decode().removesuffix("value"))
                )
    everything = [value for values in found.values() for value in values]
    assert len(everything) == len(set(everything)) == sent[0]
    assert all(values == sorted(values) for values in found.values())


def progress(sent: list[int], errors: list[BaseException], more: int) -> None:
    """Return when so many more records were acknowledged."""
    target, waited = sent[0] + more, 0.0
    while sent[0] < target and not errors:
        threading.Event().wait(0.05)
        waited += 0.05
        assert waited < GENEROUS_S, "stuck"


def test_versions_in_use_are_the_newest_of_both(client: Client, topic: str) -> None:
    client.produce(topic, table(0, 10))
    list(client.fetch(TopicPartition(topic, 0), 0, 10))
    ((node_id, used),) = client.versions_in_use().items()
    offered = client.api_versions(node_id)
    for key, version in used.items():
        assert version == offered.choose(key), key


def test_a_topic_re_created_under_a_producer_is_written_to_without_an_error(
    real_broker: RealCluster, topic_name: str
) -> None:
    """Kafka 1.0 to 2.4 answer UNKNOWN_PRODUCER_ID and report the log start offset, 0:
    the batch is numbered again.
    """
    with Client(bootstrap_servers=real_broker.bootstrap_servers) as client:
        if client.api_versions().usable(ApiKey.DELETE_TOPICS) is None:
            # before 0.10.1 topics are not deleted over the wire: there is nothing to heal from
            return
        client.create_topics([NewTopic(topic_name)])
        for start in (0, 100, 200):
            client.produce(topic_name, table(start, 100))
        client.delete_topics([topic_name])
        deadline = threading.Event()
        # a deletion goes on after its answer: creating is refused until it is done
        for _ in range(300):
            try:
                client.create_topics([NewTopic(topic_name)])
                break
            except BrokerError as error:
                if error.code not in (3, 36):
                    raise
                deadline.wait(0.1)
        assert client.produce(topic_name, table(0, 50)).records == 50
        assert client.produce(topic_name, table(50, 50)).records == 50
        found = client.list_offsets({TopicPartition(topic_name, 0): LATEST})[
            TopicPartition(topic_name, 0)
        ]
        assert found.offset == 100
