"""Records that were gathered for one topic, and what became of each.

A chunk is what all its records share: columns that grow while it is open, then one BatchCall for
each record batch that was made of it. An acknowledgement is the chunk and a row; partition and
offset of a row are worked out when somebody looks.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future as ThreadFuture, TimeoutError as ThreadTimeout
from itertools import count, repeat
from operator import attrgetter
from threading import Lock

from parley.client.cluster.event_loops import another_loop
from parley.client.produce.state import OutBatch, ProduceCall
from parley.client.results import RecordMetadata
from parley.errors import KafkaError, LocalProtocolError, RequestTimedOut, own_copy
from parley.records import RecordGatherer, RowHandle
from parley.types import TopicPartition

Headers = Sequence[tuple[bytes, bytes | None]]
OnDelivery = Callable[[KafkaError | None, RecordMetadata], object]
"""Called with an error or None, and where the record is: partition and offset -1 where unknown."""
_FIRST = attrgetter("first")
_NEW = tuple.__new__  # which takes half the time of RecordMetadata's own
Waiter = asyncio.Future[None] | ThreadFuture[None]


class BatchCall(ProduceCall):
    """What became of the records in one batch of a chunk. Belongs to the event loop."""

    joint: ProduceCall | None = None
    """What it shares its fate with, where its batch was joined with others."""

    def __init__(self, chunk: RecordChunk, partition: TopicPartition, first: int, records: int):
        # not as ProduceCall begins: there are many, and none keeps an account of acknowledgements
        self.open, self.error = 0, None
        self.chunk = chunk
        self.partition: TopicPartition = partition
        self.first, self.records = first, records
        """Its place among the chunk's records, in the order in which batches were made of them."""
        self.done = self.in_doubt = False
        self.base_offset = self.log_append_time_ms = -1
        self.waiters: list[tuple[int, Waiter]] = []

    def acknowledged(self, batch: OutBatch, base_offset: int, log_append_time_ms: int) -> None:
        """Take note of a batch that is in the log."""
        self.open -= 1
        if not self.done:
            self.base_offset, self.log_append_time_ms = base_offset, log_append_time_ms
            self.done = True
            self.chunk.call_ended(self)

    def give_up(self, error: KafkaError, *, in_doubt: bool) -> None:
        """Take note of the first error; whoever waits learns of it."""
        if not self.done:
            self.error, self.in_doubt, self.done = error, in_doubt, True
            self.chunk.call_ended(self)

    def replaced(self, pieces: list[OutBatch]) -> None:
        """Let each piece have an outcome of its own."""
        if len(pieces) == 1 or self.done:
            self.open += len(pieces) - 1
            return
        first, made = self.first, []
        for piece in pieces:
            piece.call = call = BatchCall(self.chunk, self.partition, first, piece.records)
            call.open = 1
            made.append(call)
            first += piece.records
        self.chunk.call_replaced(self, made)

    def divided(self, records: int) -> tuple[BatchCall, BatchCall]:
        """Return the outcomes of its first records and of the rest, which go instead of it."""
        before = BatchCall(self.chunk, self.partition, self.first, records)
        rest = BatchCall(self.chunk, self.partition, self.first + records, self.records - records)
        before.open = rest.open = 1
        self.chunk.call_replaced(self, [before, rest])
        return before, rest


class RecordChunk(RecordGatherer):
    """The records of one topic that were gathered since `created_ms`."""

    __slots__ = (
        "_order", "_outcomes", "_places", "_waiters", "batches", "calls", "created_ms", "granted",
        "impossible", "limit", "loop", "on_ended", "open", "rows", "size", "times", "topic",
        "trouble", "unheld",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        created_ms: int,
        limit: int,
        guard: Lock,
        on_ended: Callable[[RecordChunk, BatchCall], None],
    ) -> None:
        self.topic, self.created_ms, self.limit = topic, created_ms, limit
        self.times: memoryview | None = None
        """The time of each row in milliseconds, once batches were made of them."""
        self.batches: list[OutBatch] | None = None
        """What was made of it and waits to be handed to the sender."""
        self.trouble: KafkaError | None = None
        """Why no batches could be made of it."""
        self.impossible: list[tuple[BatchCall, KafkaError]] = []
        self.granted = self.rows = self.size = 0
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop that sends it; its acknowledgements are awaited in no other."""
        self.unheld = False
        """Whether it has records that nobody holds an acknowledgement of."""
        self.open = -1
        """Batches whose outcome is not known; -1 before they are made."""
        self.calls: list[BatchCall] = []
        self.on_ended = on_ended
        self._outcomes = guard
        self._waiters: list[tuple[int, Waiter]] = []
        self._order: list[tuple[int, Sequence[int]]] | None = None
        self._places: array[int] | None = None
        self.admit(0, False, guard)

    # -- from columns to batches -------------------------------------------------------------------

    def made(
        self,
        calls: list[BatchCall],
        order: list[tuple[int, Sequence[int]]] | None,
        times: memoryview,
    ) -> None:
        """Take note of the batches that were made of it. `order`: the rows of each group of them,
        with the place where it begins; None for all in their order. `times` are those of the rows
        in milliseconds.
        """
        with self._outcomes:
            self.times = times
            if self.open < 0:  # else it was given up meanwhile
                self._begin_calls(calls, order)

    def fail(self, error: KafkaError) -> None:
        """Give up what was not handed to the sender yet, if its batches are made or not."""
        with self._outcomes:
            if self.open < 0:
                everything = BatchCall(self, TopicPartition(self.topic, -1), 0, self.rows)
                self._begin_calls([everything], None)
        for call in list(self.calls):
            call.give_up(error, in_doubt=False)

    def _begin_calls(
        self, calls: list[BatchCall], order: list[tuple[int, Sequence[int]]] | None
    ) -> None:
        self._order, self.open, self.calls = order, len(calls), calls
        waiters, self._waiters = self._waiters, []
        for row, waiter in waiters:
            self._call_of(row).waiters.append((row, waiter))

    # -- outcomes ----------------------------------------------------------------------------------

    @property
    def settled(self) -> bool:
        """Whether the outcome of every record is known."""
        return self.open == 0

    def call_ended(self, call: BatchCall) -> None:
        """Wake whoever waits for records of a batch."""
        with self._outcomes:
            waiters, call.waiters = call.waiters, []
            self.open -= 1
        for _, waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.on_ended(self, call)

    def call_replaced(self, old: BatchCall, new: list[BatchCall]) -> None:
        """Take note of batches that go instead of one."""
        with self._outcomes:
            at = self.calls.index(old)
            # another list: other threads look rows up without the guard
            self.calls = [*self.calls[:at], *new, *self.calls[at + 1 :]]
            self.open += len(new) - 1
            for row, waiter in old.waiters:
                self._call_of(row).waiters.append((row, waiter))

    def call_of(self, row: int) -> BatchCall | None:
        """Return the outcome of a row's batch, None before there is one."""
        return self._call_of(row) if self.calls else None

    def unacknowledged(self) -> int:
        """Return how many of its records have no outcome yet."""
        if self.open < 0:
            return self.rows or self.count
        return sum(call.records for call in self.calls if not call.done)

    def wait(self, row: int, waiter: Waiter) -> bool:
        """Have a future set when a row's outcome is known; False if it is known already."""
        with self._outcomes:
            if self.open < 0:
                self._waiters.append((row, waiter))
                return True
            call = self._call_of(row)
            if call.done:
                return False
            call.waiters.append((row, waiter))
            return True

    def metadata(self, row: int, call: BatchCall) -> RecordMetadata:
        """Return where a row of a batch is."""
        offset = call.base_offset
        if offset >= 0:
            offset += (row if self._order is None else self._place(row)) - call.first
        time_ms = call.log_append_time_ms
        topic, partition = call.partition
        if time_ms < 0 and self.times is not None:
            time_ms = self.times[row]
        return _NEW(RecordMetadata, (topic, partition, offset, time_ms))

    def delivered(self, call: BatchCall) -> Iterator[tuple[int, RecordMetadata]]:
        """Yield the rows of an acknowledged batch, and where they are, in its order."""
        rows = self.rows_of(call)
        offsets = count(call.base_offset) if call.base_offset >= 0 else repeat(-1)
        times: Iterable[int] = repeat(call.log_append_time_ms)
        if call.log_append_time_ms < 0 and self.times is not None:
            times = map(self.times.__getitem__, rows)
        topic, partition = call.partition
        fields = zip(repeat(topic), repeat(partition), offsets, times, strict=False)
        return zip(rows, map(_NEW, repeat(RecordMetadata), fields), strict=False)

    def rows_of(self, call: BatchCall) -> Sequence[int]:
        """Return the rows of a batch, in its order."""
        stop = call.first + call.records
        for start, rows in self._order or ():
            if start <= call.first < start + len(rows):
                return rows[call.first - start : stop - start]
        return range(call.first, stop)

    def _call_of(self, row: int) -> BatchCall:
        calls = self.calls
        if len(calls) == 1:
            return calls[0]
        place = row if self._order is None else self._place(row)
        return calls[bisect_right(calls, place, key=_FIRST) - 1]

    def _place(self, row: int) -> int:
        """Return a row's place among the records in the order of the batches."""
        places = self._places
        if places is None:
            places = array("i", bytes(4 * self.rows))
            for start, rows in self._order or ():
                for place, one in enumerate(rows, start):
                    places[one] = place
            self._places = places
        return places[row]


class _Outcome(RowHandle):
    """What is known of one record that was sent."""

    __slots__ = ()
    _owner: RecordChunk

    def __repr__(self) -> str:
        call, name = self._owner.call_of(self._row), type(self).__name__
        if call is None or not call.done:
            return f"<{name} of a record for {self._owner.topic}, not known yet>"
        if call.error is not None:
            return f"<{name} of a record for {self._owner.topic}, failed: {call.error}>"
        found = self._owner.metadata(self._row, call)
        return f"<{name} of {found.topic}-{found.partition}, offset {found.offset}>"

    def done(self) -> bool:
        """Return whether the outcome is known."""
        call = self._owner.call_of(self._row)
        return call is not None and call.done

    @property
    def in_doubt(self) -> bool:
        """Whether it failed, and may be in the log all the same, or still get there."""
        call = self._owner.call_of(self._row)
        return call is not None and call.in_doubt

    def exception(self) -> KafkaError | None:
        """Return why the record was not acknowledged; None if it was. Raises LocalProtocolError
        before the outcome is known.
        """
        call = self._ended()
        return None if call.error is None else failure(call.error, in_doubt=call.in_doubt)

    def _ended(self) -> BatchCall:
        call = self._owner.call_of(self._row)
        if call is None or not call.done:
            raise LocalProtocolError("the outcome of this record is not known yet: wait for it")
        return call

    def _metadata(self) -> RecordMetadata:
        chunk, row = self._owner, self._row
        call = chunk.call_of(row)
        if call is None or not call.done or call.error is not None:
            call = self._ended()
            assert call.error is not None
            raise failure(call.error, in_doubt=call.in_doubt) from call.error.__cause__
        return chunk.metadata(row, call)


class AsyncAcknowledgement(_Outcome):
    """What `AsyncProducer.send` returns: await it for the RecordMetadata of the record.

    It may be awaited any number of times, or not at all. Raises the error that the record failed
    with: its note says whether the record may have been written. Cancelling the await changes
    nothing for the record.
    """

    __slots__ = ()

    def __await__(self) -> Generator[asyncio.Future[None], None, RecordMetadata]:
        if not self.done():
            loop = asyncio.get_running_loop()
            if self._owner.loop not in (loop, None):
                raise another_loop("producer", is_closed=self._owner.loop.is_closed())
            waiter: asyncio.Future[None] = loop.create_future()
            if self._owner.wait(self._row, waiter):
                yield from waiter
        return self._metadata()

    def result(self) -> RecordMetadata:
        """Return where the record is. Raises its error, and LocalProtocolError if nothing is known
        yet.
        """
        return self._metadata()


class Acknowledgement(_Outcome):
    """What `Producer.produce` returns: `result` waits for the RecordMetadata of the record."""

    __slots__ = ()

    def result(self, timeout_ms: int | None = None) -> RecordMetadata:
        """Return where the record is, after waiting for that. Raises the error that the record
        failed with (its note says whether it may have been written), and RequestTimedOut after
        `timeout_ms`: then it is still on its way.
        """
        if not self.done():
            waiter: ThreadFuture[None] = ThreadFuture()
            if self._owner.wait(self._row, waiter):
                try:
                    waiter.result(None if timeout_ms is None else timeout_ms / 1000)
                except ThreadTimeout:
                    waiter.cancel()
                    raise RequestTimedOut(
                        f"the record was not acknowledged within {timeout_ms} ms; it is still on "
                        "its way",
                        stage="request",
                    ) from None
        return self._metadata()


def failure(error: KafkaError, *, in_doubt: bool) -> KafkaError:
    """Return a record's own copy of its batch's error, with a note on what is known of it."""
    own = own_copy(error)
    own.add_note(
        "It is not known whether the record was written: it may be in the log, or still get there."
        if in_doubt
        else "The record was not written."
    )
    return own
