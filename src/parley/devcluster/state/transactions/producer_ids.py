"""Producer ids and epochs (KIP-98): handed out once in the life of a cluster, never again."""

from __future__ import annotations

from typing import NamedTuple

LARGEST_EPOCH = 2**15 - 2  # 32767 is kept for fencing (TransactionMetadata.exhausted)


class ProducerIdentity(NamedTuple):
    """What a producer writes into its batches."""

    producer_id: int
    epoch: int


class ProducerIds:
    """The next producer id of a cluster."""

    def __init__(self) -> None:
        self.next_id = 0

    def restore(self, next_id: int) -> None:
        """Go on where an earlier life of the cluster stopped."""
        self.next_id = max(self.next_id, next_id)

    def new(self) -> int:
        """Return an id that nobody had before."""
        self.next_id += 1
        return self.next_id - 1
