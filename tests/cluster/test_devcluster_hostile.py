"""Requests cut, bent and filled with noise: the broker
closes or answers, never fails, and serves the next client.

B1 to B5 of the reference's fault list, one request at a time; the long fuzzing runs are in
   tests/hostile.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator

import pytest

from parley.devcluster import LocalCluster
from parley.devcluster.handlers import HANDLERS
from parley.messages import encode_request, request_class
from parley.records import Record, WriteOptions, columns_from_records, encode_batches
from parley.schema import ApiKey
from parley_laboratory.wire import Wire

from ..support import GENEROUS_S

TOPIC = "events"
BENT = (0x00, 0x01, 0x7F, 0x80, 0xFF)


@pytest.fixture(scope="module", params=["0.10", "2.4", "4.3"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, release=request.param) as running:
        running.create_topic(TOPIC)
        yield running


@pytest.fixture(autouse=True)
def no_handler_fails(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A handler that raises drops its client, which looks like a refusal from
    outside: the log has it.
    """
    with caplog.at_level(logging.ERROR):
        yield
    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def records(magic: int) -> bytes:
    rows = [Record(i, 1_000 + i, 0, b"k", b"v" * 5) for i in range(2)]
    made = encode_batches(
        columns_from_records(rows, with_offsets=False), None, WriteOptions(magic=magic)
    )
    return b"".join(bytes(batch.data) for batch in made)


def sample(key: ApiKey, version: int, cluster: LocalCluster) -> bytes:
    """Return a valid frame of that API and version, with one topic and one
    partition where it has them.
    """
    kind = request_class(key)
    topic_id = cluster._cluster.state.image.topics[TOPIC].topic_id
    message = kind()
    match key:
        case ApiKey.PRODUCE:
            data = kind.PartitionProduceData(index=0, records=records(min(2, max(0, version - 1))))
            message = kind(
                acks=1,
                timeout_ms=10,
                topic_data=[kind.TopicProduceData(name=TOPIC, partition_data=[data])],
            )
            if version >= 13:
                message.topic_data[0].name, message.topic_data[0].topic_id = "", topic_id
        case ApiKey.FETCH:
            message = kind(
                topics=[
                    kind.FetchTopic(
                        topic=TOPIC, topic_id=topic_id, partitions=[kind.FetchPartition()]
                    )
                ]
            )
        case ApiKey.LIST_OFFSETS:
            asked = kind.ListOffsetsPartition(timestamp=-1)
            message = kind(
                replica_id=-1, topics=[kind.ListOffsetsTopic(name=TOPIC, partitions=[asked])]
            )
        case ApiKey.METADATA:
            message = kind(topics=[kind.MetadataRequestTopic(name=TOPIC)])
        case ApiKey.CREATE_TOPICS:
            topic = kind.CreatableTopic(name="new", num_partitions=1, replication_factor=1)
            topic.configs = [kind.CreatableTopicConfig(name="retention.ms", value="1")]
            message = kind(topics=[topic])
        case ApiKey.OFFSET_COMMIT:
            asked = kind.OffsetCommitRequestPartition(committed_offset=1, committed_metadata="x")
            message = kind(
                group_id="g", topics=[kind.OffsetCommitRequestTopic(name=TOPIC, partitions=[asked])]
            )
        case _:
            pass
    return b"".join(bytes(part) for part in encode_request(message, version, 1, "hostile"))


def provoke(cluster: LocalCluster, frame: bytes) -> None:
    """Send a frame and wait for an answer or the end; whatever comes must come soon."""
    with Wire(cluster.bootstrap_servers, timeout_s=GENEROUS_S) as wire:
        wire.send_frame(frame)
        wire.socket.shutdown(1)  # our side is done: what is not answered is closed
        wire.receive_frame()


def still_serves(cluster: LocalCluster) -> None:
    with Wire(cluster.bootstrap_servers) as wire:
        assert wire.ask(request_class(ApiKey.API_VERSIONS)(), 0).error_code == 0


@pytest.mark.parametrize("key", [ApiKey(key) for key in HANDLERS], ids=lambda key: key.name.lower())
def test_b02_cut_and_bent_requests(cluster: LocalCluster, key: ApiKey) -> None:
    profile = cluster._cluster.broker(1).profile
    if key not in profile.ranges:
        return
    frame = sample(key, profile.ranges[key].max, cluster)
    for kept in range(len(frame)):
        provoke(cluster, frame[:kept])
    rng = random.Random(int(key))
    for at in range(len(frame)):
        bent = bytearray(frame)
        bent[at] = rng.choice(BENT)
        provoke(cluster, bytes(bent))
    still_serves(cluster)


@pytest.mark.parametrize("seed", range(3))
def test_noise(cluster: LocalCluster, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(100):
        provoke(cluster, rng.randbytes(rng.randrange(200)))
    still_serves(cluster)


@pytest.mark.parametrize(
    "start",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(50),
        b"\xff\xff\xff\xff" + bytes(20),
        b"\x7f\xff\xff\xff" + bytes(20),
    ],
    ids=["http", "tls", "negative size", "2 GiB"],
)
def test_what_is_not_kafka_is_closed(cluster: LocalCluster, start: bytes) -> None:
    with Wire(cluster.bootstrap_servers, timeout_s=GENEROUS_S) as wire:
        wire.socket.sendall(start)
        assert wire.receive_frame() == b""
    still_serves(cluster)


def test_memory_follows_what_came_not_what_was_announced(cluster: LocalCluster) -> None:
    """B3: 50 MiB announced by 20 clients, ten bytes sent by each."""
    wires = [Wire(cluster.bootstrap_servers) for _ in range(20)]
    for wire in wires:
        wire.socket.sendall((50 * 1024 * 1024).to_bytes(4, "big") + bytes(10))
    still_serves(cluster)
    server = cluster._cluster.broker(1)._servers["PLAINTEXT"]
    held = sum(connection._protocol._framer.allocated_bytes for connection in server.connections)
    assert held < 20 * 512 * 1024
    for wire in wires:
        wire.close()
