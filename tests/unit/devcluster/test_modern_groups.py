"""A group of the consumer protocol at its coordinator: heartbeats as real brokers
were measured to answer them.
"""

from __future__ import annotations

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from parley.devcluster.state.groups.modern.assignors import Part
from parley.devcluster.state.groups.modern.group import ConsumerGroup, Settings, Topics
from parley.devcluster.state.groups.modern.heartbeats import Heartbeat, HeartbeatAnswer
from parley.devcluster.state.groups.record_parts import Racks
from parley.devcluster.state.refused import Refused
from parley.errors import codes

T1, T2 = (bytes([at]) * 16 for at in (1, 2))
AT_4_0 = Settings()
AT_4_3 = Settings(assignment_interval_ms=1_000, first_epoch=1)
BOTH = pytest.mark.parametrize("release", [AT_4_0, AT_4_3], ids=["4.0", "4.3"])


def parts(*indexes: int, topic: bytes = T1) -> frozenset[Part]:
    return frozenset((topic, index) for index in indexes)


class Coordinator:
    """One group, its topics and its clock."""

    def __init__(self, settings: Settings = AT_4_0) -> None:
        self.group = ConsumerGroup("g", settings)
        self.known = {"t1": (T1, 3)}
        self.racks: dict[str, Racks] = {}
        self.now_ms = 0

    def say(self, member_id: str, epoch: int, **said: object) -> HeartbeatAnswer:
        topics = Topics(
            self.known,
            lambda regex: frozenset(name for name in self.known if name.startswith(regex)),
            lambda name: self.racks.get(name, ()),
        )
        return self.group.heartbeat(Heartbeat(member_id, epoch, **said), topics, self.now_ms)  # type: ignore[arg-type]

    def join(self, member_id: str, **said: object) -> HeartbeatAnswer:
        full = {"rebalance_timeout_ms": 5_000, "topics": frozenset(["t1"]), "owned": frozenset()}
        return self.say(member_id, 0, **{**full, **said})

    def refused(self, member_id: str, epoch: int, **said: object) -> int:
        with pytest.raises(Refused) as raised:
            self.say(member_id, epoch, **said)
        return raised.value.code


def test_kip_1101_replicas_in_other_racks_raise_the_epoch() -> None:
    at = Coordinator()
    at.racks = {"t1": (("a", "b"), ("a",), ("b",)), "of nobody": (("z",),)}
    epoch = at.join("A").epoch
    assert at.say("A", epoch).epoch == epoch
    at.racks = {"t1": (("b", "a"), ("a",), ("b",)), "of nobody": (("y",),)}
    assert at.say("A", epoch).epoch == epoch  # another order, and a topic that nobody reads
    at.racks["t1"] = (("a", "b"), ("b",), ("b",))
    answer = at.say("A", epoch)
    assert (answer.epoch, answer.assignment) == (epoch + 1, None)


def test_g53_a_partition_moves_after_it_was_given_up() -> None:
    """The flow that was measured on 4.3.0, heartbeat by heartbeat."""
    at = Coordinator(AT_4_3)
    assert at.join("A") == HeartbeatAnswer("A", 2, parts(0, 1, 2))
    assert at.say("A", 2, owned=parts(0, 1, 2)) == HeartbeatAnswer("A", 2)
    assert at.join("B") == HeartbeatAnswer("B", 2, frozenset())
    at.now_ms = 999
    assert at.say("A", 2) == HeartbeatAnswer("A", 2)  # the assignment interval is not over
    at.now_ms = 1_000
    assert at.say("A", 2) == HeartbeatAnswer("A", 2, parts(0, 1))
    assert at.say("B", 2) == HeartbeatAnswer("B", 3)
    assert at.say("A", 2, owned=parts(0, 1)) == HeartbeatAnswer("A", 3)
    # said again: the answer was lost
    assert at.say("A", 2, owned=parts(0, 1)) == HeartbeatAnswer("A", 3)
    assert at.say("B", 3) == HeartbeatAnswer("B", 3, parts(2))
    assert at.group.state == "Stable"


def test_fact_7_before_4_3_the_next_heartbeat_revokes() -> None:
    at = Coordinator(AT_4_0)
    assert at.join("A").epoch == 1
    at.join("B")
    assert at.say("A", 1) == HeartbeatAnswer("A", 1, parts(0, 1))


@BOTH
def test_h25_epochs(release: Settings) -> None:
    at = Coordinator(release)
    known = at.join("A").epoch
    assert at.refused("A", known + 1) == codes.FENCED_MEMBER_EPOCH
    at.known["t1"] = (T1, 4)
    at.now_ms = 1_000
    assert at.say("A", known, owned=parts(0, 1, 2)) == HeartbeatAnswer(
        "A", known + 1, parts(0, 1, 2, 3)
    )
    assert at.refused("A", known) == codes.FENCED_MEMBER_EPOCH
    assert at.refused("A", known, owned=parts(7)) == codes.FENCED_MEMBER_EPOCH
    assert at.say("A", known, owned=parts(0, 1, 2)).epoch == known + 1
    # a known member may always join again
    assert at.join("A") == HeartbeatAnswer("A", known + 1, parts(0, 1, 2, 3))


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"rebalance_timeout_ms": -1}, codes.INVALID_REQUEST),
        ({"owned": parts(0)}, codes.INVALID_REQUEST),
        ({"topics": None}, codes.INVALID_REQUEST),
        ({"instance_id": ""}, codes.INVALID_REQUEST),
        ({"rack": ""}, codes.INVALID_REQUEST),
        ({"assignor": "mine"}, codes.UNSUPPORTED_ASSIGNOR),
    ],
)
def test_a_heartbeat_that_nobody_could_answer_is_refused_and_changes_nothing(
    said: dict[str, object], code: int
) -> None:
    at = Coordinator()
    with pytest.raises(Refused) as raised:
        at.join("A", **said)
    assert raised.value.code == code
    assert (at.group.members, at.group.epoch) == ({}, 0)


@BOTH
def test_who_subscribes_to_nothing_yet_is_a_member(release: Settings) -> None:
    at = Coordinator(release)
    epoch = at.join("A", topics=frozenset()).epoch
    assert at.group.members.keys() == {"A"}
    at.now_ms = 1_000
    answer = at.say("A", epoch, topics=frozenset(["t1"]))
    assert (answer.epoch, answer.assignment) == (epoch + 1, parts(0, 1, 2))


def test_who_is_no_member_is_refused() -> None:
    at = Coordinator()
    assert at.refused("", 0) == codes.INVALID_REQUEST
    assert at.refused("A", 1) == codes.UNKNOWN_MEMBER_ID
    assert at.refused("A", -1) == codes.UNKNOWN_MEMBER_ID
    assert at.refused("A", -2) == codes.INVALID_REQUEST
    assert at.refused("A", -3) == codes.INVALID_REQUEST
    assert at.refused("A", 1, instance_id="i") == codes.UNKNOWN_MEMBER_ID


def test_a_group_has_a_largest_size() -> None:
    at = Coordinator(Settings(max_size=1))
    at.join("A")
    with pytest.raises(Refused) as raised:
        at.join("B")
    assert raised.value.code == codes.GROUP_MAX_SIZE_REACHED
    at.join("A")


@BOTH
def test_g56_a_static_member_comes_back_under_another_id_to_the_same_partitions(
    release: Settings,
) -> None:
    at = Coordinator(release)
    epoch = at.join("A", instance_id="i").epoch
    assert (
        at.refused("B", 0, instance_id="i", rebalance_timeout_ms=5, topics=frozenset(["t1"]))
        == codes.UNRELEASED_INSTANCE_ID
    )
    assert at.say("A", -2, instance_id="i") == HeartbeatAnswer("A", -2)
    assert at.join("B", instance_id="i") == HeartbeatAnswer("B", epoch, parts(0, 1, 2))
    assert at.refused("A", epoch, instance_id="i") == codes.FENCED_INSTANCE_ID
    assert at.refused("A", epoch) == codes.UNKNOWN_MEMBER_ID


def test_g58_commits_of_older_epochs_partition_by_partition() -> None:
    at = Coordinator()
    at.join("A")
    at.join("B")
    assert at.say("A", 1).assignment == parts(0, 1)
    assert at.say("A", 1, owned=parts(0, 1)).epoch == 2
    # the current epoch may commit anything
    at.group.check_commit("A", 2, (T1, 2), per_partition=False)
    at.group.check_commit("A", 1, (T1, 0), per_partition=True)
    for part, per_partition in [((T1, 2), True), ((T1, 0), False), (None, True)]:
        with pytest.raises(Refused) as raised:
            at.group.check_commit("A", 1, part, per_partition=per_partition)
        assert raised.value.code == codes.STALE_MEMBER_EPOCH
    with pytest.raises(Refused) as raised:
        at.group.check_commit("C", 1, (T1, 0), per_partition=True)
    assert raised.value.code == codes.UNKNOWN_MEMBER_ID


def test_h22_three_epochs_and_a_partition_is_given_when_nobody_holds_it() -> None:
    at = Coordinator(AT_4_3)
    at.join("A")
    assert (at.group.epoch, at.group.target_epoch) == (2, 2)
    at.join("B")  # the group's epoch rises, the target's after the assignment interval
    assert (at.group.epoch, at.group.target_epoch) == (3, 2)
    at.now_ms = 1_000
    assert at.say("B", 2).assignment is None  # A holds everything
    assert (at.group.epoch, at.group.target_epoch) == (3, 3)
    epochs = {name: one.assignment.epoch for name, one in at.group.members.items()}
    assert epochs == {"A": 2, "B": 3}  # whoever has to give up keeps its epoch
    at.say("A", 2)
    assert at.say("B", 3).assignment is None
    at.say("A", 2, owned=parts(0, 1))
    assert at.say("B", 3).assignment == parts(2)
    assert {one.assignment.epoch for one in at.group.members.values()} == {3}


@pytest.mark.parametrize("late_ms", [-1, 0])
def test_h23_silence_ends_a_membership(late_ms: int) -> None:
    at = Coordinator(Settings(session_timeout_ms=45_000))
    at.join("A")
    at.now_ms = 10_000
    at.say("A", 1)
    assert at.group.next_due_ms == 55_000
    assert at.group.expire(55_000 + late_ms) == (["A"] if late_ms >= 0 else [])
    assert at.group.state == ("Empty" if late_ms >= 0 else "Stable")


@pytest.mark.parametrize("late_ms", [-1, 0])
def test_h23_who_does_not_give_up_in_time_is_removed(late_ms: int) -> None:
    at = Coordinator()
    at.join("A")
    at.join("B")
    at.now_ms = 100
    at.say("A", 1)
    at.now_ms = 4_000
    # it lives, and has not given anything up: the time runs on from when it was asked
    at.say("A", 1)
    assert at.group.expire(5_100 + late_ms) == (["A"] if late_ms >= 0 else [])
    if late_ms >= 0:
        assert at.say("B", 2).assignment == parts(0, 1, 2)
        assert at.refused("A", 1) == codes.UNKNOWN_MEMBER_ID


def test_g59_a_regular_expression_is_read_by_the_broker() -> None:
    at = Coordinator()
    assert at.join("A", topics=frozenset(), regex="t").assignment == parts(0, 1, 2)
    at.known["t2"] = (T2, 1)
    assert at.say("A", 1).assignment == parts(0, 1, 2) | parts(0, topic=T2)
    assert at.say("A", 2, topics=frozenset(["t1"]), regex="").assignment == parts(0, 1, 2)


@BOTH
def test_members_are_taken_out_by_leave_group_as_4_0_0_and_4_3_0_were_seen_to(
    release: Settings,
) -> None:
    at = Coordinator(release)
    at.join("A")
    at.join("B", instance_id="i")
    epoch = at.group.epoch
    for member_id, instance_id, code in (
        ("nobody", None, codes.UNKNOWN_MEMBER_ID),
        ("", "nobody", codes.UNKNOWN_MEMBER_ID),
        ("A", "i", codes.FENCED_INSTANCE_ID),
    ):
        with pytest.raises(Refused) as raised:
            at.group.take_out(member_id, instance_id)
        assert raised.value.code == code
    assert (sorted(at.group.members), at.group.epoch) == (["A", "B"], epoch)
    at.group.take_out("A", None)
    at.group.take_out("", "i")
    assert (at.group.state, at.group.epoch) == ("Empty", epoch + 2)
    assert at.refused("A", epoch) == codes.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_racks_decide_nothing(assignor: str) -> None:
    near, far = Coordinator(), Coordinator()
    for at, racks in ((near, ("r1", "r2")), (far, (None, None))):
        for name, rack in zip("AB", racks, strict=True):
            at.join(name, rack=rack, assignor=assignor)
    assert near.group.target == far.group.target
    assert near.group.members["A"].subscription.rack == "r1"


def test_states() -> None:
    at = Coordinator(AT_4_3)
    assert at.group.state == "Empty"
    at.join("A")
    at.join("B")
    assert at.group.state == "Assigning"
    at.now_ms = 1_000
    at.say("A", 2)
    assert at.group.state == "Reconciling"


class Members(RuleBasedStateMachine):
    """Members that do what they are asked to, in any order, with answers lost; the
    coordinator's promises hold.
    """

    def __init__(self) -> None:
        super().__init__()
        self.at = Coordinator()
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, frozenset[Part]] = {}

    @rule(name=st.sampled_from("ABCDE"), topics=st.sampled_from([("t1",), ("t2",), ("t1", "t2")]))
    def join(self, name: str, topics: tuple[str, ...]) -> None:
        self.owned.pop(name, None)
        answer = self.at.join(name, topics=frozenset(topics))
        self.epochs[name], self.owned[name] = answer.epoch, answer.assignment or frozenset()

    @precondition(lambda self: self.epochs)
    @rule(data=st.data(), lost=st.booleans())
    def heartbeat(self, data: st.DataObject, lost: bool) -> None:
        self.say(data.draw(st.sampled_from(sorted(self.epochs))), lost=lost)

    def say(self, name: str, *, lost: bool = False) -> None:
        """Heartbeat with everything; who is fenced, as after two lost answers, drops
        all and joins again (G54).
        """
        topics = self.topics_of(name)
        full = {"owned": self.owned[name], "topics": topics, "rebalance_timeout_ms": 5_000}
        try:
            answer = self.at.say(name, self.epochs[name], **full)
        except Refused as refused:
            if refused.code != codes.FENCED_MEMBER_EPOCH:
                raise
            self.join(name, tuple(topics))
            return
        assert answer.epoch >= self.epochs[name]
        if not lost:
            self.epochs[name] = answer.epoch
            self.owned[name] = self.owned[name] if answer.assignment is None else answer.assignment

    def topics_of(self, name: str) -> frozenset[str]:
        return self.at.group.members[name].subscription.topics

    @precondition(lambda self: self.epochs)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.epochs)))
        self.at.say(name, -1)
        del self.epochs[name], self.owned[name]

    @rule(count=st.integers(0, 6))
    def grow(self, count: int) -> None:
        self.at.known["t2"] = (T2, max(count, self.at.known.get("t2", (T2, 0))[1]))

    @invariant()
    def nothing_is_two_members(self) -> None:
        """I1: what members believe they own is disjoint."""
        owned = [part for parts in self.owned.values() for part in parts]
        assert len(owned) == len(set(owned))

    def teardown(self) -> None:
        """I3, I6: after a few quiet heartbeats all is owned, and balanced where
        subscriptions are equal.
        """
        for _ in range(4):
            for name in self.epochs:
                self.say(name)
        group = self.at.group
        wanted = {
            (topic, at)
            for topic, count in map(
                self.at.known.__getitem__, group.subscribed_topics & self.at.known.keys()
            )
            for at in range(count)
        }
        assert {part for parts in self.owned.values() for part in parts} == wanted
        assert group.state == ("Stable" if self.epochs else "Empty")
        if len({self.topics_of(name) for name in self.epochs}) == 1:
            sizes = [len(parts) for parts in self.owned.values()]
            assert max(sizes) - min(sizes) <= 1


Members.TestCase.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
TestMembers = Members.TestCase
