"""The four assignors by example: what was measured with Java, names, order,
racks, claims, hand-over.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from parley.client.group.assignors import (
    Assignment,
    CooperativeStickyAssignor,
    Member,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    Topics,
    by_name,
)
from parley.client.group.assignors.base import in_order
from parley.client.group.assignors.claims import cooperative_claim, decode_user_data
from parley.client.group.formats import Subscription
from parley.errors import ConfigError
from parley.types import TopicPartition

from .groups import member, parts, shown, topics_of

TWO_BY_FOUR = topics_of(t1=4, t2=4)
A, B, C = member("a", "t1 t2"), member("b", "t1 t2"), member("c", "t1 t2")
STICKY_DATA = "00000002 0002 7431 00000002 00000003 00000000 0002 7432 00000001 00000001 00000005"


class FirstTakesAll:
    """An assignor of a user."""

    name = "first-takes-all"
    cooperative = False

    def user_data(self, owned: Collection[TopicPartition], generation: int) -> bytes | None:
        return None

    def assign(self, topics: Topics, members: Sequence[Member]) -> Assignment:
        return {one.member_id: [] for one in members}


def test_g25_range_gives_consecutive_partitions() -> None:  # G25, measured
    assert shown(RangeAssignor().assign(TWO_BY_FOUR, [C, A, B])) == {
        "a": "t1-0 t1-1 t2-0 t2-1",
        "b": "t1-2 t2-2",
        "c": "t1-3 t2-3",
    }


def test_g27_round_robin_deals_all_topics_in_a_ring() -> None:  # G27, measured
    assert shown(RoundRobinAssignor().assign(TWO_BY_FOUR, [B, C, A])) == {
        "a": "t1-0 t1-3 t2-2",
        "b": "t1-1 t2-0 t2-3",
        "c": "t1-2 t2-1",
    }


def test_round_robin_skips_who_does_not_subscribe() -> None:  # G27
    members = [A, member("b", "t2"), member("c", "t1")]
    assert shown(RoundRobinAssignor().assign(TWO_BY_FOUR, members)) == {
        "a": "t1-0 t1-2 t2-0 t2-2",
        "b": "t2-1 t2-3",
        "c": "t1-1 t1-3",
    }


@pytest.mark.parametrize("assignor", [StickyAssignor(), CooperativeStickyAssignor()])
def test_the_sticky_ones_deal_to_a_fresh_group(
    assignor: StickyAssignor | CooperativeStickyAssignor,
) -> None:
    assert shown(assignor.assign(TWO_BY_FOUR, [A, B, C])) == {
        "a": "t1-0 t1-3 t2-2",
        "b": "t1-1 t2-0 t2-3",
        "c": "t1-2 t2-1",
    }


def test_g31_what_moves_is_withheld_until_its_owner_has_given_it_up() -> None:  # G31, measured
    assignor = CooperativeStickyAssignor()
    first = member("c-a", "t1 t2", "t1-0 t1-1 t1-2 t1-3 t2-0 t2-1 t2-2 t2-3", 1)
    given = assignor.assign(TWO_BY_FOUR, [first, member("c-b", "t1 t2")])
    assert shown(given) == {"c-a": "t1-0 t1-1 t2-0 t2-1", "c-b": ""}
    again = [member("c-a", "t1 t2", shown(given)["c-a"], 2), member("c-b", "t1 t2", "", 2)]
    assert shown(assignor.assign(TWO_BY_FOUR, again)) == {
        **shown(given),
        "c-b": "t1-2 t1-3 t2-2 t2-3",
    }


def test_g24_static_members_come_first_and_texts_are_compared_as_java_does() -> None:  # G24
    members = [
        member("c", "t"),
        member("\uffff", "t"),
        member("\U0001f600", "t"),  # before U+FFFF in UTF-16, behind it in code points
        member("y", "t", instance_id="i2"),
        member("z", "t", instance_id="i1"),
    ]
    assert [one.member_id for one in in_order(members)] == ["z", "y", "c", "\U0001f600", "\uffff"]


def test_g26_range_matches_racks_within_its_shares() -> None:  # G26
    racks = [frozenset({"ra"}), frozenset({"rb"})] * 2
    near = [member("a", "t", rack="rb"), member("b", "t", rack="ra")]
    assert shown(RangeAssignor().assign({"t": racks}, near)) == {"a": "t-1 t-3", "b": "t-0 t-2"}
    far = [member("a", "t", rack="rx"), member("b", "t", rack="ry")]
    assert shown(RangeAssignor().assign({"t": racks}, far)) == {"a": "t-0 t-1", "b": "t-2 t-3"}


def test_range_keeps_partitions_of_one_number_together_when_it_matches_racks() -> None:  # G26
    topics = {
        "t1": [frozenset({"ra", "rb"}), frozenset({"ra"})],
        "t2": [frozenset({"rb"}), frozenset({"ra", "rb"})],
    }
    members = [member("a", "t1 t2", rack="ra"), member("b", "t1 t2", rack="rb")]
    assert shown(RangeAssignor().assign(topics, members)) == {"a": "t1-1 t2-1", "b": "t1-0 t2-0"}


def test_the_user_data_of_sticky_is_javas() -> None:  # section 2.5, measured
    owned = parts("t1-3 t1-0 t2-1")
    assert StickyAssignor().user_data([], -1) is None
    data = StickyAssignor().user_data(owned, 5)
    assert data == bytes.fromhex(STICKY_DATA)
    claim = decode_user_data(data)
    assert (list(claim.partitions), claim.generation) == (owned, 5)


def test_the_first_user_data_of_sticky_had_no_generation() -> None:  # KIP-54
    claim = decode_user_data(bytes.fromhex(STICKY_DATA)[:-4])
    assert (list(claim.partitions), claim.generation) == (parts("t1-3 t1-0 t2-1"), -1)


@pytest.mark.parametrize(
    "data", ["", "ff", "7fffffff", "ffffffff", "00000001 0001 ff", STICKY_DATA[:41]]
)
def test_user_data_that_cannot_be_read_claims_nothing(data: str) -> None:
    assert not decode_user_data(bytes.fromhex(data)).partitions


@pytest.mark.parametrize(("generation", "data"), [(-1, "ffffffff"), (5, "00000005")])
# section 2.5, measured
def test_the_user_data_of_cooperative_sticky_is_javas(generation: int, data: str) -> None:
    assert CooperativeStickyAssignor().user_data(parts("t-1"), generation) == bytes.fromhex(data)


@pytest.mark.parametrize(
    ("subscription", "generation"),
    [
        (Subscription((), bytes.fromhex("00000005"), (), 7), 7),
        (Subscription((), bytes.fromhex("00000005")), 5),  # Java 2.4 to 3.3: version 1
        # librdkafka, should the field be missing
        (Subscription((), bytes.fromhex(STICKY_DATA)), 5),
        (Subscription((), b""), -1),  # kafka-python
        (Subscription((), None), -1),
        (Subscription((), b"\xff\xff"), -1),
    ],
)
# G68
def test_the_generation_of_a_cooperative_claim(subscription: Subscription, generation: int) -> None:
    assert cooperative_claim(subscription).generation == generation


def test_of_two_claims_the_later_one_counts() -> None:  # G28
    members = [member("a", "t", "t-0 t-1", 4), member("b", "t", "t-1 t-2", 5)]
    assert shown(CooperativeStickyAssignor().assign(topics_of(t=4), members)) == {
        "a": "t-0 t-3",
        "b": "t-1 t-2",
    }


def test_g28_two_claims_of_one_generation_cancel_each_other() -> None:  # G28
    members = [member("a", "t", "t-0 t-1", 5), member("b", "t", "t-1 t-2", 5)]
    assert shown(CooperativeStickyAssignor().assign(topics_of(t=4), members)) == {
        "a": "t-0",
        "b": "t-2 t-3",
    }


def test_members_without_owned_partitions_get_them_like_new_ones() -> None:  # G70
    members = [member("a", "t"), member("b", "t", "t-0 t-1 t-2", 5)]
    assert shown(CooperativeStickyAssignor().assign(topics_of(t=3), members)) == {
        "a": "",
        "b": "t-0 t-1",
    }


def test_g30_partitions_move_along_a_chain_where_no_single_move_helps() -> None:  # G30
    members = [
        member("a", "t1", "t1-0 t1-1 t1-2", 1),
        member("b", "t1 t2", "t2-0 t2-1", 1),
        member("c", "t2", "t2-2", 1),
    ]
    given = CooperativeStickyAssignor().assign(topics_of(t1=3, t2=3), members)
    # t1-2 and t2-1 are on their way
    assert shown(given) == {"a": "t1-0 t1-1", "b": "t2-0", "c": "t2-2"}


def test_assignors_are_found_by_name() -> None:
    found = by_name(
        ["range", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor", FirstTakesAll()]
    )
    assert [one.name for one in found] == ["range", "cooperative-sticky", "first-takes-all"]
    assert [(one.name, one.cooperative) for one in by_name(["roundrobin", "sticky"])] == [
        ("roundrobin", False),
        ("sticky", False),
    ]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ["cooperative_sticky"],
            '"range", "roundrobin", "sticky", "cooperative-sticky".*Did you mean '
            '"cooperative-sticky"',
        ),
        (["range", RangeAssignor()], 'two are named "range"'),
        ([], "at least one"),
        ("range", r"give \['range'\]"),
        ([FirstTakesAll], r"give an object of it: FirstTakesAll\(\)"),
        ([7], "no name, cooperative, user_data and assign"),
    ],
)
def test_what_is_no_assignor_is_refused(names: Sequence[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        by_name(names)
