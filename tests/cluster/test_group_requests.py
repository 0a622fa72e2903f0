"""How many requests a rebalance costs: counted at the embedded coordinator, in virtual time."""

from __future__ import annotations

from collections import Counter

import pytest

from parley.messages import ConsumerGroupHeartbeatRequest

from .lone_member import MODERN, PARTITIONS, TOPIC, Lone, Seen, lone

MEMBERS, SHARE, MOST = 5, 3, 4
APIS = ("FindCoordinator", "JoinGroup", "SyncGroup", "LeaveGroup", "OffsetCommit", "OffsetFetch")
EAGER, COOPERATIVE = (
    {"partition_assignment_strategy": name} for name in ("range", "cooperative-sticky")
)


def caused(one: Lone) -> Counter[str]:
    """Return how many requests each client sent beside its regular heartbeats and fetches."""
    found = [entry.client_id or "" for api in APIS for entry in one.cluster.requests(api)]
    for entry in one.cluster.requests("ConsumerGroupHeartbeat"):
        beat = entry.message
        assert isinstance(beat, ConsumerGroupHeartbeatRequest)
        said = (beat.topic_partitions, beat.subscribed_topic_names)
        if beat.member_epoch <= 0 or said != (None, None):
            found.append(entry.client_id or "")
    return Counter(found)


@pytest.mark.parametrize(
    "how", [EAGER, COOPERATIVE, MODERN], ids=["eager", "cooperative", "consumer"]
)
def test_a_rebalance_costs_each_member_four_requests_at_most(how: dict[str, str]) -> None:
    with lone("4.3", joins=False) as one:
        one.cluster.add_partitions(TOPIC, PARTITIONS + MEMBERS * SHARE)
        for _ in range(MEMBERS):
            one.join(Seen(), **how)
        one.go_on(10_000)
        one.cluster.clear_requests()
        one.join(Seen(), **how)
        one.go_on(10_000)
        sizes = [len(consumer.assignment()) for consumer in one.consumers]
        assert max(sizes) - min(sizes) <= 1
        assert sum(sizes) == PARTITIONS + MEMBERS * SHARE
        counts = caused(one)
        newcomer = counts.pop(f"c{MEMBERS}")
        assert max(counts.values()) <= MOST, counts
        assert newcomer <= MOST + 3  # its coordinator, its id (KIP-394), its positions
