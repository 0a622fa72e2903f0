"""How long committed offsets are kept, by release and by what becomes of their group (H20)."""

from __future__ import annotations

import pytest

from parley.devcluster.state.groups.classic.group import ClassicGroup
from parley.devcluster.state.groups.classic.members import Join
from parley.devcluster.state.groups.expiry import Expiry, expired
from parley.devcluster.state.groups.mixed.formats import subscribes
from parley.devcluster.state.groups.modern.group import ConsumerGroup, Settings, Topics
from parley.devcluster.state.groups.modern.heartbeats import Heartbeat
from parley.devcluster.state.groups.offsets import CommittedOffset
from parley.messages import ConsumerProtocolSubscription, encode_body

KEPT_MS = 1_000
OLD, NEW = Expiry(KEPT_MS, by_group=False), Expiry(KEPT_MS, by_group=True)
EVERYTHING = [("a", 0), ("b", 0)]


def offsets(rules: Expiry, committed_ms: int = 0) -> dict[tuple[str, int], CommittedOffset]:
    return {at: CommittedOffset(1, -1, "", *rules.times_of(committed_ms)) for at in EVERYTHING}


def classic(
    topic: str = "a", *, kind: str = "consumer", metadata: bytes | None = None
) -> ClassicGroup:
    """A Stable group of one member that subscribes to a topic."""
    body = encode_body(ConsumerProtocolSubscription(topics=[topic], user_data=None), 0)
    said = b"\0\0" + b"".join(body) if metadata is None else metadata
    group = ClassicGroup("g", lambda group, now_ms: None, lambda: "1")
    group.join(Join(client_id="c", protocol_type=kind, protocols=(("range", said),)), 0)
    member = group.members["c-1"]
    group.sync(member, {}, 0)
    return group


@pytest.mark.parametrize(
    ("rules", "said", "times"),
    [
        (OLD, (-1, -1), (5, 1_005)),
        (OLD, (3, -1), (5, 1_003)),  # v1
        (OLD, (-1, 20), (5, 25)),  # v2 to v4
        (NEW, (-1, -1), (5, -1)),
        (NEW, (3, -1), (3, -1)),
        (NEW, (-1, 20), (5, 25)),
    ],
)
def test_what_a_commit_says_of_its_time(
    rules: Expiry, said: tuple[int, int], times: tuple[int, int]
) -> None:
    assert rules.times_of(5, *said) == times


def test_before_2_1_offsets_expire_by_themselves_also_in_live_groups() -> None:
    assert expired(offsets(OLD), OLD, classic(), None, KEPT_MS - 1) == []
    assert expired(offsets(OLD), OLD, classic(), None, KEPT_MS) == EVERYTHING


def test_offsets_of_groups_that_never_had_members_expire_after_the_commit() -> None:
    assert expired(offsets(NEW), NEW, None, None, KEPT_MS - 1) == []
    assert expired(offsets(NEW), NEW, None, None, KEPT_MS) == EVERYTHING
    known = {
        ("a", 0): CommittedOffset(1, -1, "", *NEW.times_of(0, kept_ms=5_000)),
        ("b", 0): CommittedOffset(1),
    }
    assert expired(known, NEW, None, None, 4_999) == []  # nobody knows when the other was committed
    assert expired(known, NEW, None, None, 5_000) == [("a", 0)]


def test_an_empty_group_keeps_its_offsets_from_when_it_became_empty() -> None:
    group = classic()
    group.leave("c-1", None, 700)
    assert expired(offsets(NEW), NEW, group, None, 700 + KEPT_MS - 1) == []
    assert expired(offsets(NEW), NEW, group, None, 700 + KEPT_MS) == EVERYTHING


def test_a_live_group_loses_the_offsets_of_topics_that_nobody_subscribes_to() -> None:
    assert expired(offsets(NEW), NEW, classic(), None, KEPT_MS) == [("b", 0)]
    group = classic()
    assert subscribes(group, "a")
    group.rebalance(0)  # its only member has to join again: while it does, nothing expires
    assert expired(offsets(NEW), NEW, group, None, 9 * KEPT_MS) == []


@pytest.mark.parametrize("group", [classic(kind="connect"), classic(metadata=b"\xff")])
def test_nothing_expires_while_it_is_unknown_what_members_subscribe_to(group: ClassicGroup) -> None:
    assert expired(offsets(NEW), NEW, group, None, 9 * KEPT_MS) == []


def test_groups_of_the_consumer_protocol() -> None:
    """Empty ones count from the commit on, as real coordinators have no other time for them."""
    group = ConsumerGroup("g", Settings())
    topics = Topics({"a": (bytes(16), 1)}, lambda regex: frozenset())
    said = Heartbeat("M", 0, rebalance_timeout_ms=5, topics=frozenset(["a"]), owned=frozenset())
    group.heartbeat(said, topics, 0)
    assert expired(offsets(NEW), NEW, None, group, KEPT_MS) == [("b", 0)]
    group.remove("M")
    assert expired(offsets(NEW), NEW, None, group, KEPT_MS - 1) == []
    assert expired(offsets(NEW), NEW, None, group, KEPT_MS) == EVERYTHING
