"""Producer ids, epochs and sequence numbers of the idempotent producer (KIP-98, KIP-360): pure.

1. Every batch of a partition carries (producer id, producer epoch, first sequence); a retry carries
   the same ones, so that the broker can distinguish it from a new batch.
2. A batch whose fate is unknown (connection lost, timeout) is never stamped again: it may be in the
   log. It is sent again as it is until the broker says what became of it.
3. The broker refusing the *lowest* outstanding batch as out of order says that it is not in the
   log, and then no later one of the partition is either: they may all be stamped again.
4. Stamping again takes the next producer epoch of that partition and starts at sequence 0. The
   broker keeps its state per partition, so partitions need not move to the new epoch together.
5. Sequences run from 0 to 2^31-1 and start over at 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from parley.errors import LocalProtocolError
from parley.errors.codes import (
    DUPLICATE_SEQUENCE_NUMBER,
    INVALID_PRODUCER_EPOCH,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    UNKNOWN_PRODUCER_ID,
)

NO_PRODUCER_ID = -1
MAX_EPOCH = 2**15 - 1
_SEQUENCES = 2**31


class SequenceReaction(Enum):
    """What to do with a batch after an error that speaks of sequences."""

    ACKNOWLEDGED = "acknowledged"
    """The broker has it already: success, though its offset is unknown."""
    RETRY = "retry"
    """Send it again as it is."""
    RESTAMP = "restamp"
    """It is not in the log: stamp it and all later ones again, under a new epoch."""
    FAIL = "fail"


def next_sequence(sequence: int, records: int) -> int:
    """Return the sequence after a batch of `records` records.

    >>> next_sequence(5, 10), next_sequence(2**31 - 2, 3)
    (15, 1)
    """
    return (sequence + records) % _SEQUENCES


@dataclass(slots=True)
class PartitionSequences:
    """The numbering of one partition: who writes, in which epoch, and which sequence comes next."""

    producer_id: int
    epoch: int = 0
    next: int = 0

    def reserve(self, records: int) -> int:
        """Return the first of `records` sequences and move on. Mutates: `next`."""
        if records < 1:
            raise LocalProtocolError(
                f"{records} sequences were asked for; a batch has at least one record"
            )
        first = self.next
        self.next = next_sequence(first, records)
        return first

    def start_over(self) -> bool:
        """Move to the next epoch and sequence 0; False if none is left and a new id is needed."""
        if self.epoch >= MAX_EPOCH:
            return False
        self.epoch += 1
        self.next = 0
        return True

    def renew(self, producer_id: int, epoch: int) -> None:
        """Begin with a new producer id. Mutates: everything."""
        self.producer_id, self.epoch, self.next = producer_id, epoch, 0


def react(
    error_code: int, *, is_lowest: bool, is_current: bool, log_start_offset: int = -1
) -> SequenceReaction | None:
    """Return what to do about an error code that speaks of sequences, None for any other code.

    `is_lowest`: no earlier batch of the partition is outstanding. `is_current`: the batch carries
    the partition's current id and epoch (it was not stamped again meanwhile).
    """
    if error_code == DUPLICATE_SEQUENCE_NUMBER:
        return SequenceReaction.ACKNOWLEDGED
    if error_code == OUT_OF_ORDER_SEQUENCE_NUMBER:
        return SequenceReaction.RESTAMP if is_lowest and is_current else SequenceReaction.RETRY
    if error_code == UNKNOWN_PRODUCER_ID:
        # The broker lost what it knew of this producer, mostly because
        # retention removed all its records. Without a log start offset the
        # partition is just moving: Java retries as it is, and so do we.
        known = log_start_offset >= 0
        return (
            SequenceReaction.RESTAMP
            if known and is_lowest and is_current
            else SequenceReaction.RETRY
        )
    if error_code == INVALID_PRODUCER_EPOCH:
        return SequenceReaction.FAIL if is_current else SequenceReaction.RETRY
    return None
