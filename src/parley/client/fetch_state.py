"""One partition being read: its position and what an answer does to it. Pure, the time is an argument.

1. The position is the next offset to ask for. Only whole batches move it; an error never does.
2. A partition that got an error waits: not at all after a leader hint (KIP-951), else the backoff.
3. Trouble that lasts longer than the call's timeout ends the reading with its last error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from parley.client.retry import Backoff
from parley.errors import DataLossError, KafkaError, RequestTimedOut, TopicRecreatedError, broker_error
from parley.records import first_batch_bytes
from parley.types import ZERO_UUID, TopicPartition, format_uuid

MESSAGE_TOO_LARGE = 10
AT_ONCE = 5
"""New leaders that are asked without a pause, one after the other: hints may send a reader round and round."""


class RawFetch(NamedTuple):
    """Record bytes of one partition, still to be decoded.

    `data` is a view of the receive buffer, which is used again once the view is gone: drop it soon.
    """

    tp: TopicPartition
    first_offset: int
    end_offset: int | None
    data: memoryview
    aborted: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class PartitionFetch:
    """The state of reading one partition."""

    tp: TopicPartition
    position: int
    end: int | None
    max_bytes: int
    topic_id: bytes = ZERO_UUID
    """The topic's id when the reading began; offsets of a topic re-created under its name are others."""
    busy: bool = False
    attempts: int = 0
    not_before_ms: int = 0
    failed_epoch: int | None = None
    """Leader epoch that the last failed request carried: another one is tried at once (K5)."""
    hops: int = 0
    """Leaders that failed one after the other since the last answer without error."""
    troubled_since_ms: int | None = None
    idle_since_ms: int | None = None
    preferred: tuple[int, int] | None = field(default=None)
    """Replica to read from instead of the leader, and until when (KIP-392)."""

    @property
    def done(self) -> bool:
        """Whether everything up to `end` has been fetched."""
        return self.end is not None and self.position >= self.end

    def must_wait(self, now_ms: int, epoch: int) -> bool:
        """Return whether the pause after a failure holds; a new leader ends it (K5)."""
        return self.not_before_ms > now_ms and (epoch == self.failed_epoch or self.hops > AT_ONCE)

    def succeeded(self) -> None:
        """Take note of an answer without error."""
        self.attempts, self.not_before_ms, self.troubled_since_ms, self.failed_epoch = 0, 0, None, None
        self.hops = 0

    def failed(
        self, error: KafkaError, now_ms: int, *, delay_ms: int, patience_ms: int, epoch: int = -1
    ) -> KafkaError | None:
        """Take note of an error that may pass; return it when it has lasted longer than `patience_ms`."""
        self.attempts += 1
        self.not_before_ms = now_ms + delay_ms
        if epoch != self.failed_epoch:
            self.failed_epoch, self.hops = epoch, self.hops + 1
        self.preferred = None
        if self.troubled_since_ms is None:
            self.troubled_since_ms = now_ms
        lasted = now_ms - self.troubled_since_ms
        if lasted < patience_ms:
            return None
        error.add_note(f"reading {self.tp} from offset {self.position}: gave up after {lasted} ms")
        return error

    def idle(self, now_ms: int, high_watermark: int, patience_ms: int) -> KafkaError | None:
        """Take note of an answer without records; return an error when the promised end never comes."""
        if self.end is None:
            return None
        if self.idle_since_ms is None:
            self.idle_since_ms = now_ms
        if now_ms - self.idle_since_ms < patience_ms:
            return None
        where = f"{self.tp}: offsets {self.position} to {self.end - 1} were to be read"
        if 0 <= high_watermark < self.end:
            return DataLossError(
                f"{where}, but the log ends at {high_watermark} and did not grow for {patience_ms} ms",
                topic=self.tp.topic,
                partition=self.tp.partition,
                expected_offset=self.end,
                available_offset=high_watermark,
            )
        return RequestTimedOut(
            f"{where}, but the broker gave no records for {patience_ms} ms (an open transaction, perhaps)",
            stage="request",
        )

    def moved(self, next_offset: int) -> None:
        """Take note of whole batches up to `next_offset`. Mutates: the position."""
        self.position = next_offset if self.end is None else min(next_offset, self.end)
        self.idle_since_ms = None

    def replaced(self, topic_id: bytes) -> KafkaError | None:
        """Take note of the topic's id as it is now; return an error when it is another topic (KIP-516)."""
        if topic_id == ZERO_UUID or topic_id == self.topic_id:
            return None
        if self.topic_id == ZERO_UUID:
            self.topic_id = topic_id
            return None
        return TopicRecreatedError(
            f"{self.tp}: the topic was deleted and created again since the reading was planned; what lay from offset "
            f"{self.position} on is gone (its id was {format_uuid(self.topic_id)} and is {format_uuid(topic_id)} now)",
            topic=self.tp.topic,
            partition=self.tp.partition,
            expected_offset=self.position,
            planned_id=self.topic_id,
            found_id=topic_id,
        )

    def grow(self, data: memoryview, limit: int) -> KafkaError | None:
        """Ask for more next time, since no whole batch came (brokers before KIP-74); an error at the limit."""
        needed = first_batch_bytes(data) or 2 * self.max_bytes
        if self.max_bytes >= limit:
            text = (
                f"the record at offset {self.position} needs {needed} bytes and this broker does not return it "
                f"within fetch_max_bytes={limit}; raise fetch_max_bytes, or seek past it"
            )
            return broker_error(MESSAGE_TOO_LARGE, text, topic=self.tp.topic, partition=self.tp.partition, api="FETCH")
        self.max_bytes = min(limit, max(2 * self.max_bytes, min(needed, limit)))
        return None


def retry_delay(part: PartitionFetch, backoff: Backoff, dice: float, *, immediate: bool) -> int:
    """Return the pause before a partition is asked for again."""
    return 0 if immediate and part.hops < AT_ONCE else backoff.delay_ms(part.attempts, lambda: dice)
