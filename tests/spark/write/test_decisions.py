"""What a task and the driver do with a batch: the table of the module, line by line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parley.errors import LocalProtocolError
from parley.spark.write.decisions import Step, lost, step_for, to_decide
from parley.spark.write.intent import BatchOfQuery, Intent, OpenTransaction
from parley.spark.write.interfaces import Outcome
from parley.spark.write.messages import NothingToCommit, Prepared
from parley.spark.write.turns import Identity

NOW = BatchOfQuery("q", 7)
FENCE = Identity(1, 5)


def prepared(slot: int) -> Prepared:
    turn = Identity(10 + slot, 0)
    return Prepared(FENCE, NOW, OpenTransaction(slot, turn, turn, Identity(20 + slot, 0), 5), None)


@pytest.mark.parametrize(
    ("last", "step"),
    [
        (None, Step.WRITE),
        (BatchOfQuery("another", 7), Step.WRITE),
        (BatchOfQuery("another", 99), Step.WRITE),
        (BatchOfQuery("q", 6), Step.WRITE),
        (BatchOfQuery("q", 3), Step.WRITE),  # batches without rows leave no intent
        (BatchOfQuery("q", 7), Step.PASS_OVER),
    ],
)
def test_what_a_task_does(last: BatchOfQuery | None, step: Step) -> None:
    assert step_for(NOW, last) is step


def test_a_batch_older_than_what_is_written_is_refused() -> None:
    with pytest.raises(
        LocalProtocolError,
        match="batch 7 of query q is to be written, but batch 8 was written before",
    ):
        step_for(NOW, BatchOfQuery("q", 8))


def test_a_batch_without_rows_decides_nothing() -> None:
    assert to_decide([]) is None
    assert to_decide([None, NothingToCommit(FENCE)]) is None


def test_the_open_transactions_of_a_batch_are_found() -> None:
    messages = [prepared(0), NothingToCommit(FENCE), prepared(2), None]
    assert to_decide(messages) == (FENCE, NOW, [messages[0], messages[2]])


@pytest.mark.parametrize(
    "other",
    [
        replace(prepared(1), plan_fence=Identity(1, 6)),
        replace(prepared(1), what=BatchOfQuery("q", 8)),
        prepared(0),
        NothingToCommit(Identity(1, 6)),
        NothingToCommit(FENCE, written_before=True),
    ],
    ids=[
        "another plan",
        "another batch",
        "the same task twice",
        "an empty task of another plan",
        "written before",
    ],
)
def test_messages_that_do_not_belong_together_are_not_committed(other: object) -> None:
    with pytest.raises(LocalProtocolError, match="do not belong together"):
        to_decide([prepared(0), other])


def test_a_loss_names_batch_tasks_and_rows() -> None:
    intent = Intent(
        NOW, FENCE, (prepared(0).transaction, prepared(1).transaction, prepared(2).transaction)
    )
    failed = [(intent.transactions[0], Outcome.FENCED), (intent.transactions[2], Outcome.FORGOTTEN)]
    text = str(lost(intent, failed))
    assert "batch 7 of query q was decided, but 2 of its 3 transactions" in text
    assert "task 0 (5 rows, expired), task 2 (5 rows, unknown to the coordinator" in text
    assert "10 of 15 rows are missing" in text
