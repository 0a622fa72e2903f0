"""Partitions that a broker fetches without being asked again: nothing has changed for them. Pure.

A consumer of thousands of partitions gets news of a few. What an answer of a fetch session leaves
out (KIP-227) stays with its request: it stands, is not planned again, and is not named in the next
request. So a round without news costs the same for one partition and for thousands.

1. Only what has a position to fetch from and no doubt about its topic or replica stands.
2. All that stands falls when the metadata changes, a position jumps, or a partition is paused: what
   may be asked is then decided again.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from parley.client.fetch.answers import Asked
from parley.client.fetch.incremental import IncrementalSession
from parley.client.fetch.positions import Stage
from parley.types import TopicPartition


class Standing:
    """What stands in one fetch session."""

    def __init__(self, session: IncrementalSession) -> None:
        self.session = session
        self.state: object = None
        """What it rests on, as its owner counts it: it falls when that is another."""
        self._asked: dict[TopicPartition, Asked] = {}

    def __len__(self) -> int:
        return len(self._asked)

    def add(self, asked: Asked) -> bool:
        """Let a partition stand that had no news, if it may; return whether it does."""
        part = asked.part
        if (
            part.positions.stage is not Stage.FETCHING
            or part.topic.in_doubt
            or part.preferred is not None
            or part.paused
            or part.held
            or part.end is not None
        ):
            return False
        self._asked[part.tp] = asked
        self.session.stands(part.tp)
        return True

    def pick(self, partitions: Iterable[TopicPartition]) -> list[Asked]:
        """Take those of these partitions out that stand: there is news of them."""
        found = []
        for tp in partitions:
            asked = self._asked.pop(tp, None)
            if asked is not None:
                self.session.fell(tp)
                found.append(asked)
        return found

    def fall(self, but: Container[TopicPartition] = ()) -> list[Asked]:
        """Take everything out, except these partitions."""
        return self.pick([tp for tp in self._asked if tp not in but])
