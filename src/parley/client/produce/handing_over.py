"""From closed chunks to the sender: batches made of several at a time, handed over in order.

1. Chunks of a topic are handed to the sender in the order in which they were closed, whoever makes
   their batches.
2. Small chunks are made in the loop, for a change of threads costs more; a few hundred at a time,
   for thousands of them would hold it. Large ones are made in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from threading import get_ident

from parley.client.produce.chunk import RecordChunk
from parley.client.produce.producer import Producer
from parley.client.produce.record_batches import Gathered, make_batches
from parley.client.produce.record_topics import RecordPolicy, RecordTopics, TopicRecords
from parley.errors import KafkaError
from parley.net.blocking import Work
from parley.types import TopicPartition

INLINE_BYTES = 256 * 1024
"""Uncompressed records up to here are made into batches in the loop."""
INLINE_COMPRESSED_BYTES = 16 * 1024
CHUNKS_AT_ONCE = 256

Closed = tuple[TopicRecords, RecordChunk]
"""A closed chunk and its topic."""


class HandOver:
    """The closed chunks of one producer on their way to its sender. Belongs to the event loop, but
    for `take`.

    `handed` is called in the loop with each chunk that has left. A producer's tasks are run by
    `spawn`.
    """

    def __init__(
        self,
        producer: Producer,
        topics: RecordTopics,
        policy: RecordPolicy,
        spawn: Callable[[Work[None]], None],
        handed: Callable[[RecordChunk], None],
    ) -> None:
        self._producer, self._topics, self._policy = producer, topics, policy
        self._spawn, self._handed = spawn, handed
        self._loop, self._thread = asyncio.get_running_loop(), get_ident()
        plain = policy.batches.options.compression_type == "none"
        self._inline_bytes = INLINE_BYTES if plain else INLINE_COMPRESSED_BYTES

    def take(self, closed: Sequence[Closed]) -> None:
        """Have batches made of closed chunks, here or in a thread, and handed over in turn."""
        if get_ident() != self._thread:
            self._make(closed)
            for records, _ in closed:
                self._loop.call_soon_threadsafe(self.hand_over, records)
            return
        known: list[Closed] = []
        for records, chunk in closed:
            if records.plan is None:
                self._spawn(self._make_prepared(records, chunk))
            else:
                known.append((records, chunk))
        groups = list(self._groups(known))
        if len(groups) == 1 and self._is_small(groups[0]):
            self._make(groups[0])
            self._hand_over_each(groups[0])
        elif groups:
            self._spawn(self._make_in_turn(groups))

    def _groups(self, closed: Sequence[Closed]) -> Iterator[list[Closed]]:
        """Yield what is made at once; what is too large for the loop comes alone."""
        group: list[Closed] = []
        size = 0
        for records, chunk in closed:
            if group and (size + chunk.size > self._inline_bytes or len(group) == CHUNKS_AT_ONCE):
                yield group
                group, size = [], 0
            group.append((records, chunk))
            size += chunk.size
        if group:
            yield group

    def _is_small(self, group: list[Closed]) -> bool:
        return sum(chunk.size for _, chunk in group) <= self._inline_bytes

    async def _make_in_turn(self, groups: list[list[Closed]]) -> None:
        for group in groups:
            if self._is_small(group):
                self._make(group)
            else:
                await asyncio.to_thread(self._make, group)
            self._hand_over_each(group)
            await asyncio.sleep(0)

    async def _make_prepared(self, records: TopicRecords, chunk: RecordChunk) -> None:
        try:
            await self._topics.prepare(records.topic)
        except KafkaError as error:
            chunk.trouble, chunk.batches = error, []
        else:
            await asyncio.to_thread(self._make, [(records, chunk)])
        self.hand_over(records)

    def _make(self, closed: Sequence[Closed]) -> None:
        """Make batches of the chunks. In any thread."""
        filled = []
        for records, chunk in closed:
            if chunk.rows:
                filled.append((records, chunk))
            else:
                chunk.batches = []
        if not filled:
            return
        try:
            gathered = Gathered([chunk for _, chunk in filled])
        except Exception as error:
            for _, chunk in filled:
                _spoiled(chunk, error)
            return
        first = 0
        for index, (records, chunk) in enumerate(filled):
            try:
                self._make_one(records, chunk, gathered, index, first)
            except Exception as error:  # whoever waits for these records has to learn of it
                _spoiled(chunk, error)
            first += chunk.rows

    def _make_one(
        self, records: TopicRecords, chunk: RecordChunk, gathered: Gathered, index: int, first: int
    ) -> None:
        assert records.plan is not None
        with records.placing:
            records.sticky.leave_if_behind(records.plan)
            chunk.batches, chunk.impossible, records.spreads = make_batches(
                chunk,
                gathered.rows(index, first),
                records.plan,
                records.sticky,
                self._policy.batches,
                self._newest_magic,
            )

    def _newest_magic(self, tp: TopicPartition) -> int:
        log = self._producer.sender.logs.get(tp)
        return 2 if log is None else log.newest_magic

    # -- in the order in which they were closed ----------------------------------------------------

    def _hand_over_each(self, closed: Sequence[Closed]) -> None:
        for records, _ in closed:
            self.hand_over(records)

    def hand_over(self, records: TopicRecords) -> None:
        """Give the sender what is made of a topic, in the order in which chunks were closed."""
        options = self._policy.batches.options
        while records.closed and not records.handing:
            chunk = records.closed[0]
            if chunk.batches is None:
                break
            error: KafkaError | None = None
            if chunk.batches and not chunk.settled:
                try:
                    if not self._producer.hand_over_now(chunk.batches, options):
                        records.handing = True
                        self._spawn(self._hand_over_in_turn(records, chunk))
                        break
                except KafkaError as raised:
                    error = raised
            self._handed_over(records, chunk, error)
        if self._topics.wants_news(records):
            self._spawn(self._topics.renew(records))

    async def _hand_over_in_turn(self, records: TopicRecords, chunk: RecordChunk) -> None:
        error: KafkaError | None = None
        try:
            await self._producer.hand_over_in_turn(
                chunk.batches or [], self._policy.batches.options
            )
        except KafkaError as raised:
            error = raised
        finally:
            records.handing = False
        self._handed_over(records, chunk, error)
        self.hand_over(records)

    def _handed_over(
        self, records: TopicRecords, chunk: RecordChunk, error: KafkaError | None
    ) -> None:
        records.closed.popleft()
        for batch in chunk.batches or ():
            records.logs[batch.tp.partition] = self._producer.sender.log(batch.tp)
        chunk.batches = None
        self._handed(chunk)
        error = error or chunk.trouble
        if error is not None:
            chunk.fail(error)
        for call, why in chunk.impossible:
            call.give_up(why, in_doubt=False)


def _spoiled(chunk: RecordChunk, error: Exception) -> None:
    """Note why no batches could be made of a chunk."""
    if not isinstance(error, KafkaError):
        bug = error
        error = KafkaError(f"records could not be encoded: {bug!r}")
        error.__cause__ = bug
    chunk.trouble, chunk.batches = error, []
