"""Assignors of an application's own: one that works, and those that a leader refuses to use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence

import pytest

from parley.client import AsyncConsumer, TopicPartition
from parley.client.group.assignors import Assignment, Member, Topics
from parley.devcluster import LocalCluster
from parley.errors import LocalProtocolError

from ..support import GENEROUS_S, Polling, eventually_async

TOPIC, PARTITIONS = "shared", 3


class Own:
    """Everything for the first member, or what it is made with."""

    name = "everything-for-one"

    def __init__(
        self, share: Callable[[list[str]], Assignment] | None = None, *, cooperative: bool = False
    ) -> None:
        self.cooperative = cooperative
        self._share = share

    def user_data(self, owned: Collection[TopicPartition], generation: int) -> bytes | None:
        return None

    def assign(self, topics: Topics, members: Sequence[Member]) -> Assignment:
        names = sorted(member.member_id for member in members)
        if self._share is not None:
            return self._share(names)
        shares: Assignment = {name: [] for name in names}
        shares[names[0]] = [
            TopicPartition(topic, at) for topic, racks in topics.items() for at in range(len(racks))
        ]
        return shares


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, release="4.3") as running:
        running.create_topic(TOPIC, PARTITIONS)
        yield running


def consumer_of(cluster: LocalCluster, own: Own) -> AsyncConsumer:
    made = AsyncConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="own",
        heartbeat_interval_ms=50,
        partition_assignment_strategy=[own],
    )
    made.subscribe([TOPIC])
    return made


async def test_an_assignor_of_ones_own_decides(cluster: LocalCluster) -> None:
    async with consumer_of(cluster, Own()) as first, consumer_of(cluster, Own()) as second:
        one, two = Polling(first), Polling(second)
        await eventually_async(lambda: sorted([len(one.owned), len(two.owned)]) == [0, PARTITIONS])
        await one.stop()
        await two.stop()


async def test_heartbeats_and_other_tasks_go_on_while_an_assignor_works(
    cluster: LocalCluster,
) -> None:
    begun, done = threading.Event(), threading.Event()

    class Slow(Own):
        def assign(self, topics: Topics, members: Sequence[Member]) -> Assignment:
            begun.set()
            assert done.wait(GENEROUS_S)
            return super().assign(topics, members)

    async with consumer_of(cluster, Slow()) as consumer:
        polling = Polling(consumer)
        try:
            await eventually_async(begun.is_set)
            cluster.clear_requests()
            await eventually_async(lambda: len(cluster.requests("Heartbeat")) >= 3)
            assert not cluster.requests("SyncGroup")
        finally:
            done.set()
        await eventually_async(lambda: len(polling.owned) == PARTITIONS)
        await polling.stop()


def raising(members: list[str]) -> Assignment:
    raise ZeroDivisionError("nobody to divide by")


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (raising, "raised ZeroDivisionError: nobody to divide by"),
        (lambda members: {}, "has to give every member of the group a share"),
        (lambda members: {key: [] for key in [*members, "a stranger"]}, "and nobody else"),
        (lambda members: {members[0]: [TopicPartition(TOPIC, 0)] * 2}, "gave a partition twice"),
    ],
    ids=["raises", "leaves out", "a stranger", "twice"],
)
async def test_what_cannot_be_used_is_raised_by_the_leaders_polls(
    cluster: LocalCluster, share: Callable[[list[str]], Assignment], text: str
) -> None:
    async with consumer_of(cluster, Own(share)) as consumer:
        for _ in range(2):
            with pytest.raises(LocalProtocolError, match=text):
                await consumer.getone()
