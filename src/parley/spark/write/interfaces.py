"""What the driver and a task need of Kafka, and nothing else: tests put a model in its place."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from parley.spark.write.intent import Entry, Intent, Newest
from parley.spark.write.turns import Identity


class Outcome(Enum):
    """What a coordinator answered to an EndTxn."""

    ENDED = "ended"
    """As asked; also when it had been ended so before."""
    OTHERWISE = "otherwise"
    """It is not open, and it was not ended the way that was asked for (INVALID_TXN_STATE)."""
    FENCED = "fenced"
    """The epoch is over: INVALID_PRODUCER_EPOCH or PRODUCER_FENCED, after a time-out too."""
    FORGOTTEN = "forgotten"
    """The coordinator does not know the id any more (INVALID_PRODUCER_ID_MAPPING)."""


class ToEnd(NamedTuple):
    """A transaction to be ended by whoever knows its name and identity."""

    transactional_id: str
    identity: Identity


class Coordination(Protocol):
    """The transaction coordinators."""

    def init(self, transactional_ids: Sequence[str]) -> list[Identity]:
        """Return a new identity for each id, in order; what was open is aborted."""

    def end(self, transactions: Sequence[ToEnd], *, commit: bool) -> list[Outcome]:
        """End transactions of any process, several at a time. Raises what stays unanswered."""


class Journal(Protocol):
    """The query's journal."""

    def read(self) -> Newest:
        """Write a mark, and return the newest intent in front of it. Waits for
        transactions that are being ended.
        """

    def write(self, entry: Entry) -> None:
        """Write an entry for everybody to see."""

    def decide(self, intent: Intent, transactional_id: str) -> None:
        """Write an intent in a transaction of `transactional_id` by `intent.by`; commit it.

        Raises ProducerFencedError, and nothing is decided, where the identity is over.
        """
