"""The metadata cache's rules, by the labels of Kafka's own tests
(MetadataTest, MetadataSnapshotTest).
"""

import random
from types import SimpleNamespace

import pytest

from parley.client.cluster.metadata_cache import MetadataCache
from parley.client.cluster.topic_merger import AGREEING_ANSWERS
from parley.client.cluster.view import (
    ClusterMetadata,
    LeaderAndEpoch,
    MetadataUpdate,
    PartitionMetadata,
    TopicUpdate,
    read_metadata,
)
from parley.errors import LocalProtocolError
from parley.types import ZERO_UUID, Node, TopicPartition

from .metadata_answers import ID_A, ID_B, NODES, TP0, TP1, answer, cache_with


def raw_response(epoch):
    partition = SimpleNamespace(
        partition_index=0,
        leader_id=1,
        leader_epoch=epoch,
        replica_nodes=[1],
        isr_nodes=[1],
        offline_replicas=None,
        error_code=0,
    )
    topic = SimpleNamespace(
        name="t", topic_id=ZERO_UUID, error_code=0, is_internal=False, partitions=[partition]
    )
    broker = SimpleNamespace(node_id=1, host="h", port=1, rack=None)
    return SimpleNamespace(brokers=[broker], topics=[topic], controller_id=1, cluster_id="c")


@pytest.mark.parametrize("version", range(14))
def test_m01_epochs_of_versions_below_9_are_not_trusted(version):
    update = read_metadata(raw_response(epoch=10), version)
    cache = MetadataCache()
    cache.apply(update, full=True)
    expected = 10 if version >= 9 else -1
    assert cache.current_leader(TP0) == LeaderAndEpoch(Node(1, "h", 1), expected)
    assert cache.last_seen_epoch(TP0) == (10 if version >= 9 else None)


def test_m02_a_lower_epoch_leaves_the_whole_partition_as_it_was():
    cache = cache_with({0: 10}, leaders={0: 2})
    before = cache.snapshot.partition(TP0)
    stale = answer({0: 9}, leaders={0: 1})
    stale = MetadataUpdate(
        12,
        NODES,
        (stale.topics[0]._replace(partitions=(PartitionMetadata(0, 1, 9, (1,), (1,)),)),),
        1,
        "cluster",
    )
    applied = cache.apply(stale, full=True)
    assert applied.outdated == {TP0}
    assert cache.snapshot.partition(TP0) == before


def test_m03_an_equal_epoch_is_accepted_and_a_missing_topic_keeps_its_epochs():
    cache = cache_with({0: 10})
    smaller_isr = PartitionMetadata(0, 1, 10, (1, 2, 3), (1,))
    update = MetadataUpdate(
        12, NODES, (TopicUpdate("t", 0, ZERO_UUID, False, (smaller_isr,)),), 1, "cluster"
    )
    assert not cache.apply(update, full=True).outdated
    assert cache.snapshot.partition(TP0).isr == (1,)

    cache.apply(MetadataUpdate(12, NODES, ()), full=True)
    assert cache.snapshot.partition(TP0) is None
    assert cache.last_seen_epoch(TP0) == 10

    applied = cache.apply(answer({0: 9}), full=True)
    assert applied.outdated == {TP0}
    # it exists, its leader is not taken over
    assert cache.snapshot.partition(TP0) == PartitionMetadata(0, -1)
    assert cache.current_leader(TP0) == LeaderAndEpoch(None, -1)
    cache.apply(answer({0: 10}), full=True)
    assert cache.snapshot.partition(TP0).leader_epoch == 10


def test_m03_a_partition_that_returns_with_an_older_epoch_still_counts():
    """Found by exploration: a topic that came back with one stale partition of two
    seemed to have one partition.
    """
    cache = cache_with({0: 1, 1: 2})
    cache.apply(answer({}, error=3), full=True)
    assert cache.apply(answer({0: 1, 1: 1}), full=True).outdated == {TP1}
    assert list(cache.snapshot.topics["t"].partitions) == [0, 1]
    assert cache.current_leader(TP1).node is None
    cache.apply(answer({0: 1, 1: 2}), full=True)
    assert cache.current_leader(TP1) == LeaderAndEpoch(NODES[1], 2)


def test_m04_an_unknown_topic_keeps_its_epochs_and_another_id_accepts_a_lower_one():
    cache = cache_with({0: 10}, topic_id=ID_A)
    cache.apply(answer({}, error=3), full=True)
    assert "t" not in cache.snapshot.topics
    assert cache.last_seen_epoch(TP0) == 10
    assert cache.topic_error("t") == 3
    cache.apply(answer({0: 3}, topic_id=ID_A), full=True)
    assert cache.current_leader(TP0) == LeaderAndEpoch(None, -1)
    applied = cache.apply(answer({0: 3}, topic_id=ID_B), full=True)
    assert not applied.outdated
    assert cache.last_seen_epoch(TP0) == 3
    assert cache.snapshot.topic_id("t") == ID_B


@pytest.mark.parametrize(
    ("first", "second", "epoch", "accepted"),
    [
        (ZERO_UUID, ID_A, 5, True),  # unknown, then known
        (ID_A, ID_A, 9, False),
        (ID_A, ID_A, 10, True),
        (ID_A, ID_A, 11, True),
        (ID_A, ID_B, 1, True),
        (ID_A, ID_B, 11, True),
    ],
)
def test_m05_epochs_on_changed_topic_ids(first, second, epoch, accepted):
    cache = cache_with({0: 10}, topic_id=first)
    applied = cache.apply(answer({0: epoch}, topic_id=second), full=True)
    assert cache.last_seen_epoch(TP0) == (epoch if accepted else 10)
    assert bool(applied.outdated) is not accepted


def test_m05_a_re_created_topic_with_fewer_partitions_is_taken_at_once():
    cache = cache_with({0: 10, 1: 12}, topic_id=ID_A)
    applied = cache.apply(answer({0: 0}, topic_id=ID_B), full=True)
    assert not applied.outdated
    assert set(cache.snapshot.topics["t"].partitions) == {0}
    assert cache.last_seen_epoch(TP1) is None


def test_m06_no_id_in_the_answer_takes_it_from_the_wire_but_not_from_memory():
    cache = cache_with({0: 10}, topic_id=ID_A)
    assert cache.apply(answer({0: 9}), full=True).outdated == {TP0}
    cache.apply(answer({0: 10}), full=True)
    assert cache.snapshot.topic_id("t") == ZERO_UUID
    # the same id coming back from a broker that is behind: no detour around the epoch rule
    assert cache.apply(answer({0: 9}, topic_id=ID_A), full=True).outdated == {TP0}
    assert cache.last_seen_epoch(TP0) == 10


def test_m06_a_version_that_cannot_carry_ids_says_nothing_about_them():
    cache = cache_with({0: 10}, topic_id=ID_A)
    cache.apply(answer({0: 11}, version=9), full=True)
    assert cache.snapshot.topic_id("t") == ID_A
    assert cache.last_seen_epoch(TP0) == 11


def test_m07_only_a_larger_epoch_seen_elsewhere_asks_for_an_update():
    cache = cache_with({0: 41})
    seen = [cache.see_epoch(TP0, epoch) for epoch in (42, 42, 41, 41, 42, 43, 43, 42, 41, 44)]
    assert seen == [True, False, False, False, False, True, False, False, False, True]
    assert cache.last_seen_epoch(TP0) == 44


def test_m08_the_leader_is_unknown_while_the_picture_is_older_than_what_was_seen():
    cache = cache_with({0: 100})
    assert cache.see_epoch(TP0, 101)
    assert cache.current_leader(TP0) == LeaderAndEpoch(None, 101)
    assert len(cache.snapshot.topics["t"].partitions) == 1
    assert cache.apply(answer({0: 100}), full=True).outdated == {TP0}
    assert cache.current_leader(TP0).node is None
    cache.apply(answer({0: 101}, leaders={0: 3}), full=True)
    assert cache.current_leader(TP0) == LeaderAndEpoch(NODES[3], 101)


def test_m09_without_epochs_everything_works_and_none_is_made_up():
    cache = cache_with({0: -1})
    assert cache.current_leader(TP0) == LeaderAndEpoch(NODES[1], -1)
    assert not cache.see_epoch(TP0, 10)
    assert cache.last_seen_epoch(TP0) is None
    assert not cache.apply(answer({0: -1}, leaders={0: 2}), full=True).outdated
    assert cache.current_leader(TP0).node == NODES[2]
    with pytest.raises(LocalProtocolError):
        cache.see_epoch(TP0, -1)


def test_m10_a_stale_broker_list_makes_the_leader_unavailable_never_the_old_one():
    cache = cache_with({0: 10}, leaders={0: 1})
    stale = answer({0: 8}, leaders={0: 2}, nodes={2: NODES[2], 3: NODES[3]})
    cache.apply(stale, full=True)
    assert cache.snapshot.partition(TP0).leader == 1
    assert cache.snapshot.partition(TP0).leader_epoch == 10
    assert cache.current_leader(TP0) == LeaderAndEpoch(None, 10)
    assert cache.snapshot.leader(TP0) is None
    assert cache.current_leader(TopicPartition("other", 9)) == LeaderAndEpoch(None, -1)


def test_m11_offline_and_foreign_replicas_are_not_read_from():
    cache = cache_with({0: 1}, offline_replicas=(2,))
    assert cache.online_replica(TP0, 1) == NODES[1]
    assert cache.online_replica(TP0, 2) is None
    assert cache.online_replica(TP0, 9) is None
    assert cache.online_replica(TopicPartition("t", 5), 1) is None


def test_m13_a_partial_answer_leaves_other_topics_alone_and_merges_errors():
    cache = cache_with({0: 10}, name="t")
    cache.apply(answer({0: 1}, name="u"), full=False)
    cache.apply(answer({}, name="v", error=29), full=False)
    assert set(cache.snapshot.topics) == {"t", "u"}
    assert cache.topic_error("v") == 29
    cache.apply(answer({}, name="u", error=3), full=False)
    assert set(cache.snapshot.topics) == {"t"}
    assert (cache.topic_error("u"), cache.topic_error("v")) == (3, 29)
    cache.forget("t")
    assert not cache.snapshot.topics
    assert cache.last_seen_epoch(TP0) == 10


@pytest.mark.parametrize("code", [5, 9])
def test_m14_a_partition_in_error_teaches_its_epoch(code):
    cache = cache_with({0: 10})
    leaders = {0: -1} if code == 5 else {0: 2}
    applied = cache.apply(answer({0: 11}, leaders=leaders, errors={0: code}), full=True)
    assert cache.last_seen_epoch(TP0) == 11
    # error 9 says that some replica is away: there is a leader and nothing to wait for
    assert applied.incomplete == ({"t"} if code == 5 else set())
    assert (cache.current_leader(TP0).node is None) is (code == 5)


def test_m14_a_retriable_topic_error_keeps_the_topic_and_asks_again():
    cache = cache_with({0: 10})
    applied = cache.apply(answer({}, error=5), full=True)
    assert applied.incomplete == {"t"}
    assert cache.current_leader(TP0).node == NODES[1]
    applied = cache.apply(answer({}, error=29), full=True)
    assert not applied.incomplete
    assert cache.topic_error("t") == 29


def test_m16_a_snapshot_never_changes():
    cache = cache_with({0: 10, 1: 10}, topic_id=ID_A)
    snapshot = cache.snapshot
    copy = ClusterMetadata(
        dict(snapshot.brokers), dict(snapshot.topics), snapshot.controller_id, snapshot.cluster_id
    )
    cache.apply(answer({0: 11, 1: 11}, leaders={0: 2, 1: 3}, topic_id=ID_A), full=True)
    cache.apply_hint(TP0, 9, 20, [Node(9, "new", 1)])
    cache.forget("t")
    assert snapshot == copy
    assert snapshot.leader(TP0) == NODES[1]
    with pytest.raises(TypeError):
        snapshot.topics["x"] = None
    with pytest.raises(TypeError):
        snapshot.topics["t"].partitions[5] = None


def test_m17_an_answer_without_epoch_does_not_undo_a_known_one():
    cache = cache_with({0: 10}, leaders={0: 1})
    # the same leader: the known epoch stays with it
    assert not cache.apply(answer({0: -1}, leaders={0: 1}), full=True).outdated
    assert cache.current_leader(TP0) == LeaderAndEpoch(NODES[1], 10)
    # another leader: who is right is not known, the old one stays and is asked about again
    for _ in range(AGREEING_ANSWERS - 1):
        assert cache.apply(answer({0: -1}, leaders={0: 2}), full=True).outdated == {TP0}
        assert cache.current_leader(TP0) == LeaderAndEpoch(NODES[1], 10)
    applied = cache.apply(answer({0: -1}, leaders={0: 2}), full=True)
    assert not applied.outdated
    assert not applied.possible_data_loss
    assert cache.current_leader(TP0) == LeaderAndEpoch(NODES[2], -1)


def test_m17_the_last_real_epoch_is_kept_and_still_refuses_what_is_older():
    cache = cache_with({0: 10}, leaders={0: 1})
    for _ in range(AGREEING_ANSWERS):
        cache.apply(answer({0: -1}, leaders={0: 2}), full=True)
    assert cache.last_seen_epoch(TP0) == 10
    # the cluster reports no epochs any more: its next leader is believed at once
    assert not cache.apply(answer({0: -1}, leaders={0: 3}), full=True).outdated
    assert cache.current_leader(TP0) == LeaderAndEpoch(NODES[3], -1)
    assert cache.apply(answer({0: 9}, leaders={0: 1}), full=True).outdated == {TP0}
    assert not cache.apply(answer({0: 11}, leaders={0: 1}), full=True).outdated
    assert cache.current_leader(TP0) == LeaderAndEpoch(NODES[1], 11)


def test_m18_five_agreeing_answers_are_believed_and_reported():
    cache = cache_with({0: 10})
    for _ in range(AGREEING_ANSWERS - 1):
        assert cache.apply(answer({0: 4}), full=True).outdated == {TP0}
    applied = cache.apply(answer({0: 4}), full=True)
    assert applied.possible_data_loss == {TP0}
    assert not applied.outdated
    assert cache.last_seen_epoch(TP0) == 4


def test_m18_answers_that_disagree_are_counted_again():
    cache = cache_with({0: 10})
    for epoch in (4, 4, 4, 4, 5, 4, 4, 4, 4):
        assert cache.apply(answer({0: epoch}), full=True).outdated == {TP0}
    cache.apply(answer({0: 10}), full=True)
    for _ in range(AGREEING_ANSWERS - 1):
        assert cache.apply(answer({0: 4}), full=True).outdated == {TP0}


def test_m18_a_topic_re_created_with_fewer_partitions_without_ids():
    cache = cache_with({0: 1, 1: 1}, version=9)
    for _ in range(AGREEING_ANSWERS - 1):
        applied = cache.apply(answer({0: 1}, version=9), full=True)
        assert applied.outdated == {TP1}
        assert set(cache.snapshot.topics["t"].partitions) == {0, 1}
    applied = cache.apply(answer({0: 1}, version=9), full=True)
    assert applied.possible_data_loss == {TP1}
    assert set(cache.snapshot.topics["t"].partitions) == {0}


def test_only_partitions_of_interest_make_an_answer_outdated():
    cache = cache_with({0: 10, 1: 10})
    cache.set_interest([TP0])
    assert not cache.apply(answer({0: 10, 1: 3}), full=True).outdated
    assert cache.last_seen_epoch(TP1) == 10  # the old entry stays all the same
    assert not cache.apply(answer({0: 10}), full=True).outdated
    assert cache.apply(answer({0: 9, 1: 11}), full=True).outdated == {TP0}
    cache.set_interest(None)
    assert cache.apply(answer({0: 9, 1: 3}), full=True).outdated == {TP0, TP1}


@pytest.mark.parametrize("shuffle_seed", range(20))
def test_epochs_never_go_backwards_in_any_order_of_answers(shuffle_seed):
    rng = random.Random(shuffle_seed)
    cache, highest = cache_with({0: 0}), 0
    history = list(range(1, 40))
    rng.shuffle(history)
    for epoch in history:
        cache.apply(answer({0: epoch}, leaders={0: rng.choice((1, 2, 3))}), full=rng.random() < 0.5)
        highest = max(highest, epoch)
        assert cache.last_seen_epoch(TP0) == highest
        assert cache.snapshot.partition(TP0).leader_epoch == highest
