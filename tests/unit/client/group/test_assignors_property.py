"""The four assignors over whole domains: completeness, balance, stickiness, hand-over."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from random import Random

import pytest
from hypothesis import given, strategies as st

from parley.client.group.assignors import Assignment, Assignor, Member, by_name
from parley.client.group.formats import Subscription
from parley.types import TopicPartition

from .groups import Topics, joined_again, some_members, some_topics, wanted_partitions

ALL = by_name(["range", "roundrobin", "sticky", "cooperative-sticky"])
STICKY = by_name(["sticky", "cooperative-sticky"])
COOPERATIVE = STICKY[1]

Group = tuple[Topics, list[Member]]


@st.composite
def groups(draw: st.DrawFn, *, equal: bool | None = None, racks: bool = True) -> Group:
    topics = draw(some_topics())
    members = draw(some_members(topics, equal=equal))
    return topics, members if racks else without_racks(members)


def without_racks(members: list[Member]) -> list[Member]:
    return [replace(one, subscription=replace(one.subscription, rack=None)) for one in members]


def far(topics: Topics, members: list[Member], given: Assignment) -> int:
    """Return how many partitions have no replica in the rack of their owner, who has one."""
    rack_of = {one.member_id: one.subscription.rack for one in members}
    return sum(
        rack_of[name] is not None and rack_of[name] not in topics[topic][index]
        for name, partitions in given.items()
        for topic, index in partitions
    )


def settled(
    assignor: Assignor, topics: Topics, members: list[Member]
) -> tuple[Assignment, list[Member]]:
    """Return what members have after a rebalance, and the members as they join with that."""
    given = assignor.assign(topics, members)
    if assignor.cooperative:
        given = assignor.assign(topics, joined_again(members, given, 6, assignor.name))
    return given, joined_again(members, given, 7, assignor.name)


def loads(given: Assignment) -> list[int]:
    return sorted(map(len, given.values()))


def all_of(given: Assignment) -> list[TopicPartition]:
    return sorted(part for partitions in given.values() for part in partitions)


@given(groups())
def test_every_partition_has_one_owner_who_wants_it(group: Group) -> None:
    topics, members = group
    for assignor in ALL:
        found, _ = settled(assignor, topics, members)
        assert found.keys() == {one.member_id for one in members}, assignor.name
        assert all_of(found) == wanted_partitions(topics, members), assignor.name
        for one in members:
            assert {part.topic for part in found[one.member_id]} <= set(one.subscription.topics), (
                assignor.name
            )


@given(groups(), st.randoms(use_true_random=False))
def test_the_order_in_which_members_come_does_not_matter(group: Group, rng: Random) -> None:
    topics, members = group
    for assignor in ALL:
        shuffled = rng.sample(members, len(members))
        assert assignor.assign(topics, shuffled) == assignor.assign(topics, members), assignor.name


@given(groups(equal=True))
def test_equal_subscriptions_differ_by_one_partition_at_most(group: Group) -> None:  # I6
    for assignor in ALL[1:]:
        counts = loads(settled(assignor, *group)[0])
        assert counts[-1] - counts[0] <= 1, assignor.name


@given(groups())
def test_range_divides_each_topic_evenly_whatever_the_racks(group: Group) -> None:  # G25, G26
    topics, members = group
    found = ALL[0].assign(topics, members)
    for topic in topics:
        counts = [
            sum(part.topic == topic for part in found[one.member_id])
            for one in members
            if topic in one.subscription.topics
        ]
        assert not counts or max(counts) - min(counts) <= 1


@given(groups(equal=True))
def test_range_gives_partitions_of_one_number_to_one_member(group: Group) -> None:  # G26
    topics, members = group
    owners = {
        part: name
        for name, partitions in ALL[0].assign(topics, members).items()
        for part in partitions
    }
    for part, owner in owners.items():
        for topic in {one.topic for one in owners}:
            if len(topics[topic]) == len(topics[part.topic]):
                assert owners[part._replace(topic=topic)] == owner


@given(groups(racks=False))
def test_nothing_moves_while_nothing_changes(group: Group) -> None:  # I5
    for assignor in STICKY:
        found, again = settled(assignor, *group)
        assert assignor.assign(group[0], again) == found, assignor.name


@pytest.mark.parametrize("assignor", STICKY, ids=lambda one: one.name)
@given(groups(equal=True, racks=False), st.data())
# G29
def test_g29_no_more_moves_than_balance_needs(
    assignor: Assignor, group: Group, data: st.DataObject
) -> None:
    topics, members = group
    before, again = settled(assignor, topics, members)
    wishes = Subscription(members[0].subscription.topics)
    new = [Member(f"new{number}", wishes) for number in range(data.draw(st.integers(0, 3)))]
    stayed = data.draw(
        st.lists(st.sampled_from(again), min_size=not new, unique_by=lambda one: one.member_id)
    )
    now = stayed + new
    found = assignor.assign(topics, now)
    held = [len(before[one.member_id]) for one in stayed]
    quota, extra = divmod(len(wanted_partitions(topics, now)), len(now))
    possible = sum(min(quota, count) for count in held) + min(
        extra, sum(count > quota for count in held)
    )
    kept = sum(len(set(found[one.member_id]) & set(before[one.member_id])) for one in stayed)
    assert kept == possible


@given(groups())
def test_racks_change_no_loads_and_leave_less_far(group: Group) -> None:  # KIP-881
    topics, members = group
    for assignor in STICKY:
        found, again = settled(assignor, topics, members)
        plain, _ = settled(assignor, topics, without_racks(members))
        before = far(topics, members, found)
        for generation in range(
            8, 12
        ):  # of several rebalances each leaves less far, or is the last
            found = assignor.assign(topics, again)
            again = joined_again(again, found, generation, assignor.name)
        assert assignor.assign(topics, again) == found
        assert loads(found) == loads(plain)
        assert far(topics, members, found) <= before


@given(groups(racks=False))
def test_no_other_division_is_more_even(group: Group) -> None:  # G30
    topics, members = group
    members = members[:3]
    wanted = wanted_partitions({topic: racks[:3] for topic, racks in topics.items()}, members)[:6]
    topics = {
        topic: racks[: sum(part.topic == topic for part in wanted)]
        for topic, racks in topics.items()
    }
    found, _ = settled(COOPERATIVE, topics, members)
    choices = [
        [one.member_id for one in members if part.topic in one.subscription.topics]
        for part in wanted
    ]
    best = min(
        sum(count**2 for count in Counter(division).values()) for division in product(*choices)
    )
    assert sum(count**2 for count in loads(found)) == best


@given(groups())
def test_nobody_gets_what_another_still_claims(group: Group) -> None:  # G31
    topics, members = group
    found = COOPERATIVE.assign(topics, members)
    by_id = {one.member_id: one.subscription for one in members}
    for name, partitions in found.items():
        for part in partitions:
            own = by_id[name].generation if part in by_id[name].owned else None
            for other, subscription in by_id.items():
                if other != name and part in subscription.owned:
                    assert own is not None
                    assert subscription.generation < own


@given(groups(racks=False))
def test_one_more_rebalance_hands_over_all_that_was_withheld(group: Group) -> None:  # G31, I4
    topics, members = group
    first = COOPERATIVE.assign(topics, members)
    second = COOPERATIVE.assign(topics, joined_again(members, first, 6, COOPERATIVE.name))
    assert all(set(first[name]) <= set(second[name]) for name in first)
    assert all_of(second) == wanted_partitions(topics, members)
