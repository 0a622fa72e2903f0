"""Which chunks that are due are closed now: what could not be sent yet gathers on instead.

1. A chunk stays open while its topic is busy: every partition it writes to has all the requests in
   flight that it may have.
2. While many topics gather, one batch of a partition in flight is enough for that, and each broker
   gets a request's worth of chunks at a time, once it may have another request and nothing is ready
   for it: a chunk that is closed earlier would wait all the same, as a small batch.
3. What nobody leads waits at the sender, which knows how long.
"""

from __future__ import annotations

from parley.client.produce.chunk import RecordChunk
from parley.client.produce.record_topics import RecordTopics
from parley.client.produce.sender import Sender

MOST_CHUNKS = 256
"""Chunks of one request: making more of them at a time would hold up the event loop."""
MOST_WHERE_MANY = 1
"""Batches of a partition in flight behind which records wait, while many topics gather."""


class BusyTopics:
    """Holds the chunks of busy topics (rule 1)."""

    is_shut = False

    def __init__(self, topics: RecordTopics) -> None:
        self._topics = topics

    def holds(self, chunk: RecordChunk) -> bool:
        """Return whether a chunk that is due stays open."""
        return self._topics.is_busy(chunk.topic)


class Shares:
    """Gives each broker a request's worth of chunks (rule 2). Made for each look."""

    def __init__(self, topics: RecordTopics, sender: Sender, brokers: list[int], *, ready: bool):
        self._topics = topics
        most_bytes = sender.requests.max_request_size
        free = [node for node in brokers if ready and sender.may_have_more(node)]
        self._left = dict.fromkeys(free, (MOST_CHUNKS, most_bytes))

    @property
    def is_shut(self) -> bool:
        """Whether no broker takes any more."""
        return not self._left

    def holds(self, chunk: RecordChunk) -> bool:
        """Return whether a chunk that is due stays open; else it counts against its brokers."""
        if self._topics.is_busy(chunk.topic, MOST_WHERE_MANY):
            return True
        nodes = self._topics.leaders(chunk.topic)
        if not nodes:
            return False
        free = [node for node in nodes if node in self._left]
        for node in free:
            chunks, size = self._left[node]
            chunks, size = chunks - 1, size - (chunk.granted - chunk.room) // len(nodes)
            self._left[node] = chunks, size
            if chunks <= 0 or size <= 0:
                del self._left[node]
        return not free
