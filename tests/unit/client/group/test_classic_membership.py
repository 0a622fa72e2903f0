"""The membership of the classic protocol, rule by rule, without clock or socket."""

from __future__ import annotations

import pytest

from parley.client.group.assignors import CooperativeStickyAssignor, StickyAssignor
from parley.client.group.classic.membership import ClassicMembership, MemberState, Share
from parley.client.group.classic.reactions import Reaction, after_join, after_sync_or_heartbeat
from parley.client.group.classic.requests import subscription_of
from parley.client.group.member import Identity
from parley.client.group.pace import Pace
from parley.client.group.steps import Assign, GroupStep, Lost, Revoke
from parley.errors import (
    ConfigError,
    KafkaError,
    NetworkError,
    RemoteProtocolError,
    RequestTimedOut,
    broker_error,
)
from parley.types import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ME = Identity("me", 1)


def showing(member: ClassicMembership) -> list[GroupStep]:
    """Show the application everything there is to show."""
    steps = []
    while (step := member.next_step()) is not None:
        assert member.pending
        steps.append(step)
        member.step_done(step)
    assert not member.pending
    return steps


def rebalance(
    member: ClassicMembership, identity: Identity, *share: TopicPartition
) -> list[GroupStep]:
    before = showing(member)
    assert member.may_join
    member.joining()
    member.joined(identity, "range", leads=False)
    member.synced(share)
    return before + showing(member)


def member_of(*share: TopicPartition, cooperative: bool = False) -> ClassicMembership:
    member = ClassicMembership(cooperative=cooperative)
    member.subscribe(["a", "b"])
    rebalance(member, ME, *share)
    return member


def test_a_member_joins_when_it_has_subscribed_and_not_before() -> None:
    member = ClassicMembership(cooperative=False)
    assert not member.may_join
    member.subscribe(["a"])
    assert member.may_join
    assert rebalance(member, ME, A0, A1) == [Assign((A0, A1))]
    assert (member.state, member.owned, member.may_join) == (MemberState.STABLE, {A0, A1}, False)
    assert member.reason == "subscription has changed"


def test_an_assignment_of_nothing_is_shown_too() -> None:
    assert rebalance_of_nothing() == [Assign(())]


def rebalance_of_nothing() -> list[GroupStep]:
    member = ClassicMembership(cooperative=False)
    member.subscribe(["a"])
    return rebalance(member, ME)


def test_the_same_subscription_again_changes_nothing() -> None:
    member = member_of(A0)
    member.subscribe(["b", "a"])
    assert not member.rejoining


def test_g6_an_answer_for_an_older_generation_is_ignored() -> None:
    member = member_of(A0)
    member.request_rejoin("a test")
    rebalance(member, Identity("me", 2), A0)
    for code in (22, 25, 82, 27):
        member.beat_failed(broker_error(code), ME)
        member.commit_refused(broker_error(code), ME)
    assert (member.identity, member.rejoining, member.error) == (("me", 2), False, None)


def test_g7_the_id_that_is_asked_for_is_joined_with_at_once() -> None:
    member = ClassicMembership(cooperative=False)
    member.subscribe(["a"])
    assert member.joining() == Identity()
    member.named("me")
    assert member.may_join
    assert member.joining() == Identity("me")


def test_g11_rebalance_in_progress_counts_for_a_stable_member_only() -> None:
    member = ClassicMembership(cooperative=False)
    member.subscribe(["a"])
    member.joining()
    assert not member.beating
    member.joined(ME, "range", leads=False)
    assert member.beating
    assert member.beat_failed(broker_error(27), ME) is Reaction.REJOIN
    assert member.state is MemberState.COMPLETING_REBALANCE
    member.synced([A0])
    showing(member)
    member.beat_failed(broker_error(27), ME)
    assert member.rejoining


def test_g12_who_stays_away_leaves_and_joins_again_at_the_next_poll() -> None:
    member = member_of(A0)
    assert member.poll_overdue()
    assert (member.in_group, member.may_join) == (False, False)
    assert not member.poll_overdue()
    assert member.polled()
    assert showing(member) == [Lost((A0,))]
    assert member.may_join
    member.joining()
    assert not member.polled()


def test_g35_eager_everything_is_given_up_before_the_member_joins_again() -> None:
    member = member_of(B0, A1, A0)
    member.request_rejoin("a test")
    assert not member.may_join
    assert rebalance(member, Identity("me", 2), A0) == [Revoke((A0, A1, B0)), Assign((A0,))]


def test_g36_cooperative_only_what_another_gets_is_given_up() -> None:
    member = member_of(A0, A1, B0, cooperative=True)
    member.request_rejoin("a test")
    assert rebalance(member, Identity("me", 2), A0, B0) == [Revoke((A1,)), Assign((), (A0, B0))]
    assert member.may_join  # so that the other one gets it
    assert rebalance(member, Identity("me", 3), A0, B0) == [Assign((), (A0, B0))]
    assert not member.rejoining


def test_g36_cooperative_topics_that_are_not_subscribed_to_any_more_are_given_up_first() -> None:
    member = member_of(A0, B0, cooperative=True)
    member.subscribe(["a"])
    assert not member.may_join
    assert showing(member) == [Revoke((B0,))]
    assert member.may_join


@pytest.mark.parametrize(("code", "kept"), [(22, "me"), (25, "")])
@pytest.mark.parametrize("cooperative", [False, True])
def test_g37_without_generation_or_id_partitions_are_lost(
    code: int, kept: str, cooperative: bool
) -> None:
    member = member_of(A0, cooperative=cooperative)
    member.beat_failed(broker_error(code), ME)
    assert member.identity == Identity(kept)
    assert not member.may_join  # before the application knows
    assert showing(member) == [Lost((A0,))]
    assert member.may_join


@pytest.mark.parametrize("code", [22, 25])
def test_g37_a_refused_commit_shows_it_as_well(code: int) -> None:
    member = member_of(A0)
    member.commit_refused(broker_error(code), ME)
    assert showing(member) == [Lost((A0,))]


def test_g28_eager_sticky_hears_what_was_given_up_and_cooperative_what_is_kept() -> None:
    member = member_of(A0, A1)
    member.request_rejoin("a test")
    assert showing(member) == [Revoke((A0, A1))]
    assert member.share == Share((A0, A1), 1)
    eager = subscription_of(StickyAssignor(), ["a"], Share(), member.share, "")
    assert (eager.owned, eager.user_data) == ((), StickyAssignor().user_data([A0, A1], 1))
    cooperative = subscription_of(
        CooperativeStickyAssignor(), ["a"], Share((A0,), 1), member.share, "r1"
    )
    assert (cooperative.owned, cooperative.generation, cooperative.rack) == ((A0,), 1, "r1")


def test_g39_an_assignment_of_what_is_not_subscribed_to_any_more_is_dropped() -> None:
    member = ClassicMembership(cooperative=False)
    member.subscribe(["a", "b"])
    member.joining()
    member.joined(ME, "range", leads=False)
    member.subscribe(["a"])
    member.synced([A0, B0])
    assert showing(member) == []
    assert member.may_join


def test_g4_a_coordinator_that_moves_costs_no_membership() -> None:
    member = member_of(A0)
    for error in (
        broker_error(15),
        broker_error(16),
        RequestTimedOut("late"),
        NetworkError("lost"),
        broker_error(14),
    ):
        assert member.beat_failed(error, ME) in (Reaction.FIND, Reaction.WAIT)
    assert (member.identity, member.state, showing(member)) == (ME, MemberState.STABLE, [])


def test_a_sync_that_is_overtaken_by_another_rebalance_keeps_id_and_generation() -> None:
    member = member_of(A0, cooperative=True)
    member.request_rejoin("a test")
    member.joining()
    member.joined(Identity("me", 2), "range", leads=False)
    assert member.sync_failed(broker_error(27)) is Reaction.REJOIN
    assert (member.identity, member.may_join) == (Identity("me", 2), True)
    assert showing(member) == []


FATAL_JOIN = (23, 24, 26, 35, 81, 82)


@pytest.mark.parametrize("code", FATAL_JOIN)
def test_what_is_fatal_ends_the_membership_until_it_is_left(code: int) -> None:
    member = member_of(A0)
    member.request_rejoin("a test")
    showing(member)
    member.joining()
    assert member.join_failed(broker_error(code)) is Reaction.FATAL
    member.request_rejoin("another test")
    assert not member.may_join
    assert member.error is not None
    member.leave()
    member.subscribe(["a"])
    assert member.may_join


def test_without_the_right_to_its_group_a_member_joins_again_once_that_was_raised() -> None:
    member = member_of(A0, cooperative=True)
    member.request_rejoin("a test")
    member.joining()
    assert member.join_failed(broker_error(30)) is Reaction.RAISE
    assert (member.error, member.may_join, member.polled()) == (None, False, False)
    member.passing_error = None  # a poll has raised it
    assert (member.polled(), member.identity, showing(member)) == (True, ME, [])


def test_without_the_right_to_its_group_a_stable_member_stays_and_a_left_one_forgets_it() -> None:
    member, error = member_of(A0), broker_error(30)
    assert member.beat_failed(error, ME) is Reaction.RAISE
    assert (member.passing_error, member.state, member.identity) == (error, MemberState.STABLE, ME)
    member.leave()
    assert member.passing_error is None


@pytest.mark.parametrize(
    ("error", "join", "staying"),
    [
        (broker_error(14), Reaction.WAIT, Reaction.WAIT),
        (broker_error(15), Reaction.FIND, Reaction.FIND),
        (broker_error(16), Reaction.FIND, Reaction.FIND),
        (broker_error(22), Reaction.NEW_GENERATION, Reaction.NEW_GENERATION),
        (broker_error(25), Reaction.NEW_MEMBER, Reaction.NEW_MEMBER),
        (broker_error(27), Reaction.WAIT, Reaction.REJOIN),
        (broker_error(30), Reaction.RAISE, Reaction.RAISE),
        (broker_error(79), Reaction.TAKE_ID, Reaction.FATAL),
        *((broker_error(code), Reaction.FATAL, Reaction.FATAL) for code in FATAL_JOIN),
        (NetworkError("lost"), Reaction.FIND, Reaction.FIND),
        (RequestTimedOut("late"), Reaction.FIND, Reaction.FIND),
        (RemoteProtocolError("nonsense"), Reaction.FATAL, Reaction.FATAL),
        (ConfigError("wrong"), Reaction.FATAL, Reaction.FATAL),
    ],
    ids=lambda value: str(getattr(value, "code", type(value).__name__)),
)
def test_the_table_of_reactions(error: KafkaError, join: Reaction, staying: Reaction) -> None:
    assert (after_join(error), after_sync_or_heartbeat(error)) == (join, staying)


def test_g13_the_last_step_gives_up_what_is_owned_and_loses_what_is_lost() -> None:
    assert member_of(A0).last_step() == Revoke((A0,))
    assert member_of().last_step() is None
    lost = member_of(A0)
    lost.beat_failed(broker_error(25), ME)
    assert lost.last_step() == Lost((A0,))


def test_leaving_returns_who_left() -> None:
    member = member_of(A0)
    assert member.leave() == ME
    assert (sorted(member.owned), member.in_group, member.may_join) == ([], False, False)


# -- the two clocks --------------------------------------------------------------------------------


def a_pace() -> Pace:
    return Pace(heartbeat_interval_ms=3_000, session_timeout_ms=10_000, max_poll_interval_ms=60_000)


def test_heartbeats_go_at_their_interval_and_only_when_they_are_wanted() -> None:
    pace = a_pace()
    pace.polled(1_000)
    pace.beat_answered(1_000)
    assert (pace.due_ms(1_000, beating=True), pace.due_ms(1_000, beating=False)) == (4_000, 61_000)
    assert (pace.beat_due(3_999), pace.beat_due(4_000)) == (False, True)
    pace.beat_sent(4_000)
    pace.beat_again(4_100)
    assert (pace.beat_due(4_099), pace.beat_due(4_100)) == (False, True)


def test_a_poll_that_waits_is_not_away_however_long() -> None:
    pace = a_pace()
    pace.poll_begins(0)
    assert not pace.poll_overdue(600_000)
    pace.poll_ends(600_000)
    assert (pace.poll_overdue(659_999), pace.poll_overdue(660_000)) == (False, True)
    pace.wait_for_poll()
    assert (pace.poll_overdue(700_000), pace.due_ms(700_000, beating=False)) == (False, None)
    pace.polled(700_000)
    assert pace.due_ms(700_000, beating=False) == 760_000


def test_what_repeats_a_join_belongs_to_its_rebalance() -> None:
    pace = a_pace()
    pace.rebalance_began(100, "first")
    pace.rebalance_began(200, "again")
    assert pace.rebalance_ended(350) == 250
    assert pace.last_rebalance == ("first", 350, 250)


def test_what_was_given_up_while_the_member_was_fenced_is_not_lost_as_well() -> None:
    member = member_of(A0)
    member.request_rejoin("a test")
    step = member.next_step()
    assert step == Revoke((A0,))
    member.beat_failed(broker_error(25), ME)
    member.step_done(step)
    assert member.next_step() is None
