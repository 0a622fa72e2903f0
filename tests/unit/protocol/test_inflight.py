"""The table of unanswered requests."""

from __future__ import annotations

import pytest

from parley.errors import RemoteProtocolError
from parley.protocol.inflight import InFlight, Pending, Purpose


def table(*entries: tuple[int, int]) -> InFlight:
    made = InFlight()
    for correlation_id, deadline_ms in entries:
        made.add(Pending(correlation_id, 3, 0, deadline_ms))
    return made


def test_correlation_ids_start_again_after_the_last_one() -> None:
    made = InFlight()
    assert [made.next_id() for _ in range(3)] == [0, 1, 2]
    made._next_id = 2**31 - 1
    assert [made.next_id() for _ in range(2)] == [2**31 - 1, 0]


def test_only_the_oldest_request_can_be_answered() -> None:
    made = table((1, 10), (2, 20))
    with pytest.raises(RemoteProtocolError, match="out of order"):
        made.take(2)
    assert made.take(1).correlation_id == 1
    assert made.take(2).correlation_id == 2
    assert made.head() is None
    with pytest.raises(RemoteProtocolError, match="no request waits"):
        made.take(3)


def test_deadlines_are_those_of_wanted_requests() -> None:
    made = table((1, 30), (2, 10), (3, 20))
    assert made.next_deadline_ms() == 10
    made.abandon(2)
    assert made.next_deadline_ms() == 20
    assert made.expired(19) == []
    assert made.expired(20) == [3]
    assert made.expired(30) == [1, 3]
    assert len(made) == 3


def test_clearing_reports_the_wanted_requests_of_the_application() -> None:
    made = table((1, 10), (2, 10), (3, 10))
    made.add(Pending(4, 16, 0, 10, Purpose.CANARY))
    made.abandon(2)
    assert made.clear() == (1, 3)
    assert len(made) == 0
    assert made.next_deadline_ms() is None


def test_a_purpose_can_be_dropped() -> None:
    made = table((1, 10))
    made.add(Pending(2, 18, 4, 10, Purpose.NEGOTIATION))
    made.drop(Purpose.NEGOTIATION)
    assert made.clear() == (1,)
