"""Offsets of open transactions: nobody reads them until the marker is there (KIP-98, KIP-447).

Kafka keeps them in the partitions of `__consumer_offsets`, whose number here stands for its log: a
group belongs to one of them, and a transaction that has offsets has that partition among its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from parley.devcluster.state.groups.offsets import CommittedOffset, Groups, java_hash
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.transactions.producer_ids import ProducerIdentity
from parley.errors.codes import INVALID_PRODUCER_EPOCH

OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS = 50  # offsets.topic.num.partitions

Offsets = Mapping[tuple[str, int], CommittedOffset]


def offsets_partition(group: str) -> int:
    """Return the partition of `__consumer_offsets` that a group's offsets go to."""
    return (java_hash(group) & 0x7FFFFFFF) % OFFSETS_PARTITIONS


class PendingOffsets:
    """Pending offsets by producer id and group, and producers' newest epochs per partition."""

    def __init__(self) -> None:
        self._pending: dict[
            tuple[int, str], dict[tuple[str, int], tuple[CommittedOffset, int]]
        ] = {}
        self._epochs: dict[tuple[int, int], int] = {}

    def check(self, producer: ProducerIdentity, group: str) -> None:
        """Raise Refused (INVALID_PRODUCER_EPOCH) if a newer epoch of the producer was here."""
        newest = self._epochs.get((offsets_partition(group), producer.producer_id), -1)
        if producer.epoch < newest:
            raise Refused(INVALID_PRODUCER_EPOCH, f"epoch {producer.epoch} is older than {newest}")

    def add(self, producer: ProducerIdentity, group: str, offsets: Offsets, stamp: int) -> None:
        """Keep offsets until the transaction ends. `stamp`: when they were written."""
        self.raise_epoch(offsets_partition(group), producer)
        pending = self._pending.setdefault((producer.producer_id, group), {})
        for partition, offset in offsets.items():
            pending[partition] = (offset, stamp)

    def raise_epoch(self, offsets_partition: int, producer: ProducerIdentity) -> None:
        """Note an epoch of a producer that wrote into a partition of `__consumer_offsets`."""
        key = (offsets_partition, producer.producer_id)
        self._epochs[key] = max(producer.epoch, self._epochs.get(key, -1))

    def groups_of(self, producer_id: int, offsets_partition_index: int) -> list[str]:
        """Return the groups of one offsets partition for which a producer has offsets pending."""
        return [
            group
            for producer, group in self._pending
            if producer == producer_id and offsets_partition(group) == offsets_partition_index
        ]

    def to_commit(self, producer_id: int, group: str, groups: Groups) -> dict[int, Offsets]:
        """Return what a commit makes of a group's pending offsets, by stamp; newer ones stay."""
        found: dict[int, dict[tuple[str, int], CommittedOffset]] = {}
        for at, (offset, stamp) in self._pending.get((producer_id, group), {}).items():
            if stamp > groups.stamp_of(group, *at):
                found.setdefault(stamp, {})[at] = offset
        return dict(found)

    def end(self, producer_id: int, group: str) -> None:
        """Forget a producer's pending offsets of a group: its transaction has ended."""
        self._pending.pop((producer_id, group), None)

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        """Whether some open transaction would change this offset."""
        return any(
            name == group and (topic, partition) in offsets
            for (_, name), offsets in self._pending.items()
        )

    def has(self, group: str) -> bool:
        """Whether some open transaction has offsets of a group."""
        return any(name == group and offsets for (_, name), offsets in self._pending.items())

    def items(self) -> list[tuple[int, str, int, Offsets]]:
        """Return everything pending: producer id, group, stamp, offsets."""
        return [
            (producer, group, stamp, {at: offset})
            for (producer, group), offsets in self._pending.items()
            for at, (offset, stamp) in offsets.items()
        ]

    def epochs(self) -> list[tuple[int, int, int]]:
        """Return offsets partition, producer id and newest epoch of every producer seen."""
        return [
            (partition, producer, epoch) for (partition, producer), epoch in self._epochs.items()
        ]

    def forget_topic(self, topic: str) -> None:
        """Drop the pending offsets of a topic that was deleted."""
        for offsets in self._pending.values():
            for at in [at for at in offsets if at[0] == topic]:
                del offsets[at]
