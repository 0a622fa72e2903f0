"""What a leader shares out by: the topics' shape, and what it takes from an assignor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

import pytest

from parley.client.cluster.view import ClusterMetadata, PartitionMetadata, TopicMetadata
from parley.client.group.assignors import OWN, Assignment, Assignor, Member, Topics
from parley.client.group.classic.leader import shape_of, share_out, share_out_apart
from parley.client.group.formats import Subscription
from parley.errors import LocalProtocolError
from parley.types import Node, TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
ID = b"a" * 16


class Own:
    """A cooperative assignor of a user's that says what it is made with."""

    name, cooperative = "own", True

    def __init__(self, shares: Assignment) -> None:
        self._shares = shares

    def user_data(self, owned: Collection[TopicPartition], generation: int) -> bytes | None:
        return None

    def assign(self, topics: Topics, members: Sequence[Member]) -> Assignment:
        return self._shares


def test_g34_a_cooperative_assignor_may_not_hand_over_what_is_still_owned() -> None:
    shape = {"a": (ID, [frozenset[str](), frozenset[str]()])}
    members = [
        Member("x", Subscription(("a",), None, (A0, A1), 1)),
        Member("y", Subscription(("a",), None)),
    ]
    with pytest.raises(LocalProtocolError, match="gave a-1 to y while x owns it"):
        share_out(Own({"x": [A0], "y": [A1]}), shape, members)
    assert share_out(Own({"x": [A0], "y": []}), shape, members) == {"x": [A0], "y": []}


def test_g23_the_racks_of_all_replicas_count_those_that_are_offline_too() -> None:
    brokers = {at: Node(at, "host", 9092, rack) for at, rack in ((1, "r1"), (2, "r2"), (3, None))}
    partition = PartitionMetadata(0, 1, replicas=(1, 2, 3), offline_replicas=(2,))
    view = ClusterMetadata(
        brokers=brokers, topics={"a": TopicMetadata("a", topic_id=ID, partitions={0: partition})}
    )
    assert shape_of(view, ["a", "nowhere"], racks=True) == {"a": (ID, [frozenset({"r1", "r2"})])}
    assert shape_of(view, ["a"], racks=False) == {"a": (ID, [frozenset()])}


@pytest.mark.parametrize("assignor", OWN, ids=lambda one: one.name)
async def test_a_thousand_partitions_are_shared_out_beside_the_loop_where_that_takes_long(
    assignor: Assignor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member of a busy loop gets the processor back late from another thread."""
    beside: list[str] = []

    async def to_thread(work: Callable[[], object]) -> object:
        beside.append(assignor.name)
        return work()

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    partitions = {at: PartitionMetadata(at, 1) for at in range(1_000)}
    topic = TopicMetadata("a", topic_id=ID, partitions=partitions)
    view = ClusterMetadata(brokers={}, topics={"a": topic})
    members = [Member(f"member {at}", Subscription(("a",))) for at in range(10)]
    shares = await share_out_apart(assignor, view, members, lambda found: found)
    assert [len(found) for found in shares.values()] == [100] * 10
    assert beside == ([assignor.name] if "sticky" in assignor.name else [])
