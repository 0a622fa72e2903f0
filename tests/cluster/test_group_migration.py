"""Live groups move between the classic and the consumer protocol: parley's members
and foreign ones (H24, G71).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import confluent_kafka
import pyarrow as pa
import pytest

from parley.client import AsyncConsumer, Client
from parley.devcluster import ClusterSettings, LocalCluster

from ..support import Polling, evenly_shared, eventually, eventually_async
from .test_classic_groups_foreign import (
    GROUP,
    PARTITIONS,
    TOPIC,
    Aiokafka,
    Confluent,
    CooperativeConfluent,
    Member,
    members,
    produce,
    shared,
)

QUICK = ClusterSettings(
    group_consumer_heartbeat_interval_ms=50, group_consumer_assignment_interval_ms=0
)


class Modern(Member):
    """librdkafka's member of the consumer protocol."""

    def consume(self, leaving: Callable[[], bool]) -> None:
        options = {"bootstrap.servers": self.bootstrap, "group.id": GROUP,
                   "group.protocol": "consumer",
                   "auto.offset.reset": "earliest", "enable.auto.offset.store": False}  # fmt: skip
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


def fill(cluster: LocalCluster, each: int) -> None:
    partitions = pa.array([at % PARTITIONS for at in range(each * PARTITIONS)], pa.int32())
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        client.produce(
            TOPIC, pa.table({"value": [b"x"] * len(partitions), "partition": partitions})
        )


def consumer(cluster: LocalCluster, protocol: str, strategy: str) -> AsyncConsumer:
    classic = (
        {"heartbeat_interval_ms": 50, "partition_assignment_strategy": strategy}
        if protocol == "classic"
        else {}
    )
    return AsyncConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=GROUP,
        group_protocol=protocol,
        auto_offset_reset="earliest",
        **classic,
    )


STEPS = [
    ("classic", False), ("classic", False), ("consumer", True), ("consumer", True),
    ("classic", True),
    ("classic", True),
]  # fmt: skip
"""What each next member speaks, and whether the oldest one leaves when it is there."""


@pytest.mark.parametrize(
    ("release", "strategy"),
    [
        ("4.0", "range"),
        ("4.3", "cooperative-sticky"),
        pytest.param("4.0", "cooperative-sticky", marks=pytest.mark.matrix),
        pytest.param("4.3", "range", marks=pytest.mark.matrix),
    ],
)
async def test_a_live_group_moves_there_and_back_and_reads_each_record_once(
    release: str, strategy: str
) -> None:
    """Two classic members, then one of each kind, two of the consumer
    protocol, and all of it back.
    """
    with LocalCluster(brokers=2, release=release, settings=QUICK) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        every: list[Polling] = []
        running: list[Polling] = []
        for step, (protocol, replaces) in enumerate(STEPS, start=1):
            found = consumer(cluster, protocol, strategy)
            await found.start()
            found.subscribe([TOPIC])
            every.append(Polling(found))
            running.append(every[-1])
            await evenly_shared(PARTITIONS, *running)
            if replaces:
                oldest = running.pop(0)
                await oldest.stop()
                await oldest.consumer.stop()
                await evenly_shared(PARTITIONS, *running)
            await asyncio.to_thread(fill, cluster, 3)
            await read_in_total(every, 3 * PARTITIONS * step)
        for one in running:
            await one.stop()
            await one.consumer.stop()
        read = sum((one.read for one in every), Counter[tuple[int, int]]())
        assert read == Counter(
            (part, at) for part in range(PARTITIONS) for at in range(3 * len(STEPS))
        )


async def read_in_total(among: list[Polling], records: int) -> None:
    """Return when members have read so many records together."""
    await eventually_async(lambda: sum(one.read.total() for one in among) >= records)


@pytest.mark.foreign
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", [Confluent, CooperativeConfluent, Aiokafka])
def test_foreign_members_of_both_protocols_share_a_group(kind: type[Member]) -> None:
    with LocalCluster(brokers=2, release="4.3", settings=QUICK) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        classic, modern = kind(cluster, "4.3"), Modern(cluster, "4.3")
        with members(classic):
            eventually(lambda: shared(classic))
            produce(cluster, 2)
            eventually(lambda: len(classic.read) == 2 * PARTITIONS)
            with members(modern):
                eventually(lambda: shared(classic, modern))
                produce(cluster, 2)
                eventually(lambda: len(classic.read) + len(modern.read) == 4 * PARTITIONS)
            eventually(lambda: shared(classic))
            produce(cluster, 2)
            eventually(lambda: len(classic.read) + len(modern.read) == 6 * PARTITIONS)
        assert sorted(classic.read + modern.read) == [
            (part, at) for part in range(PARTITIONS) for at in range(6)
        ]
