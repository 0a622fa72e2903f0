"""librdkafka's share consumer (KIP-932) on the embedded cluster."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka import ShareConsumer

from parley.devcluster import ClusterSettings, LocalCluster
from parley_laboratory.shares import set_group

from ..support import GENEROUS_S

pytestmark = pytest.mark.foreign
GROUP, TOPIC = "workers", "jobs"
LOCK_MS = 20_000
"""Longer than any pause of a busy machine, shorter than a member's session: it ends by the
cluster's clock.
"""
SETTINGS = ClusterSettings(
    group_share_heartbeat_interval_ms=100,
    group_share_assignment_interval_ms=50,
    group_share_record_lock_duration_ms=LOCK_MS,
)
Read = tuple[int, int]
"""An offset, and which delivery it was."""


class Worker:
    """A member that acknowledges each record itself; `left` has what it
    still has to acknowledge.
    """

    def __init__(self, cluster: LocalCluster) -> None:
        self.consumer = ShareConsumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": GROUP,
                "share.acknowledgement.mode": "explicit",
                "max.poll.records": 5,
            }
        )
        self.consumer.subscribe([TOPIC])

    def poll(self) -> list[confluent_kafka.Message]:
        found = list(self.consumer.poll(0.2))
        assert all(message.error() is None for message in found), found
        return found

    def until_some(self) -> list[confluent_kafka.Message]:
        for _ in range(int(GENEROUS_S / 0.2)):
            if found := self.poll():
                return found
        raise AssertionError("nothing came")

    def say(
        self, messages: list[confluent_kafka.Message], kind: confluent_kafka.AcknowledgeType
    ) -> None:
        for message in messages:
            self.consumer.acknowledge(message, kind)
        assert all(error is None for error in self.consumer.commit_sync(GENEROUS_S).values())


@pytest.fixture(params=["4.3", "4.2"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2, release=request.param, settings=SETTINGS) as made:
        made.create_topic(TOPIC, 1)
        set_group(made.broker(1).address, GROUP, {"share.auto.offset.reset": "earliest"})
        yield made


def produce(cluster: LocalCluster, count: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for at in range(count):
        producer.produce(TOPIC, b"%d" % at)
    assert producer.flush(GENEROUS_S) == 0


def offsets(messages: list[confluent_kafka.Message]) -> list[Read]:
    return [(message.offset() or 0, message.delivery_count() or 0) for message in messages]


def test_a_record_is_released_rejected_accepted(cluster: LocalCluster) -> None:
    accept, release, reject = (
        confluent_kafka.AcknowledgeType.ACCEPT,
        confluent_kafka.AcknowledgeType.RELEASE,
        confluent_kafka.AcknowledgeType.REJECT,
    )
    produce(cluster, 3)
    worker = Worker(cluster)
    first = worker.until_some()
    assert offsets(first) == [(0, 1), (1, 1), (2, 1)]
    worker.consumer.acknowledge(first[0], accept)
    worker.consumer.acknowledge(first[1], reject)
    worker.say(first[2:], release)
    again = worker.until_some()
    assert offsets(again) == [(2, 2)]
    worker.say(again, accept)
    worker.consumer.close()


def test_two_members_share_one_partition_and_one_takes_over(cluster: LocalCluster) -> None:
    produce(cluster, 40)
    accept = confluent_kafka.AcknowledgeType.ACCEPT
    one, two = Worker(cluster), Worker(cluster)
    held = one.until_some()  # and keeps it until the locks are over
    cluster.advance(LOCK_MS)
    read: list[Read] = []
    for _ in range(int(GENEROUS_S / 0.2)):
        found = two.poll()
        two.say(found, accept)
        read += offsets(found)
        if len(read) == 40:
            break
    assert sorted(offset for offset, _ in read) == list(range(40))
    again = {offset for offset, deliveries in read if deliveries == 2}
    assert again == {message.offset() for message in held}
    one.consumer.close()
    two.consumer.close()
