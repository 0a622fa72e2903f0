"""Which records wait for others, and when they wait no longer. Pure: times are given.

1. Records of a topic gather in its open chunk, in the order in which they were sent. Topics do not
   hold each other up.
2. A chunk is due `linger_ms` after its *creation*, whatever came later; at once when the next
   record does not fit, and when somebody flushes or closes; while somebody waits for buffer memory
   nothing lingers.
3. A chunk that is due stays open while its topic is busy, that is while every partition it writes
   to has all the requests in flight it may have: what could not be sent yet gathers instead.
   Nothing that could be sent waits for others.
4. While many topics gather, their records wait for the answers to those before them, until a chunk
   is full, and brokers get a request's worth of chunks at a time (`shares`): what is due and finds
   no room in a request gathers on, and those that have waited longest come first. A batch costs as
   much as dozens of records, and thousands of topics that linger each for itself make batches of
   one or two.
5. Buffer memory is granted in steps. The first one is small: thousands of topics with a record each
   take little of it. A busy topic asks seldom, for its steps grow; while many topics gather they
   stay small, for what is granted and not used yet keeps others from gathering.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from parley.client.produce.chunk import RecordChunk

FIRST_GRANT_BYTES = 2_048
LARGEST_GRANT_BYTES = 64 * 1024
SHARE_STEPS = 4
"""Steps in a topic's share of buffer memory, at least, while many topics gather (rule 5)."""
MANY_TOPICS = 64
"""So many topics that gather at a time are many (rule 4)."""


class Gate(Protocol):
    """What may be closed now."""

    def holds(self, chunk: RecordChunk) -> bool:
        """Return whether a chunk that is due stays open; else it counts as closed."""

    @property
    def is_shut(self) -> bool:
        """Whether it holds whatever comes."""


class Accumulator:
    """The open chunks of one producer. Its caller sees to it that one thread at a time uses it."""

    def __init__(self, linger_ms: int, buffer_memory: int) -> None:
        self._linger_ms, self._buffer_memory = linger_ms, buffer_memory
        self.open: dict[str, RecordChunk] = {}
        """By topic. Whoever finds room in a chunk may append to it."""
        self._lingering: dict[str, RecordChunk] = {}
        self._held: dict[str, RecordChunk] = {}
        """What is due and stays open, in the order in which it began."""
        self._answered: dict[str, RecordChunk] = {}
        """Those of them that had an answer since they were looked at."""
        self._all_again = False
        """Whether all that is held is to be looked at again."""

    def begin(self, chunk: RecordChunk) -> None:
        """Let a topic's records gather in a chunk."""
        # in the order of their creation, which is that of their ends
        self.open[chunk.topic] = self._lingering[chunk.topic] = chunk

    def close(self, topic: str) -> RecordChunk:
        """Let no more records into a topic's open chunk; return it."""
        chunk = self.open.pop(topic)
        self._lingering.pop(topic, None)
        self._held.pop(topic, None)
        self._answered.pop(topic, None)
        chunk.rows, left = chunk.close()
        chunk.size = chunk.granted - left
        return chunk

    @property
    def has_many(self) -> bool:
        """Whether many topics gather now (rule 4)."""
        return len(self.open) >= MANY_TOPICS

    def grant(self, chunk: RecordChunk, size: int) -> int:
        """Return how many bytes of buffer memory to ask for, so that a record of `size` fits into a
        chunk. 0: the chunk is full, close it and begin another.
        """
        if chunk.count and chunk.granted - chunk.room + size > chunk.limit:
            return 0
        step = min(max(chunk.granted, FIRST_GRANT_BYTES), LARGEST_GRANT_BYTES)
        if self.has_many:
            step = min(FIRST_GRANT_BYTES, self._buffer_memory // (SHARE_STEPS * len(self.open)))
        return max(size - chunk.room, min(step, chunk.limit - chunk.granted))

    def due(self, now_ms: int, gate: Gate, *, hurry: bool = False) -> Iterator[str]:
        """Yield the topics to close now. With `hurry` neither time nor business matters."""
        if hurry:
            yield from list(self.open)
            return
        for chunk in self._ended(now_ms):
            if gate.is_shut:
                break
            if not gate.holds(chunk):
                yield chunk.topic

    def _ended(self, now_ms: int) -> Iterable[RecordChunk]:
        """Return what is to be looked at of that whose time is over. All of it is held now."""
        again = self._held if self._all_again else self._answered
        found = list(again.values())
        self._answered, self._all_again = {}, False
        ended = []
        for chunk in self._lingering.values():
            if chunk.created_ms + self._linger_ms > now_ms:
                break
            ended.append(chunk)
        for chunk in ended:
            self._held[chunk.topic] = self._lingering.pop(chunk.topic)
        return found + ended

    def look_at_held(self) -> bool:
        """Have all looked at that is due and stays open; return whether there is anything."""
        self._all_again = bool(self._held)
        return self._all_again

    def answered(self, topic: str) -> bool:
        """Have a topic looked at that is due and waits for its partitions; return whether it is."""
        chunk = self._held.get(topic)
        if chunk is None:
            return False
        self._answered[topic] = chunk
        return True

    def is_held(self, topic: str) -> bool:
        """Return whether a chunk is due and waits for its topic's partitions."""
        return topic in self._held

    def next_due_ms(self) -> int | None:
        """Return when to call `due` next, None where nothing lingers. What is held has no time."""
        for chunk in self._lingering.values():
            return chunk.created_ms + self._linger_ms
        return None
