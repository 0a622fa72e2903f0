"""One broker's replica of one partition: its log and what a leader or follower keeps beside it.

Rules of this file:
1. Only a leader appends what clients send; a follower appends what its leader has, byte for byte.
2. The high watermark is the smallest end offset among the in-sync replicas. It never falls, except
   when a follower truncates to its leader's log.
3. A follower that begins to follow first cuts what its leader does not have, found by epoch
   (KIP-101), never by the high watermark.
4. An append that fails leaves offsets, producers and epochs as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from parley.devcluster.state.image import NO_LEADER
from parley.devcluster.state.log.batches import LEADER_EPOCH_AT, MAGIC_AT, BatchFacts, Bytes, walk
from parley.devcluster.state.log.bytestore import Part, whole
from parley.devcluster.state.log.epochs import EpochCache, EpochEnd
from parley.devcluster.state.log.log import Log
from parley.devcluster.state.log.producers import (
    DEFAULT_RULES,
    AppendedBatch,
    ProducerRules,
    Producers,
)
from parley.devcluster.state.refused import Refused
from parley.errors.codes import FENCED_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, UNKNOWN_LEADER_EPOCH

NO_EPOCH = -1


class ReplicaKey(NamedTuple):
    """A partition of one incarnation of a topic."""

    topic_id: bytes
    partition: int


class Prepared(NamedTuple):
    """A record set that was checked: one batch of magic 2, or a run of message-set entries.

    `facts` describes the magic-2 batch, counted from offset 0, and is None for the older formats.
    Where `finish` is None the leader writes offset and epoch into the first 16 bytes of `data`;
    else `finish(base offset, leader epoch)` gives the final bytes (the CRC covers what changes
    there). `is_own` says that nobody else sees `data`, a bytearray: the log may keep it.
    """

    data: Bytes
    facts: BatchFacts | None
    finish: Callable[[int, int], Bytes] | None = None
    is_own: bool = False


@dataclass(frozen=True, slots=True)
class Cleaned:
    """How far a log was cleaned: what lies below `first_dirty` has each key once.

    Logs with the same `round` have been cleaned together. Others may have other bytes `below` an
    offset.
    """

    first_dirty: int = 0
    below: int = 0
    round: str = ""

    def cut(self, end_offset: int) -> Cleaned:
        """Return the same of a log that ends here now."""
        return replace(self, first_dirty=min(self.first_dirty, end_offset))

    def differing(self, bound: int, name: str) -> Cleaned:
        """Return the same of a log of which something below `bound` was cleaned."""
        return replace(self, below=max(self.below, bound), round=name)


NEVER_CLEANED = Cleaned()

Run = tuple[Sequence[BatchFacts], Part]
"""Batches that lie in one piece, as the leader stored them."""


@dataclass(frozen=True, slots=True)
class Appended:
    """What Produce answers about one partition."""

    base_offset: int
    last_offset: int
    duplicate: bool = False
    duplicate_timestamp_ms: int = -1


class Replica:
    """A partition's log on one broker. `on_change`: after an append or a new high watermark."""

    def __init__(self, topic: str, key: ReplicaKey, broker_id: int, log: Log) -> None:
        self.topic = topic
        self.key = key
        self.broker_id = broker_id
        self.log = log
        self.epochs = EpochCache()
        self.producers = Producers()
        self.cleaned = NEVER_CLEANED
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.isr: tuple[int, ...] = ()
        self.watermark_min_isr = 1  # with fewer in-sync replicas the high watermark stands still
        self.high_watermark = log.start_offset
        self.ends: dict[int, int] = {}  # end offset of each follower, as far as the leader knows
        # that the log has held: shows when conversion or refusal must be thought of
        self.codecs: set[int] = set()
        self.on_change: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        role = "leader" if self.is_leader else f"follower of {self.leader_id}"
        return (
            f"Replica({self.topic}-{self.key.partition} on {self.broker_id}, {role}, end "
            f"{self.log.end_offset})"
        )

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition, as far as it knows."""
        return self.leader_id == self.broker_id

    @property
    def last_stable_offset(self) -> int:
        """Where read_committed stops: the first undecided record, at most the high watermark."""
        undecided = self.producers.transactions.first_unstable(self.high_watermark)
        if undecided is None:
            return self.high_watermark
        return min(self.high_watermark, max(undecided, self.log.start_offset))

    # -- leadership ----------------------------------------------------------------------------

    def lead(self, epoch: int, isr: tuple[int, ...]) -> None:
        """Become or stay leader at `epoch` with these in-sync replicas."""
        if epoch > self.leader_epoch or not self.is_leader:
            self.ends = {}
            self.epochs.assign(epoch, self.log.end_offset)
        self.leader_id, self.leader_epoch, self.isr = self.broker_id, epoch, isr
        self._raise_high_watermark()
        self._changed()

    def follow(self, leader_id: int, epoch: int, isr: tuple[int, ...]) -> None:
        """Become or stay follower of `leader_id` (or of nobody: NO_LEADER)."""
        self.leader_id, self.leader_epoch, self.isr = leader_id, epoch, isr
        self.ends = {}
        self._changed()

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Raise Refused if a client's leader epoch differs (KIP-320). -1: it has no idea."""
        if current_leader_epoch == NO_EPOCH or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise Refused(FENCED_LEADER_EPOCH, f"the leader epoch is {self.leader_epoch} already")
        raise Refused(
            UNKNOWN_LEADER_EPOCH, f"this broker knows no epoch above {self.leader_epoch} yet"
        )

    def require_leader(self) -> None:
        """Raise Refused (NOT_LEADER_OR_FOLLOWER) on any broker but the leader."""
        if not self.is_leader:
            raise Refused(
                NOT_LEADER_OR_FOLLOWER, f"broker {self.broker_id} does not lead {self.topic}"
            )

    # -- the leader's appends ------------------------------------------------------------------

    def append(
        self, sets: Sequence[Prepared], *, now_ms: int, rules: ProducerRules = DEFAULT_RULES
    ) -> tuple[Appended, list[Run]]:
        """Append as leader; return what to answer, and the runs for the followers.

        Raises Refused (not leader, sequence and epoch of the producer) or OSError (disk); nothing
        is kept then.
        """
        self.require_leader()
        first = self.log.end_offset
        runs: list[Run] = []
        for one in sets:
            held = self._duplicate(one.facts, rules)
            if held is not None:
                return Appended(held.base_offset, held.last_offset, True, held.timestamp_ms), []
            run, part = self._final(one, self.log.end_offset)
            try:
                shared = self.log.append(run, part, now_ms=now_ms)
            except OSError:
                self.truncate_to(first)
                raise
            self._note(run)
            runs.append((run, shared))
        self._raise_high_watermark()
        self._changed()
        return Appended(first, self.log.end_offset - 1), runs

    def _duplicate(self, facts: BatchFacts | None, rules: ProducerRules) -> AppendedBatch | None:
        if facts is None or facts.producer_id < 0 or facts.base_sequence < 0:
            return None
        return self.producers.check(facts, rules)

    def _final(self, one: Prepared, base_offset: int) -> Run:
        """Return a record set with its final offsets."""
        if one.finish is not None or one.facts is None:
            data = one.data if one.finish is None else one.finish(base_offset, self.leader_epoch)
            return [facts for _, facts in walk(data)], data
        head = memoryview(one.data) if one.is_own else bytearray(one.data[:MAGIC_AT])
        head[0:8] = base_offset.to_bytes(8, "big")
        head[LEADER_EPOCH_AT:MAGIC_AT] = self.leader_epoch.to_bytes(4, "big")
        facts = one.facts._replace(
            base_offset=base_offset,
            last_offset=base_offset + one.facts.last_offset - one.facts.base_offset,
            leader_epoch=self.leader_epoch,
        )
        if one.is_own:
            return (facts,), whole(one.data)
        return (facts,), (head, memoryview(one.data)[MAGIC_AT:])

    def _note(self, run: Sequence[BatchFacts]) -> None:
        for facts in run:
            self.producers.note(facts)
            self.codecs.add(facts.codec)

    def follower_at(self, follower: int, end_offset: int) -> None:
        """Note a follower's end offset; the high watermark may rise."""
        self.ends[follower] = end_offset
        if self._raise_high_watermark():
            self._changed()

    def caught_up(self, follower: int) -> bool:
        """Whether a follower has everything acknowledged and may join the in-sync replicas."""
        return self.ends.get(follower, -1) >= max(self.high_watermark, self.epochs_start())

    def epochs_start(self) -> int:
        """The offset at which the current epoch begins."""
        entries = self.epochs.entries()
        return (
            entries[-1][1]
            if entries and entries[-1][0] == self.leader_epoch
            else self.log.start_offset
        )

    def _raise_high_watermark(self) -> bool:
        if not self.is_leader or len(self.isr) < self.watermark_min_isr:
            return False
        behind = [self.ends.get(member, -1) for member in self.isr if member != self.broker_id]
        lowest = min([self.log.end_offset, *behind])
        if lowest <= self.high_watermark:
            return False
        self.high_watermark = lowest
        return True

    # -- the follower's side -------------------------------------------------------------------

    def replicate(self, run: Run, *, leader_epoch: int, now_ms: int) -> None:
        """Append what the leader has. Raises OSError; nothing is kept then.

        `leader_epoch` is the epoch that wrote it, which magic 0 and 1 cannot carry.
        """
        batches, part = run
        base = batches[0].base_offset if batches[0].magic == 2 else self.log.end_offset
        self.log.append(batches, part, now_ms=now_ms)
        self._note(batches)
        self.epochs.assign(leader_epoch, base)

    def heard_high_watermark(self, high_watermark: int) -> None:
        """Take over the leader's high watermark, as far as this log reaches."""
        known = min(high_watermark, self.log.end_offset)
        if known > self.high_watermark:
            self.high_watermark = known
            self._changed()

    def truncate_to(self, offset: int) -> None:
        """Cut the log, with the epochs and producers that lay behind the cut."""
        if not self.log.truncate_to(offset):
            return
        self.epochs.truncate_from_end(self.log.end_offset)
        self.producers.rebuild(facts for facts, _ in self.log.batches_from(self.log.start_offset))
        self.high_watermark = min(self.high_watermark, self.log.end_offset)
        self.cleaned = self.cleaned.cut(self.log.end_offset)

    def restart_at(self, offset: int) -> None:
        """Begin again at `offset`, empty: the leader's log begins behind this one's end."""
        self.log.restart_at(offset)
        self.epochs = EpochCache()
        self.producers = Producers()
        self.cleaned = NEVER_CLEANED
        self.high_watermark = offset

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """Answer OffsetForLeaderEpoch."""
        return self.epochs.end_of(epoch, self.log.end_offset)

    # -- life ----------------------------------------------------------------------------------

    def recover(self, check: Callable[[Bytes], bool] | None) -> None:
        """Load what an earlier life left on disk."""
        batches = self.log.recover(check)
        for facts in batches:
            if facts.leader_epoch != NO_EPOCH:
                self.epochs.assign(facts.leader_epoch, facts.base_offset)
            self.codecs.add(facts.codec)
        self.producers.rebuild(batches)
        # Only the leader knows what was acknowledged;
        # until it says so, nothing behind the start is.
        self.high_watermark = self.log.start_offset

    def _changed(self) -> None:
        for callback in tuple(self.on_change):
            callback()
