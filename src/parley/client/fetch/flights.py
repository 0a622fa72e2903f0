"""Which partitions a request asks for now, and which are free for the next one."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from parley.client.fetch.answers import Asked
from parley.client.fetch.standing import Standing
from parley.client.fetch.state import PartitionFetch
from parley.types import TopicPartition


class Flights:
    """The partitions of one fetcher: each is asked for once at a time."""

    def __init__(self, parts: Iterable[PartitionFetch]) -> None:
        self.parts = {part.tp: part for part in parts}
        """The partitions being read."""
        self.loose = dict(self.parts)
        """Those that no request asks for; what comes first here comes first in the next one."""

    def replace(self, parts: Mapping[TopicPartition, PartitionFetch]) -> list[PartitionFetch]:
        """Read these from now on; return those that are not read any more."""
        gone = [part for tp, part in self.parts.items() if parts.get(tp) is not part]
        for part in gone:
            part.flight = None
        self.parts = dict(parts)
        self.loose = {tp: part for tp, part in parts.items() if not part.busy}
        return gone

    def begin(self, parts: Iterable[PartitionFetch]) -> list[Asked]:
        """Let one request ask for these; return what it asks."""
        flight, asked = object(), []
        for part in parts:
            part.flight = flight
            self.loose.pop(part.tp, None)
            asked.append(
                Asked(
                    part,
                    flight,
                    part.positions.fetch,
                    part.positions.position_epoch,
                    part.preferred is not None,
                )
            )
        return asked

    def free(self, part: PartitionFetch) -> None:
        """Let a partition be planned again, behind the others."""
        part.flight = None
        if self.parts.get(part.tp) is part:
            self.loose[part.tp] = part

    def put_behind(self, parts: Iterable[PartitionFetch]) -> None:
        """Let the others come first in the next request."""
        for part in parts:
            if self.loose.pop(part.tp, None) is not None:
                self.free(part)

    def fall(self, standing: Standing, but: Container[TopicPartition] = ()) -> None:
        """Let what stands be planned again, except where there is news of it."""
        for asked in standing.fall(but):
            if asked.stands:
                self.free(asked.part)
