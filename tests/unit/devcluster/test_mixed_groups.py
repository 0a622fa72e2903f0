"""Groups that change their protocol while their members live (H24), by a
clock of the test's own.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from parley.devcluster.state.groups.classic.group import GroupState, MemberIdRequired, Rules
from parley.devcluster.state.groups.classic.members import Join, JoinAnswer
from parley.devcluster.state.groups.classic.registry import ClassicGroups
from parley.devcluster.state.groups.mixed.formats import read_assignment, write_assignment
from parley.devcluster.state.groups.mixed.registry import MixedGroups
from parley.devcluster.state.groups.modern.assignors import Part
from parley.devcluster.state.groups.modern.group import Settings, Topics
from parley.devcluster.state.groups.modern.heartbeats import Heartbeat, HeartbeatAnswer
from parley.devcluster.state.groups.modern.registry import ConsumerGroups
from parley.devcluster.state.groups.records import NEWEST, GroupRecord, decode, encode
from parley.devcluster.state.refused import Refused
from parley.errors import ConfigError, codes
from parley.messages import ConsumerProtocolSubscription, GroupMetadataValue, encode_body

T1 = bytes([1]) * 16
NAMES, KNOWN = {T1: "t1"}, {"t1": (T1, 3)}
TOPICS = Topics(KNOWN, lambda regex: frozenset())
SESSION_MS, REBALANCE_MS = 10_000, 60_000


def subscription(*owned: int) -> bytes:
    kind = ConsumerProtocolSubscription
    parts = [kind.TopicPartition(topic="t1", partitions=list(owned))] if owned else []
    return b"\0\3" + b"".join(
        encode_body(kind(topics=["t1"], user_data=None, owned_partitions=parts), 3)
    )


def assigned(*indexes: int) -> bytes:
    return write_assignment(parts(*indexes), NAMES, 3)


def parts(*indexes: int) -> frozenset[Part]:
    return frozenset((T1, index) for index in indexes)


class Coordinator:
    """The groups of a cluster, their log, and a clock."""

    def __init__(
        self, policy: str = "bidirectional", log: dict[bytes, bytes] | None = None
    ) -> None:
        ids = itertools.count(1)
        self.log = dict(log or {})
        """The newest value of each key, as a compacted topic has it."""
        self.full = False
        self.classic = ClassicGroups(self.write, lambda: str(next(ids)))
        self.modern = ConsumerGroups(self.write, lambda name: NEWEST)
        self.mixed = MixedGroups(
            self.write, self.classic, self.modern, lambda: f"new-{next(ids)}", policy
        )
        self.now_ms = 0
        records = [decode(key, value) for key, value in self.log.items()]
        known = [one for one in records if one is not None]
        if known and isinstance(known[0].value, GroupMetadataValue):
            self.classic.load("g", known[0].value, 0)
        elif known:
            self.modern.load("g", known, KNOWN, 0)

    def write(self, name: str, records: Sequence[GroupRecord], now_ms: int) -> None:
        if self.full:
            raise OSError(28, "no space left")
        for key, value in map(encode, records):
            self.log.pop(key, None)
            if value is not None:
                self.log[key] = value

    def restarted(self) -> Coordinator:
        return Coordinator(log=self.log)

    @property
    def generation(self) -> int:
        group = self.classic.get("g")
        assert group is not None
        return group.generation

    def stable(self, **assignments: bytes) -> None:
        """Bring classic members into one generation, each with its assignment."""
        group = self.classic.made("g", Rules())
        for name in assignments:
            group.pending[name] = 10**9
        waits = [group.join(self.said(name), self.now_ms) for name in assignments]
        assert all(one.answer is not None for one in waits)
        for name in assignments:
            group.sync(group.members[name], assignments, self.now_ms)
        assert group.state is GroupState.STABLE

    def said(self, name: str, *owned: int, **more: Any) -> Join:
        join = Join(
            name,
            None,
            "c",
            "/h",
            SESSION_MS,
            REBALANCE_MS,
            "consumer",
            (("range", subscription(*owned)),),
        )
        return replace(join, **more)

    def join(self, name: str, *owned: int, **more: Any) -> JoinAnswer:
        group = self.modern.get("g")
        assert group is not None
        return self.mixed.join(
            group, self.said(name, *owned, **more), TOPICS, Settings(), self.now_ms
        )

    def sync(self, name: str, generation: int) -> list[int]:
        group = self.modern.get("g")
        assert group is not None
        answer = self.mixed.sync(
            group, (name, None, generation), ("consumer", "range"), NAMES, self.now_ms
        )
        return [
            at
            for topic in read_assignment(answer.assignment).assigned_partitions
            for at in topic.partitions
        ]

    def beat(self, name: str, generation: int) -> int:
        group = self.modern.get("g")
        assert group is not None
        return self.mixed.beat(group, (name, None, generation), self.now_ms)

    def consumer(self, name: str, epoch: int = 0, **more: Any) -> HeartbeatAnswer:
        full = (
            {"rebalance_timeout_ms": 5_000, "topics": frozenset(["t1"]), "owned": frozenset()}
            if not epoch
            else {}
        )
        return self.mixed.heartbeat(
            "g", Heartbeat(name, epoch, **{**full, **more}), TOPICS, Settings(), self.now_ms
        )

    def expire_at(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.modern.expire(now_ms=now_ms)
        self.classic.expire(now_ms=now_ms)


def code_of(call: Any, *args: Any, **more: Any) -> int:
    with pytest.raises(Refused) as raised:
        call(*args, **more)
    return raised.value.code


@pytest.fixture
def at() -> Coordinator:
    """A classic group in which A has everything, and B nothing."""
    found = Coordinator()
    found.stable(A=assigned(0, 1, 2), B=b"")
    return found


def test_h24_a_live_group_is_upgraded_and_its_classic_members_are_led_to_their_share(
    at: Coordinator,
) -> None:
    generation = at.generation
    # A has not given anything up
    assert at.consumer("M") == HeartbeatAnswer("M", generation + 1, frozenset())
    assert at.classic.get("g") is None
    assert at.beat("A", generation) == codes.REBALANCE_IN_PROGRESS
    assert code_of(at.sync, "A", generation) == codes.REBALANCE_IN_PROGRESS
    first = at.join("A", 0, 1, 2)  # cooperative: it says what it still has
    assert (first.generation, first.protocol, first.leader, first.members) == (
        generation,
        "range",
        "",
        (),
    )
    kept = at.sync("A", generation)
    assert len(kept) == 1
    assert at.beat("A", generation) == codes.REBALANCE_IN_PROGRESS
    assert at.join("A", *kept).generation == generation + 1
    assert at.sync("A", generation + 1) == kept
    assert at.beat("A", generation + 1) == codes.NONE
    others = at.consumer("M", generation + 1).assignment
    assert at.join("B").generation == generation + 1
    assert others is not None
    assert sorted([*kept, *at.sync("B", generation + 1), *(index for _, index in others)]) == [
        0,
        1,
        2,
    ]
    assert at.modern.get("g").state == "Stable"  # type: ignore[union-attr]


def test_an_eager_member_has_given_everything_up_when_it_joins(at: Coordinator) -> None:
    generation = at.generation
    at.consumer("M")
    assert at.join("A").generation == generation + 1
    assert len(at.sync("A", generation + 1)) == 1


def test_a_member_that_waits_is_asked_again_when_its_partition_is_free(at: Coordinator) -> None:
    at.consumer("M")
    epoch = at.join("B").generation
    assert at.sync("B", epoch) == []
    assert at.beat("B", epoch) == codes.NONE
    at.join("A")
    assert at.beat("B", epoch) == codes.REBALANCE_IN_PROGRESS
    assert at.join("B").generation == epoch
    assert len(at.sync("B", epoch)) == 1


def test_who_waits_in_a_rebalance_has_to_join_again(at: Coordinator) -> None:
    group = at.classic.get("g")
    assert group is not None
    waits = group.join(at.said("A", 0), at.now_ms)
    assert waits.answer is None
    at.consumer("M")
    assert waits.answer is not None
    assert waits.answer.error_code == codes.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("by", ["leave", "silence", "operator"])
def test_h24_the_last_member_of_the_consumer_protocol_takes_it_along(
    at: Coordinator, by: str
) -> None:
    epoch = at.consumer("M").epoch
    for name in ("A", "B"):
        at.join(name)
        at.sync(name, epoch)
    group = at.modern.get("g")
    assert group is not None
    at.now_ms = 44_000
    at.beat("A", epoch), at.beat("B", epoch)
    if by == "leave":
        at.consumer("M", -1)
    elif by == "silence":
        at.expire_at(45_001)
    else:
        at.modern.take_out(group, "M", None, at.now_ms)
    back = at.classic.get("g")
    assert at.modern.get("g") is None
    assert back is not None
    assert (back.state, back.generation, list(back.members)) == (
        GroupState.PREPARING,
        epoch,
        ["A", "B"],
    )
    assert back.heartbeat(back.check("A", None, epoch), at.now_ms) == codes.REBALANCE_IN_PROGRESS
    waits = [back.join(at.said(name), at.now_ms) for name in ("A", "B")]
    answers = [one.answer for one in waits]
    assert [one.generation for one in answers if one is not None] == [epoch + 1, epoch + 1]


@pytest.mark.parametrize(("policy", "up", "down"), [
    ("upgrade", True, False), ("downgrade", False, True), ("disabled", False, False),
    ("Bidirectional", True, True),
])  # fmt: skip
def test_h24_the_policy_says_which_way_is_open(policy: str, up: bool, down: bool) -> None:
    at = Coordinator(policy)
    at.stable(A=assigned(0, 1, 2))
    if up:
        at.consumer("M")
    else:
        assert code_of(at.consumer, "M") == codes.GROUP_ID_NOT_FOUND
        assert at.generation == 1
    # A classic member may join a group of the consumer protocol whatever the policy.
    other = Coordinator(policy)
    epoch = other.consumer("M").epoch
    assert other.join("A").generation == epoch + 1
    other.consumer("M", -1)
    assert (other.classic.get("g") is not None) == down


def test_a_policy_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="sideways"):
        Coordinator("sideways")


@pytest.mark.parametrize(
    "assignment", [write_assignment(parts(0), NAMES, 3)[:-4] + b"\0\0\0\1x", b"\xff\xff", b"\0\1\0"]
)
def test_h24_what_the_assignor_of_the_broker_could_not_keep_is_not_upgraded(
    assignment: bytes,
) -> None:
    at = Coordinator()
    at.stable(A=assignment)
    assert code_of(at.consumer, "M") == codes.GROUP_ID_NOT_FOUND
    assert code_of(at.consumer, "M", 1) == codes.GROUP_ID_NOT_FOUND
    assert at.generation == 1


def test_a_group_of_another_type_is_not_upgraded() -> None:
    at = Coordinator()
    group = at.classic.made("g", Rules())
    group.join(at.said("", protocol_type="connect"), 0)
    assert code_of(at.consumer, "M") == codes.GROUP_ID_NOT_FOUND


def test_a_heartbeat_that_is_refused_upgrades_nothing(at: Coordinator) -> None:
    assert code_of(at.consumer, "M", rebalance_timeout_ms=-1) == codes.INVALID_REQUEST
    at.full = True
    with pytest.raises(OSError, match="space"):
        at.consumer("M")
    assert at.generation == 1
    assert at.modern.get("g") is None


def test_h24_who_may_not_join_a_group_of_the_consumer_protocol(at: Coordinator) -> None:
    epoch = at.consumer("M").epoch
    assert code_of(at.join, "A", protocol_type="connect") == codes.INCONSISTENT_GROUP_PROTOCOL
    assert code_of(at.join, "A", protocols=()) == codes.INCONSISTENT_GROUP_PROTOCOL
    assert (
        code_of(at.join, "A", protocols=(("mine", subscription()),))
        == codes.INCONSISTENT_GROUP_PROTOCOL
    )
    assert code_of(at.join, "A", protocols=(("range", b"\0"),)) == codes.INCONSISTENT_GROUP_PROTOCOL
    assert code_of(at.beat, "M", epoch) == codes.UNKNOWN_MEMBER_ID
    assert code_of(at.beat, "nobody", epoch) == codes.UNKNOWN_MEMBER_ID
    assert code_of(at.beat, "A", epoch + 1) == codes.ILLEGAL_GENERATION
    with pytest.raises(MemberIdRequired) as required:
        at.join("", requires_id=True)
    assert at.join(required.value.member_id).generation == epoch + 1


def test_a_classic_member_has_its_own_deadlines(at: Coordinator) -> None:
    """Its session is its own; asked to join, or to sync, it has its rebalance timeout for that."""
    epoch = at.consumer("M").epoch
    group = at.modern.get("g")
    assert group is not None
    at.join("B")
    assert at.beat("A", epoch - 1) == codes.REBALANCE_IN_PROGRESS
    for now_ms in range(9_000, REBALANCE_MS, 9_000):
        at.expire_at(now_ms)
        at.beat("A", epoch - 1), at.beat("B", epoch), at.consumer("M", epoch)
    assert set(group.members) == {"A", "B", "M"}
    at.expire_at(REBALANCE_MS)
    assert set(group.members) == {"M"}  # A never joined, B never synced
    at.join("C")
    at.expire_at(REBALANCE_MS + SESSION_MS)
    assert set(group.members) == {"M"}  # C was silent


def test_static_members_change_their_protocol_by_their_instance_ids() -> None:
    at = Coordinator()
    group = at.classic.made("g", Rules())
    joined = group.join(at.said("", instance_id="i"), 0).answer
    assert joined is not None
    group.sync(group.members[joined.member_id], {joined.member_id: assigned(0, 1, 2)}, 0)
    came = at.consumer("M", instance_id="i")
    assert came.assignment == parts(0, 1, 2)
    modern = at.modern.get("g")
    assert modern is not None
    assert list(modern.members) == ["M"]
    assert code_of(at.join, "other", instance_id="i") == codes.FENCED_INSTANCE_ID
    # the last of the consumer protocol is replaced: the group is classic again
    back = at.join("", instance_id="i")
    again = at.classic.get("g")
    assert at.modern.get("g") is None
    assert again is not None
    assert (again.state, again.generation) == (GroupState.STABLE, back.generation)
    answer = again.sync(again.check(back.member_id, "i", back.generation), {}, 0).answer
    assert answer is not None
    assert answer.assignment == assigned(0, 1, 2)


def test_members_of_both_protocols_go_on_after_a_restart(at: Coordinator) -> None:
    epoch = at.consumer("M").epoch
    at.join("A")
    owned = at.sync("A", epoch)
    again = at.restarted()
    assert again.classic.get("g") is None
    assert again.beat("A", epoch) == codes.NONE
    assert again.sync("A", epoch) == owned
    again.consumer("M", -1)
    last = again.restarted()
    assert last.modern.get("g") is None
    assert last.generation == epoch


def test_h26_an_empty_group_becomes_what_its_next_member_speaks() -> None:
    at = Coordinator("disabled")
    at.stable(A=assigned(0))
    group = at.classic.get("g")
    assert group is not None
    group.leave("A", None, 0)
    assert at.consumer("M").epoch == 1
    assert at.classic.get("g") is None
    at.consumer("M", -1)
    at.mixed.make_room_for_classic("g", 0)
    assert at.modern.get("g") is None
    assert not at.log
