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
from parley.client.produce.record_batches import (
    Made,
    Spreading,
    make_batches,
    make_together,
    spreading,
)
from parley.client.produce.record_topics import RecordPolicy, RecordTopics, TopicRecords
from parley.errors import KafkaError
from parley.net.blocking import Work
from parley.types import TopicPartition

INLINE_BYTES = 256 * 1024
"""A chunk of uncompressed records up to here is made into batches in the loop."""
INLINE_TOGETHER_BYTES = 2**20
"""So many bytes of several such chunks are made at once."""
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
        self._hashes = not policy.batches.options.partitioner_ignore_keys
        self._inline_bytes = INLINE_BYTES if plain else INLINE_COMPRESSED_BYTES
        self._together_bytes = INLINE_TOGETHER_BYTES if plain else INLINE_COMPRESSED_BYTES
        self._making = 0

    @property
    def is_making(self) -> bool:
        """Whether batches are being made, turn by turn or in a thread."""
        return self._making > 0

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
        if len(groups) == 1 and self._is_small(groups[0][0][1]):
            self._make(groups[0])
            self._hand_over_each(groups[0])
        elif groups:
            self._making += 1
            self._spawn(self._make_in_turn(groups))

    def _groups(self, closed: Sequence[Closed]) -> Iterator[list[Closed]]:
        """Yield what is made at once; what is too large for the loop comes alone."""
        group: list[Closed] = []
        size = 0
        for records, chunk in closed:
            most = self._together_bytes if self._is_small(chunk) else 0
            if group and (size + chunk.size > most or len(group) == CHUNKS_AT_ONCE):
                yield group
                group, size = [], 0
            group.append((records, chunk))
            size += chunk.size
        if group:
            yield group

    def _is_small(self, chunk: RecordChunk) -> bool:
        return chunk.size <= self._inline_bytes

    async def _make_in_turn(self, groups: list[list[Closed]]) -> None:
        try:
            for group in groups:
                if self._is_small(group[0][1]):
                    self._make(group)
                else:
                    await asyncio.to_thread(self._make, group)
                self._hand_over_each(group)
                await asyncio.sleep(0)
        finally:
            self._making -= 1
            self._producer.sender.kick_soon()

    async def _make_prepared(self, records: TopicRecords, chunk: RecordChunk) -> None:
        try:
            await self._topics.prepare(records.topic)
        except Exception as error:  # whoever waits for these records has to learn of it
            _spoiled(chunk, error)
        else:
            await asyncio.to_thread(self._make, [(records, chunk)])
        self.hand_over(records)

    def _make(self, closed: Sequence[Closed]) -> None:
        """Make batches of the chunks. In any thread."""
        filled: list[Closed] = []
        for records, chunk in closed:
            try:
                if chunk.rows:
                    records.spreads = chunk.unplaced(self._hashes) > 0
                    filled.append((records, chunk))
                else:
                    chunk.batches = []
            except Exception as error:
                _spoiled(chunk, error)
        for records, chunk in self._make_together(filled):
            try:
                self._make_one(records, chunk)
            except Exception as error:  # whoever waits for these records has to learn of it
                _spoiled(chunk, error)

    def _make_together(self, closed: Sequence[Closed]) -> list[Closed]:
        """Make batches of what the kernel makes by itself; return what has to be looked at."""
        together: list[Closed] = []
        others: list[Closed] = []
        policy = self._policy.batches
        usual = policy.key_hash is None and not self._producer.sender.has_older_topics
        for records, chunk in closed:
            plan = records.plan
            (together if usual and plan is not None and plan.is_newest else others).append(
                (records, chunk)
            )
        made: list[Made | None] = []
        try:
            work = [self._spreading(records, chunk) for records, chunk in together]
            made = make_together(work, policy) if work else []
        except Exception as error:
            for _, chunk in together:
                _spoiled(chunk, error)
            return others
        for (records, chunk), one in zip(together, made, strict=True):
            if one is None:
                others.append((records, chunk))
            else:
                chunk.batches, chunk.impossible = one
        return others

    def _spreading(self, records: TopicRecords, chunk: RecordChunk) -> Spreading:
        assert records.plan is not None
        with records.placing:
            return spreading(chunk, records.plan, records.sticky, self._policy.batches.options)

    def _make_one(self, records: TopicRecords, chunk: RecordChunk) -> None:
        assert records.plan is not None
        with records.placing:
            records.sticky.leave_if_behind(records.plan)
            chunk.batches, chunk.impossible = make_batches(
                chunk, records.plan, records.sticky, self._policy.batches, self._newest_magic
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
                except Exception as raised:
                    error = _reported(raised)
            self._handed_over(records, chunk, error)
        if self._topics.wants_news(records):
            self._spawn(self._topics.renew(records))

    async def _hand_over_in_turn(self, records: TopicRecords, chunk: RecordChunk) -> None:
        error: KafkaError | None = None
        try:
            await self._producer.hand_over_in_turn(
                chunk.batches or [], self._policy.batches.options
            )
        except Exception as raised:
            error = _reported(raised)
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
    chunk.trouble, chunk.batches = _reported(error), []


def _reported(error: Exception) -> KafkaError:
    """Return what whoever waits for the records of a chunk learns."""
    if isinstance(error, KafkaError):
        return error
    made = KafkaError(f"records could not be handed over: {error!r}")
    made.__cause__ = error
    return made
