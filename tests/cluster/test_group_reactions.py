"""What members make of each error of their coordinator, on both sides of each version border, in
virtual time.

The expectations are Java's table: which errors end a membership, which cost the partitions or the
id, which nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from parley.client import OffsetAndMetadata
from parley.errors import (
    BrokerError,
    CommitFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
)

from .lone_member import EVERYTHING, TP, After, Lone, lone

VERSIONS = {
    "FindCoordinator": {"2.8": 3, "3.0": 4, "4.3": 6},
    "JoinGroup": {"2.1": 3, "2.2": 4, "2.3": 5, "2.5": 7, "4.3": 9},
    "SyncGroup": {"2.2": 2, "2.3": 3, "2.4": 4, "2.5": 5},
    "Heartbeat": {"2.2": 2, "2.3": 3, "2.4": 4},
    "LeaveGroup": {"2.3": 2, "2.4": 4, "4.3": 5},
    "OffsetCommit": {"2.2": 6, "2.3": 7, "3.6": 8, "3.9": 9, "4.3": 10},
}
"""The releases on both sides of each border, and the versions that are spoken with them."""
IN_SHORT = {
    ("JoinGroup", "2.2"),
    ("SyncGroup", "2.5"),
    ("Heartbeat", "2.3"),
    ("OffsetCommit", "4.3"),
}


def rows(api: str, table: Iterable[tuple[int, object]]) -> list[object]:
    """Return the parameters of a table, for each release on a side of a
    border; most for the matrix.
    """
    made: list[object] = []
    for release in VERSIONS[api]:
        for code, expected in table:
            in_matrix = (api, release) not in IN_SHORT
            marks = [pytest.mark.matrix] if in_matrix else []
            made.append(pytest.param(release, code, expected, id=f"{release}-{code}", marks=marks))
    return made


def spoken(one: Lone, api: str, release: str) -> None:
    """See that the version is the one that the test is for."""
    assert {entry.version for entry in one.cluster.requests(api)} == {VERSIONS[api][release]}


NOTHING_LOST = After(joined=True)
JOINS = [(14, NOTHING_LOST), (27, NOTHING_LOST), (15, NOTHING_LOST._replace(found=True)),
         (16, NOTHING_LOST._replace(found=True)),
         (25, After(id_kept=False, lost=True, joined=True)),
         *((code, None) for code in (23, 24, 26, 81, 82))]  # fmt: skip


@pytest.mark.parametrize(("release", "code", "expected"), rows("JoinGroup", JOINS))
def test_join_group(release: str, code: int, expected: After | None) -> None:
    with lone(release) as one:
        one.cluster.faults.fail("JoinGroup", code)
        one.consumer.enforce_rebalance("a test")
        if expected is None:
            ended(one, code)
        else:
            one.go_on(15_000)
            assert one.after() == expected
        spoken(one, "JoinGroup", release)


SYNCS = [(14, NOTHING_LOST), (27, NOTHING_LOST), (15, NOTHING_LOST._replace(found=True)),
         (16, NOTHING_LOST._replace(found=True)), (22, After(lost=True, joined=True)),
         (25, After(id_kept=False, lost=True, joined=True)),
         *((code, None) for code in (23, 82))]  # fmt: skip


@pytest.mark.parametrize(("release", "code", "expected"), rows("SyncGroup", SYNCS))
def test_sync_group(release: str, code: int, expected: After | None) -> None:
    with lone(release) as one:
        one.cluster.faults.fail("SyncGroup", code)
        one.consumer.enforce_rebalance("a test")
        if expected is None:
            ended(one, code)
        else:
            one.go_on(30_000)
            assert one.after() == expected
        spoken(one, "SyncGroup", release)


BEATS = [(14, After()), (15, After(found=True)), (16, After(found=True)), (27, NOTHING_LOST),
         (22, After(lost=True, joined=True)), (25, After(id_kept=False, lost=True, joined=True)),
         (82, None)]  # fmt: skip


@pytest.mark.parametrize(("release", "code", "expected"), rows("Heartbeat", BEATS))
def test_heartbeat(release: str, code: int, expected: After | None) -> None:
    with lone(release) as one:
        one.cluster.faults.fail("Heartbeat", code)
        if expected is None:
            ended(one, code)
        else:
            one.go_on(15_000)
            assert one.after() == expected
        spoken(one, "Heartbeat", release)


COMMITS = [(14, After()), (15, After(found=True)), (16, After(found=True)), (3, After())]
REFUSED = [(22, After(lost=True, joined=True)), (25, After(id_kept=False, lost=True, joined=True)),
           (27, NOTHING_LOST), (12, After()), (28, After()), (29, After())]  # fmt: skip


@pytest.mark.parametrize(("release", "code", "expected"), rows("OffsetCommit", COMMITS))
def test_a_commit_goes_again(release: str, code: int, expected: After) -> None:
    with lone(release) as one:
        one.cluster.faults.fail("OffsetCommit", code)
        one.time.run(one.consumer.commit({TP: 1}))
        assert one.time.run(one.consumer.committed(TP)) == OffsetAndMetadata(1)
        one.go_on(3_000)
        assert one.after() == expected
        spoken(one, "OffsetCommit", release)


@pytest.mark.parametrize(("release", "code", "expected"), rows("OffsetCommit", REFUSED))
def test_a_commit_is_refused(release: str, code: int, expected: After) -> None:
    with lone(release) as one:
        one.cluster.faults.fail("OffsetCommit", code)
        with pytest.raises(KafkaError) as raised:
            one.time.run(one.consumer.commit({TP: 1}))
        assert codes(raised.value) == {code}
        assert isinstance(raised.value, CommitFailedError) == (code in (22, 25))
        one.go_on(15_000)
        assert one.after() == expected
        spoken(one, "OffsetCommit", release)


@pytest.mark.parametrize(
    ("release", "code", "expected"), rows("LeaveGroup", [(16, None), (25, None), (27, None)])
)
def test_a_farewell_that_fails_holds_nobody_up(release: str, code: int, expected: None) -> None:
    with lone(release) as one:
        one.cluster.faults.fail("LeaveGroup", code)
        began_ms = one.time.clock.now_ms()
        one.stop(one.consumer)
        assert one.time.clock.now_ms() - began_ms < 1_000
        assert len(one.cluster.requests("LeaveGroup")) == 1
        spoken(one, "LeaveGroup", release)


@pytest.mark.parametrize(
    ("release", "code", "expected"),
    rows("FindCoordinator", [(15, NOTHING_LOST), (14, NOTHING_LOST), (24, None)]),
)
def test_find_coordinator(release: str, code: int, expected: After | None) -> None:
    with lone(release) as one:
        one.cluster.faults.fail("FindCoordinator", code, times=3 if expected is not None else 1)
        one.cluster.faults.fail("Heartbeat", 16)
        if expected is None:
            ended(one, code)
        else:
            one.go_on(15_000)
            # it is looked up as often as it takes, within the session
            assert one.after() == After(found=True)
            assert len(one.cluster.requests("FindCoordinator")) == 4
        spoken(one, "FindCoordinator", release)


@pytest.mark.parametrize("api", ["FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat"])
def test_a_missing_right_to_the_group_is_raised_by_polls_until_it_is_there(api: str) -> None:
    with lone("4.3") as one:
        one.cluster.faults.fail(api, 30, times=3)
        if api == "FindCoordinator":
            one.cluster.faults.fail("Heartbeat", 16)
        elif api != "Heartbeat":
            one.consumer.enforce_rebalance("a test")
        for _ in range(3):
            with pytest.raises(GroupAuthorizationFailedError, match=r"group readers\]: .* Read"):
                one.go_on(15_000)
        one.go_on(15_000)
        joined = api in ("JoinGroup", "SyncGroup")
        assert one.after() == After(joined=joined, found=api == "FindCoordinator")
        assert one.seen.calls == [("assigned", EVERYTHING)] + [("assigned", [])] * joined


@pytest.mark.parametrize("executed", [False, True])
@pytest.mark.parametrize(
    ("api", "release"),
    [
        pytest.param(api, release, marks=[] if (api, release) in IN_SHORT else [pytest.mark.matrix])
        for api in ("JoinGroup", "SyncGroup", "Heartbeat")
        for release in VERSIONS[api]
    ],
)
def test_g3_a_lost_connection_costs_a_look_up_and_nothing_else(
    api: str, release: str, executed: bool
) -> None:
    with lone(release) as one:
        one.cluster.faults.cut(api, executed=executed)
        if api != "Heartbeat":
            one.consumer.enforce_rebalance("a test")
        one.go_on(15_000)
        assert one.after() == After(joined=api != "Heartbeat", found=True)
        spoken(one, api, release)


def ended(one: Lone, code: int) -> None:
    """See that every poll raises an error, until the membership is left and begun again."""
    for _ in range(2):
        with pytest.raises(BrokerError) as raised:
            one.go_on(15_000)
        assert raised.value.code == code
    assert one.consumer.assignment() == frozenset()
    one.time.run(one.consumer.unsubscribe())
    one.subscribe(one.consumer, one.seen)
    one.go_on(15_000)
    assert one.state == "stable"


def codes(error: KafkaError) -> set[int]:
    """Return the codes behind a commit's failure."""
    failures = error.failures.values() if isinstance(error, CommitFailedError) else [error]
    return {one.code for one in failures if isinstance(one, BrokerError)}
