"""Subscriptions and assignments: Java's bytes (G20 to G23), other clients' bytes, hostile bytes."""

from __future__ import annotations

import contextlib
import warnings

import aiokafka.coordinator.protocol as aiokafka_protocol
import pytest
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyAssignorUserDataV1
from hypothesis import given, strategies as st

from parley.client.group.assignors.claims import decode_user_data, encode_user_data
from parley.client.group.formats import (
    Subscription,
    by_topic,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from parley.errors import LocalProtocolError, RemoteProtocolError
from parley.types import TopicPartition

# kafka-python reads its own files in a way that Python 3.11 deprecates
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData
    from kafka.coordinator.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription

T1_0, T1_3, T2_1 = TopicPartition("t1", 0), TopicPartition("t1", 3), TopicPartition("t2", 1)
FULL = Subscription(("t1", "t2"), None, (T1_0, T1_3, T2_1), 7, "r1")

# Measured with Java 4.3.0: each version adds to the one before.
TOPICS = "00000002 0002 7431 0002 7432 ffffffff"
OWNED = "00000002 0002 7431 00000002 00000000 00000003 0002 7432 00000001 00000001"
BY_VERSION = {
    0: (f"0000 {TOPICS}", Subscription(("t1", "t2"))),
    1: (f"0001 {TOPICS} {OWNED}", Subscription(("t1", "t2"), None, FULL.owned)),
    2: (f"0002 {TOPICS} {OWNED} 00000007", Subscription(("t1", "t2"), None, FULL.owned, 7)),
    3: (f"0003 {TOPICS} {OWNED} 00000007 0002 7231", FULL),
}
ASSIGNED = "0003 00000002 0002 7432 00000001 00000001 0002 7431 00000002 00000003 00000000 ffffffff"

NAMES = st.text(min_size=1, max_size=5)
PARTITIONS = st.builds(TopicPartition, NAMES, st.integers(0, 2**31 - 1))
SUBSCRIPTIONS = st.builds(
    Subscription,
    topics=st.lists(NAMES, unique=True).map(sorted).map(tuple),
    user_data=st.none() | st.binary(max_size=20),
    owned=st.lists(PARTITIONS, unique=True, max_size=8).map(sorted).map(tuple),
    generation=st.integers(-1, 2**31 - 1),
    rack=st.none() | NAMES,
)


@pytest.mark.parametrize("version", BY_VERSION)
def test_a_subscription_of_every_version_is_read(version: int) -> None:
    data, expected = BY_VERSION[version]
    assert decode_subscription(bytes.fromhex(data)) == expected


def test_a_subscription_is_written_as_java_writes_it() -> None:
    assert encode_subscription(FULL).hex(" ") == bytes.fromhex(BY_VERSION[3][0]).hex(" ")
    assert encode_subscription(Subscription(("t1",))) == bytes.fromhex(
        "0003 00000001 0002 7431 ffffffff 00000000 ffffffff ffff"
    )


def test_topics_and_owned_partitions_are_written_sorted() -> None:
    mixed = Subscription(("t2", "t1"), None, (T2_1, T1_3, T1_0), 7, "r1")
    assert encode_subscription(mixed) == encode_subscription(FULL)


def test_g21_a_later_version_is_read_as_the_last_known_one() -> None:  # G21
    data = bytes.fromhex(BY_VERSION[3][0])
    assert decode_subscription(b"\x00\x07" + data[2:] + b"what is to come") == FULL
    assert decode_assignment(b"\x7f\xff" + bytes.fromhex(ASSIGNED)[2:] + b"more") == (
        T2_1,
        T1_3,
        T1_0,
    )


def test_an_empty_rack_is_none() -> None:  # G21
    data = bytes.fromhex(f"0003 {TOPICS} {OWNED} 00000007 0000")
    assert decode_subscription(data).rack is None


# G22: librdkafka, aiokafka, kafka-python
def test_user_data_may_be_empty_instead_of_null() -> None:
    assert decode_subscription(bytes.fromhex("0000 00000001 0002 7431 00000000")) == Subscription(
        ("t1",), b""
    )


def test_g20_an_assignment_keeps_the_assignors_order() -> None:  # G20
    assert encode_assignment([T2_1, T1_3, T1_0]).hex(" ") == bytes.fromhex(ASSIGNED).hex(" ")
    assert decode_assignment(bytes.fromhex(ASSIGNED)) == (T2_1, T1_3, T1_0)
    assert encode_assignment([T1_3, T2_1, T1_0]) == encode_assignment([T1_3, T1_0, T2_1])


def test_an_empty_assignment() -> None:
    assert encode_assignment([]) == bytes.fromhex("0003 00000000 ffffffff")
    assert decode_assignment(bytes.fromhex("0003 00000000 ffffffff")) == ()


def test_g10_a_member_that_the_leader_left_out_has_nothing() -> None:  # G10
    assert decode_assignment(b"") == ()


def test_a_partition_that_is_assigned_twice_counts_once() -> None:
    twice = bytes.fromhex(
        "0000 00000002 0001 61 00000002 00000001 00000001 0001 61 00000001 00000001 ffffffff"
    )
    assert decode_assignment(twice) == (TopicPartition("a", 1),)


@given(SUBSCRIPTIONS)
def test_other_clients_read_our_subscription(subscription: Subscription) -> None:
    data = encode_subscription(subscription)
    theirs = ConsumerProtocolSubscription.decode(data)
    assert (theirs.topics, theirs.user_data) == (list(subscription.topics), subscription.user_data)
    assert [
        TopicPartition(item.topic, index)
        for item in theirs.owned_partitions
        for index in item.partitions
    ] == list(subscription.owned)
    assert (theirs.generation_id, theirs.rack_id) == (subscription.generation, subscription.rack)
    old = aiokafka_protocol.ConsumerProtocolMemberMetadata.decode(data)
    assert (old.subscription, old.user_data) == (list(subscription.topics), subscription.user_data)


@given(SUBSCRIPTIONS)
def test_we_read_other_clients_subscriptions(subscription: Subscription) -> None:
    topics, user_data = list(subscription.topics), subscription.user_data
    old = aiokafka_protocol.ConsumerProtocolMemberMetadata(0, topics, user_data).encode()
    assert decode_subscription(old) == Subscription(subscription.topics, user_data)
    theirs = ConsumerProtocolSubscription(
        version=1,
        topics=topics,
        user_data=user_data,
        owned_partitions=[
            ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=[index])
            for topic, index in subscription.owned
        ],
    ).encode()
    assert decode_subscription(theirs) == Subscription(
        subscription.topics, user_data, subscription.owned
    )


@given(st.lists(PARTITIONS, unique=True, max_size=10), st.none() | st.binary(max_size=5))
def test_assignments_pass_between_clients(
    partitions: list[TopicPartition], user_data: bytes | None
) -> None:
    data = encode_assignment(partitions, user_data)
    for theirs in (ConsumerProtocolAssignment, aiokafka_protocol.ConsumerProtocolMemberAssignment):
        decoded = theirs.decode(data)
        assert {tuple(one) for one in decoded.partitions()} == set(partitions)
        assert set(decode_assignment(decoded.encode())) == set(partitions)


@given(st.lists(PARTITIONS, unique=True, max_size=10), st.integers(-1, 2**31 - 1))
# G70
def test_user_data_of_sticky_passes_between_clients(
    partitions: list[TopicPartition], generation: int
) -> None:
    data = encode_user_data(partitions, generation)
    old = StickyAssignorUserDataV1.decode(data)
    assert {
        (topic, index) for topic, indexes in old.previous_assignment for index in indexes
    } == set(partitions)
    theirs = StickyAssignorUserData(list(by_topic(partitions).items()), generation)
    assert old.generation == generation
    for again in (old.encode(), theirs.encode()):
        claim = decode_user_data(again)
        assert (set(claim.partitions), claim.generation) == (set(partitions), generation)


@pytest.mark.parametrize("decode", [decode_subscription, decode_assignment])
@pytest.mark.parametrize(
    "data",
    [
        "00",
        "ffff 00000000 ffffffff",
        "0000",
        "0000 7fffffff 0001 61",
        "0000 fffffffe",
        "0000 00000001 0005 61",
        "0000 00000001 0001 ff 00000000 00000000 00000000",
    ],
    ids=["short", "negative", "no topics", "too many", "negative count", "cut off", "not UTF-8"],
)
def test_what_is_none_of_ours_is_refused(decode: object, data: str) -> None:
    assert callable(decode)
    with pytest.raises(RemoteProtocolError):
        decode(bytes.fromhex(data))


def test_negative_partitions_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="partition -1 of topic 'a'"):
        decode_assignment(bytes.fromhex("0000 00000001 0001 61 00000001 ffffffff ffffffff"))
    with pytest.raises(RemoteProtocolError, match="partition -1 of topic 'a'"):
        decode_subscription(
            bytes.fromhex("0001 00000000 ffffffff 00000001 0001 61 00000001 ffffffff")
        )


@given(
    st.binary(max_size=60)
    | st.builds(bytes.__add__, st.just(b"\x00\x03\x00\x00\x00\x01"), st.binary(max_size=40))
)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        with contextlib.suppress(RemoteProtocolError):
            decode(data)


@given(SUBSCRIPTIONS, st.data())
def test_a_cut_off_subscription_is_refused(subscription: Subscription, data: st.DataObject) -> None:
    whole = encode_subscription(subscription)
    with pytest.raises(RemoteProtocolError):
        decode_subscription(whole[: data.draw(st.integers(0, len(whole) - 1))])


def test_what_the_format_cannot_hold_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="40000 bytes"):
        encode_subscription(Subscription(("t" * 40_000,)))
    with pytest.raises(LocalProtocolError):
        encode_assignment([TopicPartition("t", 2**31)])
