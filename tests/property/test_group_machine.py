"""Members join, stay away, die and come back, coordinators move and
crash: what must hold, holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from . import group_world
from .group_member import CHECKED

MOST_MEMBERS = 4
WHICH = st.integers(0, MOST_MEMBERS - 1)
INSTANCES = st.sampled_from([None, None, "i1", "i2"])
SUBSCRIPTIONS = st.sampled_from(
    [("a", "b"), ("a", "b"), ("a",), ("b", "passing"), ("a", "b", "passing")]
)
DELAYS_MS = st.sampled_from([50, 700, 3_500])
PASSING_ERRORS = {
    "FindCoordinator": [15],
    "JoinGroup": [14, 15, 16, 25, 27],
    "SyncGroup": [15, 16, 22, 25, 27],
    "Heartbeat": [15, 16, 22, 25, 27],
    "ConsumerGroupHeartbeat": [14, 15, 16, 25, 110],
    "OffsetCommit": [14, 16, 22, 25, 27],
    "OffsetFetch": [14, 16],
}
APIS = st.sampled_from([*PASSING_ERRORS, "LeaveGroup"])
ERRORS = st.sampled_from([(api, code) for api, codes in PASSING_ERRORS.items() for code in codes])


class Steps:
    """How often each rule was used, over all machines of a run."""

    def __init__(self) -> None:
        self.done = Counter[str]()

    @property
    def total(self) -> int:
        """How many steps there were."""
        return self.done.total()


STEPS = Steps()


class Members(RuleBasedStateMachine):
    """The rules of hypothesis; what they do stands in `group_world.World`."""

    world: Any = None

    @initialize(flavour=st.sampled_from(group_world.FLAVOURS), seed=st.integers(0, 2**16))
    def begin(self, flavour: Any, seed: int) -> None:
        self.world = group_world.World(flavour, seed)

    def one(self, name: str, which: int) -> Any:
        """Return a member that runs, None where there is none."""
        STEPS.done[name] += 1
        live = self.world.live
        return live[which % len(live)] if live else None

    def note(self, name: str) -> Any:
        STEPS.done[name] += 1
        return self.world

    @rule(instance=INSTANCES, topics=SUBSCRIPTIONS)
    def join(self, instance: str | None, topics: tuple[str, ...]) -> None:
        world = self.note("join")
        if len(world.live) < MOST_MEMBERS:
            world.join(instance, topics)

    @rule(which=WHICH)
    def poll(self, which: int) -> None:
        if (member := self.one("poll", which)) is not None:
            self.world.poll(member)

    @rule(instance=INSTANCES, rounds=st.integers(1, 4), which=WHICH)
    def live_on(self, instance: str | None, rounds: int, which: int) -> None:
        """What most of life is: somebody comes, there are records, everybody
        polls but perhaps one.
        """
        self.join(instance, ("a", "b"))
        self.produce("a", rounds)
        for _ in range(rounds):
            self.all_poll(1_000, which)

    @rule(duration_ms=st.sampled_from([0, 100, 1_000, 3_000]), but=st.integers(0, 8))
    def all_poll(self, duration_ms: int, but: int) -> None:
        world = self.note("all poll")
        for number, member in enumerate(world.live):
            if number != but:
                world.poll(member)
        world.advance(duration_ms)

    @rule(duration_ms=st.sampled_from([10, 500, 3_000, 3_000, 7_000, 25_000]))
    def stay_away(self, duration_ms: int) -> None:
        self.note("stay away").advance(duration_ms)

    @rule(which=WHICH)
    def close(self, which: int) -> None:
        if (member := self.one("close", which)) is not None:
            self.world.close(member)

    @rule(which=WHICH)
    def kill(self, which: int) -> None:
        if (member := self.one("kill", which)) is not None:
            self.world.kill(member)

    @rule(which=WHICH, topics=SUBSCRIPTIONS)
    def subscribe(self, which: int, topics: tuple[str, ...]) -> None:
        if (member := self.one("subscribe", which)) is not None:
            self.world.subscribe(member, topics)

    @rule(which=WHICH)
    def commit(self, which: int) -> None:
        if (member := self.one("commit", which)) is not None:
            self.world.commit(member)

    @rule(topic=st.sampled_from(["a", "b"]), count=st.integers(1, 9))
    def produce(self, topic: str, count: int) -> None:
        self.note("produce").produce(topic, count)

    @precondition(lambda self: self.world.may_grow)
    @rule()
    def add_partition(self) -> None:
        self.note("add partition").add_partition()

    @precondition(lambda self: self.world.may_change)
    @rule()
    def topic_passes(self) -> None:
        self.note("topic passes").topic_passes()

    @rule(to=st.integers(1, group_world.BROKERS))
    def move_coordinator(self, to: int) -> None:
        self.note("move coordinator").move_coordinator(to)

    @rule()
    def crash_coordinator(self) -> None:
        self.note("crash coordinator").crash_coordinator()

    @precondition(lambda self: any(not broker.running for broker in self.world.cluster.brokers))
    @rule()
    def start_broker(self) -> None:
        self.note("start broker").start_brokers()

    @rule(api=APIS, delay_ms=DELAYS_MS, times=st.integers(1, 3), executed=st.booleans())
    def late(self, api: str, delay_ms: int, times: int, executed: bool) -> None:
        self.note("late").do("faults.delay", api, delay_ms, times=times, executed=executed)

    @rule(api=APIS, executed=st.booleans())
    def lost(self, api: str, executed: bool) -> None:
        self.note("lost").do("faults.cut", api, executed=executed)

    @rule(error=ERRORS)
    def refuse(self, error: tuple[str, int]) -> None:
        self.note("refuse").do("faults.fail", *error)

    @rule()
    def quiet(self) -> None:
        self.note("quiet").check_quiet()

    @invariant()
    def holds(self) -> None:
        if self.world is not None:
            self.world.check_always()

    def teardown(self) -> None:
        if self.world is None:
            return
        try:
            self.world.check_quiet()
        finally:
            self.world.end()


def explore(examples: int, steps: int, *, same_each_time: bool) -> None:
    """Run so many worlds of so many steps. A failure prints its steps; a seed makes them
    again, so none are shrunk.
    """
    run_state_machine_as_test(
        Members,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=same_each_time,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.fixture
def steps(capsys: pytest.CaptureFixture[str]) -> Iterator[Steps]:
    """The account, empty at first and printed in the end: how often each rule was used, and how
    often each invariant had something to say.
    """
    STEPS.__init__()  # type: ignore[misc]
    CHECKED.clear()
    yield STEPS
    checked = {name: CHECKED[name] for name in sorted(CHECKED, key=lambda name: int(name[1:]))}
    with capsys.disabled():
        print(f"\n{STEPS.total} steps: {dict(sorted(STEPS.done.items()))}")
        print(f"looked at: {checked}")


@pytest.mark.timeout(900)  # fifteen seconds on a quiet machine
def test_what_must_hold_of_groups_holds_over_two_thousand_steps(steps: Steps) -> None:
    explore(22, 100, same_each_time=True)
    assert steps.total >= 2_000


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_what_must_hold_of_groups_holds_over_fifty_thousand_steps(steps: Steps) -> None:
    explore(510, 100, same_each_time=False)
    assert steps.total >= 50_000
    assert set(CHECKED) == {f"I{number}" for number in range(1, 11)}
