"""What releases do differently when brokers die: leader epochs, and rising high watermarks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionRules:
    """The first two are the controller's, the last two are each leader's.

    `epoch_per_removal`: a follower that leaves the in-sync replicas because it died raises the
    leader epoch. `epoch_per_failover`: when the dead leader was the controller as well, its
    successor raises the epoch twice: it removes the replica first, then elects.
    `watermark_needs_min_isr`: with fewer in-sync replicas than min.insync.replicas the high
    watermark stands still (KAFKA-15583). `caps_min_isr`: of a partition with fewer replicas than
    min.insync.replicas all of them are enough; before, acks=all is refused there forever.
    """

    epoch_per_removal: bool = True
    epoch_per_failover: bool = False
    watermark_needs_min_isr: bool = False
    caps_min_isr: bool = False

    def min_isr(self, wanted: int, replicas: int) -> int:
        """Return how many of `replicas` must be in sync; `wanted` is min.insync.replicas.

        >>> ElectionRules(caps_min_isr=True).min_isr(2, 1)
        1
        """
        return min(wanted, replicas) if self.caps_min_isr else wanted
