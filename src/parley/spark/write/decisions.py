"""What to do with a batch, given what is known of it: pure.

the newest intent is of …            a task                 the driver
----------------------------------   --------------------   -------------------------------------
nobody                               writes                 decides, then commits
another query with the same prefix   writes                 the same
this query, an earlier batch         writes                 the same
this query, this batch               passes over its rows   commits what the intent names, again
this query, a later batch            refuses                never gets there
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from parley.errors import DataLossError, KafkaError, LocalProtocolError
from parley.spark.write.intent import BatchOfQuery, Intent, OpenTransaction
from parley.spark.write.interfaces import Outcome
from parley.spark.write.messages import NothingToCommit, Prepared
from parley.spark.write.turns import Identity


class Step(Enum):
    """What a task does."""

    WRITE = "write"
    PASS_OVER = "pass over"


def step_for(what: BatchOfQuery, last: BatchOfQuery | None) -> Step:
    """Return what a task of a batch does, given the batch written last.

    Raises LocalProtocolError for a batch older than that: its checkpoint was put back, and writing
    it again would duplicate what is in the topic.
    """
    if last is None or last.query != what.query or what.batch > last.batch:
        return Step.WRITE
    if what.batch == last.batch:
        return Step.PASS_OVER
    raise LocalProtocolError(
        f"batch {what.batch} of query {what.query} is to be written, but batch "
        f"{last.batch} was written before: the checkpoint is older than the topic "
        "(was it put back from a copy?). Nothing was written. To write these "
        "batches a second time, give the query another transactionalIdPrefix."
    )


def to_decide(messages: Sequence[object]) -> tuple[Identity, BatchOfQuery, list[Prepared]] | None:
    """Return identity, batch and open transactions of a batch's messages; None without any.

    Raises LocalProtocolError where messages of different plans or batches are mixed: Spark commits
    one message per task of one batch, so that this is a bug in Spark or here. Nothing is committed
    then.
    """
    prepared = [message for message in messages if isinstance(message, Prepared)]
    if not prepared:
        return None
    fences = {
        message.plan_fence
        for message in messages
        if isinstance(message, Prepared | NothingToCommit)
    }
    batches = {message.what for message in prepared}
    slots = {message.transaction.slot for message in prepared}
    skipped = any(
        isinstance(message, NothingToCommit) and message.written_before for message in messages
    )
    if len(fences) != 1 or len(batches) != 1 or len(slots) != len(prepared) or skipped:
        raise LocalProtocolError(
            f"the messages of a batch do not belong together: {len(fences)} plans, {len(batches)} "
            f"batches, {len(slots)} tasks for {len(prepared)} transactions; nothing was committed"
        )
    return fences.pop(), batches.pop(), prepared


def another_driver(prefix: str) -> KafkaError:
    """Return (not raise) the error of a driver that another one has taken over from."""
    return LocalProtocolError(
        f'another driver writes with the transactional id prefix "{prefix}" and has '
        "taken over: this one stops, and nothing of it was committed. Two queries "
        "must not share a checkpoint location or a transactionalIdPrefix."
    )


def lost(intent: Intent, failed: Sequence[tuple[OpenTransaction, Outcome]]) -> DataLossError:
    """Return the error for a decided batch whose transactions ended before the commit."""
    rows = sum(one.rows for one, _ in failed)
    tasks = ", ".join(
        f"task {one.slot} ({one.rows} rows, {_WHY[outcome]})" for one, outcome in failed
    )
    return DataLossError(
        f"batch {intent.what.batch} of query {intent.what.query} was decided, but "
        f"{len(failed)} of its {len(intent.transactions)} transactions could not be committed "
        f"any more: {tasks}. {rows} of {intent.rows} rows are missing from the topic, the "
        "others are written. This happens when the driver is away for longer than the "
        "transaction time-out: raise kafka.transaction.timeout.ms. The rows are those of "
        f"these tasks between the offsets of batch {intent.what.batch} in the checkpoint. To "
        'go on without them, start the query once with option("lostTransactions", "continue").'
    )


_WHY = {
    Outcome.FENCED: "expired",
    Outcome.OTHERWISE: "aborted",
    Outcome.FORGOTTEN: "unknown to the coordinator, perhaps committed long ago",
}
