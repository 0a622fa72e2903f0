"""What the tests of the embedded cluster share: one-partition talk over a plain connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from parley.devcluster import LocalCluster
from parley.messages import request_class
from parley.records import Record, WriteOptions, columns_from_records, encode_batches
from parley.schema import ApiKey
from parley.testing.wire import Wire

TOPIC = "events"
Produce: Any = request_class(ApiKey.PRODUCE)
Fetch: Any = request_class(ApiKey.FETCH)
ListOffsets: Any = request_class(ApiKey.LIST_OFFSETS)


def make_batch(count: int = 1, *, size: int = 10, timestamp_ms: int = 1_000, **options: Any) -> bytes:
    rows = [Record(i, timestamp_ms + i, 0, b"key", bytes([97 + i % 26]) * size) for i in range(count)]
    made = encode_batches(columns_from_records(rows, with_offsets=False), None, WriteOptions(**options))
    return b"".join(bytes(one.data) for one in made)


class Talk:
    """A connection to one broker and the requests that these tests need."""

    def __init__(self, cluster: LocalCluster, broker_id: int, topic: str = TOPIC) -> None:
        self.cluster, self.topic = cluster, topic
        self.wire = Wire(cluster.broker(broker_id).address)

    @property
    def topic_id(self) -> bytes:
        return bytes(self.cluster._cluster.state.image.topics[self.topic].topic_id)

    def produce_request(self, data: bytes | None, *, version: int, acks: int = -1, timeout_ms: int = 5_000) -> Any:
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
        partition = ListOffsets.ListOffsetsPartition(partition_index=0, timestamp=timestamp, **options)
        topic = ListOffsets.ListOffsetsTopic(name=self.topic, partitions=[partition])
        return self.wire.ask(ListOffsets(replica_id=-1, topics=[topic]), version).topics[0].partitions[0]


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
