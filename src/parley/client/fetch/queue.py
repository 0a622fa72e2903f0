"""Record bytes that wait to be handed out, in the order in which they came. No input or output."""

from __future__ import annotations

from collections import deque
from collections.abc import Container

from parley.client.fetch.state import PartitionFetch, RawFetch
from parley.types import TopicPartition


class FetchQueue:
    """What was fetched and not yet asked for; a paused partition's part waits aside, uncounted."""

    def __init__(self) -> None:
        self.bytes = 0
        self._ready: deque[RawFetch] = deque()
        self._aside: dict[TopicPartition, list[RawFetch]] = {}

    def __bool__(self) -> bool:
        return bool(self._ready)

    def put(self, part: PartitionFetch, raw: RawFetch) -> None:
        """Add bytes behind those before them."""
        part.queued += 1
        if part.paused:
            self._aside.setdefault(raw.tp, []).append(raw)
        else:
            self._ready.append(raw)
            self.bytes += len(raw.data)

    def take(
        self,
        wanted: Container[TopicPartition] | None = None,
        without: Container[TopicPartition] = (),
    ) -> RawFetch | None:
        """Return the first bytes of any, or of these partitions; None where nothing waits."""
        for at, raw in enumerate(self._ready):
            if (wanted is None or raw.tp in wanted) and raw.tp not in without:
                del self._ready[at]
                self.bytes -= len(raw.data)
                return raw
        return None

    def drop(self, part: PartitionFetch) -> None:
        """Drop what a partition has here: it lies before a seek, or in another history."""
        self._aside.pop(part.tp, None)
        if part.queued:
            self._ready = deque(raw for raw in self._ready if raw.tp != part.tp)
            self.bytes = sum(len(raw.data) for raw in self._ready)
            part.queued = 0

    def pause(self, part: PartitionFetch) -> None:
        """Put a partition's bytes aside."""
        mine = [raw for raw in self._ready if raw.tp == part.tp] if part.queued else []
        if mine:
            self._aside[part.tp] = mine
            self._ready = deque(raw for raw in self._ready if raw.tp != part.tp)
            self.bytes -= sum(len(raw.data) for raw in mine)

    def resume(self, part: PartitionFetch) -> None:
        """Put what was put aside in front again."""
        mine = self._aside.pop(part.tp, [])
        self._ready.extendleft(reversed(mine))
        self.bytes += sum(len(raw.data) for raw in mine)

    def clear(self) -> None:
        """Drop everything."""
        self._ready.clear()
        self._aside.clear()
        self.bytes = 0
