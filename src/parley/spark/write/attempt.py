"""One task attempt of an exactly-once write: take a turn, write in a transaction, leave it open.

An attempt that fails aborts its own transaction, which nobody has heard of. What one leaves behind
that was killed is aborted by the driver, or by its time-out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from parley.spark.write.decisions import Step, step_for
from parley.spark.write.intent import BatchOfQuery, OpenTransaction
from parley.spark.write.interfaces import Coordination
from parley.spark.write.messages import NothingToCommit, Plan, Prepared
from parley.spark.write.turns import Identity, choose, id_name, turn_id_name

if TYPE_CHECKING:
    import pyarrow


class Writing(Protocol):
    """Writes rows inside a transaction and leaves it open."""

    def __call__(
        self, transactional_id: str, rows: Iterator[pyarrow.RecordBatch]
    ) -> tuple[Identity, int]:
        """Return the transaction's identity and number of rows, when all are acknowledged."""


def attempt(
    plan: Plan,
    what: BatchOfQuery,
    slot: int,
    rows: Iterator[pyarrow.RecordBatch],
    coordination: Coordination,
    write: Writing,
) -> Prepared | NothingToCommit:
    """Write the rows of task number `slot` and return what the driver needs to commit them.

    A task without rows asks no broker for anything. Raises LocalProtocolError as `step_for`.
    """
    pool = plan.pool if slot == 0 else None
    if step_for(what, plan.last) is Step.PASS_OVER:
        return NothingToCommit(plan.fence, written_before=True, pool=pool)
    first = next(rows, None)
    while first is not None and not first.num_rows:
        first = next(rows, None)
    if first is None:
        return NothingToCommit(plan.fence, pool=pool)
    (turn,) = coordination.init([turn_id_name(plan.prefix, slot)])
    recorded = plan.pool.get(slot)
    name = choose(recorded, turn)

    def all_rows() -> Iterator[pyarrow.RecordBatch]:
        yield first
        yield from rows

    identity, count = write(id_name(plan.prefix, slot, name), all_rows())
    return Prepared(
        plan.fence, what, OpenTransaction(slot, turn, name, identity, count), recorded, pool
    )
