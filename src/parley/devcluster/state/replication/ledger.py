"""Which records were acknowledged by all in-sync replicas, so that a check can miss them.

Rules of this file:
1. A batch counts as acknowledged once its leader's high watermark has passed it: acks=all is
   answered then, and consumers may see it. acks=1 promises less, and nothing is kept of it.
2. What is forgotten is forgotten for a reason that has a name: an unclean election (`lose`),
   compaction (`cleaned`), or the end of the topic.
3. A batch is known by its base offset and a hash of its header, epoch included; its bytes are
   compared between replicas elsewhere. Two numbers each, like the index of the log that holds it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from parley.devcluster.state.log.batches import BatchFacts
from parley.devcluster.state.log.replica import Replica, ReplicaKey


@dataclass(frozen=True, slots=True)
class LostRecords:
    """Acknowledged records lost by an unclean election: `first_offset` to before `next_offset`."""

    topic: str
    partition: int
    first_offset: int
    next_offset: int
    leader_epoch: int

    @property
    def records(self) -> int:
        """How many offsets that are."""
        return self.next_offset - self.first_offset

    def __str__(self) -> str:
        where = f"{self.topic}-{self.partition}"
        if not self.records:
            return f"{where}: no acknowledged record, given up by epoch {self.leader_epoch}"
        last = self.next_offset - 1
        return (
            f"{where}: offsets {self.first_offset} to {last}, given up by epoch {self.leader_epoch}"
        )


class _Pending(NamedTuple):
    epoch: int
    base_offset: int
    last_offset: int
    digest: int


class _Acknowledged:
    """One partition's batches, by base offset."""

    __slots__ = ("bases", "digests", "end_offset")

    def __init__(self) -> None:
        self.bases = array("q")
        self.digests = array("q")
        self.end_offset = 0

    def add(self, one: _Pending) -> None:
        self.bases.append(one.base_offset)
        self.digests.append(one.digest)
        self.end_offset = one.last_offset + 1


class Ledger:
    """The acknowledged batches of every partition, and what was lost of them."""

    def __init__(self) -> None:
        self._pending: dict[ReplicaKey, deque[_Pending]] = {}
        self._acknowledged: dict[ReplicaKey, _Acknowledged] = {}
        self.lost: list[LostRecords] = []
        self.conflicts: list[str] = []

    def appended(self, leader: Replica, run: Sequence[BatchFacts]) -> None:
        """Note what a leader appended; `settle` counts it once the high watermark has passed."""
        pending = self._pending.setdefault(leader.key, deque())
        for facts in run:
            pending.append(
                _Pending(leader.leader_epoch, facts.base_offset, facts.last_offset, hash(facts))
            )

    def settle(self, leader: Replica) -> None:
        """Move what lies below the leader's high watermark to the acknowledged batches."""
        pending = self._pending.get(leader.key)
        while pending and pending[0].last_offset < leader.high_watermark:
            one = pending.popleft()
            # Of another epoch: a deposed leader took it,
            # and the history that goes on does not have it.
            if leader.epochs.epoch_at(one.base_offset) == one.epoch:
                self._note(leader, one)

    def _note(self, leader: Replica, one: _Pending) -> None:
        known = self._acknowledged.setdefault(leader.key, _Acknowledged())
        if one.base_offset < known.end_offset:
            self.conflicts.append(
                f"{leader.topic}-{leader.key.partition}: offset {one.base_offset} "
                f"was acknowledged a second time by broker {leader.broker_id} at "
                f"epoch {one.epoch}, acknowledged was up to {known.end_offset - 1}"
            )
            return
        known.add(one)

    def end_of(self, key: ReplicaKey) -> int:
        """Return the offset behind the last acknowledged record; 0 when there is none."""
        known = self._acknowledged.get(key)
        return 0 if known is None else known.end_offset

    def lose(self, leader: Replica) -> LostRecords:
        """Forget what a new leader does not have; return what that was. For unclean elections."""
        known, end = self._acknowledged.get(leader.key), leader.log.end_offset
        pending = self._pending.get(leader.key)
        if pending is not None:
            self._pending[leader.key] = deque(one for one in pending if one.last_offset < end)
        before = end if known is None else max(end, known.end_offset)
        lost = LostRecords(leader.topic, leader.key.partition, end, before, leader.leader_epoch)
        if known is not None and lost.records:
            keep = bisect_left(known.bases, end)
            del known.bases[keep:], known.digests[keep:]
            known.end_offset = end
            self.lost.append(lost)
        return lost

    def cleaned(self, leader: Replica, bound: int, untouched: Collection[int]) -> None:
        """Forget what a leader's cleaner took or rewrote below `bound`: all but the batches that
        begin at the offsets `untouched`.
        """
        self.settle(leader)
        known = self._acknowledged.get(leader.key)
        if known is None:
            return
        kept = [
            (base, digest)
            for base, digest in zip(known.bases, known.digests, strict=True)
            if base >= bound or base in untouched
        ]
        known.bases = array("q", [base for base, _ in kept])
        known.digests = array("q", [digest for _, digest in kept])

    def forget(self, topic_ids: frozenset[bytes] | set[bytes]) -> None:
        """Forget every partition of other topics than these."""
        for held in (self._pending, self._acknowledged):
            for key in [key for key in held if key.topic_id not in topic_ids]:
                del held[key]

    def missing(self, leader: Replica) -> Iterator[int]:
        """Yield base offsets of acknowledged batches that a leader does not have as they were."""
        self.settle(leader)
        known = self._acknowledged.get(leader.key)
        if known is None:
            return
        held = {
            facts.base_offset: hash(facts)
            for facts, _ in leader.log.batches_from(leader.log.start_offset)
        }
        for base, digest in zip(known.bases, known.digests, strict=True):
            if base >= leader.log.start_offset and held.get(base) != digest:
                yield base
