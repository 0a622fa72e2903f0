"""The same requests to a real 4.3.0 and to the embedded cluster: share groups answer alike.

Each scene has a topic and a group of its own on each side. Known differences are not asked for: the
start offset that DescribeShareGroupOffsets reports lags behind in 4.3.0, topic ids that do not
exist fail the whole fetch there, and heartbeats name no partitions until their state is set up.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from parley.devcluster import ClusterSettings, LocalCluster
from parley.messages import (
    CreateTopicsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    FindCoordinatorRequest,
    JoinGroupRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    ProduceRequest,
    ShareFetchResponse,
    ShareGroupDescribeRequest,
)
from parley.records import Record, WriteOptions, columns_from_records, encode_batches
from parley.testing.realbroker import RealCluster
from parley.types import format_uuid
from parley_laboratory.shares import Ack, ShareMember, set_group
from parley_laboratory.wire import Wire

from ..support import eventually

pytestmark = pytest.mark.matrix
NAMES = (f"shared{number}" for number in itertools.count())
NOT_YET = {14, 15, 16}
SHARES = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
ACCEPT, RELEASE, REJECT, RENEW, GAP = (1,), (2,), (3,), (4,), (0,)


class Side:
    """One of the two: a topic, a group that begins at its start, and what was answered."""

    def __init__(self, address: str, name: str) -> None:
        self.address, self.topic, self.group = address, name, f"group-{name}"
        self.wire, self.log = Wire(address, timeout_s=40.0), list[tuple[str, Any]]()
        self.members: dict[str, ShareMember] = {}
        self.topic_id = self._make_topic()

    def _make_topic(self) -> bytes:
        made = CreateTopicsRequest.CreatableTopic(
            name=self.topic, num_partitions=1, replication_factor=1
        )
        self.wire.ask(CreateTopicsRequest(topics=[made], timeout_ms=10_000), 5)
        asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=self.topic)])

        def ready() -> bytes:
            (topic,) = self.wire.ask(asked, 12).topics
            good = not topic.error_code and all(not part.error_code for part in topic.partitions)
            return bytes(topic.topic_id) if good else b""

        return eventually(ready)

    def close(self) -> None:
        for one in (self.wire, *(member.wire for member in self.members.values())):
            one.close()

    def begin(self, **settings: str) -> None:
        """Make the group, with one member that has the partition."""
        named = {f"share.{name.replace('_', '.')}": value for name, value in settings.items()}
        set_group(self.address, self.group, {"share.auto.offset.reset": "earliest", **named})
        self.join("A")

    def join(self, name: str) -> None:
        member = self.member(name)

        def assigned() -> bool:
            # A real broker makes the topics of its coordinators when somebody looks for one.
            for kind, key in ((0, self.group), (2, f"{self.group}:{format_uuid(self.topic_id)}:0")):
                self.wire.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 6)
            answer = member.heartbeat([self.topic] if member.epoch == 0 else None)
            assert answer.error_code in {0, *NOT_YET}, answer
            assert answer.error_code == 0 or member.epoch == 0
            return answer.assignment is not None and bool(answer.assignment.topic_partitions)

        eventually(assigned)

    def member(self, name: str) -> ShareMember:
        if name not in self.members:
            self.members[name] = ShareMember(self.address, self.group, f"member-{name}")
        return self.members[name]

    def produce(self, *sizes: int) -> None:
        for size in sizes:
            rows = [Record(at, 1_000, 0, None, b"value") for at in range(size)]
            made = encode_batches(
                columns_from_records(rows, with_offsets=False), None, WriteOptions()
            )
            part = ProduceRequest.PartitionProduceData(
                index=0, records=b"".join(bytes(one.data) for one in made)
            )
            topic = ProduceRequest.TopicProduceData(name=self.topic, partition_data=[part])
            answer = self.wire.ask(
                ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic]), 11
            )
            assert answer.responses[0].partition_responses[0].error_code == 0

    def fetch(self, name: str = "A", *acks: Ack, wait_ms: int = 100, **options: Any) -> list[Any]:
        member = self.member(name)
        first = member.session_epoch == 0
        asked = [(self.topic_id, 0, acks)] if first or acks else []
        request = member.request(*asked, wait_ms=wait_ms, **options)
        answer: ShareFetchResponse = member.wire.ask(request, 2)
        member.session_epoch += answer.error_code == 0 and member.session_epoch >= 0
        seen = summary(answer)
        self.log.append((f"fetch {name}", seen))
        return seen

    def acknowledge(self, name: str, *acks: Ack, renews: bool = False) -> None:
        code = self.member(name).acknowledge(self.topic_id, 0, *acks, renews=renews)
        self.log.append((f"acknowledge {name} {acks}", code))

    def ask(self, message: Any, version: int, *fields: str) -> None:
        answer = self.wire.ask(message, version)
        self.log.append(
            (type(message).__name__, [_values(answer, field.split(".")) for field in fields])
        )


def summary(answer: ShareFetchResponse) -> list[Any]:
    """Return what a member would look at: codes, ranges with their deliveries, bytes of records."""
    parts = [
        (part.error_code, part.acknowledge_error_code,
         [(one.first_offset, one.last_offset, one.delivery_count) for one in part.acquired_records],
         sum(len(bytes(piece)) for piece in ([part.records] if isinstance(part.records,
             memoryview) else part.records)))
        for topic in answer.responses
        for part in topic.partitions
    ]  # fmt: skip
    return [answer.error_code, answer.acquisition_lock_timeout_ms, *parts]


def _values(value: Any, path: list[str]) -> Any:
    if isinstance(value, list):
        return [_values(one, path) for one in value]
    return _values(getattr(value, path[0]), path[1:]) if path else value


# -- scenes ----------------------------------------------------------------------------------------


def scene_acknowledgements(side: Side) -> None:
    side.begin()
    side.produce(7)
    side.fetch("A")
    side.fetch("B")
    for acks in (
        [(0, 0, ACCEPT)], [(0, 0, ACCEPT)], [(1, 1, RELEASE)], [(2, 2, (9,))], [(2, 4, (1, 1))],
        [(4, 2, ACCEPT)],
        [(4, 4, ())], [(6, 9, ACCEPT)], [(8, 9, ACCEPT)], [(-1, 0, ACCEPT)],
        [(4, 4, ACCEPT), (2, 2, ACCEPT)],
        [(5, 5, ACCEPT), (5, 5, ACCEPT)], [(2, 3, ACCEPT), (3, 3, ACCEPT)], [(2, 4, (2, 3, 0))],
        [(2, 2, RENEW)],
    ):  # fmt: skip
        side.acknowledge("A", *acks)
    side.acknowledge("A", (5, 5, RENEW), (6, 6, ACCEPT), renews=True)
    side.fetch("B", records=1)
    side.acknowledge("A", (1, 1, ACCEPT))
    side.acknowledge("B", (1, 1, ACCEPT), (5, 5, ACCEPT))


def scene_ways_to_acquire(side: Side) -> None:
    side.begin()
    side.produce(10, 10, 10)
    side.fetch(records=5, batch=3)
    side.fetch(records=15, batch=100)
    side.fetch()
    side.acknowledge("A", (2, 4, RELEASE), (12, 12, RELEASE))
    side.fetch(records=1)
    side.fetch(records=5)
    side.produce(10, 10)
    for records in (5, 7, 7, 7):
        side.fetch(records=records, batch=3, strict=True)


def scene_delivery_counts(side: Side) -> None:
    side.begin()
    side.produce(16)
    for _ in range(6):
        taken: list[tuple[int, int]] = []
        while True:
            seen = side.fetch(wait_ms=60)
            found = [(first, last) for part in seen[2:] for first, last, _ in part[2]]
            if not found:
                break
            taken += found
        if taken:
            side.acknowledge("A", *((first, last, RELEASE) for first, last in taken))


def scene_record_locks(side: Side) -> None:
    side.begin(partition_max_record_locks="100", delivery_count_limit="3")
    side.produce(*[40] * 5)
    side.fetch()
    side.fetch()
    side.acknowledge("A", (0, 9, ACCEPT), (50, 50, ACCEPT), (60, 60, RELEASE))
    side.fetch()
    side.acknowledge("A", (10, 49, ACCEPT))
    side.fetch()


def scene_sessions(side: Side) -> None:
    side.begin()
    side.produce(4)
    member = side.member("A")
    side.fetch("B")
    for epoch in (3, -1):
        member.session_epoch = epoch
        side.fetch("A")
    member.session_epoch = 0
    side.acknowledge("A", (0, 0, ACCEPT))
    side.fetch("A", (0, 0, ACCEPT))
    side.fetch("A")
    side.fetch("A")
    member.session_epoch = 0
    side.fetch("A")  # takes the place of the session before
    side.member("B").session_epoch = -1
    side.acknowledge("B", (0, 0, ACCEPT))
    side.fetch("A")
    side.fetch("B")
    gone = side.member("C")
    side.produce(2)
    side.fetch("C")
    gone.close()
    del side.members["C"]
    eventually(lambda: len(side.fetch("A")) > 2 or side.log.pop() is None)
    side.fetch("C")


def scene_operators(side: Side) -> None:
    side.begin()
    named = [side.group, "absent-group"]
    fields = ("group_state", "assignor_name", "error_code")
    for name in named:  # in one request 4.3.0 answers in any order
        side.ask(
            ShareGroupDescribeRequest(group_ids=[name]), 1, *(f"groups.{field}" for field in fields)
        )
    made = DescribeShareGroupOffsetsRequest
    groups = [
        made.DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=None)
        for name in (*named, "")
    ]
    for group in groups:
        side.ask(
            made(groups=[group]), 1, "groups.topics.partitions.start_offset", "groups.error_code"
        )
    topic = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic(
        topic_name=side.topic
    )
    for name in (*named, ""):
        side.ask(
            DeleteShareGroupOffsetsRequest(group_id=name, topics=[topic]),
            0,
            "error_code",
            "error_message",
        )
    keys = [f"{side.group}:AAAAAAAAAAAAAAAAAAAAAQ:0", "bad", f"{side.group}:AAAA:0"]
    side.ask(
        FindCoordinatorRequest(key_type=2, coordinator_keys=keys), 6, "coordinators.error_code"
    )
    for _ in range(2):  # with a member, and without
        join = JoinGroupRequest(
            group_id=side.group, session_timeout_ms=10_000, rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range")],
        )  # fmt: skip
        side.ask(join, 9, "error_code")
        part = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1
        )
        commit = OffsetCommitRequest.OffsetCommitRequestTopic(name=side.topic, partitions=[part])
        side.ask(
            OffsetCommitRequest(group_id=side.group, topics=[commit]),
            9,
            "topics.partitions.error_code",
        )
        side.ask(OffsetDeleteRequest(group_id=side.group, topics=[]), 0, "error_code")
        leaving = side.member("A")
        leaving.epoch = -1
        side.log.append(("leave", leaving.heartbeat().error_code))


def scene_heartbeats(side: Side) -> None:
    side.begin()
    member = side.member("A")
    known = member.epoch
    for name, epoch, topics in (
        ("A", known + 1, None), ("A", -2, None), ("A", 0, None), ("A", 0, []), ("B", 3, None),
        ("B", -1, None),
        ("A", known, None), ("A", -1, None), ("A", known, None),
    ):  # fmt: skip
        said = side.member(name)
        said.epoch = epoch
        answer = said.heartbeat(topics)
        self_made = answer.error_code == 0
        side.log.append(
            (f"heartbeat {name}", (answer.error_code, answer.heartbeat_interval_ms, self_made))
        )


SCENES: Mapping[str, Callable[[Side], None]] = {
    name.removeprefix("scene_"): scene
    for name, scene in list(globals().items())
    if name.startswith("scene_")
}


@pytest.fixture(scope="module")
def real() -> Iterator[RealCluster]:
    with RealCluster("4.3.0", properties=SHARES) as cluster:
        yield cluster


@pytest.mark.parametrize("scene", SCENES)
def test_a_real_broker_and_the_embedded_one_answer_alike(scene: str, real: RealCluster) -> None:
    name = next(NAMES)
    settings = ClusterSettings(group_share_heartbeat_interval_ms=500)  # as the real one has it
    with LocalCluster(brokers=1, release="4.3.0", settings=settings) as embedded:
        sides = [
            Side(address, name) for address in (real.bootstrap_servers, embedded.bootstrap_servers)
        ]
        for side in sides:
            SCENES[scene](side)
            side.close()
    theirs, ours = (side.log for side in sides)
    assert ours == theirs
