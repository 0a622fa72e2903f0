"""What waits to be written to one partition, and in which order it may go. Pure.

1. Batches of a partition are in the log in the order in which they were given.
2. After a failure nothing more goes out until every batch in flight was answered; then all that are
   not in the log go again, in their order. An idempotent partition may have several in flight, any
   other has one: a retry could otherwise overtake its successor.
3. At most WINDOW batches lie between the first open one and the newest one sent. Until the first
   acknowledgement under an epoch there is one batch in flight: a broker that knows nothing of the
   producer would take a later batch before the first one.
4. A topic that was deleted and created again is another log: its batches are numbered from 0 there,
   under the next epoch, but only when none of them can be in it already, as one whose answer was
   lost may be.
5. A call that failed stays failed: what comes for its batches later changes nothing
   (CVE-2026-35554's lesson). Encoded bytes are never changed while they may still be sent; stamping
   again copies them.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from parley.client.produce.sequences import PartitionSequences, next_sequence
from parley.client.results import BatchAck, PartitionAck
from parley.errors import KafkaError
from parley.records import Buffer
from parley.types import ZERO_UUID, TopicPartition

WINDOW = 5
"""Batches per partition from the first unanswered one on, answered ones
between them counted: a broker remembers that many of an idempotent
producer. It would not recognize an older one as a duplicate.
"""

AT_ONCE = 5
"""New leaders tried in a row without a pause: hints may send a batch round and round."""


class InTransaction(NamedTuple):
    """A batch's transaction, and the protocol's generation it is written in (KIP-890)."""

    transactional_id: str
    generation: int


class ProduceCall:
    """One call's batches: how many are open, what was acknowledged, what went wrong."""

    partition: TopicPartition | None = None
    """The only one that it writes to, where there is only one."""

    def __init__(self) -> None:
        self.open = 0
        self.error: KafkaError | None = None
        self.idempotent = True
        self._acks: dict[TopicPartition, list[tuple[tuple[int, ...], BatchAck]]] = {}

    @property
    def settled(self) -> bool:
        """Whether nothing more can change what the caller learns."""
        return self.open == 0 or self.error is not None

    def opened(self) -> None:
        """Count a batch that must be acknowledged."""
        self.open += 1

    def replaced(self, pieces: list[OutBatch]) -> None:
        """Take note of what goes instead of one of its batches."""
        self.open += len(pieces) - 1

    def acknowledged(self, batch: OutBatch, base_offset: int, log_append_time_ms: int) -> None:
        """Take note of a batch that is in the log."""
        self.open -= 1
        self.idempotent = self.idempotent and batch.is_idempotent
        ack = BatchAck(base_offset, batch.records, log_append_time_ms)
        self._acks.setdefault(batch.tp, []).append((batch.serial, ack))

    def failed(self, error: KafkaError, *, in_doubt: bool = False) -> None:
        """Take note of the first error; a later one does not replace it."""
        self.open -= 1
        self.give_up(error, in_doubt=in_doubt)

    def give_up(self, error: KafkaError, *, in_doubt: bool) -> None:
        """Take note of the first error. `in_doubt`: something of it may be in a log all the same,
        or still get there.
        """
        if self.error is None:
            self.error = error

    def acks(self) -> dict[TopicPartition, PartitionAck]:
        """Return what was acknowledged, in the order of the rows."""
        found = {}
        for tp, acks in sorted(self._acks.items()):
            found[tp] = PartitionAck(tp, tuple(ack for _, ack in sorted(acks)))
        return found


@dataclass(slots=True, eq=False)
class OutBatch:
    """One encoded record batch on its way."""

    tp: TopicPartition
    data: Buffer
    records: int
    magic: int
    codec: int
    call: ProduceCall
    acks: int
    deadline_ms: int
    timeout_ms: int
    producer_id: int = -1
    epoch: int = -1
    base_sequence: int = -1
    level: int | None = None
    serial: tuple[int, ...] = ()
    attempted: bool = False
    """Whether it was sent once, so that its bytes may be in the log as they are."""
    must_split: bool = False
    needs_idempotence: bool = False
    """Whether the caller insists on it: then nothing may be written without."""
    convert_to: int | None = None
    settled: bool = False
    """Acknowledged, given up, or replaced by others."""
    sent_to: bytes = ZERO_UUID
    """Id of the topic it was last sent to, ZERO_UUID where it went by name."""
    maybe_in: bytes | None = None
    """Where it may lie unanswered: a topic's id, ZERO_UUID for any of its name."""
    counted: bool = False
    """Whether its bytes count against buffer_memory."""
    transaction: InTransaction | None = None
    in_doubt: bool = False
    """Whether an attempt got no answer, or one that does not say whether it was written."""

    @property
    def size(self) -> int:
        """Its bytes."""
        return len(self.data)

    @property
    def is_idempotent(self) -> bool:
        """Whether it carries a producer's id and sequence."""
        return self.producer_id >= 0

    @property
    def needs_work(self) -> bool:
        """Whether it must be rewritten before it can be sent again."""
        return self.must_split or self.convert_to is not None


@dataclass(slots=True)
class PartitionLog:
    """The batches of one partition: waiting, in flight, and to be sent again."""

    tp: TopicPartition
    queue: deque[OutBatch] = field(default_factory=deque)
    in_flight: list[OutBatch] = field(default_factory=list)
    to_retry: list[OutBatch] = field(default_factory=list)
    rewriting: list[OutBatch] = field(default_factory=list)
    """Those of `to_retry` that cannot go as they are, until there is what goes instead of them."""
    numbers: PartitionSequences | None = None
    window: deque[OutBatch] = field(default_factory=deque)
    newest_magic: int = 2
    """The newest record format that the topic takes, as far as its leader has said (error 43)."""
    confirmed: bool = False
    topic_id: bytes = ZERO_UUID
    reborn: bool = False
    """Whether the topic is another of that name since batches were numbered (KIP-516)."""
    locked: bool = False
    restamp: bool = False
    not_before_ms: int = 0
    attempts: int = 0
    failed_epoch: int | None = None
    hops: int = 0
    """Leaders that failed one after the other since the last acknowledgement."""
    last_error: KafkaError | None = None
    acked_next: int = 0
    """The sequence after the latest batch of this numbering that is acknowledged."""
    in_doubt: bool = False
    """Whether a batch was given up that may be in the log, or may still get there."""
    look_again_ms: int | None = None
    """When the first open batch may be overdue; earlier where that one is settled by now."""
    _serials: itertools.count[int] = field(default_factory=itertools.count)
    _acked_serial: tuple[int, ...] = ()

    def see_topic(self, topic_id: bytes) -> None:
        """Take note of the topic's id as metadata has it now."""
        if topic_id in (ZERO_UUID, self.topic_id):
            return
        if self.topic_id != ZERO_UUID:
            self.reborn, self.confirmed = True, False
        self.topic_id = topic_id

    def begin_again(self) -> None:
        """Let open batches be numbered again for another topic (rule 4), once that is safe.

        Mutates: sets `restamp`, and never clears it; with nothing open the numbering starts over at
        once. A transaction keeps its one epoch: what becomes of it is decided there.
        """
        if not self.reborn or self.in_flight or self.locked:
            return
        unsure = (batch for batch in (*self.to_retry, *self.window) if not batch.settled)
        if any(batch.maybe_in in (ZERO_UUID, self.topic_id) for batch in unsure):
            return
        if self.numbers is None or any(
            batch.transaction is not None for batch in self.open_batches()
        ):
            return
        self.reborn = False
        if self.is_empty and self.numbers.start_over():
            self.numbered_again()
        else:
            self.restamp = True

    def add(self, batch: OutBatch) -> None:
        """Queue a new batch behind the others."""
        if self.is_empty or self.look_again_ms is None:
            self.look_again_ms = batch.deadline_ms
        self.look_again_ms = min(self.look_again_ms, batch.deadline_ms)
        batch.serial = (next(self._serials),)
        self.queue.append(batch)

    def replace_first(self, count: int, batch: OutBatch) -> None:
        """Let one batch stand for the first ones of the queue, which were never sent."""
        for _ in range(count):
            self.queue.popleft().settled = True
        self.queue.appendleft(batch)

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits, nothing is in flight and nothing is to be retried."""
        return not (self.queue or self.in_flight or self.to_retry or self.rewriting)

    def sendable(self, now_ms: int, leader_epoch: int, max_in_flight: int) -> OutBatch | None:
        """Return the batch to send now, or None. A new leader ends the backoff (K5)."""
        if not self.queue or self.to_retry or self.locked:
            return None
        if self.not_before_ms > now_ms and (
            leader_epoch == self.failed_epoch or self.hops > AT_ONCE
        ):
            return None
        head = self.queue[0]
        if not head.is_idempotent or not self.confirmed:
            return None if self.in_flight else head
        while self.window and self.window[0].settled:
            self.window.popleft()
        is_new = head not in self.window
        fits = len(self.in_flight) < max_in_flight and (len(self.window) < WINDOW or not is_new)
        return head if fits else None

    def sent(self, batch: OutBatch) -> None:
        """Move the head of the queue into flight."""
        self.queue.popleft()  # `sendable` gives out nothing but the head
        batch.attempted = True
        if batch.is_idempotent and batch not in self.window:
            self.window.append(batch)
        self.in_flight.append(batch)

    def acknowledged(self, batch: OutBatch) -> None:
        """Take a batch out: it is in the log, and so the numbering is known to the broker."""
        self.in_flight.remove(batch)
        batch.settled = True
        self.attempts, self.not_before_ms, self.failed_epoch, self.hops = 0, 0, None, 0
        if self.is_current(batch):
            self.confirmed = True
            if batch.serial > self._acked_serial:  # a retry is answered after its successors
                self._acked_serial = batch.serial
                self.acked_next = next_sequence(batch.base_sequence, batch.records)

    def failed(self, batch: OutBatch, now_ms: int, delay_ms: int, leader_epoch: int) -> None:
        """Keep a batch for another attempt, not before the delay has passed."""
        self.in_flight.remove(batch)
        if batch.call.error is None:
            self.to_retry.append(batch)
        else:
            batch.settled = True
            self.in_doubt = self.in_doubt or batch.in_doubt
        self.attempts += 1
        self.not_before_ms = max(self.not_before_ms, now_ms + delay_ms)
        if leader_epoch != self.failed_epoch:
            self.failed_epoch, self.hops = leader_epoch, self.hops + 1

    def dropped(self, batch: OutBatch) -> None:
        """Take a batch out that will not be written, wherever it is."""
        batch.settled = True
        self.in_doubt = self.in_doubt or batch.in_doubt
        for place in (self.in_flight, self.to_retry, self.rewriting, self.queue):
            if batch in place:
                place.remove(batch)

    def is_lowest(self, batch: OutBatch) -> bool:
        """Return whether no earlier batch of the partition is still open."""
        return all(other.serial >= batch.serial for other in (*self.in_flight, *self.to_retry))

    def is_current(self, batch: OutBatch) -> bool:
        """Return whether a batch carries the numbering that is in use now."""
        numbers = self.numbers
        return numbers is not None and (batch.producer_id, batch.epoch) == (
            numbers.producer_id,
            numbers.epoch,
        )

    @property
    def settled(self) -> bool:
        """Whether the batches to be retried can be put back: everything in flight was answered."""
        return bool(self.to_retry or self.restamp) and not self.in_flight and not self.locked

    def numbered_again(self) -> None:
        """Take note that all open batches begin a new epoch: the broker has seen none of it yet."""
        self.queue.clear()
        self.window.clear()
        self.confirmed = False

    def rewind(self) -> None:
        """Go back to behind the latest acknowledged batch: those given up are not in the log."""
        self.window.clear()
        if self.numbers is not None:
            self.numbers.next = self.acked_next

    def renumber(self) -> None:
        """Forget the numbering: a new one begins, under another epoch."""
        self.window.clear()
        self.numbers, self.acked_next, self.last_error = None, 0, None
        self.confirmed = self.in_doubt = False

    def begin_rewriting(self) -> None:
        """Lock the partition; what is to be retried stays open until it is put back."""
        self.locked, self.to_retry, self.rewriting = True, [], self.to_retry
        self.rewriting.sort(key=lambda batch: batch.serial)

    def put_back(self, batches: Iterable[OutBatch] | None = None) -> None:
        """Put batches to be retried (or what became of them) first in the queue, in order."""
        again = sorted(
            self.to_retry if batches is None else batches, key=lambda batch: batch.serial
        )
        self.to_retry, self.rewriting = [], []
        pieces = (one for one in again if one.is_idempotent and one not in self.window)
        if (first := next(pieces, None)) is not None:
            # Of a refused batch nothing is in the log, and so nothing of what was sent behind it.
            # Left in the window, these would fill it before the pieces, which are to go first.
            self.window = deque(one for one in self.window if one.serial < first.serial)
        self.queue.extendleft(reversed(again))

    def open_batches(self) -> list[OutBatch]:
        """Return all batches that are not settled, in order."""
        return sorted(
            (*self.in_flight, *self.to_retry, *self.rewriting, *self.queue),
            key=lambda batch: batch.serial,
        )

    def overdue(self, now_ms: int) -> list[OutBatch]:
        """Return the batches whose time is up and whose call has not failed, in order.

        Mutates: `look_again_ms`.
        """
        if self.look_again_ms is None or self.look_again_ms > now_ms:
            return []
        wanted = [batch for batch in self.open_batches() if batch.call.error is None]
        later = (batch.deadline_ms for batch in wanted if batch.deadline_ms > now_ms)
        self.look_again_ms = min(later, default=None)
        return [batch for batch in wanted if batch.deadline_ms <= now_ms]


Chosen = tuple[PartitionLog, OutBatch, int]
"""A batch to be sent, and the leader epoch it is sent under."""


def fill(ready: Iterable[Chosen], max_request_size: int) -> list[Chosen]:
    """Return one request's batches: one per partition, of equal acks and format.

    The first batch goes whatever its size; others as far as `max_request_size` allows, up to the
    first that does not fit: it is for the next request.
    """
    chosen: list[Chosen] = []
    size = 0
    for entry in ready:
        batch = entry[1]
        if chosen:
            first = chosen[0][1]
            if size + batch.size > max_request_size:
                break
            if (batch.acks, batch.magic) != (first.acks, first.magic):
                continue
        chosen.append(entry)
        size += batch.size
    return chosen
