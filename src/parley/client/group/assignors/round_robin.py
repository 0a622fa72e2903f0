"""The assignor "roundrobin": partitions of all topics one by one to the members in a ring (G27)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence

from parley.client.group.assignors.base import Assignment, Member, Topics, in_order, subscribers
from parley.types import TopicPartition


class RoundRobinAssignor:
    """Deal partitions, sorted by topic and number, to members in a ring.

    Counts differ by one at most where all subscribe to the same topics. It keeps nothing of what
    members had.
    """

    name = "roundrobin"
    cooperative = False

    def user_data(self, owned: Collection[TopicPartition], generation: int) -> None:
        """Return None: what members owned does not matter here."""

    def assign(self, topics: Topics, members: Sequence[Member]) -> Assignment:
        """Return what each member gets, sorted by topic and number."""
        ring = in_order(members)
        given: Assignment = {member.member_id: [] for member in ring}
        turn = 0
        for topic, places in subscribers(topics, ring).items():
            for index in range(len(topics[topic])):
                place = places[bisect_left(places, turn) % len(places)]
                given[ring[place].member_id].append(TopicPartition(topic, index))
                turn = place + 1
        return given
