"""The partitions that a consumer's core reads, before it is started, and those that it gave up."""

from __future__ import annotations

import asyncio

import pytest

from parley.client import AsyncConsumer, OffsetAndMetadata, TopicPartition
from parley.client.consumer.assignment import Assignment
from parley.client.fetch.positions import Cause
from parley.client.fetch.recreation import Incarnation
from parley.errors import DataLossError

TP = TopicPartition("a", 0)
OLD, NEW, OLDER = b"o" * 16, b"n" * 16, b"b" * 16
LEFT_AT = OffsetAndMetadata(10, "", 2)


class OnlyWalked(tuple[TopicPartition, ...]):
    """Partitions that must not be searched: for each of thousands that would be a walk."""

    __slots__ = ()

    def __contains__(self, _: object) -> bool:
        raise AssertionError("all partitions were walked to find one of them")


def test_held_partitions_are_known_from_the_others_without_a_search_for_each() -> None:
    core = AsyncConsumer(bootstrap_servers="localhost:9")._core
    kept, *added = (TopicPartition("a", at) for at in range(3))
    core.read([kept])
    core.read([kept, *added], held=OnlyWalked(added))
    assert [core.part(tp).held for tp in (kept, *added)] == [False, True, True]


def given_up(*, recreated: bool = False) -> Assignment:
    """Return an assignment that had a partition of the old topic, and has it again."""
    assigned = AsyncConsumer(bootstrap_servers="localhost:9")._core._assigned
    assigned.read([TP], ())
    part = assigned.state(TP)
    part.topic = Incarnation(OLD, past=frozenset([OLDER]))
    part.positions.seek(LEFT_AT.offset, LEFT_AT.leader_epoch)
    if recreated:
        part.positions.recreated(OLD, NEW)
    assigned.read([], ())
    assigned.read([TP], ())
    return assigned


@pytest.mark.parametrize(
    ("begins", "committed_here"),
    [
        (LEFT_AT, None),
        (None, None),
        (OffsetAndMetadata(7, "", 1), OffsetAndMetadata(7, "", 1)),
    ],
    ids=["where it was left", "nothing committed", "what was committed here"],
)
def test_a_partition_that_comes_back_goes_on_as_what_it_was(
    begins: OffsetAndMetadata | None, committed_here: OffsetAndMetadata | None
) -> None:
    assigned = given_up()
    part = assigned.state(TP)
    former = assigned.former.back(part, begins, committed_here)
    assert former is not None
    assert (former.position[:2], part.topic.held) == ((10, 2), OLD)
    assert assigned.of_other_topics(lambda _: NEW) == {TP}
    assert not assigned.of_other_topics(lambda _: OLD)
    assert not assigned.of_other_topics(lambda _: OLDER)  # stale metadata


def test_an_offset_that_others_committed_since_counts_for_the_topic_of_now() -> None:
    assigned = given_up()
    part = assigned.state(TP)
    theirs = OffsetAndMetadata(12, "", 2)
    assert assigned.former.back(part, theirs, OffsetAndMetadata(7, "", 1)) is None
    assert not part.topic.in_doubt
    assert not assigned.of_other_topics(lambda _: NEW)
    assert assigned.former.back(part, LEFT_AT) is None  # it was asked for once


def test_another_topic_that_was_not_reported_yet_is_reported_when_the_partition_is_back() -> None:
    assigned = given_up(recreated=True)
    former = assigned.former.back(assigned.state(TP), None)
    assert former is not None
    assert former.loss is not None
    assert former.loss.cause is Cause.RECREATED


def test_a_position_of_a_topic_that_is_gone_is_not_committed() -> None:
    assigned = given_up()
    part = assigned.state(TP)
    part.positions.seek(3)
    assert assigned.consumed() == {TP: OffsetAndMetadata(3)}
    part.positions.recreated(OLD, NEW)
    assert assigned.consumed() == {}
    part.positions.reset_to(part.positions.reset, 0)
    assert assigned.consumed() == {TP: OffsetAndMetadata(0)}


async def test_a_commit_under_way_says_nothing_of_a_history_that_began_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its answer would have every commit of the new topic refused, whose epochs begin again."""
    answered, other = asyncio.Event(), TopicPartition("a", 1)

    async def committing(*_: object, **__: object) -> frozenset[TopicPartition]:
        await answered.wait()
        return frozenset()

    monkeypatch.setattr("parley.client.consumer.commits.group_offsets.commit_offsets", committing)
    core = AsyncConsumer(bootstrap_servers="localhost:9", group_id="g")._core
    cluster = core.client._make()
    core.group.start(cluster)
    old, new = OffsetAndMetadata(10, "", 3), OffsetAndMetadata(12, "", 0)
    under_way = asyncio.ensure_future(core.group.commit({TP: old, other: old}))
    await asyncio.sleep(0)
    core.group.history_changed(TP)
    answered.set()
    await under_way
    assert (core.group.committed_here(TP), core.group.committed_here(other)) == (None, old)
    await core.group.commit({TP: new})
    with pytest.raises(DataLossError):
        await core.group.commit({other: new})
    core.read([other])  # it was not held meanwhile
    assert core.group.committed_here(other) == old
    await core.group.commit({other: new})
    await cluster.close()
