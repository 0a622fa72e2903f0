"""The same requests to a real broker and to the embedded
one of the same release: equal answers, or equal closing.

What differs from run to run (ids, ports, times, texts) is masked. A scene runs in the newest
version that the release has, or in the one it names; a version that the release lacks is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from parley.devcluster import LocalCluster
from parley.messages import request_class
from parley.records import Record, WriteOptions, columns_from_records, encode_batches
from parley.schema import ApiKey
from parley.types import ZERO_UUID
from parley.versions import Release, release
from parley_laboratory.compare import differences, plain, transient
from parley_laboratory.wire import Wire

CLOSED = "closed"
NEWEST = 99

Produce: Any = request_class(ApiKey.PRODUCE)
Fetch: Any = request_class(ApiKey.FETCH)
ListOffsets: Any = request_class(ApiKey.LIST_OFFSETS)
Metadata: Any = request_class(ApiKey.METADATA)
OffsetCommit: Any = request_class(ApiKey.OFFSET_COMMIT)
OffsetFetch: Any = request_class(ApiKey.OFFSET_FETCH)
FindCoordinator: Any = request_class(ApiKey.FIND_COORDINATOR)
ListGroups: Any = request_class(ApiKey.LIST_GROUPS)
CreateTopics: Any = request_class(ApiKey.CREATE_TOPICS)
DeleteTopics: Any = request_class(ApiKey.DELETE_TOPICS)
InitProducerId: Any = request_class(ApiKey.INIT_PRODUCER_ID)
EpochEnd: Any = request_class(ApiKey.OFFSET_FOR_LEADER_EPOCH)


def batch(
    count: int = 1, *, size: int = 10, timestamp_ms: int = 1_700_000_000_000, **options: Any
) -> bytes:
    rows = [
        Record(i, timestamp_ms + i, 0, b"key", bytes([97 + i % 26]) * size) for i in range(count)
    ]
    made = encode_batches(
        columns_from_records(rows, with_offsets=False), None, WriteOptions(**options)
    )
    return b"".join(bytes(one.data) for one in made)


class Side:
    """One of the two brokers, and a topic of its own on it."""

    def __init__(self, address: str, found: Release, topic: str) -> None:
        self.address, self.release, self.topic = address, found, topic
        self.log: list[Any] = []
        self._wire: Wire | None = None
        self.topic_id = ZERO_UUID

    def newest(self, message: Any, wanted: int = NEWEST) -> int | None:
        served = self.release.ranges.get(int(message.API_KEY))
        return (
            None
            if served is None or (wanted != NEWEST and wanted not in served)
            else min(wanted, served.max)
        )

    def ask(self, message: Any, wanted: int = NEWEST, *, note: bool = True) -> Any:
        """Send a request, keep the masked answer, return it; None where the
        release lacks the version.
        """
        version = self.newest(message, wanted)
        if version is None:
            return None
        if self._wire is None:
            self._wire = Wire(self.address)
        try:
            answer = self._wire.ask(message, version)
            while transient(plain(answer)):
                answer = self._wire.ask(message, version)
        except ConnectionError:
            self.close()
            answer = None
        if note:
            self.log.append(
                (type(message).__name__, version, plain(answer) if answer is not None else CLOSED)
            )
        return answer

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def make_topic(self) -> None:
        """Make the topic by asking for it, and wait until it has a leader:
        every release can do that.
        """
        asked = Metadata(topics=[Metadata.MetadataRequestTopic(name=self.topic)])
        answer = self.ask(asked, note=False)
        while answer.topics[0].error_code or answer.topics[0].partitions[0].error_code:
            answer = self.ask(asked, note=False)
        self.topic_id = answer.topics[0].topic_id
        while self.fetch(0, note=False).responses[0].partitions[0].error_code:
            pass  # a real broker may not have taken up its leadership yet

    def produce(
        self, data: bytes | None, wanted: int = NEWEST, *, index: int = 0, acks: int = -1, **of: Any
    ) -> Any:
        version = self.newest(Produce(), wanted)
        if version is None:
            return None
        partition = Produce.PartitionProduceData(index=index, records=data)
        name = of.get("name", self.topic)
        where = {"topic_id": of.get("topic_id", self.topic_id)} if version >= 13 else {"name": name}
        topic = Produce.TopicProduceData(**where, partition_data=[partition])
        return self.ask(Produce(acks=acks, timeout_ms=2_000, topic_data=[topic]), wanted)

    def fetch(self, offset: int, wanted: int = NEWEST, *, note: bool = True, **of: Any) -> Any:
        version = self.newest(Fetch(), wanted)
        if version is None:
            return None
        partition = Fetch.FetchPartition(
            partition=of.pop("index", 0),
            fetch_offset=offset,
            partition_max_bytes=of.pop("partition_max_bytes", 100_000),
            current_leader_epoch=of.pop("current_leader_epoch", -1),
            last_fetched_epoch=of.pop("last_fetched_epoch", -1),
        )
        name, topic_id = of.pop("name", self.topic), of.pop("topic_id", self.topic_id)
        where = {"topic_id": topic_id} if version >= 13 else {"topic": name}
        asked = Fetch(
            **{"max_wait_ms": 50, "min_bytes": 1, **of},
            topics=[Fetch.FetchTopic(**where, partitions=[partition])],
        )
        return self.ask(asked, wanted, note=note)

    def offsets(self, timestamp: int, wanted: int = NEWEST, **of: Any) -> Any:
        partition = ListOffsets.ListOffsetsPartition(
            partition_index=of.pop("index", 0), timestamp=timestamp, **of
        )
        topic = ListOffsets.ListOffsetsTopic(name=self.topic, partitions=[partition])
        return self.ask(ListOffsets(replica_id=-1, topics=[topic]), wanted)


# -- scenes ----------------------------------------------------------------------------------------


def own_magic(side: Side) -> int:
    return side.release.record_magic


def scene_produce_and_fetch(side: Side) -> None:
    for codec in (0, 1, 2):
        side.produce(batch(3, magic=own_magic(side), codec=codec))
    for version in range(19):
        side.fetch(0, version)
    for offset in (1, 4, 8, 9):
        side.fetch(offset)


def scene_old_producers(side: Side) -> None:
    for version, magic in ((0, 0), (1, 0), (2, 1), (2, 0), (3, 2)):
        if magic <= own_magic(side):
            for codec in (0, 1):
                side.produce(batch(2, magic=magic, codec=codec), version)
    side.fetch(0)
    side.fetch(0, 2)


def scene_produce_errors(side: Side) -> None:
    good = batch(2, magic=own_magic(side))
    damaged = bytearray(good)
    damaged[-1] ^= 1
    side.produce(bytes(damaged))
    side.produce(good[:-5])
    side.produce(good + good[:-5])
    side.produce(good, index=9)
    side.produce(good, acks=5)
    side.produce(batch(1, size=1_100_000, max_batch_bytes=2_000_000, magic=own_magic(side)))
    side.produce(b"")
    side.fetch(0)


def scene_produce_shape(side: Side) -> None:
    if own_magic(side) < 2:
        return
    side.produce(batch(1) + batch(1))
    side.produce(batch(1, magic=1))
    for version in (6, 7, 8):
        side.produce(batch(1, codec=4), version)
    side.fetch(0)


def scene_idempotence(side: Side) -> None:
    if own_magic(side) < 2:
        return
    for sequence in (0, 0, 2, 0, 2, 7, 4):
        side.produce(batch(2, producer_id=777_000, producer_epoch=3, base_sequence=sequence))
    side.produce(batch(1, producer_id=777_000, producer_epoch=2, base_sequence=6))
    side.produce(batch(1, producer_id=777_000, producer_epoch=4, base_sequence=6))
    side.produce(batch(1, producer_id=777_000, producer_epoch=4, base_sequence=0))
    side.produce(batch(1, producer_id=888_000, producer_epoch=0, base_sequence=5))
    side.fetch(0)


def scene_fetch_errors(side: Side) -> None:
    side.produce(batch(3, magic=own_magic(side)))
    for offset in (-1, 4, 2**40):
        side.fetch(offset)
    side.fetch(0, index=9)
    side.fetch(0, 7, session_id=5, session_epoch=1)
    side.fetch(0, 7, session_id=0, session_epoch=1)
    side.fetch(0, topic_id=b"x" * 16, name="absent-topic")
    side.fetch(0, isolation_level=1)
    for epoch in (0, 7):
        side.fetch(0, 11, current_leader_epoch=epoch)
    if side.release.ranges[1].max >= 12:
        side.fetch(3, last_fetched_epoch=0)
    side.fetch(3, max_wait_ms=1)


def scene_fetch_limits(side: Side) -> None:
    for _ in range(4):
        side.produce(batch(3, size=100, magic=own_magic(side)))
    for version in (2, 3, 4, NEWEST):
        side.fetch(0, version, partition_max_bytes=900)
        side.fetch(0, version, partition_max_bytes=10)
    side.fetch(0, max_bytes=10)
    side.fetch(0, max_bytes=900)


def scene_list_offsets(side: Side) -> None:
    first = 1_700_000_000_000
    for number in range(2):
        side.produce(
            batch(3, magic=own_magic(side), timestamp_ms=first + 1_000 * number, codec=number)
        )
    for version in range(12):
        for timestamp in (-1, -2):
            side.offsets(timestamp, version)
        if version or own_magic(side):
            for timestamp in (0, first, first + 1, first + 3, first + 1_002, first + 5_000):
                if version:
                    side.offsets(timestamp, version)
        if version:
            for timestamp in (-3, -4, -5, -6):
                side.offsets(timestamp, version)
    side.offsets(-1, index=9)
    for epoch in (0, 7):
        side.offsets(-1, 4, current_leader_epoch=epoch)
    side.offsets(-2, 0, max_num_offsets=5)
    side.offsets(-1, 0, max_num_offsets=5)


def scene_metadata(side: Side) -> None:
    named = [Metadata.MetadataRequestTopic(name=side.topic)]
    absent = [Metadata.MetadataRequestTopic(name="never-made")]
    for version in range(14):
        side.ask(Metadata(topics=named), version)
        if version >= 4:
            side.ask(Metadata(topics=absent, allow_auto_topic_creation=False), version)
        if version >= 1:
            side.ask(Metadata(topics=[]), version)
        side.ask(Metadata(topics=[Metadata.MetadataRequestTopic(name="a b")]), version)
        if version >= 8:
            both = Metadata(topics=named, include_topic_authorized_operations=True)
            both.include_cluster_authorized_operations = version <= 10
            side.ask(both, version)
        if version >= 12:
            by_id = [Metadata.MetadataRequestTopic(name=None, topic_id=b"y" * 16)]
            side.ask(Metadata(topics=by_id), version)


def scene_create_and_delete(side: Side) -> None:
    if int(ApiKey.CREATE_TOPICS) not in side.release.ranges:
        return
    version = side.newest(CreateTopics())
    assert version is not None

    def create(note: bool = True, **fields: Any) -> None:
        topic = CreateTopics.CreatableTopic(
            **{"name": f"{side.topic}-new", "num_partitions": 2, "replication_factor": 1, **fields}
        )
        side.ask(CreateTopics(topics=[topic], timeout_ms=10_000), note=note)

    create(name="a b")
    create(num_partitions=0)
    create(replication_factor=0)
    create(replication_factor=9)
    create(configs=[CreateTopics.CreatableTopicConfig(name="no.such", value="1")])
    create(configs=[CreateTopics.CreatableTopicConfig(name="max.message.bytes", value="many")])
    assigned = CreateTopics.CreatableReplicaAssignment
    create(assignments=[assigned(partition_index=0, broker_ids=[1])])
    if side.release.number >= (3, 3):  # with ZooKeeper such a topic waits for broker 77
        create(
            num_partitions=-1,
            replication_factor=-1,
            assignments=[assigned(partition_index=0, broker_ids=[77])],
        )
    if version >= 4:
        create(
            name=f"{side.topic}-default", num_partitions=-1, replication_factor=-1, note=version < 5
        )
    create(note=version < 5)  # v5+ lists the topic's configs, which are not the subject here
    create()
    names = [f"{side.topic}-new", "never-made"]
    states = [DeleteTopics.DeleteTopicState(name=name) for name in names]
    by_name = (side.newest(DeleteTopics()) or 0) < 6
    side.ask(
        DeleteTopics(topic_names=names, timeout_ms=10_000)
        if by_name
        else DeleteTopics(topics=states, timeout_ms=10_000)
    )
    if not by_name:
        unknown = DeleteTopics.DeleteTopicState(name=None, topic_id=b"z" * 16)
        side.ask(DeleteTopics(topics=[unknown], timeout_ms=10_000))


def scene_offsets_of_groups(side: Side) -> None:
    group = f"{side.topic}-group"
    finding = FindCoordinator(key=group)
    side.ask(finding, min(3, side.release.ranges[10].max), note=False)
    newest = side.newest(OffsetCommit())
    assert newest is not None
    commits = range(max(2, side.release.ranges[8].min), min(newest, 9) + 1)

    def commit(version: int, index: int = 0, metadata: str = "note", **fields: Any) -> Any:
        partition = OffsetCommit.OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=5 + version,
            committed_leader_epoch=-1,
            committed_metadata=metadata,
        )
        topic = OffsetCommit.OffsetCommitRequestTopic(name=side.topic, partitions=[partition])
        return OffsetCommit(
            **{"group_id": group, "generation_id_or_member_epoch": -1, "topics": [topic], **fields}
        )

    for version in commits:
        side.ask(commit(version), version)
    last = commits[-1]
    side.ask(commit(last, index=9), last)
    side.ask(commit(last, metadata="x" * 5_000), last)
    side.ask(commit(last, generation_id_or_member_epoch=4, member_id="m"), last)
    for version in range(side.release.ranges[9].min, min(side.release.ranges[9].max, 9) + 1):
        if version == 0:
            continue  # v0 reads ZooKeeper
        if version < 8:
            topic = OffsetFetch.OffsetFetchRequestTopic(
                name=side.topic, partition_indexes=[0, 1, 9]
            )
            side.ask(OffsetFetch(group_id=group, topics=[topic]), version)
            if version >= 2:
                side.ask(OffsetFetch(group_id=group, topics=None), version)
        else:
            topic = OffsetFetch.OffsetFetchRequestTopics(
                name=side.topic, partition_indexes=[0, 1, 9]
            )
            side.ask(
                OffsetFetch(
                    groups=[OffsetFetch.OffsetFetchRequestGroup(group_id=group, topics=[topic])]
                ),
                version,
            )
            side.ask(
                OffsetFetch(
                    groups=[OffsetFetch.OffsetFetchRequestGroup(group_id=group, topics=None)]
                ),
                version,
            )


def scene_epochs(side: Side) -> None:
    if int(ApiKey.OFFSET_FOR_LEADER_EPOCH) not in side.release.ranges:
        return
    side.produce(batch(3))
    for version in range(side.release.ranges[23].min, side.release.ranges[23].max + 1):
        for asked, current in ((0, -1), (1, -1), (-1, -1), (0, 0), (0, 9)):
            partition = EpochEnd.OffsetForLeaderPartition(
                partition=0,
                leader_epoch=asked,
                current_leader_epoch=current if version >= 2 else -1,
            )
            replica = {"replica_id": -1} if version >= 3 else {}
            topic = EpochEnd.OffsetForLeaderTopic(topic=side.topic, partitions=[partition])
            side.ask(EpochEnd(topics=[topic], **replica), version)
    absent = EpochEnd.OffsetForLeaderPartition(partition=9, leader_epoch=0)
    side.ask(
        EpochEnd(topics=[EpochEnd.OffsetForLeaderTopic(topic=side.topic, partitions=[absent])])
    )


def scene_producer_ids(side: Side) -> None:
    if int(ApiKey.INIT_PRODUCER_ID) not in side.release.ranges:
        return
    for version in range(side.release.ranges[22].max + 1):
        side.ask(InitProducerId(transactional_id=None, transaction_timeout_ms=1_000), version)


def scene_coordinators(side: Side) -> None:
    for version in range(side.release.ranges[10].max + 1):
        for kind in (0, 9) if version >= 1 else (0,):
            key = f"{side.topic}-g"
            asked = {"coordinator_keys": [key]} if version >= 4 else {"key": key}
            side.ask(FindCoordinator(**asked, key_type=kind), version)


class Scene(NamedTuple):
    name: str
    play: Callable[[Side], None]


SCENES = [
    Scene(name[6:], play) for name, play in list(globals().items()) if name.startswith("scene_")
]


@pytest.fixture(scope="session")
def embedded(real_release: str) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, release=real_release) as cluster:
        yield cluster


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_the_embedded_broker_answers_as_the_real_one(
    real_broker: Any, real_release: str, embedded: LocalCluster, topic_name: str, scene: Scene
) -> None:
    logs = []
    for address in (real_broker.bootstrap_servers, embedded.bootstrap_servers):
        side = Side(address, release(real_release), topic_name)
        side.make_topic()
        scene.play(side)
        side.close()
        logs.append(side.log)
    real, ours = logs
    found = [
        f"answer {n}: {text}"
        for n, pair in enumerate(zip(real, ours, strict=True))
        for text in differences(*pair)
    ]
    assert not found, "\n".join(found)
