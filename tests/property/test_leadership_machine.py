"""Leaders move, lag, die, are elected uncleanly, topics are created again, answers are late: what must hold, holds."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

_SPEC = importlib.util.spec_from_file_location("parley_tests_leadership", Path(__file__).with_name("leadership.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
leadership = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = leadership
_SPEC.loader.exec_module(leadership)

RELEASES = [("4.3",) * 3, ("3.9",) * 3, ("2.4", "3.9", "4.3"), ("2.8", "3.3", "4.0"), ("2.4",) * 3]
PARTITION, BROKER = st.integers(0, leadership.PARTITIONS - 1), st.integers(1, leadership.BROKERS)
APIS = st.sampled_from(["Metadata", "Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch"])
ERRORS = st.sampled_from(["NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE"])


class Coverage:
    """Which rule followed which, over all machines of a run."""

    def __init__(self) -> None:
        self.steps = 0
        self.pairs = Counter[tuple[str, str]]()
        self.done = Counter[str]()

    def text(self) -> str:
        """Return the account as lines."""
        names = sorted({name for pair in self.pairs for name in pair})
        possible = len(names) ** 2
        lines = [f"{self.steps} steps; {len(self.pairs)} of {possible} transitions between {len(names)} rules"]
        lines += [f"  {name:16} {self.done[name]:6}" for name in names]
        return "\n".join(lines)


COVERAGE = Coverage()


class Leadership(RuleBasedStateMachine):
    """The rules of hypothesis; what they do stands in `leadership.World`."""

    world: Any = None

    @initialize(releases=st.sampled_from(RELEASES), seed=st.integers(0, 2**16))
    def begin(self, releases: tuple[str, ...], seed: int) -> None:
        self.world = leadership.World(releases, seed)
        self.before = "begin"

    def note(self, name: str) -> Any:
        COVERAGE.steps += 1
        COVERAGE.pairs[self.before, name] += 1
        COVERAGE.done[name] += 1
        self.before = name
        return self.world

    @rule(partition=PARTITION, count=st.integers(1, 30))
    def produce(self, partition: int, count: int) -> None:
        self.note("produce").produce(partition, count)

    @rule(partition=PARTITION, count=st.integers(1, 30))
    def produce_more(self, partition: int, count: int) -> None:
        self.note("produce").produce(partition, count)

    @rule()
    def poll(self) -> None:
        self.note("poll").poll()

    @rule(duration_ms=st.sampled_from([1, 20, 100, 500, 2_000]))
    def advance(self, duration_ms: int) -> None:
        self.note("advance").advance(duration_ms)

    @rule(partition=PARTITION, to=BROKER)
    def move_leader(self, partition: int, to: int) -> None:
        self.note("move leader").do("move_leader", leadership.TOPIC, partition, to)

    @rule(broker=BROKER)
    def kill(self, broker: int) -> None:
        world = self.note("kill")
        if sum(one.running for one in world.cluster.brokers) > 1:
            world.do("kill_broker", broker)

    @rule(broker=BROKER)
    def start(self, broker: int) -> None:
        self.note("start").do("start_broker", broker)

    @rule(broker=BROKER, in_sync=st.booleans())
    def lag(self, broker: int, in_sync: bool) -> None:
        self.note("lag").do("lag", broker, in_sync=in_sync)

    @rule()
    def catch_up(self) -> None:
        self.note("catch up").do("catch_up")

    @rule(broker=BROKER)
    def hold_metadata(self, broker: int) -> None:
        self.note("hold metadata").do("hold_metadata", broker)

    @rule()
    def release_metadata(self) -> None:
        self.note("release metadata").do("release_metadata")

    @rule(broker=BROKER)
    def isolate(self, broker: int) -> None:
        self.note("isolate").do("isolate", broker)

    @rule()
    def heal(self) -> None:
        self.note("heal").do("heal")

    @rule(partition=PARTITION, to=BROKER, lose=st.integers(0, 20))
    def elect_unclean(self, partition: int, to: int, lose: int) -> None:
        self.note("elect unclean").lose_leaders(partition, to, lose)

    @rule()
    def recreate(self) -> None:
        self.note("recreate").recreate()

    @rule(api=APIS, broker=BROKER, delay_ms=st.sampled_from([5, 150, 700]), times=st.integers(1, 3))
    def late_answers(self, api: str, broker: int, delay_ms: int, times: int) -> None:
        self.note("late answers").do("delay", api, delay_ms, times=times, broker=broker)

    @rule(api=APIS, executed=st.booleans())
    def lost_answer(self, api: str, executed: bool) -> None:
        self.note("lost answer").do("cut", api, executed=executed)

    @rule(api=st.sampled_from(["Metadata", "Produce", "Fetch"]), error=ERRORS)
    def refuse(self, api: str, error: str) -> None:
        self.note("refuse").do("fail", api, error)

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
            self.world.close()


def explore(examples: int, steps: int, capsys: pytest.CaptureFixture[str], *, same_each_time: bool) -> None:
    """Run so many worlds of so many steps. A failure prints its steps; a seed makes them again, so none are shrunk."""
    COVERAGE.__init__()  # type: ignore[misc]
    run_state_machine_as_test(
        Leadership,
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
    with capsys.disabled():
        print("\n" + COVERAGE.text())


@pytest.mark.timeout(900)  # ten seconds on a quiet machine
def test_what_must_hold_holds_over_a_thousand_steps(capsys: pytest.CaptureFixture[str]) -> None:
    explore(25, 48, capsys, same_each_time=True)
    assert COVERAGE.steps >= 1_000


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_what_must_hold_holds_over_twenty_thousand_steps(capsys: pytest.CaptureFixture[str]) -> None:
    explore(400, 80, capsys, same_each_time=False)
    assert COVERAGE.steps >= 20_000
    rules = len(COVERAGE.done)
    assert len(COVERAGE.pairs) > 0.9 * rules**2
