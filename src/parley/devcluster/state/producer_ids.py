"""Producer ids and epochs (KIP-98): handed out once in the life of a cluster, never again."""

from __future__ import annotations

from typing import NamedTuple

from parley.devcluster.state.codes import INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, Refused

LARGEST_EPOCH = 2**15 - 2  # 32767 is kept for fencing (TransactionMetadata.exhausted)


class ProducerIdentity(NamedTuple):
    """What a producer writes into its batches."""

    producer_id: int
    epoch: int


class ProducerIds:
    """The next id, and the identity behind each transactional id."""

    def __init__(self) -> None:
        self.next_id = 0
        self.transactional: dict[str, ProducerIdentity] = {}

    def restore(self, next_id: int, transactional: dict[str, ProducerIdentity]) -> None:
        """Go on where an earlier life of the cluster stopped."""
        self.next_id = max(self.next_id, next_id)
        self.transactional.update(transactional)

    def new(self) -> ProducerIdentity:
        """Return an identity that nobody had before."""
        self.next_id += 1
        return ProducerIdentity(self.next_id - 1, 0)

    def bump(self, held: ProducerIdentity) -> ProducerIdentity:
        """Return the same producer one epoch later, or a new one when its epochs are used up (KIP-360)."""
        if held.epoch >= LARGEST_EPOCH:
            return self.new()
        return ProducerIdentity(held.producer_id, held.epoch + 1)

    def initialise(
        self, transactional_id: str | None, claimed: ProducerIdentity, *, fenced_code: bool = True
    ) -> ProducerIdentity:
        """Answer InitProducerId. `claimed` is the identity the producer says it has, (-1, -1) for none.

        `fenced_code`: answer PRODUCER_FENCED (v4+, KIP-588) rather than INVALID_PRODUCER_EPOCH.
        """
        if transactional_id is None:
            return self.new()
        held = self.transactional.get(transactional_id)
        if held is None:
            identity = self.new()
        elif claimed.producer_id >= 0 and claimed != held:
            raise Refused(PRODUCER_FENCED if fenced_code else INVALID_PRODUCER_EPOCH, "a newer producer has this id")
        else:
            identity = self.bump(held)
        self.transactional[transactional_id] = identity
        return identity
