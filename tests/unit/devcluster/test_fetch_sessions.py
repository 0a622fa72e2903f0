"""What a broker keeps of incremental fetch sessions (KIP-227): epochs, what is sent,
and who makes room for whom.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from parley.devcluster.state.fetch_sessions import (
    EVICTION_MS,
    LAST_EPOCH,
    NO_SESSION,
    FetchSessions,
    Followed,
)
from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    FETCH_SESSION_ID_NOT_FOUND,
    FETCH_SESSION_TOPIC_ID_ERROR,
    INVALID_FETCH_SESSION_EPOCH,
)

LATE_MS = EVICTION_MS + 1


def make(slots: int = 2) -> FetchSessions:
    return FetchSessions(itertools.count(1).__next__, slots)


def of(count: int) -> dict[Any, Followed]:
    return {("t", index): Followed("t", bytes(16), index, None) for index in range(count)}


def go_on(
    sessions: FetchSessions, session_id: int, epoch: int, now_ms: int = 0, **fields: Any
) -> Any:
    asked, forgotten = fields.get("asked", {}), fields.get("forgotten", ())
    by_id = fields.get("by_id", False)
    return sessions.go_on(session_id, epoch, asked.items(), forgotten, by_id=by_id, now_ms=now_ms)


def test_epochs_count_on_and_begin_again_at_one() -> None:
    sessions = make()
    session_id = sessions.begin(of(1), by_id=False, now_ms=0)
    assert go_on(sessions, session_id, 1).epoch == 2
    sessions.look_up(session_id).epoch = LAST_EPOCH  # type: ignore[union-attr]
    assert go_on(sessions, session_id, LAST_EPOCH).epoch == 1


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"session_id": 9}, FETCH_SESSION_ID_NOT_FOUND),
        ({"epoch": 3}, INVALID_FETCH_SESSION_EPOCH),
        ({"by_id": True}, FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_what_does_not_go_on_is_refused_and_changes_nothing(
    wrong: dict[str, Any], code: int
) -> None:
    sessions = make()
    sessions.begin(of(1), by_id=False, now_ms=0)
    with pytest.raises(Refused) as refused:
        go_on(sessions, **{"session_id": 1, "epoch": 1, "asked": of(3), **wrong})
    assert refused.value.code == code
    assert len(go_on(sessions, 1, 1).partitions) == 1


def test_a_session_without_partitions_is_over() -> None:
    sessions = make()
    sessions.begin(of(1), by_id=False, now_ms=0)
    assert go_on(sessions, 1, 1, forgotten=[("t", 0)]) is None
    assert len(sessions) == 0


def test_a_partition_is_reported_when_something_is_new_and_again_after_an_error() -> None:
    one = Followed("t", bytes(16), 0, None)
    assert one.take(5, 0, worth_sending=False, failed=False)
    assert not one.take(5, 0, worth_sending=False, failed=False)
    assert one.take(5, 0, worth_sending=True, failed=False)
    assert one.take(6, 0, worth_sending=False, failed=False)
    assert one.take(6, 2, worth_sending=False, failed=False)
    assert one.take(-1, -1, worth_sending=False, failed=True)
    assert one.take(-1, -1, worth_sending=False, failed=True)
    assert one.take(6, 2, worth_sending=False, failed=False)


def test_a_full_cache_gives_none_while_all_are_young() -> None:
    sessions = make()
    assert [sessions.begin(of(1), by_id=False, now_ms=0) for _ in range(3)] == [1, 2, NO_SESSION]
    assert sessions.begin(of(9), by_id=False, now_ms=EVICTION_MS) == NO_SESSION


def test_a_full_cache_gives_up_what_was_unused_for_two_minutes() -> None:
    sessions = make()
    sessions.begin(of(5), by_id=False, now_ms=0)
    sessions.begin(of(1), by_id=False, now_ms=10)
    assert sessions.begin(of(1), by_id=False, now_ms=LATE_MS) == 3
    assert (sessions.look_up(1), len(sessions)) == (None, 2)


def test_a_larger_session_takes_the_place_of_a_smaller_old_one_and_an_equal_one_does_not() -> None:
    sessions = make()
    for count in (2, 3):
        sessions.begin(of(count), by_id=False, now_ms=0)
    for session_id in (1, 2):
        go_on(sessions, session_id, 1, now_ms=LATE_MS)
    assert sessions.begin(of(2), by_id=False, now_ms=LATE_MS) == NO_SESSION
    assert sessions.begin(of(3), by_id=False, now_ms=LATE_MS) == 3
    assert (sessions.look_up(1), len(sessions)) == (None, 2)
