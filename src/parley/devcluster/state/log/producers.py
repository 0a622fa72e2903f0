"""What a replica remembers of idempotent producers (KIP-98): ids, epochs and the last five batches.

Rules of this file:
1. A batch already held (same producer, epoch and sequences) is a success with its first offset.
2. A batch that skips or repeats sequences is refused before it is appended; the refused one leaves
   no trace.
3. Every replica builds this state from the batches it appends, so that a new leader has it.
4. Sequences wrap from 2^31-1 to 0.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from parley.devcluster.state.log.batches import BatchFacts
from parley.devcluster.state.log.transactions import PartitionTransactions
from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
)

# ProducerStateEntry.NUM_BATCHES_TO_RETAIN: the most requests a producer may have in flight
BATCHES_REMEMBERED = 5
LARGEST_SEQUENCE = 2**31 - 1


class ProducerRules(NamedTuple):
    """What releases differ in.

    `unknown_code` refuses a producer without state that does not begin at sequence 0; None lets it
    begin anywhere (KIP-360, 2.5+). `remembered` is how many batches are recognised when sent again.
    """

    unknown_code: int | None = None
    remembered: int = BATCHES_REMEMBERED


DEFAULT_RULES = ProducerRules()


class AppendedBatch(NamedTuple):
    """A batch that was appended: enough to recognise it when it is sent again."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


@dataclass(slots=True)
class ProducerState:
    """One producer id on one partition."""

    producer_id: int
    epoch: int
    batches: deque[AppendedBatch] = field(default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED))
    coordinator_epoch: int = -1
    timestamp_ms: int = -1

    @property
    def last_sequence(self) -> int:
        """The sequence of the newest record, or -1."""
        return self.batches[-1].last_sequence if self.batches else -1


class Producers:
    """All producer ids seen on one partition, and their transactions."""

    def __init__(self) -> None:
        self._by_id: dict[int, ProducerState] = {}
        self.transactions = PartitionTransactions()

    def __len__(self) -> int:
        return len(self._by_id)

    def states(self) -> list[ProducerState]:
        """Return the state of every producer, by id (DescribeProducers)."""
        return [self._by_id[key] for key in sorted(self._by_id)]

    def epoch_of(self, producer_id: int) -> int:
        """Return the newest epoch of a producer, -1 when none is known."""
        state = self._by_id.get(producer_id)
        return -1 if state is None else state.epoch

    def check(self, batch: BatchFacts, rules: ProducerRules) -> AppendedBatch | None:
        """Return the batch held already if `batch` repeats it, None if it may be appended.

        Raises Refused with the code for the producer; nothing is changed then.
        """
        state = self._by_id.get(batch.producer_id)
        if state is None:
            if batch.base_sequence > 0 and rules.unknown_code is not None:
                raise Refused(
                    rules.unknown_code, f"no record of producer {batch.producer_id} is left"
                )
            return None
        if batch.producer_epoch < state.epoch:
            raise Refused(
                INVALID_PRODUCER_EPOCH,
                f"producer {batch.producer_id} sent epoch {batch.producer_epoch}, the "
                f"current one is {state.epoch}",
            )
        if batch.producer_epoch > state.epoch:
            if batch.base_sequence != 0:
                raise Refused(
                    OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {batch.producer_id} begins epoch {batch.producer_epoch} at "
                    f"{batch.base_sequence}, not 0",
                )
            return None
        held = self._check_sequence(state, batch, rules)
        is_open = self.transactions.first_offset(batch.producer_id) is not None
        if held is None and is_open and not batch.is_transactional:
            raise Refused(
                INVALID_TXN_STATE,
                f"producer {batch.producer_id} has a transaction open on this partition",
            )
        return held

    @staticmethod
    def _check_sequence(
        state: ProducerState, batch: BatchFacts, rules: ProducerRules
    ) -> AppendedBatch | None:
        for held in list(state.batches)[-rules.remembered :]:
            if (
                held.base_sequence == batch.base_sequence
                and held.last_sequence == batch.last_sequence
            ):
                return held
        last = state.last_sequence
        if batch.base_sequence != (last + 1) & LARGEST_SEQUENCE:
            raise Refused(
                OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {state.producer_id} sent sequence {batch.base_sequence} after {last}",
            )
        return None

    def note(self, batch: BatchFacts) -> None:
        """Remember a batch that was appended. Batches without a producer id change nothing."""
        if batch.producer_id < 0 or batch.magic < 2:
            return
        state = self._by_id.get(batch.producer_id)
        if state is None or batch.producer_epoch > state.epoch:
            state = ProducerState(batch.producer_id, batch.producer_epoch)
            self._by_id[batch.producer_id] = state
        state.timestamp_ms = batch.max_timestamp_ms
        self.transactions.note(batch)
        if batch.is_control:
            state.coordinator_epoch = batch.coordinator_epoch
            return
        state.batches.append(
            AppendedBatch(
                batch.base_sequence,
                batch.last_sequence,
                batch.base_offset,
                batch.last_offset,
                batch.max_timestamp_ms,
            )
        )

    def rebuild(self, batches: Iterable[BatchFacts]) -> None:
        """Forget everything and learn it again from the batches left (recovery, truncation)."""
        self._by_id.clear()
        self.transactions = PartitionTransactions()
        for batch in batches:
            self.note(batch)
