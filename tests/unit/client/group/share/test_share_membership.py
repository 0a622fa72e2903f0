"""The membership of a share group (KIP-932), rule by rule, without clock or socket."""

from __future__ import annotations

import pytest

from parley.client.group.modern.reactions import Reaction
from parley.client.group.share.heartbeat import (
    ShareStanding,
    assigned_ids,
    heartbeat_request,
    leaving_request,
)
from parley.client.group.share.membership import ShareMembership, ShareMemberState
from parley.client.group.share.reactions import SessionReaction, after_session_error
from parley.errors import (
    KafkaError,
    NetworkError,
    RequestTimedOut,
    UnsupportedVersionError,
    broker_error,
)
from parley.messages import ShareGroupHeartbeatResponse
from parley.types import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
IDS = {"a": b"a" * 16, "b": b"b" * 16}
NAMES = {topic: name for name, topic in IDS.items()}


def ids(*partitions: TopicPartition) -> frozenset[tuple[bytes, int]]:
    return frozenset((IDS[tp.topic], tp.partition) for tp in partitions)


def beat(member: ShareMembership, epoch: int, *given: TopicPartition, new: bool = True) -> None:
    """Send a heartbeat and answer it."""
    asked_with, said, _ = member.to_say()
    member.answered(asked_with, said, epoch, ids(*given) if new else None)
    member.resolve(NAMES.get)


def member_of(*given: TopicPartition) -> ShareMembership:
    member = ShareMembership()
    member.subscribe(["a", "b"])
    beat(member, 1, *given)
    assert member.state is ShareMemberState.STABLE
    return member


def test_g63_everything_is_said_when_joining_and_after_that_what_is_new() -> None:
    who = ShareStanding("jobs", "me", "r1")
    whole = heartbeat_request(who, 0, {"b", "a"}, None)
    assert (whole.group_id, whole.member_id, whole.member_epoch, whole.rack_id) == (
        "jobs",
        "me",
        0,
        "r1",
    )
    assert whole.subscribed_topic_names == ["a", "b"]
    nothing = heartbeat_request(who, 3, {"a"}, {"a"})
    assert (nothing.member_epoch, nothing.rack_id, nothing.subscribed_topic_names) == (
        3,
        None,
        None,
    )
    assert heartbeat_request(who, 3, {"a", "c"}, {"a"}).subscribed_topic_names == ["a", "c"]
    assert leaving_request(who).member_epoch == -1


def test_g63_what_the_coordinator_names_may_be_read_at_once() -> None:
    member = member_of(A0, B0)
    assert member.assigned == {A0: IDS["a"], B0: IDS["b"]}
    assert not member.hurried
    beat(member, 2, new=False)
    assert set(member.assigned) == {A0, B0}
    beat(member, 3, A1)  # nothing is given up first, and nothing is acknowledged
    assert set(member.assigned) == {A1}
    assert not member.hurried


def test_g63_other_topics_are_said_at_once() -> None:
    member = member_of(A0)
    member.subscribe(["a", "b"])
    assert not member.hurried  # they are the same
    member.subscribe(["b"])
    assert member.hurried
    assert member.to_say() == (1, frozenset({"b"}), frozenset({"a", "b"}))
    assert not member.hurried


def test_g51_a_topic_that_is_not_known_is_read_when_it_is() -> None:
    member = member_of(A0, B0)
    member.resolve({IDS["a"]: "a"}.get)
    assert member.unresolved
    assert set(member.assigned) == {A0}
    member.resolve(NAMES.get)
    assert not member.unresolved
    assert set(member.assigned) == {A0, B0}


@pytest.mark.parametrize("code", [110, 25])
def test_g54_a_fenced_member_joins_again_under_its_id(code: int) -> None:
    member = member_of(A0)
    assert member.failed(broker_error(code), 1) is Reaction.FENCED
    assert (member.state, member.epoch, member.assigned) == (ShareMemberState.JOINING, 0, {})
    assert member.hurried
    beat(member, 7, A1)
    assert (member.epoch, set(member.assigned)) == (7, {A1})


def test_g54_a_leader_that_does_not_know_a_member_fences_it_too() -> None:
    member = member_of(A0)
    member.fenced()
    assert member.state is ShareMemberState.JOINING
    fresh = ShareMembership()
    fresh.fenced()
    assert fresh.state is ShareMemberState.UNSUBSCRIBED


@pytest.mark.parametrize(
    ("error", "reaction"),
    [
        (broker_error(14), Reaction.WAIT),
        (broker_error(15), Reaction.FIND),
        (broker_error(16), Reaction.FIND),
        (RequestTimedOut("late", stage="request"), Reaction.FIND),
        (NetworkError("lost"), Reaction.FIND),
        (broker_error(29), Reaction.RAISE),
        (broker_error(30), Reaction.RAISE),
        (broker_error(24), Reaction.FATAL),
        (broker_error(81), Reaction.FATAL),
        (UnsupportedVersionError("too old"), Reaction.UNSUPPORTED),
    ],
)
def test_each_error_of_a_heartbeat(error: KafkaError, reaction: Reaction) -> None:
    member = member_of(A0)
    assert member.failed(error, 1) is reaction
    ended = reaction in (Reaction.FATAL, Reaction.UNSUPPORTED)
    assert (member.error is error) is ended
    assert (member.passing_error is error) is (reaction is Reaction.RAISE)
    assert member.state is (ShareMemberState.FATAL if ended else ShareMemberState.STABLE)
    assert member.beating is not ended
    if not ended:  # everything is said again
        assert member.to_say()[2] is None


def test_an_answer_of_another_epoch_is_ignored() -> None:
    member = member_of(A0)
    asked_with, said, _ = member.to_say()
    member.fenced()
    member.answered(asked_with, said, 2, ids(B0))
    assert (member.state, member.epoch) == (ShareMemberState.JOINING, 0)
    assert member.failed(broker_error(110), asked_with) is Reaction.WAIT


def test_g55_polls_that_stay_away_end_the_membership_and_the_next_joins_again() -> None:
    member = member_of(A0)
    assert member.in_group
    assert member.poll_overdue()
    assert (member.state, member.in_group, member.assigned) == (ShareMemberState.STALE, False, {})
    assert not member.beating
    assert not member.poll_overdue()
    assert member.polled()
    assert member.hurried
    assert not member.polled()


def test_leaving_forgets_everything() -> None:
    member = member_of(A0)
    member.leave()
    assert (member.state, member.epoch, member.topics, member.assigned) == (
        ShareMemberState.UNSUBSCRIBED, 0, None, {},
    )  # fmt: skip
    member.subscribe(["a"])
    assert member.state is ShareMemberState.JOINING


def test_an_assignment_with_numbers_that_cannot_be_is_read_without_them() -> None:
    make = ShareGroupHeartbeatResponse
    given = make.Assignment(
        topic_partitions=[make.TopicPartitions(topic_id=IDS["a"], partitions=[0, -1, 0, 1])]
    )
    assert assigned_ids(make(assignment=given)) == ids(A0, A1)
    assert assigned_ids(make()) is None


@pytest.mark.parametrize(
    ("error", "reaction"),
    [
        (broker_error(122), SessionReaction.AT_ONCE),
        (broker_error(123), SessionReaction.AT_ONCE),
        (broker_error(133), SessionReaction.WAIT),
        (broker_error(25), SessionReaction.REJOIN),
        (broker_error(110), SessionReaction.REJOIN),
        (broker_error(15), SessionReaction.WAIT),
        (NetworkError("lost"), SessionReaction.WAIT),
        (broker_error(30), SessionReaction.RAISE),
        (broker_error(42), SessionReaction.RAISE),
        (UnsupportedVersionError("too old"), SessionReaction.RAISE),
    ],
)
def test_g64_each_error_of_a_session(error: KafkaError, reaction: SessionReaction) -> None:
    assert after_session_error(error) is reaction
