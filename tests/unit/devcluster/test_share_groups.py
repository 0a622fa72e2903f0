"""A share group at its coordinator: heartbeats as 4.3.0 was measured to
answer them, and assignments.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from parley.devcluster.state.groups.share.assignor import Part, assign
from parley.devcluster.state.groups.share.group import ShareAnswer, ShareGroup, ShareHeartbeat
from parley.devcluster.state.groups.share.sessions import ShareSessions
from parley.devcluster.state.groups.share.settings import ShareSettings, is_reset, reset_duration_ms
from parley.devcluster.state.refused import Refused
from parley.errors import codes

T1, T2 = (bytes([at]) * 16 for at in (1, 2))
SETTINGS = ShareSettings(assignment_interval_ms=1_000, first_epoch=1, max_size=3)


def parts(*indexes: int, topic: bytes = T1) -> frozenset[Part]:
    return frozenset((topic, index) for index in indexes)


class Coordinator:
    """One group, its topics and its clock."""

    def __init__(self) -> None:
        self.group, self.known, self.now_ms = ShareGroup("g", SETTINGS), {"t1": (T1, 2)}, 0

    def say(self, member: str, epoch: int, *topics: str, rack: str | None = None) -> ShareAnswer:
        said = ShareHeartbeat(member, epoch, rack, frozenset(topics) if topics else None)
        return self.group.heartbeat(said, self.known, self.now_ms)

    def refused(self, member: str, epoch: int, *topics: str, rack: str | None = None) -> int:
        with pytest.raises(Refused) as raised:
            self.say(member, epoch, *topics, rack=rack)
        return raised.value.code


def test_g63_members_share_partitions_without_giving_any_up_first() -> None:
    at = Coordinator()
    assert at.say("A", 0, "t1") == ShareAnswer("A", 2, parts(0, 1))
    assert at.say("A", 2) == ShareAnswer("A", 2)
    assert at.say("B", 0, "t1") == ShareAnswer("B", 2, frozenset())  # the interval is not over
    at.now_ms = 1_000
    assert at.say("A", 2) == ShareAnswer("A", 3, parts(0))
    assert at.say("B", 2) == ShareAnswer("B", 3, parts(1))
    assert at.say("C", 0, "t1") == ShareAnswer("C", 3, frozenset())
    at.now_ms = 2_000
    assert len(at.say("C", 3).assignment or ()) == 1  # three members, two partitions
    assert at.group.state == "Stable"


def test_epochs_are_checked() -> None:
    at = Coordinator()
    at.say("A", 0, "t1")
    assert at.refused("A", 1) == codes.FENCED_MEMBER_EPOCH
    assert at.refused("A", 3) == codes.FENCED_MEMBER_EPOCH
    assert at.refused("B", 1) == codes.UNKNOWN_MEMBER_ID
    assert at.refused("B", -1) == codes.UNKNOWN_MEMBER_ID
    assert at.say("A", 0, "t1").epoch == 2  # joins again as it is
    at.now_ms = 1_000
    at.known["t1"] = (T1, 3)
    assert at.say("A", 2) == ShareAnswer("A", 3, parts(0, 1, 2))
    assert at.say("A", 2).epoch == 3  # the answer was lost


def test_what_no_group_answers() -> None:
    at = Coordinator()
    for member, epoch, topics, rack in (
        ("", 0, ["t1"], None), ("A", 0, [], None), ("A", -2, [], None), ("A", 0, ["t1"], ""),
    ):  # fmt: skip
        assert at.refused(member, epoch, *topics, rack=rack) == codes.INVALID_REQUEST
    for member in "ABC":
        at.say(member, 0, "t1")
    assert at.refused("D", 0, "t1") == codes.GROUP_MAX_SIZE_REACHED


def test_who_leaves_or_is_silent_is_removed() -> None:
    at = Coordinator()
    for member in "AB":
        at.say(member, 0, "t1")
    assert at.say("A", -1) == ShareAnswer("A", -1)
    assert list(at.group.members) == ["B"]
    assert not at.group.expire(SETTINGS.session_timeout_ms - 1)
    assert at.group.next_due_ms == SETTINGS.session_timeout_ms
    assert at.group.expire(SETTINGS.session_timeout_ms)
    assert at.group.state == "Empty"
    assert at.group.knows((T1, 1))  # what it has read stays known
    assert not at.group.knows((T1, 2))


MEMBERS = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3),
    st.frozensets(st.sampled_from([T1, T2]), min_size=1), min_size=1, max_size=9,
)  # fmt: skip
COUNTS = st.fixed_dictionaries({T1: st.integers(1, 7), T2: st.integers(1, 7)})


@settings(max_examples=60, deadline=None)
@given(MEMBERS, MEMBERS, COUNTS)
def test_nobody_is_idle_and_no_partition_unread(
    before: dict[str, frozenset[bytes]],
    members: dict[str, frozenset[bytes]],
    counts: dict[bytes, int],
) -> None:
    target = assign(members, counts, assign(before, counts, {}))
    assert target.keys() == members.keys()
    for topic in {topic for topics in members.values() for topic in topics}:
        for index in range(counts[topic]):
            assert any((topic, index) in found for found in target.values())
    for member, topics in members.items():
        assert target[member]
        assert {topic for topic, _ in target[member]} <= topics
    if len(set(members.values())) == 1:
        pool = sum(counts[topic] for topic in next(iter(members.values())))
        assert max(map(len, target.values())) <= -(-pool // len(members))
    assert assign(members, counts, target) == target  # and who is content stays so


def test_a_session_goes_by_epochs_and_ends_with_its_connection() -> None:
    sessions = ShareSessions(2)
    first = sessions.begin("g", "A", 7, [(T1, 0), (T1, 1)])  # in the order of the request
    assert sessions.go_on("g", "A", 1).turned(1) == [(T1, 1), (T1, 0)]
    assert refused(sessions, "A", 1) == codes.INVALID_SHARE_SESSION_EPOCH
    assert refused(sessions, "B", 1) == codes.SHARE_SESSION_NOT_FOUND
    assert sessions.go_on("g", "A", -1) is first
    sessions.begin("g", "B", 8, [])
    with pytest.raises(Refused) as raised:
        sessions.begin("g", "C", 8, [])
    assert raised.value.code == codes.SHARE_SESSION_LIMIT_REACHED
    assert sessions.begin("g", "A", 7, []) is not first  # instead of the one before
    assert [session.member for session in sessions.lost(7)] == ["A"]
    assert len(sessions) == 1


def refused(sessions: ShareSessions, member: str, epoch: int) -> int:
    with pytest.raises(Refused) as raised:
        sessions.go_on("g", member, epoch)
    return raised.value.code


def test_where_a_group_may_begin() -> None:
    day_ms = 24 * 3_600_000
    assert reset_duration_ms("by_duration:P2DT3H4M5.25S") == 2 * day_ms + 11_045_250
    assert is_reset("latest")
    for text in ("by_duration:", "by_duration:PT", "by_duration:1H", "none", "by_duration:P1DT"):
        assert not is_reset(text)
