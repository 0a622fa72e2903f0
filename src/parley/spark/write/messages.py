"""What goes from the driver to its tasks and back: plain values that can be pickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql.datasource import WriterCommitMessage

from parley.spark.write.intent import BatchOfQuery, OpenTransaction
from parley.spark.write.turns import Identity, Slot


@dataclass(frozen=True, slots=True)
class Plan:
    """What tasks of one micro-batch know: who they write for, and what was written before."""

    prefix: str
    fence: Identity
    """The driver's identity: intents need it while no other driver has planned."""
    last: BatchOfQuery | None = None
    """The batch written last, of this query or of another with the same prefix."""
    pool: Mapping[int, Slot] = field(default_factory=dict)


@dataclass
class WrittenRows(WriterCommitMessage):  # type: ignore[misc]  # pyspark comes without types
    """At least once: how many rows were acknowledged."""

    rows: int


@dataclass
class Prepared(WriterCommitMessage):  # type: ignore[misc]  # pyspark comes without types
    """Exactly once: rows acknowledged inside a transaction that the driver has to end."""

    plan_fence: Identity
    what: BatchOfQuery
    transaction: OpenTransaction
    recorded: Slot | None
    """What the plan said of the slot: needed to name what other attempts left behind."""
    pool: Mapping[int, Slot] | None = None
    """The plan's whole pool, in the message of task 0: the driver commits in another
    process than it planned in.
    """


@dataclass
class NothingToCommit(WriterCommitMessage):  # type: ignore[misc]  # pyspark comes without types
    """Exactly once: a task without rows, or one of a batch that is written already."""

    plan_fence: Identity
    written_before: bool = False
    pool: Mapping[int, Slot] | None = None
