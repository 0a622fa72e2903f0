"""One partition being read: its position, and what an answer does to it. Pure.

1. The position is the next offset to ask for. Only whole batches move it; an error never does. What
   may be done with it is decided in `positions`, whether it is still the same topic in
   `recreation`.
2. A partition that got an error waits: not at all after a leader hint (KIP-951), else the backoff;
   and not under another leader epoch than the one that failed (K5, L14).
3. Where a reading is bounded in time, trouble that lasts longer ends it with its last error.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from parley.client.cluster.retry import Backoff
from parley.client.fetch.positions import DataLoss, PartitionPosition
from parley.client.fetch.recreation import Incarnation
from parley.errors import DataLossError, KafkaError, RequestTimedOut, broker_error
from parley.errors.codes import MESSAGE_TOO_LARGE
from parley.records import first_batch_bytes
from parley.types import TopicPartition

AT_ONCE = 5
"""New leaders asked in a row without a pause: hints may send a reader round and round."""

FIRST_BYTES, LEAST_BYTES, SPARE = 2**20, 2**16, 1.25
"""What is asked of a range with an end: at first, at least, and beyond the estimate."""

STUBBORN = 5
"""Failures in a row after which metadata is asked, whatever the error: none lags forever."""


class RawFetch(NamedTuple):
    """Record bytes of one partition, still to be decoded.

    `data` is a view of the receive buffer, which is used again once the view is gone: drop it soon.
    """

    tp: TopicPartition
    first_offset: int
    end_offset: int | None
    data: memoryview
    aborted: tuple[tuple[int, int], ...]
    next_offset: int = -1
    """Offset after its whole batches; the first offset where the very first is damaged."""
    epochs: tuple[tuple[int, int], ...] = ()
    """(next offset, leader epoch) of the last batch of each epoch, in order."""
    position_epoch: int = 0
    """The position epoch when this was asked for: stale after a seek or a reset."""

    def epoch_before(self, offset: int) -> int:
        """Return the leader epoch of the record before an offset here, -1 without one (P12)."""
        at = bisect_left(self.epochs, (offset, -1))
        return self.epochs[min(at, len(self.epochs) - 1)][1] if self.epochs else -1


class FetchPolicy(NamedTuple):
    """What a fetcher does about trouble, and what it has brokers remember."""

    patience_ms: int | None
    """How long trouble may last before it ends the reading; None: it never does."""
    sessions: bool = False
    """Whether brokers are asked to remember what is fetched (KIP-227)."""
    on_loss: Callable[[DataLoss], None] | None = None
    on_jump: Callable[[], None] | None = None
    """Called when a position has jumped: what was taken of it before must not be handed out."""


@dataclass(slots=True)
class PartitionFetch:
    """The state of reading one partition."""

    tp: TopicPartition
    positions: PartitionPosition
    end: int | None
    max_bytes: int
    topic: Incarnation = field(default_factory=Incarnation)
    by_wire: bool = True
    """Whether the leader's Fetch takes topic ids and so refuses old ones; unknown: yes."""
    paused: bool = False
    held: bool = False
    """Not fetched yet: the listener hears of it now, and may seek (G52)."""
    position_epoch: int = 0
    """The position epoch that `flight` and what is queued belong to."""
    flight: object | None = None
    """The request that this partition waits for; an answer to another one is not for it."""
    queued: int = 0
    attempts: int = 0
    not_before_ms: int = 0
    failed_epoch: int | None = None
    """Leader epoch that the last failed request carried: another one is tried at once (K5)."""
    hops: int = 0
    """Leaders that failed one after the other since the last answer without error."""
    troubled_since_ms: int | None = None
    idle_since_ms: int | None = None
    bytes_per_offset: float = 0.0
    """By the last answer with records; 0 before the first."""
    least_bytes: int = 0
    """What a record needed that a broker before KIP-74 would not return within less."""
    lost_range: int = 0
    """How often in a row a leader said that the position is out of its range."""
    preferred: tuple[int, int] | None = field(default=None)
    """Replica to read from instead of the leader, and until when (KIP-392)."""
    settled: tuple[tuple[int, int], int] | None = None
    """The leader that is to be asked, and the state of everything under which that was found."""
    high_watermark: int = -1
    last_stable_offset: int = -1

    def __post_init__(self) -> None:
        self.position_epoch = self.positions.position_epoch

    @property
    def position(self) -> int:
        """The next offset to ask for."""
        return self.positions.fetch.offset

    @property
    def busy(self) -> bool:
        """Whether a request for it is under way."""
        return self.flight is not None

    @property
    def done(self) -> bool:
        """Whether everything up to `end` has been fetched."""
        return self.end is not None and self.position >= self.end

    @property
    def wanted_bytes(self) -> int:
        """What to ask for: of a range with an end not much more than the rest seems to need.

        The broker does not know the end. What it sends behind it was read, sent and received for
        nothing. It is a byte at least: a broker before KIP-74 sends nothing at all to who asks for
        none, and nothing would say that more is needed.
        """
        if self.end is None:
            return max(1, self.max_bytes)
        guess = FIRST_BYTES
        if self.bytes_per_offset:
            guess = max(
                LEAST_BYTES, int((self.end - self.position) * self.bytes_per_offset * SPARE)
            )
        return max(1, min(self.max_bytes, max(guess, self.least_bytes)))

    @property
    def stubborn(self) -> bool:
        """Whether it has failed so often that its leader must be looked up again."""
        return self.attempts >= STUBBORN

    def follow_place(self) -> bool:
        """Take over the position of now; return whether what was fetched is of another history."""
        if self.position_epoch == self.positions.position_epoch:
            return False
        self.position_epoch = self.positions.position_epoch
        self.jumped()
        return True

    def jumped(self) -> None:
        """Forget what belongs to the position left: by a seek, a reset, or another topic."""
        self.flight = self.preferred = self.idle_since_ms = None
        self.lost_range = 0
        self.succeeded()

    def must_wait(self, now_ms: int, epoch: int) -> bool:
        """Return whether the pause after a failure holds; a new leader ends it (K5)."""
        return self.not_before_ms > now_ms and (epoch == self.failed_epoch or self.hops > AT_ONCE)

    def succeeded(self) -> None:
        """Take note of an answer without error."""
        self.attempts, self.not_before_ms, self.troubled_since_ms, self.failed_epoch = (
            0,
            0,
            None,
            None,
        )
        self.hops = 0

    def failed(
        self,
        error: KafkaError,
        now_ms: int,
        *,
        delay_ms: int,
        patience_ms: int | None,
        epoch: int = -1,
    ) -> KafkaError | None:
        """Note an error that may pass; return it once it has lasted `patience_ms` (None: never)."""
        self.attempts += 1
        self.not_before_ms = now_ms + delay_ms
        if epoch != self.failed_epoch:
            self.failed_epoch, self.hops = epoch, self.hops + 1
        self.preferred = None
        if self.troubled_since_ms is None:
            self.troubled_since_ms = now_ms
        lasted = now_ms - self.troubled_since_ms
        if patience_ms is None or lasted < patience_ms:
            return None
        error.add_note(f"reading {self.tp} from offset {self.position}: gave up after {lasted} ms")
        return error

    def idle(self, now_ms: int, patience_ms: int | None) -> KafkaError | None:
        """Note an answer without records; return an error if the promised end never comes."""
        high_watermark = self.high_watermark
        if self.end is None or patience_ms is None:
            return None
        if self.idle_since_ms is None:
            self.idle_since_ms = now_ms
        if now_ms - self.idle_since_ms < patience_ms:
            return None
        where = f"{self.tp}: offsets {self.position} to {self.end - 1} were to be read"
        if 0 <= high_watermark < self.end:
            return DataLossError(
                f"{where}, but the log ends at {high_watermark} and did not grow for "
                f"{patience_ms} ms",
                topic=self.tp.topic,
                partition=self.tp.partition,
                expected_offset=self.end,
                available_offset=high_watermark,
            )
        return RequestTimedOut(
            f"{where}, but the broker gave no records for {patience_ms} ms (an open "
            "transaction, perhaps)",
            stage="request",
        )

    def moved(self, next_offset: int, epoch: int = -1, size_bytes: int = 0) -> None:
        """Take note of `size_bytes` of whole batches up to `next_offset`. Mutates: the position."""
        if size_bytes:
            self.bytes_per_offset = size_bytes / (next_offset - self.position)
        self.positions.fetched(
            next_offset if self.end is None else min(next_offset, self.end), epoch
        )
        self.idle_since_ms = None
        self.lost_range = 0

    def grow(self, data: memoryview, limit: int) -> KafkaError | None:
        """Ask for more, as no whole batch came (brokers before KIP-74); an error at the limit."""
        asked = self.wanted_bytes
        said = first_batch_bytes(data)
        needed = said or 2 * asked
        if asked >= limit:
            bytes_needed = f"more than {asked} bytes" if said is None else f"{said} bytes"
            text = (
                f"the record at offset {self.position} needs {bytes_needed} and this "
                f"broker does not return it within fetch_max_bytes={limit}; raise "
                "fetch_max_bytes, or seek past it"
            )
            return broker_error(
                MESSAGE_TOO_LARGE,
                text,
                topic=self.tp.topic,
                partition=self.tp.partition,
                api="FETCH",
            )
        self.least_bytes = min(limit, max(2 * asked, needed))
        self.max_bytes = max(self.max_bytes, self.least_bytes)
        return None


def retry_delay(part: PartitionFetch, backoff: Backoff, rng: float, *, immediate: bool) -> int:
    """Return the pause before a partition is asked for again."""
    return 0 if immediate and part.hops < AT_ONCE else backoff.delay_ms(part.attempts, lambda: rng)
