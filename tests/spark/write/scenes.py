"""Scenes of the exactly-once sink that hold on the embedded cluster and on real brokers alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from parley.errors import DataLossError, LocalProtocolError
from parley.spark.write.turns import id_name, turn_id_name

from .sinks import Sink


def invisible_until_committed(sink: Sink) -> None:
    """Rows are hidden while their transactions are open, and all there after the commit."""
    driver = sink.driver()
    messages = sink.write(driver.plan(), 0, [["a", "b", "c"], ["d"], []])
    assert sink.stable() == []
    driver.commit(messages)
    assert sink.committed() == ["a", "b", "c", "d"]
    sink.run(driver, 1, [["e"], [], ["f"]])
    assert sink.committed() == ["a", "b", "c", "d", "e", "f"]


def killed_after_the_intent(sink: Sink) -> None:
    """The next driver carries the batch out, and its tasks write nothing."""
    driver = sink.driver()
    sink.decide_only(driver, sink.write(driver.plan(), 0, [["a"], ["b"]]))
    assert sink.stable() == []
    successor = sink.driver()
    plan = successor.plan()
    assert sink.committed() == ["a", "b"]
    successor.commit(sink.write(plan, 0, [["a", "b"], []]))
    sink.run(successor, 1, [["c"]])
    assert sink.committed() == ["a", "b", "c"]


def killed_before_the_intent(sink: Sink) -> None:
    """What was written is aborted, and written again by the next driver's tasks."""
    driver = sink.driver()
    sink.run(driver, 0, [["a"], ["b"]])
    sink.write(driver.plan(), 1, [["c"], ["d"]])
    successor = sink.driver()
    plan = successor.plan()  # aborts what is open: nothing holds readers back any more
    assert sink.committed() == ["a", "b"]
    successor.commit(sink.write(plan, 1, [["c"], ["d"]]))
    assert sink.committed() == ["a", "b", "c", "d"]


def a_failed_commit_is_aborted(sink: Sink) -> None:
    """Spark calls abort with all messages; without an intent they are
    aborted, with one they stay.
    """
    driver = sink.driver()
    messages = sink.write(driver.plan(), 0, [["a"], ["b"]])
    driver.abort([*messages, None])
    assert sink.committed() == []
    messages = sink.write(driver.plan(), 0, [["a"], ["b"]])
    sink.decide_only(driver, messages)
    driver.abort(messages)
    driver.plan()
    assert sink.committed() == ["a", "b"]


def a_speculative_copy_writes_too(sink: Sink) -> None:
    """Two attempts of a task run to their end: the one that Spark counts is
    visible, the other is aborted.
    """
    driver = sink.driver()
    sink.run(driver, 0, [["0"]])
    plan = driver.plan()
    first = sink.task(plan, 1, 0, ["a", "b"])
    copy = sink.task(plan, 1, 0, ["a", "b"])
    assert first.transaction.named_after != copy.transaction.named_after
    driver.commit([copy])
    assert sink.committed() == ["0", "a", "b"]
    plan = driver.plan()
    first = sink.task(plan, 2, 0, ["c"])
    sink.task(plan, 2, 0, ["c"])
    driver.commit([first])
    # the copy came later than the one that counts: found in the next batch
    sink.run(driver, 3, [["d"]])
    assert sink.committed() == ["0", "a", "b", "c", "d"]


def a_zombies_init_producer_id_between_intent_and_end(sink: Sink) -> None:
    """An attempt hangs before it asks for its producer id, and asks when another
    one of its task is decided.
    """
    driver = sink.driver()
    sink.run(driver, 0, [["0"]])
    plan = driver.plan()
    slot, coordination = plan.pool[0], driver.coordination
    # the zombie has its turn, and the spare id is its
    coordination.init([turn_id_name(sink.prefix, 0)])
    assert slot.spare is not None
    messages = sink.write(plan, 1, [["a"]])
    sink.decide_only(driver, messages)
    coordination.init([id_name(sink.prefix, 0, slot.spare)])
    sink.driver().plan()
    assert sink.committed() == ["0", "a"]


def two_drivers(sink: Sink) -> None:
    """The one that planned last decides; the other gets an error, and its abort
    touches nothing of the winner's.
    """
    first, second = sink.driver(), sink.driver()
    sink.run(first, 0, [["0"]])
    messages = sink.write(first.plan(), 1, [["a"]])
    plan = second.plan()
    own = sink.write(plan, 1, [["a"]])
    with pytest.raises(
        LocalProtocolError, match="another driver writes with the transactional id prefix"
    ):
        first.commit(messages)
    first.abort(messages)
    second.commit(own)
    assert sink.committed() == ["0", "a"]


def expired_after_the_intent(sink: Sink, expire: Callable[[], None]) -> None:
    """The rows are gone: the query says which, at every start, and goes on
    only when it is asked to.
    """
    driver = sink.driver()
    plan = driver.plan()
    short = replace(sink, timeout_ms=30_000)
    messages = [short.task(plan, 0, 0, ["a", "b"]), sink.task(plan, 0, 1, ["c"])]
    sink.decide_only(driver, messages)
    expire()
    for _ in range(2):
        with pytest.raises(
            DataLossError, match=r"batch 0 .* 1 of its 2 transactions .* task 0 \(2 rows, expired\)"
        ):
            sink.driver().plan()
    assert sink.committed() == ["c"]
    patient = sink.driver(go_on_after_loss=True)
    sink.run(patient, 1, [["d"]])
    assert sink.committed() == ["c", "d"]


SCENES = (
    invisible_until_committed,
    killed_after_the_intent,
    killed_before_the_intent,
    a_failed_commit_is_aborted,
    a_speculative_copy_writes_too,
    a_zombies_init_producer_id_between_intent_and_end,
    two_drivers,
)
