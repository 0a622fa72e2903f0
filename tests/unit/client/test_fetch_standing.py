"""Partitions without news stand in their session: they are not named, and none is lost."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from parley.client.fetch.answers import Asked
from parley.client.fetch.incremental import IncrementalSession
from parley.client.fetch.positions import PartitionPosition
from parley.client.fetch.standing import Standing
from parley.client.fetch.state import PartitionFetch
from parley.client.fetch.wire import FetchTarget
from parley.types import TopicPartition

ID = b"a" * 16


def target(partition: int, offset: int = 0) -> FetchTarget:
    return FetchTarget(TopicPartition("t", partition), offset, 100, 1, ID)


def asked(partition: int) -> Asked:
    tp = TopicPartition("t", partition)
    positions = PartitionPosition(tp)
    positions.seek(0)
    part = PartitionFetch(tp, positions, None, 100)
    part.flight = object()
    return Asked(part, part.flight, positions.fetch, positions.position_epoch, False)


def test_what_stands_is_neither_named_nor_forgotten() -> None:
    session = IncrementalSession()
    standing = Standing(session)
    session.build([target(0), target(1)], ids_supported=True)
    session.answered(7)
    assert standing.add(asked(0))
    assert standing.add(asked(1))
    request = session.build([], ids_supported=True)
    assert (list(request.targets), request.part.forgotten) == ([], ())
    session.answered(7)
    (news,) = standing.pick([TopicPartition("t", 1), TopicPartition("t", 9)])
    assert (news.part.tp.partition, len(standing)) == (1, 1)
    request = session.build([target(1, 5)], ids_supported=True)
    assert (list(request.targets), request.part.forgotten) == ([target(1, 5)], ())


def test_what_falls_and_is_not_asked_again_is_forgotten() -> None:
    session = IncrementalSession()
    standing = Standing(session)
    session.build([target(0), target(1)], ids_supported=True)
    session.answered(7)
    standing.add(asked(0)), standing.add(asked(1))
    assert len(standing.fall()) == 2
    request = session.build([target(0)], ids_supported=True)
    assert (list(request.targets), request.part.forgotten) == ([], (target(1),))


def test_a_new_session_names_what_stands() -> None:
    session = IncrementalSession()
    standing = Standing(session)
    session.build([target(0)], ids_supported=True)
    session.answered(7)
    standing.add(asked(0))
    session.failed()
    request = session.build([target(1)], ids_supported=True)
    assert (request.part.epoch, list(request.targets)) == (0, [target(0), target(1)])


def test_what_may_not_be_fetched_does_not_stand() -> None:
    for change in ("paused", "held"):
        one = asked(0)
        setattr(one.part, change, True)
        assert not Standing(IncrementalSession()).add(one)
    one = asked(0)
    one.part.preferred = (2, 1_000)
    assert not Standing(IncrementalSession()).add(one)
    one = asked(0)
    one.part.positions.seek(5, 3)  # awaits validation
    assert not Standing(IncrementalSession()).add(one)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sets(st.integers(0, 7)), st.sets(st.integers(0, 7)))))
def test_the_broker_fetches_what_was_asked_and_what_stands(
    rounds: list[tuple[set[int], set[int]]],
) -> None:
    """Whatever is asked for and falls: what the broker has put together is what is wanted."""
    session = IncrementalSession()
    standing = Standing(session)
    broker: dict[int, FetchTarget] = {}
    offsets = dict.fromkeys(range(8), 0)
    stands: set[int] = set()
    for wanted, news in rounds:
        fresh = wanted - stands
        targets = [target(index, offsets[index]) for index in sorted(fresh)]
        request = session.build(targets, ids_supported=True)
        if request.part.epoch == 0:
            broker.clear()
        for gone in request.part.forgotten:
            del broker[gone.tp.partition]
        broker |= {sent.tp.partition: sent for sent in request.targets}
        assert broker.keys() == fresh | stands
        assert all(broker[index].offset == offsets[index] for index in broker)
        session.answered(7)
        standing.pick(TopicPartition("t", index) for index in news)
        stands -= news
        for index in news & broker.keys():
            offsets[index] += 1
        for index in fresh - news:
            assert standing.add(asked(index))
            stands.add(index)
