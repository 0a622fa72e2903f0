"""The broker's assignors for groups of the consumer protocol: complete,
balanced, and moving little.
"""

from __future__ import annotations

from hypothesis import given, strategies as st

from parley.devcluster.state.groups.modern.assignors import (
    Part,
    Subscriber,
    Target,
    by_range,
    uniform,
)

T1, T2, T3 = (bytes([at]) * 16 for at in (1, 2, 3))
COUNTS = st.dictionaries(st.sampled_from([T1, T2, T3]), st.integers(0, 8))
SUBSCRIPTIONS = st.dictionaries(
    st.sampled_from("abcdef"), st.frozensets(st.sampled_from([T1, T2, T3])), max_size=6
)


def group(
    subscriptions: dict[str, frozenset[bytes]], before: Target | None = None
) -> dict[str, Subscriber]:
    return {
        name: Subscriber(topics, (before or {}).get(name, frozenset()))
        for name, topics in subscriptions.items()
    }


def check_complete(
    subscriptions: dict[str, frozenset[bytes]], counts: dict[bytes, int], target: Target
) -> None:
    """Every partition that somebody subscribes to belongs to one of its
    subscribers, and nothing else does.
    """
    wanted = frozenset[bytes]().union(*subscriptions.values())
    assigned = [part for parts in target.values() for part in parts]
    assert sorted(assigned) == sorted(
        (topic, at) for topic, count in counts.items() if topic in wanted for at in range(count)
    )
    for name, parts in target.items():
        assert {topic for topic, _ in parts} <= subscriptions[name]


@given(SUBSCRIPTIONS, COUNTS)
def test_range_gives_every_partition_to_a_subscriber_in_consecutive_pieces(
    subscriptions: dict[str, frozenset[bytes]], counts: dict[bytes, int]
) -> None:
    target = by_range(group(subscriptions), counts)
    check_complete(subscriptions, counts, target)
    for topic in counts:
        sizes = []
        for name in sorted(subscriptions):
            if topic in subscriptions[name]:
                mine = sorted(at for one, at in target[name] if one == topic)
                assert mine == list(range(mine[0], mine[0] + len(mine))) if mine else True
                sizes.append(len(mine))
        assert sizes == sorted(sizes, reverse=True)
        assert not sizes or sizes[0] - sizes[-1] <= 1


def test_static_members_come_first_in_a_range() -> None:
    members = {"a": Subscriber(frozenset([T1])), "z": Subscriber(frozenset([T1]), instance_id="i")}
    assert by_range(members, {T1: 1}) == {"a": frozenset(), "z": frozenset([(T1, 0)])}


@given(
    st.frozensets(st.sampled_from("abcdef"), min_size=1),
    st.frozensets(st.sampled_from("abcdef"), min_size=1),
    COUNTS,
    COUNTS,
)
def test_uniform_balances_equals_and_moves_no_more_than_balance_asks(
    names: frozenset[str], later: frozenset[str], counts: dict[bytes, int], grown: dict[bytes, int]
) -> None:
    every = frozenset([T1, T2, T3])
    first = uniform(group(dict.fromkeys(names, every)), counts)
    check_complete(dict.fromkeys(names, every), counts, first)
    second = uniform(group(dict.fromkeys(later, every), first), grown)
    check_complete(dict.fromkeys(later, every), grown, second)
    sizes = [len(parts) for parts in second.values()]
    assert max(sizes) - min(sizes) <= 1
    assert uniform(group(dict.fromkeys(later, every), second), grown) == second
    # What a member gives up, it has to give up: it still has at least the lower quota afterwards.
    for name in names & later:
        lost = {(topic, at) for topic, at in first[name] - second[name] if at < grown.get(topic, 0)}
        assert not lost or len(second[name] & first[name]) >= sum(grown.values()) // len(later)


@given(SUBSCRIPTIONS, COUNTS)
def test_uniform_with_other_subscriptions_leaves_no_move_that_would_balance(
    subscriptions: dict[str, frozenset[bytes]], counts: dict[bytes, int]
) -> None:
    target = uniform(group(subscriptions), counts)
    check_complete(subscriptions, counts, target)
    for parts in target.values():
        for topic, _ in parts:
            for other, topics in subscriptions.items():
                if topic in topics:
                    assert len(parts) - len(target[other]) <= 1


@given(SUBSCRIPTIONS, COUNTS)
def test_a_partition_that_two_claim_is_one_members(
    subscriptions: dict[str, frozenset[bytes]], counts: dict[bytes, int]
) -> None:
    every: frozenset[Part] = frozenset(
        (topic, at) for topic, count in counts.items() for at in range(count + 1)
    )
    claims = {name: Subscriber(topics, every) for name, topics in subscriptions.items()}
    check_complete(subscriptions, counts, uniform(claims, counts))
