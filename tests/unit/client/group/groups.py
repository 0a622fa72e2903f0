"""Groups for the tests of assignors: drawn by hypothesis, or written in one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hypothesis import strategies as st

from parley.client.group.assignors import Assignment, Member, Racks, by_name
from parley.client.group.formats import Subscription
from parley.types import TopicPartition

Topics = dict[str, list[Racks]]
RACKS = ("ra", "rb", "rc")


def topics_of(**counts: int) -> Topics:
    """Return topics with so many partitions each, whose racks are unknown."""
    return {topic: [frozenset()] * count for topic, count in counts.items()}


def parts(text: str) -> list[TopicPartition]:
    """Return the partitions of a text such as "t1-0 t1-1"."""
    return [
        TopicPartition(topic, int(index))
        for topic, index in (one.rsplit("-", 1) for one in text.split())
    ]


def member(name: str, topics: str, owned: str = "", generation: int = -1, **other: str) -> Member:
    """Return a member of these topics; `other` may have its rack and its instance_id."""
    subscription = Subscription(
        tuple(topics.split()), None, tuple(parts(owned)), generation, other.get("rack")
    )
    return Member(name, subscription, other.get("instance_id"))


def shown(given: Mapping[str, Sequence[TopicPartition]]) -> dict[str, str]:
    """Return an assignment as texts, in its own order."""
    return {name: " ".join(map(str, partitions)) for name, partitions in given.items()}


def joined_again(
    members: Iterable[Member], given: Assignment, generation: int, assignor: str
) -> list[Member]:
    """Return members as they join after a rebalance, with what they got."""
    (found,) = by_name([assignor])
    return [
        Member(
            one.member_id,
            Subscription(
                one.subscription.topics,
                found.user_data(given[one.member_id], generation),
                tuple(given[one.member_id]) if found.cooperative else (),
                generation if found.cooperative else -1,
                one.subscription.rack,
            ),
            one.instance_id,
        )
        for one in members
    ]


def wanted_partitions(topics: Topics, members: Iterable[Member]) -> list[TopicPartition]:
    """Return every partition of a topic that somebody subscribes to, sorted."""
    wanted = {topic for one in members for topic in one.subscription.topics}
    return sorted(
        TopicPartition(topic, index)
        for topic in wanted & topics.keys()
        for index in range(len(topics[topic]))
    )


@st.composite
def some_topics(draw: st.DrawFn) -> Topics:
    """Draw some topics with up to nine partitions, replicas in some racks."""
    names = draw(st.lists(st.sampled_from(["t0", "t1", "t2", "t3"]), unique=True, min_size=1))
    racks = st.sets(st.sampled_from(RACKS)).map(frozenset[str])
    return {name: draw(st.lists(racks, max_size=9)) for name in names}


@st.composite
def some_members(draw: st.DrawFn, topics: Topics, *, equal: bool | None = None) -> list[Member]:
    """Draw members with claims of their own, true or not; some topics that
    they name do not exist.
    """
    names = draw(
        st.lists(st.sampled_from([f"m{number}" for number in range(7)]), unique=True, min_size=1)
    )
    wishes = st.lists(st.sampled_from([*sorted(topics), "missing"]), unique=True).map(tuple)
    same = draw(wishes) if (draw(st.booleans()) if equal is None else equal) else None
    part = st.builds(TopicPartition, st.sampled_from(sorted(topics)), st.integers(0, 9))
    return [
        Member(
            name,
            Subscription(
                draw(wishes) if same is None else same,
                None,
                tuple(draw(st.lists(part, unique=True, max_size=8))),
                draw(st.sampled_from([-1, 3, 4, 5])),
                draw(st.none() | st.sampled_from((*RACKS, "rd"))),
            ),
            draw(st.none() | st.just(f"i{name}")),
        )
        for name in names
    ]
