"""A classic group at its coordinator, rule by rule (H1 to H16), by a clock of the test's own."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from parley.devcluster.state.groups.classic.group import (
    ClassicGroup,
    GroupState,
    MemberIdRequired,
    Rules,
)
from parley.devcluster.state.groups.classic.members import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    Join,
    JoinAnswer,
    SyncAnswer,
)
from parley.devcluster.state.groups.classic.parked import Parked
from parley.devcluster.state.groups.classic.persistence import group_of, group_record
from parley.devcluster.state.groups.records import decode, encode
from parley.devcluster.state.refused import Refused
from parley.errors import codes
from parley.messages import GroupMetadataValue

RANGE, BOTH = (("range", b"r"),), (("sticky", b"s"), ("range", b"r"))
SESSION_MS, REBALANCE_MS = 10_000, 60_000


class Coordinator:
    """One group and its clock; what was journaled is counted."""

    def __init__(self, **rules: int | bool) -> None:
        self.ids = itertools.count(1)
        self.journaled: list[str] = []
        self.full = False
        self.group = ClassicGroup("g", self.keep, lambda: str(next(self.ids)))
        self.group.rules = replace(Rules(), **rules)  # type: ignore[arg-type]
        self.now_ms = 0

    def keep(self, group: ClassicGroup, now_ms: int) -> None:
        if self.full:
            raise OSError(28, "no space left")
        self.journaled.append(group.state.value)

    def join(
        self, name: str = "", *, client: str = "c", instance: str | None = None, **said: object
    ) -> Parked[JoinAnswer]:
        join = Join(
            name, instance, client, "/127.0.0.1", SESSION_MS, REBALANCE_MS, "consumer", RANGE
        )
        return self.group.join(replace(join, **said), self.now_ms)  # type: ignore[arg-type]

    def joined(self, name: str = "", **said: object) -> JoinAnswer:
        answer = self.join(name, **said).answer  # type: ignore[arg-type]
        assert answer is not None
        return answer

    def sync(self, name: str, **assignments: bytes) -> Parked[SyncAnswer]:
        member = self.group.check(name, None, self.group.generation)
        given = {key.replace("_", "-"): value for key, value in assignments.items()}
        return self.group.sync(member, given, self.now_ms)

    def beat(self, name: str) -> int:
        return self.group.heartbeat(self.group.find(name, None), self.now_ms)

    def after(self, duration_ms: int) -> Coordinator:
        self.now_ms += duration_ms
        self.group.expire(self.now_ms)
        return self

    def stable(self, members: int) -> list[str]:
        """Bring members into one generation; return their ids, the leader's first."""
        names = [self.joined().member_id]
        for _ in range(members - 1):
            waits = self.join()
            for name in names:
                self.join(name)
            assert waits.answer is not None
            names.append(waits.answer.member_id)
        for name in reversed(names):
            self.sync(name, **{one.replace("-", "_"): one.encode() for one in names})
        assert self.group.state is GroupState.STABLE
        return names

    def refused(self, *arguments: object, **said: object) -> int:
        with pytest.raises(Refused) as raised:
            self.join(*arguments, **said)  # type: ignore[arg-type]
        return raised.value.code


@pytest.fixture
def at() -> Coordinator:
    return Coordinator()


def test_h1_a_newcomer_joins_again_with_the_id_it_is_given(at: Coordinator) -> None:
    with pytest.raises(MemberIdRequired) as required:
        at.join(requires_id=True)
    assert required.value.member_id == "c-1"
    assert at.joined("c-1").generation == 1


def test_h1_an_id_that_nobody_joins_with_lapses_with_the_session(at: Coordinator) -> None:
    names = at.stable(1)
    with pytest.raises(MemberIdRequired):
        at.join(requires_id=True)
    rejoining = at.join(names[0])
    assert rejoining.answer is None  # the newcomer is waited for
    assert at.after(SESSION_MS - 1) is at
    assert rejoining.answer is None
    at.after(1)
    assert rejoining.answer is not None


def test_h2_and_h10_who_is_no_member_is_unknown(at: Coordinator) -> None:
    assert at.refused("nobody") == codes.UNKNOWN_MEMBER_ID
    at.stable(1)
    with pytest.raises(Refused) as raised:
        at.group.check("nobody", None, 1)
    assert raised.value.code == codes.UNKNOWN_MEMBER_ID
    with pytest.raises(Refused) as raised:
        at.group.check("c-1", None, 7)
    assert raised.value.code == codes.ILLEGAL_GENERATION


@pytest.mark.parametrize("said",
                         [{"protocols": ()}, {"protocol_type": ""}, {"protocol_type": "connect"},
                                  {"protocols": (("other", b""),)}])  # fmt: skip
def test_h3_protocols_that_do_not_fit(at: Coordinator, said: dict[str, object]) -> None:
    at.stable(1)
    assert at.refused(**said) == codes.INCONSISTENT_GROUP_PROTOCOL
    assert at.group.state is GroupState.STABLE


def test_g32_the_protocol_is_voted_for_among_those_that_all_support(at: Coordinator) -> None:
    first = at.joined(protocols=BOTH)
    assert first.protocol == "sticky"
    second = at.join()
    again = at.joined(first.member_id, protocols=BOTH)
    assert (again.protocol, again.members) == (
        "range",
        ((first.member_id, None, b"r"), ("c-2", None, b"r")),
    )
    assert second.answer is not None
    assert (second.answer.protocol, second.answer.leader, second.answer.members) == (
        "range",
        first.member_id,
        (),
    )


def test_h4_the_first_generation_waits_and_each_newcomer_extends_it() -> None:
    at = Coordinator(initial_delay_ms=3_000)
    first = at.join()
    at.after(2_999)
    assert first.answer is None
    second = at.join()
    at.after(1)
    assert first.answer is None
    at.after(2_999)
    assert first.answer is None
    at.after(1)
    assert first.answer is not None
    assert second.answer is not None
    assert len(first.answer.members) == 2


def test_h5_while_a_rebalance_is_prepared_heartbeats_and_syncs_say_so(at: Coordinator) -> None:
    (name,) = at.stable(1)
    at.join()
    assert at.group.state is GroupState.PREPARING
    assert at.beat(name) == codes.REBALANCE_IN_PROGRESS
    with pytest.raises(Refused) as raised:
        at.sync(name)
    assert raised.value.code == codes.REBALANCE_IN_PROGRESS


def test_h6_who_does_not_join_in_time_is_out_and_another_leads(at: Coordinator) -> None:
    leader, follower = at.stable(2)
    newcomer = at.join()
    waits = at.join(follower)
    for _ in range(6):  # it heartbeats, and does not join
        at.after(SESSION_MS - 1)
        assert at.beat(leader) == codes.REBALANCE_IN_PROGRESS
    at.after(6)
    assert waits.answer is not None
    assert (waits.answer.leader, waits.answer.generation, len(waits.answer.members)) == (
        follower,
        3,
        2,
    )
    assert newcomer.answer is not None
    with pytest.raises(Refused):
        at.group.find(leader, None)


@pytest.mark.parametrize(
    ("quiet", "code"), [(True, codes.NONE), (False, codes.REBALANCE_IN_PROGRESS)]
)
def test_h7_between_join_and_sync(quiet: bool, code: int) -> None:
    at = Coordinator(heartbeats_while_completing=quiet)
    name = at.joined().member_id
    assert at.beat(name) == code
    assert at.joined(name).generation == 1  # joining again with the same metadata is answered again
    assert at.joined(name, protocols=BOTH).generation == 2


def test_h7_who_does_not_sync_in_time_is_out(at: Coordinator) -> None:
    leader, follower = at.stable(2)
    at.join(leader)
    at.join(follower)
    waits = at.sync(follower)
    for _ in range(6):
        at.after(SESSION_MS - 1)
        at.beat(leader)
    at.after(6)
    assert waits.answer == SyncAnswer(codes.REBALANCE_IN_PROGRESS)
    with pytest.raises(Refused):
        at.group.find(leader, None)


def test_h8_an_assignment_is_journaled_before_it_is_handed_out(at: Coordinator) -> None:
    leader = at.joined().member_id
    follower = at.join()
    at.joined(leader)
    assert follower.answer is not None
    waits = at.sync(follower.answer.member_id)
    at.full = True
    with pytest.raises(OSError, match="no space"):
        at.sync(leader, c_1=b"mine", c_2=b"yours")
    assert waits.answer is None
    assert at.group.state is GroupState.COMPLETING
    at.full = False
    assert at.sync(leader, c_1=b"mine").answer == SyncAnswer(0, b"mine", "consumer", "range")
    assert waits.answer == SyncAnswer(0, b"", "consumer", "range")  # the leader left it out
    assert at.journaled == ["Stable"]


def test_h9_in_a_stable_group_the_leader_rebalances_and_a_follower_does_not(
    at: Coordinator,
) -> None:
    leader, follower = at.stable(2)
    assert at.joined(follower).generation == 2
    assert at.group.state is GroupState.STABLE
    assert at.join(leader).answer is None
    assert at.group.state is GroupState.PREPARING


@pytest.mark.parametrize("late_ms", [-1, 0])
def test_h13_a_session_that_is_over(at: Coordinator, late_ms: int) -> None:
    at.stable(1)
    at.after(SESSION_MS + late_ms)
    assert (at.group.state, at.group.generation) == (
        (GroupState.EMPTY, 2) if late_ms == 0 else (GroupState.STABLE, 1)
    )
    assert at.journaled == (["Stable", "Empty"] if late_ms == 0 else ["Stable"])


def test_h13_a_new_member_waits_five_minutes_for_its_first_generation(at: Coordinator) -> None:
    (old,) = at.stable(1)
    slow = at.group.members[old]
    slow.session_timeout_ms = slow.rebalance_timeout_ms = 600_000
    slow.beat(at.now_ms)
    new = at.join()
    at.after(NEW_MEMBER_JOIN_TIMEOUT_MS - 1)
    assert new.answer is None
    at.after(1)
    assert new.answer is not None
    assert new.answer.error_code == codes.UNKNOWN_MEMBER_ID


def test_h14_the_last_member_that_leaves_makes_the_group_empty(at: Coordinator) -> None:
    first, second = at.stable(2)
    at.group.leave(second, None, 0)
    assert at.beat(first) == codes.REBALANCE_IN_PROGRESS
    at.group.leave(first, None, 0)
    assert (at.group.state, at.group.generation, at.group.leader) == (GroupState.EMPTY, 3, None)
    with pytest.raises(Refused):
        at.group.leave(first, None, 0)


def static(at: Coordinator) -> JoinAnswer:
    answer = at.joined(instance="i")
    at.sync(answer.member_id, **{answer.member_id.replace("-", "_"): b"all"})
    return answer


@pytest.mark.parametrize(("skips", "leader"), [(True, "i-2"), (False, "i-1")])
def test_g16_g18_a_static_member_comes_back_without_a_rebalance(
    at: Coordinator, skips: bool, leader: str
) -> None:
    old = static(at)
    back = at.joined(instance="i", skips_assignment=skips)
    assert (back.member_id, back.generation, back.leader, back.skip_assignment) == (
        "i-2",
        1,
        leader,
        skips,
    )
    assert len(back.members) == int(skips)
    assert at.sync(back.member_id).answer == SyncAnswer(0, b"all", "consumer", "range")
    with pytest.raises(Refused) as raised:
        at.group.find(old.member_id, "i")
    assert raised.value.code == codes.FENCED_INSTANCE_ID  # G17
    with pytest.raises(Refused) as raised:
        at.group.find(old.member_id, None)
    assert raised.value.code == codes.UNKNOWN_MEMBER_ID


def test_g16_the_new_id_of_a_static_member_is_in_the_journal(at: Coordinator) -> None:
    static(at)
    at.journaled.clear()
    at.joined(instance="i")
    # or the next coordinator would fence the process that came back
    assert at.journaled == ["Stable"]


def test_h15_between_join_and_sync_a_static_member_that_comes_back_rebalances(
    at: Coordinator,
) -> None:
    at.joined(instance="i")
    assert at.joined(instance="i").generation == 2


def test_h6_static_members_that_are_away_stay(at: Coordinator) -> None:
    static(at)
    at.group.members["i-1"].session_timeout_ms = 10 * REBALANCE_MS
    at.beat("i-1")
    joining = at.join()
    at.after(REBALANCE_MS - 1)
    assert joining.answer is None
    at.after(1)
    assert joining.answer is not None
    assert set(at.group.members) == {"i-1", "c-2"}
    at.group.leave("", "i", at.now_ms)  # G19: by its instance id alone
    assert set(at.group.members) == {"c-2"}


def test_h17_a_group_is_written_when_it_is_stable_or_empty_and_not_between() -> None:
    at = Coordinator()
    leader = at.joined().member_id
    assert at.journaled == []
    at.sync(leader)
    assert at.journaled == ["Stable"]
    waiting = at.join()
    at.join(leader)
    assert waiting.answer is not None
    assert at.journaled == ["Stable"]  # a rebalance is not in the log before its assignment
    at.sync(leader)
    for member in (leader, waiting.answer.member_id):
        at.group.leave(member, None, at.now_ms)
    assert at.journaled == ["Stable", "Stable", "Empty"]


def test_h18_what_was_written_comes_back(at: Coordinator) -> None:
    names = at.stable(2)
    record = decode(*encode(group_record(at.group, at.now_ms)))
    assert record is not None
    assert isinstance(record.value, GroupMetadataValue)
    again = group_of("g", record.value, at.keep, lambda: "x")
    assert (again.state, again.generation, again.leader, list(again.members)) == (
        GroupState.STABLE,
        2,
        names[0],
        names,
    )
    assert {one.id: one.assignment for one in again.members.values()} == {
        name: name.encode() for name in names
    }


class Members(RuleBasedStateMachine):
    """Members join, sync, leave and fall silent in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.at = Coordinator()
        self.waiting: dict[int, Parked[JoinAnswer]] = {}
        self.generations: list[int] = [0]
        self.count = itertools.count()

    @rule()
    def enter(self) -> None:
        self.waiting[next(self.count)] = self.at.join()

    @precondition(lambda self: self.at.group.members)
    @rule(data=st.data(), changed=st.booleans())
    def join_again(self, data: st.DataObject, changed: bool) -> None:
        name = data.draw(st.sampled_from(list(self.at.group.members)))
        self.waiting[next(self.count)] = self.at.join(name, protocols=BOTH if changed else RANGE)

    @precondition(lambda self: self.at.group.state is GroupState.COMPLETING)
    @rule(data=st.data())
    def sync(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(list(self.at.group.members)))
        self.at.sync(name, **{one.replace("-", "_"): one.encode() for one in self.at.group.members})

    @precondition(lambda self: self.at.group.members)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.at.group.leave(
            data.draw(st.sampled_from(list(self.at.group.members))), None, self.at.now_ms
        )

    @rule(duration_ms=st.sampled_from([1, SESSION_MS // 2, SESSION_MS, REBALANCE_MS]))
    def wait(self, duration_ms: int) -> None:
        self.at.after(duration_ms)

    @invariant()
    def holds(self) -> None:
        group = self.at.group
        self.generations.append(group.generation)
        assert self.generations == sorted(self.generations)
        assert (group.state is GroupState.EMPTY) == (not group.members)
        assert group.leader in ({None} if not group.members else set(group.members))
        assert group.next_due_ms is None or group.next_due_ms > self.at.now_ms
        if group.state is GroupState.STABLE:
            assert all(
                one.joining is None and one.syncing is None for one in group.members.values()
            )
        if group.members:  # I10: something will happen even if nobody says anything any more
            assert group.next_due_ms is not None

    def teardown(self) -> None:
        """Whoever waits is answered when all others are gone."""
        for _ in range(20):
            self.at.after(REBALANCE_MS * 5)
        assert self.at.group.state is GroupState.EMPTY
        assert all(parked.answer is not None for parked in self.waiting.values())


Members.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestMembers = Members.TestCase


def test_h7_who_syncs_after_the_leader_has_synced_in_time() -> None:
    """The leader's SyncGroup may come first; a rebalance timeout later the
    others are members still.
    """
    at = Coordinator()
    leader = at.joined().member_id
    waits = at.join()
    at.join(leader)
    assert waits.answer is not None
    follower = waits.answer.member_id
    at.sync(leader)
    at.sync(follower)
    for _ in range(REBALANCE_MS // SESSION_MS * 2):
        at.after(SESSION_MS // 2)
        assert (at.beat(leader), at.beat(follower)) == (codes.NONE, codes.NONE)


def test_h7_who_comes_back_in_place_of_one_that_has_not_synced_is_to_sync() -> None:
    """The id before is nobody's when the time to sync is over."""
    at = Coordinator()
    leader = at.joined().member_id
    waits = at.join(instance="i")
    at.join(leader)
    assert waits.answer is not None
    at.sync(leader)
    again = [at.joined(instance="i").member_id for _ in range(2)]
    for _ in range(REBALANCE_MS // SESSION_MS * 2):
        at.after(SESSION_MS // 2)
        assert at.beat(leader) in (codes.NONE, codes.REBALANCE_IN_PROGRESS)
        if again[-1] in at.group.members:
            at.beat(again[-1])
    assert list(at.group.members) == [leader]
