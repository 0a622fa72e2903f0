"""The plain values that go into and come out of the client's calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from parley.types import ZERO_UUID, TopicPartition

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A moment to look for in a partition, in milliseconds since 1970-01-01 UTC."""

    ms: int


class OffsetSpec(NamedTuple):
    """A place in a partition that has a name; the number is the one Kafka's ListOffsets uses."""

    name: str
    code: int


EARLIEST = OffsetSpec("earliest", -2)
"""The first offset that is still there."""
LATEST = OffsetSpec("latest", -1)
"""The offset that the next record gets (read_committed: the last stable offset)."""
MAX_TIMESTAMP = OffsetSpec("max-timestamp", -3)
"""The record with the highest timestamp (ListOffsets v7+, Kafka 3.0)."""


class OffsetAndTimestamp(NamedTuple):
    """An answer to `list_offsets`. `offset` is -1 where no record is as late as was asked.

    `timestamp_ms` is -1 where Kafka gives none (earliest and latest), `leader_epoch` where it is
    unknown.
    """

    offset: int
    timestamp_ms: int = -1
    leader_epoch: int = -1


class EpochEndOffset(NamedTuple):
    """Where an epoch ends in the leader's log (KIP-320): from `offsets_for_leader_epochs`.

    `leader_epoch` is the epoch that was asked for, or the largest one below it that the log knows,
    and `end_offset` the offset after its last record; both are -1 where the log knows neither.
    Where the leader cannot be asked (before Kafka 2.4) `available` is False and nothing is known.
    """

    leader_epoch: int = -1
    end_offset: int = -1
    available: bool = True


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """Who commits offsets for a group: a member (KIP-447), or by the defaults an outsider.

    `generation_id` is the generation of the classic protocol, or the member epoch of KIP-848.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None

    @property
    def outside(self) -> bool:
        """Whether nobody in particular commits, as before KIP-447."""
        return self.generation_id < 0 and not self.member_id


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created. -1 takes the broker's default (CreateTopics v4+, Kafka 2.4)."""

    name: str
    num_partitions: int = 1
    replication_factor: int = 1
    configs: Mapping[str, str | None] = field(default_factory=dict)
    replica_assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Brokers of each partition; instead of the two counts, which must then be left alone."""


class CreatedTopic(NamedTuple):
    """A topic that was created; counts -1 and id zero where the broker does not give them."""

    name: str
    topic_id: bytes = ZERO_UUID
    num_partitions: int = -1
    replication_factor: int = -1


class BatchAck(NamedTuple):
    """A record batch that the broker has taken. `base_offset` is -1 where the broker gave none."""

    base_offset: int
    records: int
    log_append_time_ms: int = -1


class PartitionAck(NamedTuple):
    """What one partition has taken of a produce call."""

    partition: TopicPartition
    batches: tuple[BatchAck, ...]

    @property
    def base_offset(self) -> int:
        """First record's offset, -1 if none was given (acks=0, or a retry it knew already)."""
        return self.batches[0].base_offset if self.batches else -1

    @property
    def records(self) -> int:
        """Number of records written."""
        return sum(batch.records for batch in self.batches)


@dataclass(frozen=True, slots=True)
class ProduceResult:
    """Where the rows of a produce call went."""

    partitions: Mapping[TopicPartition, PartitionAck]
    idempotent: bool = False
    """Whether retries could not make duplicates (KIP-98)."""

    @property
    def records(self) -> int:
        """Number of records written."""
        return sum(ack.records for ack in self.partitions.values())


class RecordMetadata(NamedTuple):
    """Where a record is that was sent. `offset` is -1 where the broker gave none (acks=0, or a
    retry that it knew already), `partition` where the record got none.

    `timestamp_ms` is the record's, or the broker's where the topic has LogAppendTime.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition as one."""
        return TopicPartition(self.topic, self.partition)


class FetchedBatch(NamedTuple):
    """Rows of one partition, in offset order, and where to go on."""

    partition: TopicPartition
    batch: pyarrow.RecordBatch
    next_offset: int
    """Offset to fetch next: after the last record *or* gap that this batch covers."""
    leader_epoch: int
    """Leader epoch of the last record batch in it (KIP-320), -1 where the format has none."""


class AcquiredBatch(NamedTuple):
    """Rows of one partition that a share consumer has acquired, in offset order (KIP-932)."""

    partition: TopicPartition
    batch: pyarrow.RecordBatch
    """The columns of `parley.arrow.RECORD_SCHEMA`, and `delivery_count` (int32): how often each
    record was delivered, this time included."""


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """What to read of a partition: from `start` up to, not including, `end` (None: without end)."""

    start: int
    end: int | None = None
    leader_epoch: int = -1
    """Epoch of the record before `start`, where it is known."""
    topic_id: bytes = ZERO_UUID
    """Id of the offsets' topic, where known: another topic of that name is not read."""
