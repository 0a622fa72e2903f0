"""Leaders move, lag, die, are elected uncleanly, topics are created again, answers are
late: what must hold, holds.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

_SPEC = importlib.util.spec_from_file_location(
    "parley_tests_leadership", Path(__file__).with_name("leadership.py")
)
assert _SPEC is not None
assert _SPEC.loader is not None
leadership = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = leadership
_SPEC.loader.exec_module(leadership)

RELEASES = [("4.3",) * 3, ("3.9",) * 3, ("2.4", "3.9", "4.3"), ("2.8", "3.3", "4.0"), ("2.4",) * 3]
PARTITION, BROKER = st.integers(0, leadership.PARTITIONS - 1), st.integers(1, leadership.BROKERS)
APIS = st.sampled_from(["Metadata", "Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch"])
ERRORS = st.sampled_from(
    ["NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE"]
)


BEGIN = "begin"


class Coverage:
    """Which rule followed which, over all machines of a run. Any may follow any, and
    begin a world; none ends one.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.pairs = Counter[tuple[str, str]]()
        self.done = Counter[str]()

    @property
    def possible(self) -> int:
        """How many transitions there are between the rules that were used."""
        return len(self.done) * (len(self.done) + 1)

    def uncovered(self) -> list[tuple[str, str]]:
        """Return the transitions that were not seen."""
        every = [
            (before, after) for before in (BEGIN, *sorted(self.done)) for after in sorted(self.done)
        ]
        return [pair for pair in every if not self.pairs[pair]]

    def text(self) -> str:
        """Return the account as lines."""
        names = sorted(self.done)
        lines = [
            f"{self.steps} steps; {len(self.pairs)} of {self.possible} transitions between "
            f"{len(names)} rules"
        ]
        lines += [f"  {name:16} {self.done[name]:6}" for name in names]
        return "\n".join(lines)

    def table(self) -> str:
        """Return how often each rule (column) came after each other one (row),
        as a table for documents.
        """
        names = sorted(self.done)
        head = ["after", *(str(number) for number, _ in enumerate(names, 1))]
        lines = [head, ["---"] * len(head)]
        for label, before in [
            ("the beginning", BEGIN),
            *((f"{n} {name}", name) for n, name in enumerate(names, 1)),
        ]:
            lines.append([label, *(str(self.pairs[before, name]) for name in names)])
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


COVERAGE = Coverage()


class Leadership(RuleBasedStateMachine):
    """The rules of hypothesis; what they do stands in `leadership.World`."""

    world: Any = None

    @initialize(releases=st.sampled_from(RELEASES), seed=st.integers(0, 2**16))
    def begin(self, releases: tuple[str, ...], seed: int) -> None:
        self.world = leadership.World(releases, seed)
        self.before = BEGIN

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
        self.note("lag").do("scenes.lag", broker, in_sync=in_sync)

    @rule()
    def catch_up(self) -> None:
        self.note("catch up").do("scenes.catch_up")

    @rule(broker=BROKER)
    def hold_metadata(self, broker: int) -> None:
        self.note("hold metadata").do("scenes.hold_metadata", broker)

    @rule()
    def release_metadata(self) -> None:
        self.note("release metadata").do("scenes.release_metadata")

    @rule(broker=BROKER)
    def isolate(self, broker: int) -> None:
        self.note("isolate").do("scenes.isolate", broker)

    @rule()
    def heal(self) -> None:
        self.note("heal").do("scenes.heal")

    @rule(partition=PARTITION, to=BROKER, lose=st.integers(0, 20))
    def elect_unclean(self, partition: int, to: int, lose: int) -> None:
        self.note("elect unclean").lose_leaders(partition, to, lose)

    @rule()
    def recreate(self) -> None:
        self.note("recreate").recreate()

    @rule(api=APIS, broker=BROKER, delay_ms=st.sampled_from([5, 150, 700]), times=st.integers(1, 3))
    def late_answers(self, api: str, broker: int, delay_ms: int, times: int) -> None:
        self.note("late answers").do("faults.delay", api, delay_ms, times=times, broker=broker)

    @rule(api=APIS, executed=st.booleans())
    def lost_answer(self, api: str, executed: bool) -> None:
        self.note("lost answer").do("faults.cut", api, executed=executed)

    @rule(api=st.sampled_from(["Metadata", "Produce", "Fetch"]), error=ERRORS)
    def refuse(self, api: str, error: str) -> None:
        self.note("refuse").do("faults.fail", api, error)

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


ARGUMENTS: dict[str, Callable[[Random], dict[str, Any]]] = {
    "produce": lambda rng: {"partition": rng.randrange(2), "count": rng.randint(1, 30)},
    "poll": lambda rng: {},
    "advance": lambda rng: {"duration_ms": rng.choice([1, 20, 100, 500, 2_000])},
    "move_leader": lambda rng: {"partition": rng.randrange(2), "to": rng.randint(1, 3)},
    "kill": lambda rng: {"broker": rng.randint(1, 3)},
    "start": lambda rng: {"broker": rng.randint(1, 3)},
    "lag": lambda rng: {"broker": rng.randint(1, 3), "in_sync": rng.random() < 0.5},
    "catch_up": lambda rng: {},
    "hold_metadata": lambda rng: {"broker": rng.randint(1, 3)},
    "release_metadata": lambda rng: {},
    "isolate": lambda rng: {"broker": rng.randint(1, 3)},
    "heal": lambda rng: {},
    "elect_unclean": lambda rng: {
        "partition": rng.randrange(2), "to": rng.randint(1, 3), "lose": rng.randrange(9),
    },
    "recreate": lambda rng: {},
    "late_answers": lambda rng: {
        "api": rng.choice(["Metadata", "Produce", "Fetch"]), "broker": rng.randint(1, 3),
        "delay_ms": 150, "times": 2,
    },
    "lost_answer": lambda rng: {
        "api": rng.choice(["Metadata", "Produce", "Fetch"]), "executed": rng.random() < 0.5,
    },
    "refuse": lambda rng: {
        "api": rng.choice(["Metadata", "Produce", "Fetch"]), "error": "NOT_LEADER_OR_FOLLOWER",
    },
    "quiet": lambda rng: {},
}  # fmt: skip


def walk(seed: int, rules: Sequence[str] | None = None) -> None:
    """Let every rule follow every other one: a world for each, in which it
    takes turns with all of them.
    """
    rng, rules = Random(seed), list(ARGUMENTS if rules is None else rules)
    for number, own in enumerate(rules):
        machine = Leadership()
        machine.begin(releases=RELEASES[number % len(RELEASES)], seed=rng.randrange(2**16))
        try:
            for other in rules:
                for name in (own, other):
                    getattr(machine, name)(**ARGUMENTS[name](rng))
                    machine.holds()
        finally:
            machine.teardown()


def explore(examples: int, steps: int, *, same_each_time: bool) -> None:
    """Run so many worlds of so many steps. A failure prints its steps; a seed makes them
    again, so none are shrunk.
    """
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


@pytest.fixture
def coverage(capsys: pytest.CaptureFixture[str]) -> Iterator[Coverage]:
    """The account, empty at first and printed in the end."""
    COVERAGE.__init__()  # type: ignore[misc]
    yield COVERAGE
    with capsys.disabled():
        print("\n" + COVERAGE.text())


@pytest.mark.timeout(900)  # ten seconds on a quiet machine
def test_what_must_hold_holds_over_a_thousand_steps(coverage: Coverage) -> None:
    explore(25, 48, same_each_time=True)
    assert coverage.steps >= 1_000


@pytest.mark.timeout(900)
def test_what_must_hold_holds_when_any_rule_follows_any_other(coverage: Coverage) -> None:
    walk(seed=1)
    assert len(coverage.pairs) == coverage.possible == len(ARGUMENTS) * (len(ARGUMENTS) + 1)


@pytest.mark.parametrize("lagging", [0, 7])
def test_an_unclean_election_excuses_what_the_elected_replica_lacked_and_nothing_else(
    lagging: int,
) -> None:
    """The oracle must be able to fail: what the elected replica had must not be lost later."""
    world = leadership.World(RELEASES[0], 1)
    try:
        tp = leadership.partitions()[0]
        world.produce(0, 20)
        world.time.until(
            lambda: not world.calls or world.calls[0][0].done(), limit_ms=leadership.QUIET_MS
        )
        leader = world.cluster.leaders(leadership.TOPIC)[0][0]
        other = leader % leadership.BROKERS + 1
        assert world.do("scenes.lag", other, in_sync=False)
        if lagging:
            world.produce(0, lagging)
            world.time.until(
                lambda: all(call[0].done() for call in world.calls), limit_ms=leadership.QUIET_MS
            )
        world.advance(1)
        assert world.acked[tp] == set(range(20 + lagging))
        assert world.lose_leaders(0, other, 0)
        assert world.may_be_gone[tp] == set(range(20, 20 + lagging))
        world.check_quiet()
        world.acked[tp].add(10_000)  # as if it had been acknowledged
        with pytest.raises(AssertionError, match="acknowledged and are gone"):
            world.check_quiet()
    finally:
        world.close()


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_what_must_hold_holds_over_twenty_thousand_steps(coverage: Coverage) -> None:
    explore(400, 80, same_each_time=False)
    assert coverage.steps >= 20_000
    assert len(coverage.pairs) > 0.95 * coverage.possible
