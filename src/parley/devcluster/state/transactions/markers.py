"""Markers in logs: where a transaction's end is still to be written, and when that is done.

Rules of this file:
1. A marker is done when it can no longer be lost: below the high watermark of its partition's
   leader.
2. It is appended like a record with acks=-1: by a leader that the cluster hears, with enough
   replicas in sync. Where that cannot be it is tried again; a leader that lost it with its log is
   given it once more.
3. A partition that was deleted needs none, nor one where a newer epoch of the producer has written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from parley.devcluster.state.image import ClusterImage, PartitionImage
from parley.devcluster.state.log.batches import read_facts
from parley.devcluster.state.log.replica import Appended, Prepared, Replica
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.replication.replication import Replication
from parley.devcluster.state.topics import TopicSettings
from parley.devcluster.state.transactions.producer_ids import ProducerIdentity
from parley.devcluster.state.transactions.transaction import Partition
from parley.records import end_marker

NOT_WRITTEN = -1


class Marker(NamedTuple):
    """What ends a transaction on one partition."""

    producer: ProducerIdentity
    commit: bool
    coordinator_epoch: int


class Logs(Protocol):
    """What is needed of the cluster to write into its logs."""

    replication: Replication

    @property
    def image(self) -> ClusterImage:
        """The newest image."""
        ...

    def settings_of(self, topic: str) -> TopicSettings:
        """Return the settings of a topic that exists."""
        ...

    def min_isr_of(self, leader: Replica, wanted: int) -> int:
        """Return how many replicas its leader demands in sync; `wanted`: min.insync.replicas."""
        ...

    def append(self, replica: Replica, sets: Sequence[Prepared], *, now_ms: int) -> Appended:
        """Append to a leader's log and its followers'. Raises Refused or OSError."""
        ...


class Markers:
    """Writes markers to the leaders of a cluster."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs

    def write(self, partition: Partition, marker: Marker, at: int, *, now_ms: int) -> int | None:
        """Write a marker unless it is there; return None once done, else where it was written.

        `at` is what the last call returned, at first NOT_WRITTEN.
        """
        found = self._logs.image.partition(*partition)
        if found is None:
            return None
        replica = self._leader(partition, found)
        if replica is None:
            return at
        producer = marker.producer
        if replica.producers.epoch_of(producer.producer_id) > producer.epoch:
            return None
        is_open = replica.producers.transactions.first_offset(producer.producer_id) is not None
        if at == NOT_WRITTEN or is_open:
            wanted = self._logs.settings_of(partition[0]).min_insync_replicas
            if len(replica.isr) < self._logs.min_isr_of(replica, wanted):
                return at
            data = end_marker(
                *producer, marker.coordinator_epoch, commit=marker.commit, now_ms=now_ms
            )
            try:
                at = self._logs.append(
                    replica, [Prepared(data, read_facts(data))], now_ms=now_ms
                ).base_offset
            except (Refused, OSError):
                return at
        replicated = replica.high_watermark > at or replica.log.end_offset <= at
        return None if replicated else at

    def _leader(self, partition: Partition, found: PartitionImage) -> Replica | None:
        """Return the leader's replica, None where nobody leads, or the leader hears nothing."""
        broker = self._logs.replication.brokers.get(found.leader)
        if broker is None or found.leader in self._logs.replication.links.isolated:
            return None
        try:
            replica = broker.find(*partition)
        except Refused:
            return None
        return replica if replica.is_leader else None
