"""Foreign members and parley's in classic groups of the embedded cluster, apart
and together (G67, G68).
"""

from __future__ import annotations

import asyncio
import threading
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import confluent_kafka
import pytest

import parley
from parley.devcluster import LocalCluster

from ..support import GENEROUS_S, eventually

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of what they use of Python's
    import aiokafka
    import kafka
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor as KafkaPythonRange

pytestmark = [
    pytest.mark.foreign,
    # Their sockets and event loops are theirs to close.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
GROUP, TOPIC, PARTITIONS = "readers", "shared", 6
HEARTBEAT_MS = 100
Position = tuple[int, int]


class Member(threading.Thread):
    """A member that polls in a thread of its own, until it is asked to leave."""

    def __init__(self, cluster: LocalCluster, release: str) -> None:
        super().__init__(daemon=True)
        self.bootstrap, self.release = cluster.bootstrap_servers, release
        self.owned: frozenset[int] = frozenset()
        self.read: list[Position] = []
        self.error: BaseException | None = None
        self._leaving = threading.Event()

    def run(self) -> None:
        try:
            self.consume(self._leaving.is_set)
        except BaseException as error:
            self.error = error
            raise

    @abstractmethod
    def consume(self, leaving: Callable[[], bool]) -> None:
        """Poll until `leaving` says so; commit what was read and leave."""

    def leave(self) -> None:
        self._leaving.set()
        self.join(GENEROUS_S)
        assert not self.is_alive()
        assert self.error is None


class Confluent(Member):
    """librdkafka's."""

    strategy, protocol = "range", "classic"

    def consume(self, leaving: Callable[[], bool]) -> None:
        options = {"bootstrap.servers": self.bootstrap, "group.id": GROUP,
                   "auto.offset.reset": "earliest",
                   "enable.auto.offset.store": False}  # fmt: skip
        options |= (
            {"group.protocol": "consumer"}
            if self.protocol == "consumer"
            else {
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "partition.assignment.strategy": self.strategy,
            }
        )
        consumer = confluent_kafka.Consumer(options)
        consumer.subscribe([TOPIC])
        while not leaving():
            message = consumer.poll(0.05)
            self.owned = frozenset(part.partition for part in consumer.assignment())
            if message is not None and message.error() is None:
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                self.read.append((partition, offset))
                consumer.commit(message, asynchronous=False)
        consumer.close()


class Parley(Member):
    """parley's own."""

    strategy, protocol = "range", "classic"

    def consume(self, leaving: Callable[[], bool]) -> None:
        classic = {
            "heartbeat_interval_ms": HEARTBEAT_MS, "partition_assignment_strategy": self.strategy,
        }  # fmt: skip
        with parley.Consumer(
            bootstrap_servers=self.bootstrap, group_id=GROUP, auto_offset_reset="earliest",
            group_protocol=self.protocol, **(classic if self.protocol == "classic" else {}),
        ) as consumer:  # fmt: skip
            consumer.subscribe([TOPIC])
            while not leaving():
                for records in consumer.getmany(timeout_ms=50).values():
                    self.read += [(record.partition, record.offset) for record in records]
                self.owned = frozenset(part.partition for part in consumer.assignment())


class KafkaPython(Member):
    """kafka-python's."""

    assignors: tuple[type, ...] = (KafkaPythonRange,)

    def consume(self, leaving: Callable[[], bool]) -> None:
        consumer = kafka.KafkaConsumer(
            TOPIC, bootstrap_servers=self.bootstrap, group_id=GROUP, auto_offset_reset="earliest",
            heartbeat_interval_ms=HEARTBEAT_MS, enable_auto_commit=False,
            partition_assignment_strategy=self.assignors,
            **({"api_version": (0, 9)} if self.release == "0.9" else {}),
        )  # fmt: skip
        # else it may lead without knowing the topic, and leave it at that
        consumer.partitions_for_topic(TOPIC)
        while not leaving():
            for records in consumer.poll(50).values():
                self.read += [(record.partition, record.offset) for record in records]
                consumer.commit()
            self.owned = frozenset(part.partition for part in consumer.assignment())
        consumer.close()


class Aiokafka(Member):
    """aiokafka's."""

    assignors: tuple[type, ...] = (RangePartitionAssignor,)

    def consume(self, leaving: Callable[[], bool]) -> None:
        asyncio.run(self._consume(leaving))

    async def _consume(self, leaving: Callable[[], bool]) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            TOPIC, bootstrap_servers=self.bootstrap, group_id=GROUP, auto_offset_reset="earliest",
            heartbeat_interval_ms=HEARTBEAT_MS, enable_auto_commit=False,
            partition_assignment_strategy=self.assignors,
        )  # fmt: skip
        await consumer.start()
        try:
            while not leaving():
                for records in (await consumer.getmany(timeout_ms=50)).values():
                    self.read += [(record.partition, record.offset) for record in records]
                    await consumer.commit()
                self.owned = frozenset(part.partition for part in consumer.assignment())
        finally:
            await consumer.stop()


@contextmanager
def members(*joining: Member) -> Iterator[None]:
    for member in joining:
        member.start()
    try:
        yield
    finally:
        for member in joining:
            if member.is_alive():
                member.leave()


def produce(cluster: LocalCluster, each: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for at in range(each * PARTITIONS):
        producer.produce(TOPIC, b"value", partition=at % PARTITIONS)
    assert producer.flush(GENEROUS_S) == 0


def shared(*among: Member) -> bool:
    """Whether every partition is one member's, and each has as many as the others.
    Raises what a member raised.
    """
    for member in among:
        if member.error is not None:
            raise RuntimeError(f"a member ended: {member.error!r}")
    owned = [part for member in among for part in member.owned]
    return (
        sorted(owned) == list(range(PARTITIONS))
        and len({len(member.owned) for member in among}) == 1
    )


def stable(cluster: LocalCluster) -> bool:
    """Whether the group has a leader."""
    with parley.Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        known = [found.group_id for found in client.list_groups()]
        return GROUP in known and client.describe_groups([GROUP])[GROUP].state == "Stable"


def covered(*among: Member) -> bool:
    """Whether every partition is one member's, and each member has one or two."""
    shared(*among)
    owned = [part for member in among for part in member.owned]
    return sorted(owned) == list(range(PARTITIONS)) and {len(member.owned) for member in among} <= {
        1,
        2,
    }


@pytest.mark.parametrize(
    ("kind", "release"),
    [
        pytest.param(Confluent, "0.11", id="confluent-kafka-0.11"),
        pytest.param(Confluent, "4.3", id="confluent-kafka-4.3"),
        pytest.param(KafkaPython, "0.9", id="kafka-python-0.9"),
        pytest.param(KafkaPython, "2.4", id="kafka-python-2.4"),
        pytest.param(KafkaPython, "4.3", id="kafka-python-4.3"),
        pytest.param(Aiokafka, "0.11", id="aiokafka-0.11"),
        pytest.param(Aiokafka, "4.3", id="aiokafka-4.3"),
    ],
)
def test_two_members_share_and_one_takes_over(kind: type[Member], release: str) -> None:
    with LocalCluster(brokers=2, release=release) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        first, second = kind(cluster, release), kind(cluster, release)
        with members(first, second):
            eventually(lambda: shared(first, second))
            if release != "0.9":  # librdkafka needs ApiVersions
                produce(cluster, 3)
                eventually(lambda: len(first.read) + len(second.read) == 3 * PARTITIONS)
                assert sorted(first.read + second.read) == [
                    (part, at) for part in range(PARTITIONS) for at in range(3)
                ]
            first.leave()
            eventually(lambda: shared(second))


@pytest.mark.parametrize("release", ["1.1", "4.3"])
@pytest.mark.parametrize("leader", [Parley, Confluent, KafkaPython, Aiokafka])
def test_g67_four_clients_in_one_group_any_of_them_leading(
    leader: type[Member], release: str
) -> None:
    with LocalCluster(brokers=2, release=release) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        first = leader(cluster, release)
        others = [
            kind(cluster, release)
            for kind in (Parley, Confluent, KafkaPython, Aiokafka)
            if kind is not leader
        ]
        with members(first):
            # who came first leads, even if kafka-python knows no partitions yet
            eventually(lambda: stable(cluster))
            with members(*others):
                every = [first, *others]
                eventually(lambda: covered(*every))
                produce(cluster, 4)
                eventually(
                    lambda: len({at for member in every for at in member.read}) == 4 * PARTITIONS
                )


class CooperativeParley(Parley):
    strategy = "cooperative-sticky"


class CooperativeConfluent(Confluent):
    strategy = "cooperative-sticky"


@pytest.mark.parametrize("leader", [CooperativeParley, CooperativeConfluent])
def test_g68_cooperative_members_of_two_clients(leader: type[Member]) -> None:
    with LocalCluster(brokers=2, release="4.3") as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        (other,) = {CooperativeParley, CooperativeConfluent} - {leader}
        first, second = leader(cluster, "4.3"), other(cluster, "4.3")
        with members(first):
            eventually(lambda: shared(first))
            produce(cluster, 2)
            eventually(lambda: len(first.read) == 2 * PARTITIONS)
            with members(second):
                eventually(lambda: shared(first, second))
                produce(cluster, 2)
                eventually(lambda: len(first.read) + len(second.read) == 4 * PARTITIONS)
            eventually(lambda: shared(first))
