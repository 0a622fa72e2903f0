"""Which partitions the sender looks at next, and which have something for which broker. Pure.

1. A partition is looked at again when something happened to it: rows were added, an answer came, it
   was rewritten. With thousands of partitions, looking at all of them for each answer would cost
   more than sending.
2. All are looked at when metadata has changed, for any of them may have another leader, and when
   the first of them may be overdue or has waited out its pause.
3. What is ready for a broker goes in the order in which it became ready. It is looked at once more
   when it is sent: `sendable` decides, this only says where to look.
"""

from __future__ import annotations

from collections.abc import Iterator

from parley.client.produce.state import PartitionLog
from parley.types import TopicPartition

NEVER = 2**63 - 1


class ReadyPartitions:
    """The partitions of one sender that have batches."""

    def __init__(self) -> None:
        self.active: dict[TopicPartition, PartitionLog] = {}
        """All that have batches waiting, in flight or to be sent again."""
        self._touched: dict[TopicPartition, PartitionLog] = {}
        self._for_node: dict[int, dict[TopicPartition, PartitionLog]] = {}
        self._look_at_all_ms = NEVER
        self._metadata: object = None

    def touch(self, log: PartitionLog) -> None:
        """Have a partition looked at next time."""
        self.active[log.tp] = self._touched[log.tp] = log

    def touched(self, now_ms: int, metadata: object) -> list[PartitionLog]:
        """Return what is to be looked at now. `metadata` is equal while nothing has changed."""
        if metadata != self._metadata or now_ms >= self._look_at_all_ms:
            self._metadata, self._look_at_all_ms = metadata, NEVER
            self._for_node.clear()
            self._touched = dict(self.active)
        found, self._touched = list(self._touched.values()), {}
        return found

    def look_again(self, at_ms: int) -> None:
        """Have all partitions looked at from then on."""
        self._look_at_all_ms = min(self._look_at_all_ms, at_ms)

    @property
    def next_look_ms(self) -> int | None:
        """When all are looked at whatever happens, None where nothing waits for a time."""
        return None if self._look_at_all_ms == NEVER else self._look_at_all_ms

    def put(self, log: PartitionLog, node_id: int) -> None:
        """Note that a partition has something for its leader, behind those that have already."""
        self._for_node.setdefault(node_id, {}).setdefault(log.tp, log)

    def nodes(self) -> list[int]:
        """Return the brokers that something is ready for."""
        return [node_id for node_id, logs in self._for_node.items() if logs]

    def of(self, node_id: int) -> Iterator[PartitionLog]:
        """Yield what is ready for a broker. Meanwhile others may be taken away."""
        yield from list(self._for_node.get(node_id, {}).values())

    def taken(self, log: PartitionLog, node_id: int) -> None:
        """Note that a partition has nothing for a broker now."""
        self._for_node.get(node_id, {}).pop(log.tp, None)

    def drop(self, log: PartitionLog) -> None:
        """Forget a partition that has no batches any more."""
        self.active.pop(log.tp, None)

    def clear(self) -> None:
        """Forget everything."""
        self.active.clear()
        self._touched.clear()
        self._for_node.clear()
