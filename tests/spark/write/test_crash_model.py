"""Whatever dies, errs or hangs at whatever step: every row of every batch is there once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from parley.errors import DataLossError, LocalProtocolError
from parley.spark.write.driver import Driver
from parley.spark.write.intent import Intent
from parley.spark.write.turns import id_name

from .world import Fault, Kind, World

BATCHES = [
    [[(n, task, row) for row in range(2)] for task in range(2)] for n in range(3)
]  # three batches of two tasks of two rows


def check(world: World, batches: list[list[list[object]]]) -> None:
    assert world.account(batches) == ([], [])
    assert not any(isinstance(error, DataLossError) for error in world.errors)


def steps_without_faults() -> int:
    world = World()
    world.run(BATCHES)
    check(world, BATCHES)
    return world.step


@pytest.mark.parametrize("kind", [Kind.KILL, Kind.ERROR])
def test_s01_one_fault_at_every_step(kind: Kind) -> None:
    for step in range(1, steps_without_faults() + 1):
        world = World([Fault(step, kind)])
        world.run(BATCHES)
        check(world, BATCHES)
        assert world.open() == []  # what failed attempts and drivers left open is aborted


def test_s01_killed_twice_at_every_pair_of_steps() -> None:
    last = steps_without_faults()
    for first in range(1, last + 1, 3):
        for second in range(first + 1, first + 60, 5):
            world = World([Fault(first, Kind.KILL), Fault(second, Kind.KILL)])
            world.run(BATCHES)
            check(world, BATCHES)


def test_s03_whoever_hangs_at_any_step_wakes_up_at_any_later_one() -> None:
    """Covers the late InitProducerId between intent and EndTxn: of an attempt, of a
    driver's sweep, of a retry.
    """
    last = steps_without_faults()
    for step in range(1, last + 1):
        for later in range(1, 100, 7):
            world = World([Fault(step, Kind.PAUSE, later)])
            world.run(BATCHES)
            check(world, BATCHES)


def test_s03_an_attempt_that_hangs_outlives_its_driver_and_wakes_up_under_the_next() -> None:
    last = steps_without_faults()
    for step in range(last // 3, 2 * last // 3):  # in the second batch, where ids are used again
        for later in range(24, 64):
            world = World([Fault(step, Kind.PAUSE, later), Fault(step + 6, Kind.KILL)])
            world.run(BATCHES)
            check(world, BATCHES)


shapes = st.lists(st.lists(st.integers(0, 2), min_size=0, max_size=3), min_size=1, max_size=5)
fault = st.builds(Fault, st.integers(1, 200), st.sampled_from(Kind), st.integers(1, 120))
faults = st.lists(fault, max_size=6, unique_by=lambda one: one.step)


@given(shapes, faults)
@settings(max_examples=300)
def test_any_faults_at_any_steps(shape: list[list[int]], going_wrong: list[Fault]) -> None:
    batches = [
        [[(n, task, row) for row in range(count)] for task, count in enumerate(tasks)]
        for n, tasks in enumerate(shape)
    ]
    world = World(going_wrong)
    world.run(batches)
    check(world, batches)


def test_ids_are_bounded_by_tasks_and_failures_and_not_by_batches() -> None:
    batches = [[[(n, task, 0)] for task in range(1 + n % 4)] for n in range(200)]
    world = World()
    world.run(batches)
    check(world, batches)
    assert len(world.ids) == 1 + 2 * 4  # the query's, and two for each task number
    failing = World([Fault(step, Kind.ERROR) for step in range(50, 4000, 400)])
    failing.run(batches)
    check(failing, batches)
    assert len(failing.ids) <= 1 + 2 * 4 + 4 * len(failing.errors)


def killed_after_the_intent() -> World:
    """Return a world whose driver died as soon as it had decided its first batch."""
    for step in range(1, steps_without_faults()):
        world = World([Fault(step, Kind.KILL)])
        world.live(BATCHES)
        if world.done == 0 and any(isinstance(entry, Intent) for entry in world.entries):
            return world
    raise AssertionError("no intent was written")


def expire(world: World) -> None:
    """Let the first transaction of the decided batch time out."""
    intent = next(entry for entry in world.entries if isinstance(entry, Intent))
    one = intent.transactions[0]
    world.expire([id_name("q", one.slot, one.named_after)])


def test_a_transaction_that_expired_after_the_intent_is_named_with_its_rows() -> None:
    world = killed_after_the_intent()
    expire(world)
    for _ in range(2):  # and again at each restart
        with pytest.raises(DataLossError) as caught:
            Driver("q", world, world).plan()
        text = str(caught.value)
        assert "batch 0 of query the query was decided, but 1 of its 2 transactions" in text
        assert "task 0 (2 rows, expired). 2 of 4 rows are missing" in text
        assert "kafka.transaction.timeout.ms" in text
        assert 'option("lostTransactions", "continue")' in text


def test_after_such_a_loss_a_query_goes_on_when_its_user_says_so() -> None:
    world = killed_after_the_intent()
    expire(world)
    Driver("q", world, world, go_on_after_loss=True).plan()
    world.run(BATCHES)
    assert world.account(BATCHES) == ([(0, 0, 0), (0, 0, 1)], [])


def test_a_driver_that_another_took_over_from_decides_nothing() -> None:
    world = World()
    first, second = Driver("q", world, world), Driver("q", world, world)
    messages = world.write_all(first.plan(), 0, BATCHES[0])
    second.plan()
    with pytest.raises(
        LocalProtocolError, match="another driver writes with the transactional id prefix"
    ):
        first.commit(messages)
    first.abort(messages)
    assert world.visible == []


def test_a_checkpoint_that_was_put_back_is_noticed_before_anything_is_written() -> None:
    world = World()
    world.run(BATCHES)
    with pytest.raises(
        LocalProtocolError, match=r"batch 1 of query the query .* but batch 2 was written before"
    ):
        world.write_all(Driver("q", world, world).plan(), 1, BATCHES[1])


def test_a_new_query_with_the_same_prefix_writes_its_own_batches() -> None:
    world = World()
    world.run(BATCHES)
    driver = Driver("q", world, world)
    driver.commit(world.write_all(driver.plan(), 0, BATCHES[0], query="a new one"))
    assert world.account([*BATCHES, BATCHES[0]]) == ([], [])
