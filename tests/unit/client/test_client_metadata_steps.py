"""Metadata answers that are merged step by step: the steps change nothing, and
what comes in between counts.
"""

import pytest
from hypothesis import given, strategies as st

from parley.client.cluster import topic_merger
from parley.client.cluster.metadata_cache import MetadataCache
from parley.client.cluster.view import MetadataUpdate, PartitionMetadata, TopicUpdate
from parley.types import ZERO_UUID, Node, TopicPartition

from .metadata_answers import ID_A, ID_B, NODES

MOVED = Node(2, "moved", 7)


partitions = st.lists(
    st.builds(
        PartitionMetadata,
        st.integers(0, 4),
        st.sampled_from([-1, 1, 2, 9]),
        st.integers(-1, 5),
        error_code=st.sampled_from([0, 0, 0, 5]),
    ),
    max_size=5,
    unique_by=lambda found: found.partition,
).map(tuple)
topics = st.builds(
    TopicUpdate,
    st.sampled_from(["t", "u", "v"]),
    st.sampled_from([0, 0, 0, 0, 3, 5, 29]),
    st.sampled_from([ZERO_UUID, ID_A, ID_A, ID_B]),
    st.just(False),
    partitions,
)
updates = st.tuples(
    st.builds(
        MetadataUpdate,
        st.sampled_from([9, 12]),
        st.sampled_from([NODES, {1: NODES[1]}]),
        st.lists(topics, max_size=3, unique_by=lambda found: found.name).map(tuple),
    ),
    st.booleans(),
)


def known(cache):
    merger = cache._known
    return cache.snapshot, merger.last_epochs, merger.rewinds, merger.ids, cache._topic_errors


def finished(merging):
    while True:
        try:
            next(merging)
        except StopIteration as ended:
            return ended.value


@given(st.lists(updates, max_size=8))
def test_an_answer_merged_in_steps_does_what_it_does_at_once(answers):
    whole, stepped = MetadataCache(), MetadataCache()
    for update, full in answers:
        expected = whole.apply(update, full=full)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(topic_merger, "MERGED_AT_ONCE", 1)
            assert stepped.apply(update, full=full) == expected
        assert known(stepped) == known(whole)


def about(name, epochs, leader=1):
    parts = tuple(PartitionMetadata(index, leader, epoch) for index, epoch in enumerate(epochs))
    return TopicUpdate(name, 0, ID_A, False, parts)


epochs = st.lists(st.integers(3, 8), min_size=2, max_size=3)


@given(
    epochs,
    epochs,
    st.tuples(st.integers(0, 1), st.sampled_from([2, 3]), st.integers(4, 9)),
    st.integers(1, 8),
)
def test_a_hint_between_two_steps_counts_as_one_before_the_answer(before, last, hint, steps):
    """The leader that a client uses is the same, wherever the hint came (KIP-951, KIP-232)."""
    partition, leader, epoch = hint
    update = MetadataUpdate(12, NODES, (about("t", last), about("u", last)))
    caches = MetadataCache(), MetadataCache(), MetadataCache()
    for cache in caches:
        cache.apply(MetadataUpdate(12, NODES, (about("t", before), about("u", before))), full=True)
    first, between, without = caches
    start = between.snapshot
    first.apply_hint(TopicPartition("t", partition), leader, epoch, [MOVED] if leader == 2 else [])
    expected = first.apply(update, full=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topic_merger, "MERGED_AT_ONCE", 1)
        merging = between.merging(update, full=True)
        for _ in range(steps):
            if next(merging, merging) is merging:
                return  # it came after the last step
        in_time = between.snapshot is start  # else it came when the answer was the cache's already
        between.apply_hint(
            TopicPartition("t", partition), leader, epoch, [MOVED] if leader == 2 else []
        )
        found = finished(merging)
    for tp in [TopicPartition(name, index) for name in "tu" for index in range(3)]:
        assert between.current_leader(tp) == first.current_leader(tp), tp
    assert found.outdated == (expected if in_time else without.apply(update, full=True)).outdated
