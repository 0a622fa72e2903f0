"""Offsets of open transactions: nobody reads them until the marker is there (KIP-98, KIP-447)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from parley.devcluster.state.groups.offsets import CommittedOffset

Offsets = Mapping[tuple[str, int], CommittedOffset]


class PendingOffsets:
    """Pending offsets by producer id and group. `stamp`: where in their log they are written."""

    def __init__(self) -> None:
        self._pending: dict[
            tuple[int, str], dict[tuple[str, int], tuple[CommittedOffset, int]]
        ] = {}

    def add(self, producer_id: int, group: str, offsets: Offsets, stamp: int) -> None:
        """Keep offsets until the transaction ends."""
        pending = self._pending.setdefault((producer_id, group), {})
        for partition, offset in offsets.items():
            pending[partition] = (offset, stamp)

    def ended(
        self, producer_id: int, is_there: Callable[[str], bool]
    ) -> list[tuple[str, dict[tuple[str, int], tuple[CommittedOffset, int]]]]:
        """Take a producer's pending offsets out, group by group, of the groups that are wanted."""
        keys = [key for key in self._pending if key[0] == producer_id and is_there(key[1])]
        return [(group, self._pending.pop((of, group))) for of, group in keys]

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        """Whether some open transaction would change this offset."""
        return any(
            name == group and (topic, partition) in offsets
            for (_, name), offsets in self._pending.items()
        )

    def has(self, group: str) -> bool:
        """Whether some open transaction has offsets of a group."""
        return any(name == group and offsets for (_, name), offsets in self._pending.items())

    def groups(self) -> set[str]:
        """Return the groups that have some."""
        return {group for _, group in self._pending}

    def forget(self, group: str) -> None:
        """Drop what is pending of a group: its coordinator is another one now."""
        for key in [key for key in self._pending if key[1] == group]:
            del self._pending[key]

    def forget_topic(self, topic: str) -> None:
        """Drop the pending offsets of a topic that was deleted."""
        for offsets in self._pending.values():
            for at in [at for at in offsets if at[0] == topic]:
                del offsets[at]
