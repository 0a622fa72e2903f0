"""What takes long is handed to the owner of a connection, and everything
else waits for it in order.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from parley.errors import AuthenticationError, LocalProtocolError, NetworkError
from parley.protocol import NEED_DATA, PAUSED, ClientProtocol, Closed, State, Work
from parley.protocol.sasl import ScramClient
from parley.types import Secret

from .test_login import OLD, Talk, talk


class Deferring(ClientProtocol):
    """A client whose owner runs what takes long."""

    def start(self, now_ms: int, timeout_ms: int = 10_000) -> None:
        self.gives_work = True
        super().start(now_ms, timeout_ms)


@pytest.fixture
def login(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[Talk, Work]]:
    """Begin a SCRAM login, and return it with the work that the broker's challenge made."""
    monkeypatch.setitem(talk.__globals__, "ClientProtocol", Deferring)

    def begun(password: str) -> tuple[Talk, Work]:
        made = talk(ScramClient("SCRAM-SHA-256", "alice", Secret(password), "nonce"), OLD)
        (work,) = made.client_events
        assert isinstance(work, Work)
        made.client_events.clear()
        return made, work

    return begun


def closed(made: Talk) -> Closed:
    event = made.client.next_event()
    assert isinstance(event, Closed)
    return event


def test_a_login_goes_on_when_its_work_is_finished(
    login: Callable[[str], tuple[Talk, Work]],
) -> None:
    made, work = login("wonder")
    assert made.client.next_event() is PAUSED
    assert made.client.data_to_send() == []
    for _ in range(2):  # the proof, and the check of the broker's signature
        work.run()
        made.client.finish(work)
        made.run()
        if isinstance(made.client_events[0], Work):
            work = made.client_events.pop(0)
    assert made.client.state is State.READY
    assert made.broker.principal == "alice"


def test_work_that_fails_ends_the_connection(login: Callable[[str], tuple[Talk, Work]]) -> None:
    made, work = login("wonder")
    work.error = AuthenticationError("no")
    made.client.finish(work)
    assert closed(made).error is work.error
    made.client.finish(work)
    assert made.client.next_event() is NEED_DATA


def test_what_came_before_the_end_counts_first(login: Callable[[str], tuple[Talk, Work]]) -> None:
    made, work = login("wonder")
    made.client.receive_eof()
    assert made.client.next_event() is PAUSED
    assert not made.client.is_closed
    work.error = AuthenticationError("the proof is wrong")
    made.client.finish(work)
    assert closed(made).error is work.error


def test_an_end_during_work_is_an_end(login: Callable[[str], tuple[Talk, Work]]) -> None:
    made, work = login("wonder")
    made.client.receive_eof()
    work.run()
    made.client.finish(work)
    assert isinstance(closed(made).error, AuthenticationError | NetworkError)


def test_a_connection_that_was_closed_meanwhile_takes_no_result(
    login: Callable[[str], tuple[Talk, Work]],
) -> None:
    made, work = login("wonder")
    made.client.close()
    work.run()
    made.client.finish(work)
    assert closed(made).error is None
    assert made.client.next_event() is NEED_DATA
    assert made.client.data_to_send() == []


def test_a_bug_in_work_ends_the_connection_and_does_not_hang_it() -> None:
    work = Work(lambda: 1 // 0, lambda _: None)
    work.run()
    assert isinstance(work.error, LocalProtocolError)
    assert isinstance(work.error.__cause__, ZeroDivisionError)
