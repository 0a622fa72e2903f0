"""The topic `__consumer_offsets`: made when a coordinator is first asked for, written by leaders.

Rules of this file:
1. A group belongs to one partition, by the Java hash of its name; whoever leads it coordinates the
   group.
2. A step is one batch, which a log takes or refuses as a whole. What it refuses for whatever reason
   is `LogUnavailable`: to a group it is all the same as a full disk.
3. Who writes has the topic made at once, with leaders. A client that asks for a coordinator waits
   for as long as the cluster's setting says.
4. A long log is compacted in one go: what holds is written once more, and the log begins there.
   Real brokers clean segment by segment; to a reader of the newest records it is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from parley.devcluster.state.controller import Controller
from parley.devcluster.state.groups.offsets import java_hash
from parley.devcluster.state.groups.records import NEWEST, RecordRules, Written
from parley.devcluster.state.image import ClusterImage, TopicImage
from parley.devcluster.state.journal import Entry
from parley.devcluster.state.loading import Making
from parley.devcluster.state.log.appending import finisher
from parley.devcluster.state.log.batches import read_facts
from parley.devcluster.state.log.replica import Appended, Prepared, Replica, ReplicaKey
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.replication.replication import Replication
from parley.devcluster.state.topics import TopicSettings
from parley.devcluster.state.transactions.producer_ids import ProducerIdentity
from parley.records import (
    Record,
    WriteOptions,
    columns_from_records,
    encode_batches,
    keyed_batch,
)

OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_TOPIC_CONFIGS: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": "104857600",
}
"""What real brokers create it with."""

LARGEST_BATCH_BYTES = 2**31 - 1
LONG_BYTES = 1024 * 1024
"""How long a log may grow, beyond four times what held when it was compacted last."""
RECORDS_AT_ONCE = 1_000
NOBODY = ProducerIdentity(-1, -1)


class LogUnavailable(OSError):
    """The log of a group takes nothing now: no leader, too few replicas in sync, or a full disk."""


class Place(NamedTuple):
    """Where something was written: it cannot be lost once all in-sync replicas have it."""

    replica: Replica
    end_offset: int

    @property
    def is_safe(self) -> bool:
        """Whether they have."""
        return self.replica.high_watermark >= self.end_offset


class Logs(Protocol):
    """What is needed of the cluster to have a topic and to write into it."""

    controller: Controller
    replication: Replication

    @property
    def image(self) -> ClusterImage:
        """The newest image."""
        ...

    def keep(self, *entries: Entry) -> None:
        """Put entries into the journal. Raises OSError."""
        ...

    def settings_of(self, name: str) -> TopicSettings:
        """Return the settings of a topic that exists."""
        ...

    def min_isr_of(self, leader: Replica, wanted: int) -> int:
        """Return how many replicas its leader demands in sync; `wanted`: min.insync.replicas."""
        ...

    def create_topic(
        self,
        name: str,
        assignment: Sequence[Sequence[int]],
        configs: Mapping[str, str],
        *,
        now_ms: int,
    ) -> TopicImage:
        """Create a topic on the given brokers. Raises Refused or OSError."""
        ...

    def append(self, replica: Replica, sets: Sequence[Prepared], *, now_ms: int) -> Appended:
        """Append to a leader's log and its followers'. Raises Refused or OSError."""
        ...

    def delete_records(self, leader: Replica, offset: int) -> int:
        """Let a partition begin at an offset. Raises Refused or OSError."""
        ...


class OffsetsTopic:
    """The topic's partitions. `rules_of` says what a broker's release writes."""

    def __init__(
        self, logs: Logs, partitions: int, replication_factor: int, making: Making[str]
    ) -> None:
        self._logs, self._making = logs, making
        self._partitions, self._replication_factor = partitions, replication_factor
        self.rules_of: Callable[[int], RecordRules] = lambda broker_id: NEWEST
        self._known_min_isr: tuple[TopicImage, int] | None = None
        self._compacted_bytes: dict[ReplicaKey, int] = {}

    def partition_of(self, group: str) -> int:
        """Return the partition that a group belongs to, also before the topic is made."""
        topic = self._logs.image.topics.get(OFFSETS_TOPIC)
        count = self._partitions if topic is None else len(topic.partitions)
        return (java_hash(group) & 0x7FFFFFFF) % count

    def ask_for(self, *, now_ms: int) -> None:
        """Make the topic for a client that asks, once its time has come. Raises Refused or OSError.

        Where there are no coordinators yet, this is the question that they are made for.
        """
        if OFFSETS_TOPIC not in self._logs.image.topics and self._making.ask(OFFSETS_TOPIC, now_ms):
            self.create(now_ms=now_ms)

    def create(self, *, now_ms: int) -> None:
        """Make the topic where there is none. Raises Refused or OSError."""
        if OFFSETS_TOPIC in self._logs.image.topics:
            return
        alive = len(self._logs.image.brokers)
        assignment = self._logs.controller.spread(
            self._partitions, min(self._replication_factor, alive), start=0
        )
        self._logs.create_topic(OFFSETS_TOPIC, assignment, OFFSETS_TOPIC_CONFIGS, now_ms=now_ms)

    def leader_of(self, index: int) -> Replica | None:
        """Return the replica that leads a partition; None where nobody does who is heard."""
        found = self._logs.image.partition(OFFSETS_TOPIC, index)
        broker = None if found is None else self._logs.replication.brokers.get(found.leader)
        if broker is None or broker.id in self._logs.replication.links.isolated:
            return None
        try:
            replica = broker.find(OFFSETS_TOPIC, index)
        except Refused:
            return None
        return replica if replica.is_leader else None

    def writer(self, index: int, *, now_ms: int) -> Replica:
        """Return the replica that may append. Raises LogUnavailable."""
        try:
            self.create(now_ms=now_ms)
        except Refused as error:
            raise LogUnavailable(f"{OFFSETS_TOPIC} cannot be created: {error.message}") from error
        replica = self.leader_of(index)
        if replica is None:
            raise LogUnavailable(f"{OFFSETS_TOPIC}-{index} has no leader")
        if len(replica.isr) < self._logs.min_isr_of(replica, self._wanted_min_isr()):
            raise LogUnavailable(f"too few replicas of {OFFSETS_TOPIC}-{index} are in sync")
        return replica

    def _wanted_min_isr(self) -> int:
        """Return the topic's min.insync.replicas, looked up when its image changes."""
        topic, known = self._logs.image.topics[OFFSETS_TOPIC], self._known_min_isr
        if known is None or known[0] is not topic:
            settings = self._logs.settings_of(OFFSETS_TOPIC)
            known = self._known_min_isr = topic, settings.min_insync_replicas
        return known[1]

    def append(
        self,
        replica: Replica,
        records: Sequence[Written],
        *,
        now_ms: int,
        producer: ProducerIdentity = NOBODY,
    ) -> int:
        """Append records as one batch, of a transaction where a producer is given; return its
        first offset. Raises LogUnavailable.
        """
        magic = self.rules_of(replica.broker_id).magic
        if magic < 2:  # then there are no transactions
            prepared = _of_old(records, magic, now_ms)
        else:
            batch = keyed_batch(
                records,
                timestamp_ms=now_ms,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                transactional=producer is not NOBODY,
            )
            prepared = Prepared(batch, read_facts(batch))
        try:
            return self._logs.append(replica, [prepared], now_ms=now_ms).base_offset
        except Refused as error:
            raise LogUnavailable(f"{OFFSETS_TOPIC} takes nothing: {error.message}") from error

    # -- compaction ------------------------------------------------------------------------------

    def is_long(self, replica: Replica) -> bool:
        """Whether most of a log has been replaced by later records, so that `compact` would pay."""
        return replica.log.size > LONG_BYTES + 4 * self._compacted_bytes.get(replica.key, 0)

    def compact(self, replica: Replica, records: Sequence[Written], *, now_ms: int) -> int:
        """Write what holds once more, and let the log begin there; return where.

        Nothing is done, and the end of the log returned, while a transaction is open in it, or not
        everything is replicated. Raises OSError; the log then has everything, perhaps twice.
        """
        start = replica.log.end_offset
        if replica.last_stable_offset < start:
            return start
        self._logs.replication.begin_segment(replica.key)
        for at in range(0, len(records), RECORDS_AT_ONCE):
            self.append(replica, records[at : at + RECORDS_AT_ONCE], now_ms=now_ms)
        with suppress(Refused):  # not replicated yet: the next time
            self._logs.delete_records(replica, start)
        self._compacted_bytes[replica.key] = replica.log.size
        return start


def _of_old(records: Sequence[Written], magic: int, now_ms: int) -> Prepared:
    """Return records as a set of messages of magic 0 or 1."""
    options = WriteOptions(magic=magic, max_batch_bytes=LARGEST_BATCH_BYTES, timestamp_ms=now_ms)
    rows = [Record(-1, now_ms, 0, key, value) for key, value in records]
    (made,) = encode_batches(columns_from_records(rows, with_offsets=False), None, options)
    data = memoryview(made.data).cast("B")
    return Prepared(data, None, finisher(data, None))
