"""What releases do differently when brokers die: leader epochs, and rising high watermarks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionRules:
    """The first two are the controller's, the last one is each leader's.

    `epoch_per_removal`: a follower that leaves the in-sync replicas because it died raises the
    leader epoch. `epoch_per_failover`: when the dead leader was the controller as well, its
    successor raises the epoch twice: it removes the replica first, then elects.
    `watermark_needs_min_isr`: with fewer in-sync replicas than min.insync.replicas the high
    watermark stands still (KAFKA-15583).
    """

    epoch_per_removal: bool = True
    epoch_per_failover: bool = False
    watermark_needs_min_isr: bool = False
