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
   is full. A batch costs as much as dozens of records, and thousands of topics that linger each
   for itself make batches of one or two.
5. Buffer memory is granted in steps, small ones first: thousands of topics with a record each take
   little of it, and a busy topic asks seldom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from parley.client.produce.chunk import RecordChunk

RECORD_BYTES = 16
"""What a record takes beside its key, value and headers, about."""
HEADER_BYTES = 4
FIRST_GRANT_BYTES = 2_048
LARGEST_GRANT_BYTES = 64 * 1024
MANY_TOPICS = 64
"""So many topics that gather at a time are many (rule 4)."""


class Accumulator:
    """The open chunks of one producer. Its caller sees to it that one thread at a time uses it."""

    def __init__(self, linger_ms: int) -> None:
        self._linger_ms = linger_ms
        self.open: dict[str, RecordChunk] = {}
        """By topic. Whoever finds room in a chunk may append to it."""
        self._lingering: dict[str, RecordChunk] = {}
        self._held: set[str] = set()
        self._answered: set[str] = set()
        """Those of them that had an answer since they were looked at."""

    def begin(self, chunk: RecordChunk) -> None:
        """Let a topic's records gather in a chunk."""
        # in the order of their creation, which is that of their ends
        self.open[chunk.topic] = self._lingering[chunk.topic] = chunk

    def close(self, topic: str) -> RecordChunk:
        """Let no more records into a topic's open chunk; return it."""
        chunk = self.open.pop(topic)
        self._lingering.pop(topic, None)
        self._held.discard(topic)
        self._answered.discard(topic)
        chunk.size = chunk.granted - chunk.room
        chunk.rows, chunk.room = len(chunk.values), 0
        return chunk

    @property
    def has_many(self) -> bool:
        """Whether many topics gather now (rule 4)."""
        return len(self.open) >= MANY_TOPICS

    @staticmethod
    def grant(chunk: RecordChunk, size: int) -> int:
        """Return how many bytes of buffer memory to ask for, so that a record of `size` fits into a
        chunk. 0: the chunk is full, close it and begin another.
        """
        if chunk.values and chunk.granted - chunk.room + size > chunk.limit:
            return 0
        step = min(max(chunk.granted, FIRST_GRANT_BYTES), LARGEST_GRANT_BYTES)
        return max(size - chunk.room, min(step, chunk.limit - chunk.granted))

    def due(self, now_ms: int, is_busy: Callable[[str], bool], *, hurry: bool) -> Iterator[str]:
        """Yield the topics to close now. With `hurry` neither time nor business matters."""
        if hurry:
            yield from list(self.open)
            return
        answered, self._answered = self._answered, set()
        for topic in answered:
            if not is_busy(topic):
                yield topic
        ended = []
        for topic, chunk in self._lingering.items():
            if chunk.created_ms + self._linger_ms > now_ms:
                break
            ended.append(topic)
        for topic in ended:
            del self._lingering[topic]
            if is_busy(topic):
                self._held.add(topic)
            else:
                yield topic

    def answered(self, topic: str) -> bool:
        """Have a topic looked at that is due and waits for its partitions; return whether it is."""
        if topic not in self._held:
            return False
        self._answered.add(topic)
        return True

    def is_held(self, topic: str) -> bool:
        """Return whether a chunk is due and waits for its topic's partitions."""
        return topic in self._held

    def next_due_ms(self) -> int | None:
        """Return when to call `due` next, None where nothing lingers. What is held has no time."""
        for chunk in self._lingering.values():
            return chunk.created_ms + self._linger_ms
        return None
