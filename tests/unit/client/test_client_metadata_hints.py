"""Leader hints in the metadata cache (KIP-951): what enters it, and what is ignored."""

import pytest

from parley.client.cluster.view import (
    LeaderAndEpoch,
)
from parley.types import Node, TopicPartition

from .metadata_answers import ID_A, NODES, TP0, TP1, answer, cache_with


def test_k02_a_hint_enters_leader_epoch_and_a_new_node():
    cache = cache_with({0: 10, 1: 10}, topic_id=ID_A)
    assert cache.apply_hint(TP0, 999, 11, [Node(999, "new", 1)])
    assert cache.current_leader(TP0) == LeaderAndEpoch(Node(999, "new", 1), 11)
    assert cache.last_seen_epoch(TP0) == 11
    assert cache.current_leader(TP1) == LeaderAndEpoch(NODES[1], 10)


@pytest.mark.parametrize(
    ("leader", "epoch", "nodes", "partition"),
    [
        (-1, 11, [Node(2, "h", 1)], 0),
        (2, -1, [Node(2, "h", 1)], 0),
        (2, 10, [Node(2, "h", 1)], 0),
        (2, 9, [Node(2, "h", 1)], 0),
        (77, 11, [], 0),
        (77, 11, [Node(78, "h", 1)], 0),
        (2, 11, [Node(2, "h", 1)], 5),
    ],
)
def test_k07_hints_that_are_ignored(leader, epoch, nodes, partition):
    cache = cache_with({0: 10})
    before = cache.snapshot
    assert not cache.apply_hint(TopicPartition("t", partition), leader, epoch, nodes)
    assert cache.snapshot is before


def test_k08_a_hint_keeps_everything_else():
    cache = cache_with({0: 10, 1: 10}, topic_id=ID_A)
    before = cache.snapshot
    cache.apply_hint(TP0, 2, 11, [])
    after = cache.snapshot
    assert (after.controller_id, after.cluster_id) == (before.controller_id, before.cluster_id)
    assert after.topic_id("t") == ID_A
    assert set(after.topics["t"].partitions) == {0, 1}


def test_k09_an_endpoint_overrides_the_cached_one_of_that_id_only():
    cache = cache_with({0: 10})
    assert cache.apply_hint(TP0, 2, 11, [Node(2, "moved", 7)])
    assert cache.snapshot.brokers[2] == Node(2, "moved", 7)
    assert cache.snapshot.brokers[3] == NODES[3]


def test_k10_a_hint_without_endpoints_serves_for_a_known_node():
    cache = cache_with({0: 10})
    assert cache.apply_hint(TP0, 3, 11, [])
    assert cache.current_leader(TP0) == LeaderAndEpoch(NODES[3], 11)


def test_k13_two_brokers_naming_each_other_make_no_loop():
    cache = cache_with({0: 10})
    assert cache.apply_hint(TP0, 2, 11, [])
    assert not any(cache.apply_hint(TP0, leader, 11, []) for leader in (1, 2, 1, 2, 1))
    assert cache.current_leader(TP0).node == NODES[2]


def test_a_hint_below_an_epoch_seen_elsewhere_is_ignored():
    cache = cache_with({0: 10})
    cache.see_epoch(TP0, 15)
    assert not cache.apply_hint(TP0, 2, 14, [])
    assert cache.apply_hint(TP0, 2, 15, [])
    assert cache.current_leader(TP0) == LeaderAndEpoch(NODES[2], 15)


def test_hostile_epochs_do_no_harm():
    cache = cache_with({0: 2**31 - 1})
    assert not cache.apply_hint(TP0, 2, 2**31 - 1, [])
    assert cache.apply(answer({0: -1}, leaders={0: 2}), full=True).outdated == {TP0}
    assert cache.current_leader(TP0) == LeaderAndEpoch(NODES[1], 2**31 - 1)
