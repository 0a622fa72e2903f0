"""The membership of the consumer protocol (KIP-848), rule by rule, without clock or socket."""

from __future__ import annotations

import pytest

from parley.client.group.member import Committing, Identity
from parley.client.group.modern.heartbeat import (
    Said,
    Standing,
    asks_for_partitions,
    heartbeat_request,
    target_of,
)
from parley.client.group.modern.membership import MemberState, ModernMembership
from parley.client.group.modern.reactions import Reaction, after_heartbeat
from parley.client.group.pace import Pace
from parley.client.group.steps import Assign, GroupStep, Lost, Revoke
from parley.errors import (
    KafkaError,
    NetworkError,
    RequestTimedOut,
    UnsupportedVersionError,
    broker_error,
)
from parley.messages import ConsumerGroupHeartbeatResponse
from parley.types import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
IDS = {"a": b"a" * 16, "b": b"b" * 16}
NAMES = {topic: name for name, topic in IDS.items()}
ME = Standing("readers", "me")


def ids(*partitions: TopicPartition) -> frozenset[tuple[bytes, int]]:
    return frozenset((IDS[tp.topic], tp.partition) for tp in partitions)


def beat(member: ModernMembership, epoch: int, *target: TopicPartition, new: bool = True) -> Said:
    """Send a heartbeat and answer it; return what was said."""
    asked_with, said, _ = member.to_say()
    member.answered(asked_with, said, epoch, ids(*target) if new else None)
    member.resolve(NAMES.get)
    return said


def showing(member: ModernMembership) -> list[GroupStep]:
    steps = []
    while (step := member.next_step()) is not None:
        assert member.pending
        steps.append(step)
        member.step_done(step)
    assert not member.pending
    return steps


def member_of(*share: TopicPartition) -> ModernMembership:
    member = ModernMembership()
    member.subscribe(["a", "b"])
    beat(member, 1, *share)
    showing(member)
    beat(member, 1, new=False)
    assert member.state is MemberState.STABLE
    return member


def test_g47_everything_is_said_when_joining_and_after_that_what_is_new() -> None:
    now = Said(frozenset({"a"}), frozenset({A0, A1}))
    whole = heartbeat_request(
        Standing("g", "me", None, 5_000, "r1", "range"), 0, Said(now.topics, frozenset()), None, IDS
    )
    assert (whole.rack_id, whole.rebalance_timeout_ms, whole.server_assignor) == (
        "r1",
        5_000,
        "range",
    )
    assert (whole.subscribed_topic_names, whole.topic_partitions) == (["a"], [])
    nothing = heartbeat_request(ME, 3, now, now, IDS)
    assert (
        nothing.rebalance_timeout_ms,
        nothing.subscribed_topic_names,
        nothing.topic_partitions,
    ) == (-1, None, None)
    owned = heartbeat_request(ME, 3, now, Said(now.topics, frozenset()), IDS)
    assert owned.subscribed_topic_names is None
    (topic,) = owned.topic_partitions or ()
    assert (bytes(topic.topic_id), topic.partitions) == (IDS["a"], [0, 1])


def test_g47_after_a_failure_everything_is_said_again() -> None:
    member = member_of(A0)
    assert member.to_say()[2] == Said(frozenset({"a", "b"}), frozenset({A0}))
    assert member.failed(NetworkError("lost"), 1) is Reaction.FIND
    assert member.to_say()[2] is None


def test_g50_heartbeats_hurry_to_join_to_acknowledge_and_with_another_subscription() -> None:
    member = ModernMembership()
    assert not member.beating
    member.subscribe(["a"])
    assert member.hurried
    beat(member, 1, A0)
    assert (member.state, member.hurried) == (MemberState.RECONCILING, False)
    assert showing(member) == [Assign((A0,))]
    assert (member.state, member.hurried) == (MemberState.ACKNOWLEDGING, True)
    assert beat(member, 1, new=False).owned == {A0}
    assert not member.hurried
    member.subscribe(["a", "b"])
    assert member.hurried
    assert beat(member, 1, new=False).topics == {"a", "b"}
    assert not member.hurried


def test_g50_the_answer_to_a_heartbeat_from_before_acknowledges_nothing() -> None:
    member = ModernMembership()
    member.subscribe(["a"])
    beat(member, 1, A0, A1)
    asked_with, said, _ = member.to_say()  # at the interval, while the application is shown them
    showing(member)
    member.answered(asked_with, said, 1, None)
    member.resolve(NAMES.get)
    assert (member.state, member.hurried) == (MemberState.ACKNOWLEDGING, True)
    assert beat(member, 1, new=False).owned == {A0, A1}
    assert (member.state, member.hurried) == (MemberState.STABLE, False)


def test_g50_more_is_expected_by_who_joins_or_subscribes_to_other_topics() -> None:
    one, two = (Said(frozenset(topics), frozenset()) for topics in ("a", "ab"))
    assert asks_for_partitions(0, one, None)
    assert asks_for_partitions(3, two, one)
    assert not asks_for_partitions(3, one, one)
    assert not asks_for_partitions(3, one, None)  # everything is said again after a failure
    pace = Pace(heartbeat_interval_ms=5_000, session_timeout_ms=45_000, max_poll_interval_ms=60_000)
    pace.beat_answered(1_000)
    pace.expect_more(1_000)
    assert (pace.expecting(8_499), pace.expecting(8_500)) == (True, False)
    pace.beat_often(1_000, 100)
    assert (pace.beat_due(1_499), pace.beat_due(1_500)) == (False, True)
    pace.beat_sent(1_500)
    pace.beat_often(1_500, 700)
    assert (pace.beat_due(2_199), pace.beat_due(2_200)) == (False, True)


def test_a_member_that_gets_nothing_is_shown_that_once() -> None:
    member = ModernMembership()
    member.subscribe(["a"])
    beat(member, 1)
    assert showing(member) == [Assign(())]
    assert (member.state, member.hurried) == (MemberState.STABLE, False)  # nothing to acknowledge
    beat(member, 1, new=False)
    beat(member, 2, new=False)
    assert showing(member) == []


def test_g52_who_gives_everything_up_acknowledges_that() -> None:
    member = member_of(A0)
    beat(member, 1)
    assert showing(member) == [Revoke((A0,)), Assign(())]
    assert (member.state, member.hurried) == (MemberState.ACKNOWLEDGING, True)
    assert beat(member, 2, new=False).owned == frozenset()


def test_g51_what_metadata_does_not_have_yet_is_taken_later() -> None:
    member = ModernMembership()
    member.subscribe(["a", "b"])
    asked_with, said, _ = member.to_say()
    member.answered(asked_with, said, 1, ids(A0, B0))
    member.resolve({IDS["a"]: "a"}.get)
    assert member.unresolved
    assert showing(member) == [Assign((A0,))]
    assert beat(member, 1, new=False).owned == {A0}  # metadata has it now
    assert not member.unresolved
    assert showing(member) == [Assign((B0,), (A0,))]


def test_g51_a_member_that_knows_none_of_its_topics_is_not_shown_that_it_has_nothing() -> None:
    member = ModernMembership()
    member.subscribe(["a"])
    asked_with, said, _ = member.to_say()
    member.answered(asked_with, said, 1, ids(A0))
    member.resolve({}.get)
    assert member.unresolved
    assert not member.pending
    assert not member.has_nothing
    assert showing(member) == []
    member.resolve({IDS["a"]: "a"}.get)
    assert showing(member) == [Assign((A0,))]
    assert member.state is MemberState.ACKNOWLEDGING


def test_g52_partitions_are_given_up_before_others_are_taken_and_then_acknowledged() -> None:
    member = member_of(A0, A1)
    beat(member, 1, A0, B0)
    assert member.next_step() == Revoke((A1,))
    assert member.to_say()[1].owned == {A0, A1}  # not before it is done
    assert showing(member) == [Revoke((A1,)), Assign((B0,), (A0,))]
    assert beat(member, 2, new=False).owned == {A0, B0}
    assert member.state is MemberState.STABLE


def test_g52_a_target_that_changes_meanwhile_comes_afterwards() -> None:
    member = member_of(A0, A1)
    beat(member, 1, A0)
    beat(member, 1, A1)
    first = member.next_step()
    assert first == Revoke((A1,))
    showing(member)
    beat(member, 2, new=False)
    assert showing(member) == [Revoke((A0,)), Assign((A1,))]


@pytest.mark.parametrize("code", [110, 25])
def test_g54_a_fenced_member_loses_its_partitions_and_joins_again(code: int) -> None:
    member = member_of(A0)
    assert member.failed(broker_error(code), 1) is Reaction.FENCED
    assert (member.in_group, member.beating, member.committing) == (
        False,
        False,
        Committing.NO_MEMBER,
    )
    assert showing(member) == [Lost((A0,))]
    assert (member.state, member.hurried) == (MemberState.JOINING, True)
    assert member.to_say()[:2] == (0, Said(frozenset({"a", "b"}), frozenset()))


@pytest.mark.parametrize(
    ("error", "reaction"),
    [
        (broker_error(14), Reaction.WAIT),
        (broker_error(15), Reaction.FIND),
        (broker_error(16), Reaction.FIND),
        (broker_error(29), Reaction.RAISE),
        (broker_error(30), Reaction.RAISE),
        *((broker_error(code), Reaction.FATAL) for code in (24, 42, 69, 81, 82, 111, 112, 128)),
        (broker_error(35), Reaction.UNSUPPORTED),
        (NetworkError("lost"), Reaction.FIND),
        (RequestTimedOut("late"), Reaction.FIND),
        (UnsupportedVersionError("too old"), Reaction.UNSUPPORTED),
    ],
    ids=lambda value: str(getattr(value, "code", type(value).__name__)),
)
def test_g54_the_table_of_reactions(error: KafkaError, reaction: Reaction) -> None:
    assert after_heartbeat(error) is reaction
    member = member_of(A0)
    member.failed(error, 1)
    ended = reaction in (Reaction.FATAL, Reaction.UNSUPPORTED)
    assert (member.error is error, member.beating) == (ended, not ended)
    assert (member.passing_error is error) is (reaction is Reaction.RAISE)


def test_g55_who_stays_away_joins_again_at_the_next_poll() -> None:
    member = member_of(A0)
    assert member.poll_overdue()
    assert not member.poll_overdue()
    assert not member.beating
    assert member.polled()
    assert showing(member) == [Lost((A0,))]
    assert member.hurried


def test_g57_a_commit_with_an_epoch_that_is_over_goes_again() -> None:
    member = member_of(A0)
    assert member.commit_refused(broker_error(113), Identity("me", 1))
    assert not member.commit_refused(broker_error(12), Identity("me", 1))
    assert not member.commit_refused(broker_error(25), Identity("me", 1))
    assert showing(member) == [Lost((A0,))]


def test_g61_partitions_that_come_twice_or_do_not_exist_are_taken_once_or_not() -> None:
    topic = ConsumerGroupHeartbeatResponse.TopicPartitions
    assignment = ConsumerGroupHeartbeatResponse.Assignment(
        topic_partitions=[
            topic(topic_id=IDS["a"], partitions=[1, 0, 1, -1]),
            topic(topic_id=IDS["a"], partitions=[0]),
        ]
    )
    assert target_of(ConsumerGroupHeartbeatResponse(assignment=assignment)) == ids(A0, A1)
    assert target_of(ConsumerGroupHeartbeatResponse(assignment=None)) is None


def test_an_answer_to_a_heartbeat_of_another_epoch_is_ignored() -> None:
    member = member_of(A0)
    member.answered(0, Said(frozenset(), frozenset()), 9, ids(B0))
    assert member.epoch == 1


def test_leaving_gives_up_what_is_owned() -> None:
    member = member_of(A0)
    assert member.last_step() == Revoke((A0,))
    member.leave()
    assert (member.last_step(), member.in_group, member.beating) == (None, False, False)


def test_what_was_given_up_while_the_member_was_fenced_is_not_lost_as_well() -> None:
    member = member_of(A0)
    beat(member, 1)
    step = member.next_step()
    assert step == Revoke((A0,))
    member.failed(broker_error(110), 1)
    member.step_done(step)
    assert member.next_step() is None
