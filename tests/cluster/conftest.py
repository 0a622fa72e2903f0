"""What tests of the embedded cluster share: a cluster per module, and one-partition
talk over a plain connection.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from parley.devcluster import LocalCluster
from parley.messages import request_class
from parley.records import Record, WriteOptions, columns_from_records, encode_batches
from parley.schema import ApiKey
from parley_laboratory.wire import Wire

TOPIC = "events"
Produce: Any = request_class(ApiKey.PRODUCE)
Fetch: Any = request_class(ApiKey.FETCH)
ListOffsets: Any = request_class(ApiKey.LIST_OFFSETS)
Metadata: Any = request_class(ApiKey.METADATA)
NAMES = (f"scene{number}" for number in itertools.count())


def make_batch(
    count: int = 1, *, size: int = 10, timestamp_ms: int = 1_000, **options: Any
) -> bytes:
    rows = [
        Record(i, timestamp_ms + i, 0, b"key", bytes([97 + i % 26]) * size) for i in range(count)
    ]
    made = encode_batches(
        columns_from_records(rows, with_offsets=False), None, WriteOptions(**options)
    )
    return b"".join(bytes(one.data) for one in made)


def metadata(address: str, version: int = 9, *names: str) -> Any:
    """Return what a broker reports of some topics, or of all when none are named."""
    with Wire(address) as wire:
        topics = [Metadata.MetadataRequestTopic(name=name) for name in names] if names else None
        return wire.ask(Metadata(topics=topics), version)


class Talk:
    """A connection to one broker and the requests that these tests need."""

    def __init__(self, cluster: LocalCluster, broker_id: int, topic: str = TOPIC) -> None:
        self.cluster, self.topic = cluster, topic
        self.wire = Wire(cluster.broker(broker_id).address)

    @property
    def topic_id(self) -> bytes:
        return bytes(self.cluster._cluster.state.image.topics[self.topic].topic_id)

    def produce_request(
        self, data: bytes | None, *, version: int, acks: int = -1, timeout_ms: int = 5_000
    ) -> Any:
        where = {"topic_id": self.topic_id} if version >= 13 else {"name": self.topic}
        partition = Produce.PartitionProduceData(index=0, records=data)
        topic = Produce.TopicProduceData(**where, partition_data=[partition])
        return Produce(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])

    def produce(self, data: bytes | None, *, version: int = 8, **options: int) -> Any:
        answer = self.wire.ask(self.produce_request(data, version=version, **options), version)
        return answer.responses[0].partition_responses[0]

    def fetch_request(self, offset: int, *, version: int, **options: Any) -> Any:
        topic_id = options.pop("topic_id", None)
        where = {"topic_id": topic_id or self.topic_id} if version >= 13 else {"topic": self.topic}
        of_partition = {"partition_max_bytes": options.pop("partition_max_bytes", 1 << 20)}
        for name in ("current_leader_epoch", "last_fetched_epoch", "partition"):
            if name in options:
                of_partition[name] = options.pop(name)
        partition = Fetch.FetchPartition(**{"partition": 0, **of_partition}, fetch_offset=offset)
        asked = {"max_wait_ms": 0, "min_bytes": 1, **options}
        return Fetch(topics=[Fetch.FetchTopic(**where, partitions=[partition])], **asked)

    def fetch(self, offset: int, *, version: int = 11, **options: Any) -> Any:
        answer = self.wire.ask(self.fetch_request(offset, version=version, **options), version)
        return answer.responses[0].partitions[0]

    def offset(self, timestamp: int, *, version: int = 5, **options: Any) -> Any:
        partition = ListOffsets.ListOffsetsPartition(
            partition_index=0, timestamp=timestamp, **options
        )
        topic = ListOffsets.ListOffsetsTopic(name=self.topic, partitions=[partition])
        return (
            self.wire.ask(ListOffsets(replica_id=-1, topics=[topic]), version)
            .topics[0]
            .partitions[0]
        )


@pytest.fixture(scope="module")
def shared() -> Iterator[LocalCluster]:
    """The cluster of a module; those that need another one have a fixture of
    this name of their own.
    """
    with LocalCluster(brokers=3, release="3.9", seed=1) as running:
        yield running


@pytest.fixture
def cluster(shared: LocalCluster) -> Iterator[LocalCluster]:
    """The module's cluster. After each test nothing is left of its faults and
    scenes, and all replicas agree.
    """
    yield shared
    shared.faults.clear()
    shared.scenes.heal()
    shared.scenes.catch_up()
    shared.scenes.release_metadata()
    for broker in shared.brokers:
        if not broker.running:
            broker.start()
    shared.clear_requests()
    shared.replicas_agree()


@pytest.fixture
def topic(cluster: LocalCluster) -> Iterator[str]:
    """A topic of one partition that broker 1 leads, with replicas on all others."""
    name = next(NAMES)
    cluster.create_topic(name)
    if cluster.leaders(name)[0][0] != 1:
        cluster.move_leader(name, 0, 1)
    yield name
    if name in cluster._cluster.state.image.topics:
        cluster.delete_topic(name)


@pytest.fixture
def events(cluster: LocalCluster) -> Iterator[None]:
    """TOPIC, with one partition that broker 1 leads."""
    cluster.create_topic(TOPIC, 1)
    if cluster.leaders(TOPIC)[0][0] != 1:
        cluster.move_leader(TOPIC, 0, 1)
    yield
    cluster.faults.clear()
    cluster.delete_topic(TOPIC)


@pytest.fixture
def leader(cluster: LocalCluster, events: None, talk_to: Callable[..., Talk]) -> Talk:
    """A connection to TOPIC's leader."""
    return talk_to(cluster, 1)


@pytest.fixture(scope="session")
def batch() -> Callable[..., bytes]:
    """Return the maker of a producer's batches."""
    return make_batch


@pytest.fixture
def talk_to() -> Iterator[Callable[..., Talk]]:
    """Return a function that connects to a broker, to speak about partition 0 of one topic."""
    opened: list[Talk] = []

    def connect(cluster: LocalCluster, broker_id: int = 1, topic: str = TOPIC) -> Talk:
        opened.append(Talk(cluster, broker_id, topic))
        return opened[-1]

    yield connect
    for talk in opened:
        talk.wire.close()
