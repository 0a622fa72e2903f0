"""librdkafka's members of the consumer protocol (KIP-848) on the embedded cluster,
alone and beside parley's.
"""

from __future__ import annotations

from collections.abc import Callable

import confluent_kafka
import pytest

import parley
from parley.devcluster import ClusterSettings, LocalCluster

from ..support import GENEROUS_S

pytestmark = pytest.mark.foreign
TOPIC, PARTITIONS = "shared", 4
SETTINGS = ClusterSettings(
    group_consumer_heartbeat_interval_ms=100, group_consumer_assignment_interval_ms=50
)
Position = tuple[int, int]


class Member:
    """A member of one group, and what it was given and has read."""

    def __init__(self, cluster: LocalCluster, instance: str | None = None) -> None:
        options = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "readers",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        self.consumer = confluent_kafka.Consumer(
            options | ({} if instance is None else {"group.instance.id": instance})
        )
        self.owned: set[int] = set()
        self.lost: list[int] = []
        self.read: list[Position] = []
        self.consumer.subscribe(
            [TOPIC], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def _assigned(self, _: object, parts: list[confluent_kafka.TopicPartition]) -> None:
        self.owned.update(part.partition for part in parts)

    def _revoked(self, _: object, parts: list[confluent_kafka.TopicPartition]) -> None:
        self.owned.difference_update(part.partition for part in parts)

    def _lost(self, _: object, parts: list[confluent_kafka.TopicPartition]) -> None:
        self.lost += [part.partition for part in parts]

    def poll(self) -> None:
        message = self.consumer.poll(0.05)
        if message is not None:
            assert message.error() is None, message.error()
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            self.read.append((partition, offset))


def poll_until(members: list[Member], done: Callable[[], bool]) -> None:
    """Let members poll in turn until something is so."""
    for _ in range(int(GENEROUS_S / 0.05)):
        for member in members:
            member.poll()
        if done():
            return
    raise AssertionError([(member.owned, len(member.read)) for member in members])


def produce(cluster: LocalCluster, each: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for at in range(each * PARTITIONS):
        producer.produce(TOPIC, b"value", partition=at % PARTITIONS)
    assert producer.flush(GENEROUS_S) == 0


@pytest.mark.parametrize("release", ["4.0", "4.3"])
def test_two_members_share_and_one_takes_over(release: str) -> None:
    with LocalCluster(brokers=2, release=release, settings=SETTINGS) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        produce(cluster, 5)
        first = Member(cluster)
        poll_until([first], lambda: len(first.read) == 5 * PARTITIONS)
        first.consumer.commit(asynchronous=False)
        second = Member(cluster)
        poll_until([first, second], lambda: len(first.owned) == len(second.owned) == 2)
        assert first.owned.isdisjoint(second.owned)
        produce(cluster, 5)
        poll_until([first, second], lambda: len(first.read) + len(second.read) == 10 * PARTITIONS)
        assert sorted(first.read + second.read) == [
            (part, at) for part in range(PARTITIONS) for at in range(10)
        ]
        second.consumer.commit(asynchronous=False)
        first.consumer.commit(asynchronous=False)
        first.consumer.close()
        poll_until([second], lambda: len(second.owned) == PARTITIONS)
        produce(cluster, 1)
        poll_until([second], lambda: len(second.read) + len(first.read) == 11 * PARTITIONS)
        assert first.lost == second.lost == []
        second.consumer.close()


def test_g56_a_static_member_that_comes_back_finds_its_partitions() -> None:
    with LocalCluster(brokers=1, release="4.1", settings=SETTINGS) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        stays, goes = Member(cluster), Member(cluster, "i")
        poll_until([stays, goes], lambda: len(stays.owned) == len(goes.owned) == 2)
        before = set(goes.owned)
        goes.consumer.close()
        back = Member(cluster, "i")
        poll_until([stays, back], lambda: back.owned == before)
        assert len(stays.owned) == 2
        for member in (stays, back):
            member.consumer.close()


def test_a_member_of_librdkafka_and_one_of_parley_share() -> None:
    with LocalCluster(brokers=2, release="4.3", settings=SETTINGS) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        produce(cluster, 5)
        theirs, read = Member(cluster), list[Position]()
        poll_until([theirs], lambda: len(theirs.read) == 5 * PARTITIONS)
        theirs.consumer.commit(asynchronous=False)
        with parley.Consumer(
            bootstrap_servers=cluster.bootstrap_servers, group_id="readers",
            group_protocol="consumer",
            auto_offset_reset="earliest",
        ) as ours:  # fmt: skip
            ours.subscribe([TOPIC])

            def shared() -> bool:
                for records in ours.getmany(timeout_ms=50).values():
                    read.extend((record.partition, record.offset) for record in records)
                return len(theirs.owned) == len(ours.assignment()) == 2

            poll_until([theirs], shared)
            produce(cluster, 5)
            poll_until(
                [theirs], lambda: shared() and len(theirs.read) + len(read) == 10 * PARTITIONS
            )
            assert sorted(theirs.read + read) == [
                (part, at) for part in range(PARTITIONS) for at in range(10)
            ]
        poll_until([theirs], lambda: len(theirs.owned) == PARTITIONS)
        assert theirs.lost == []
        theirs.consumer.close()
