"""The pool's decisions, without a loop."""

from __future__ import annotations

from dataclasses import dataclass

from parley.net import Address
from parley.net.pool_plan import Join, Lane, Open, PoolPlan, Use, Wait

A, B = Address("a", 1), Address("b", 2)
MAIN = Lane(A, "main")


@dataclass
class Fake:
    in_flight: int = 0
    is_closed: bool = False
    last_used_ms: int = 0


def plan(rng: float = 0.5, max_idle_ms: int = 1_000) -> PoolPlan[Fake]:
    return PoolPlan(50, 1_000, max_idle_ms, lambda: rng)


def test_one_opens_and_the_others_join() -> None:
    made, connection = plan(), Fake()
    assert made.step(MAIN, 0) == Open()
    assert made.step(MAIN, 0) == Join()
    assert made.step(Lane(A, "fetch"), 0) == Open()
    made.opened(MAIN, connection)
    step = made.step(MAIN, 0)
    assert isinstance(step, Use)
    assert step.connection is connection


def test_failures_wait_longer_each_time_and_a_success_forgets_them() -> None:
    made, now = plan(), 0
    pauses = []
    for _ in range(8):
        assert made.step(MAIN, now) == Open()
        made.failed(MAIN, now)
        step = made.step(MAIN, now)
        assert isinstance(step, Wait)
        pauses.append(step.until_ms - now)
        now = step.until_ms
    assert pauses == [50, 100, 200, 400, 800, 1000, 1000, 1000]
    made.step(MAIN, now)
    made.opened(MAIN, Fake(is_closed=True, last_used_ms=now))
    assert made.step(MAIN, now) == Wait(now + 50)


def test_jitter_moves_the_pause_by_a_fifth() -> None:
    assert plan(rng=0.0).backoff_ms(3) == 320
    assert plan(rng=1.0).backoff_ms(3) == 480
    assert plan(rng=0.5).backoff_ms(500) == 1_000


def test_a_cancelled_opening_does_not_count() -> None:
    made = plan()
    made.step(MAIN, 0)
    made.given_up(MAIN)
    assert made.step(MAIN, 0) == Open()


def test_the_least_busy_connection_is_chosen() -> None:
    made, busy, free = plan(), Fake(in_flight=5), Fake(in_flight=1)
    made.opened(MAIN, busy)
    made.opened(Lane(B, "main"), free)
    assert made.least_busy([A, B], "main") is free
    assert made.least_busy([A], "main") is busy
    assert made.least_busy([A, B], "fetch") is None
    free.is_closed = True
    assert made.least_busy([A, B], "main") is busy


def test_addresses_that_failed_come_last() -> None:
    made = plan()
    made.failed(MAIN, 0)
    assert made.by_promise([A, B], "main") == [B, A]
    made.failed(Lane(B, "main"), 0)
    made.failed(Lane(B, "main"), 0)
    assert made.by_promise([A, B], "main") == [A, B]


def test_sweeping_closes_what_is_idle_or_leads_nowhere() -> None:
    made, idle, fresh, busy, gone = (
        plan(),
        Fake(),
        Fake(last_used_ms=500),
        Fake(in_flight=1),
        Fake(last_used_ms=990),
    )
    for name, connection in (("idle", idle), ("fresh", fresh), ("busy", busy)):
        made.opened(Lane(A, name), connection)
    made.opened(Lane(B, "main"), gone)
    assert made.sweep(frozenset({A}), 1_000) == [idle, gone]
    assert made.connections() == [fresh, busy]
    assert made.step(Lane(A, "idle"), 1_000) == Open()
    busy.in_flight = 0
    assert made.sweep(frozenset({A}), 1_000) == [busy]


def test_idle_connections_stay_when_there_is_no_limit() -> None:
    made, idle = plan(max_idle_ms=-1), Fake()
    made.opened(MAIN, idle)
    assert made.sweep(frozenset({A}), 10**9) == []


def test_a_busy_connection_to_a_broker_that_is_gone_ends_when_it_is_free() -> None:
    made, busy = plan(), Fake(in_flight=1)
    made.opened(MAIN, busy)
    assert made.sweep(frozenset({B}), 0) == []
    busy.in_flight = 0
    assert made.sweep(frozenset({B}), 0) == [busy]
    assert made.sweep(frozenset({B}), 0) == []
