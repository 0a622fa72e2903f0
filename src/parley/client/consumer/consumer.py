"""The blocking consumer: the same calls, from one thread at a time. Decoding runs
in the thread that calls.
"""

from __future__ import annotations

import os
import re
import time
import weakref
from collections.abc import Collection, Iterator
from contextlib import suppress
from types import TracebackType
from typing import TypeVar, Unpack, overload

from parley.client.consumer.async_consumer import AsyncConsumer
from parley.client.consumer.closing import after_body
from parley.client.consumer.core import LossListener
from parley.client.consumer.listener import ConsumerRebalanceListener
from parley.client.consumer.option_values import ConsumerClientOptionValues
from parley.client.consumer.polls import MOST_RECORDS, check_getmany, named
from parley.client.consumer.records import ConsumerRecord
from parley.client.consumer.stock import Rows, Stock
from parley.client.consumer.subscription import wanted_topics
from parley.client.fetch.positions import DataLoss
from parley.client.loop_thread import CallerThread, shared_loop
from parley.client.options import arguments
from parley.client.options.client_options import shown_client
from parley.client.results import ConsumerGroupMetadata, FetchedBatch
from parley.errors import KafkaError, LocalProtocolError
from parley.net.blocking import Work, blocking, in_loop
from parley.types import Names, Several, TopicPartition

T = TypeVar("T")
_stocks: weakref.WeakSet[Stock] = weakref.WeakSet()


def _after_fork() -> None:
    """Have the child hand out nothing that the parent hands out: its next poll says why."""
    for stock in _stocks:
        stock.close()


os.register_at_fork(after_in_child=_after_fork)


class Consumer:
    """A member of a group, or a consumer of assigned partitions, whose calls return when they are
    done.

    >>> options = {"group_id": "dashboard", "auto_offset_reset": "earliest"}
    >>> with Consumer(bootstrap_servers="localhost:9092", **options) as consumer:
    ...     consumer.subscribe(["flights"])  # or: consumer.assign([TopicPartition("flights", 0)])
    ...     record = consumer.getone()  # or: for record in consumer
    ...     print(record.offset, record.value)
    0 b'SK4035'

    Options and methods are those of AsyncConsumer, whose docstrings say what they raise. The
    listener of `subscribe` is called in the thread that polls, `on_data_loss` in the loop's. After
    a fork the child makes one of its own.
    """

    def __init__(
        self,
        *,
        on_data_loss: LossListener | None = None,
        **named: Unpack[ConsumerClientOptionValues],
    ) -> None:
        self._consumer = AsyncConsumer(on_data_loss=on_data_loss, **named)
        self._core = self._consumer._core
        self._stock = self._core.stock
        _stocks.add(self._stock)
        self._caller = CallerThread()
        self._core.group.call_listener = self._caller.call
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return shown_client(self, self._core.client.options, closed=self._core._closed)

    def _run(self, work: Work[T]) -> T:
        # the loop and the sockets that came along belong to the parent
        if self._pid != os.getpid():
            work.close()
            raise LocalProtocolError(
                "this consumer was made in another process; make a new one after a fork"
            )
        if self._core.group.subscribed:
            return self._caller.wait_for(shared_loop(), work)
        return shared_loop().call(work)

    def _async(self) -> AsyncConsumer:
        return self._consumer

    def start(self) -> Consumer:
        """Reach a broker; `with` does it."""
        self._run(self._consumer.start())
        return self

    close = blocking(AsyncConsumer.close)
    stop = blocking(AsyncConsumer.stop)

    def __enter__(self) -> Consumer:
        self._run(self._consumer.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with after_body(error):
            self.close()

    # -- the group ---------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Names = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Read topics, or all whose whole name a pattern matches, sharing them with the other
        members of the group.

        Replaces what was subscribed to before. The listener's methods are called in the thread that
        polls; here they are no coroutines. Raises ConfigError without a `group_id`, and
        LocalProtocolError while partitions are assigned by hand.
        """
        # what the caller iterates over is not run in the loop
        wanted = wanted_topics(topics, pattern, listener)

        async def work() -> None:
            self._core.group.subscribe(wanted)

        self._run(work())

    unsubscribe = blocking(AsyncConsumer.unsubscribe)
    enforce_rebalance = in_loop(AsyncConsumer.enforce_rebalance)
    health = in_loop(AsyncConsumer.health)

    def subscription(self) -> frozenset[str]:
        """Return the topics subscribed to; with a pattern, those that matched last."""
        return self._consumer.subscription()

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return who this member is, for `send_offsets_to_transaction` (KIP-447).
        Outside of a group: nobody.
        """
        return self._consumer.group_metadata()

    # -- assignment and positions ------------------------------------------------------------------

    def assign(self, partitions: Several[TopicPartition]) -> None:
        """Read these partitions and no others; those assigned before keep their positions."""
        # what the caller iterates over is not run in the loop
        self._assign(arguments.partitions(partitions))

    _assign = in_loop(AsyncConsumer.assign)

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions."""
        return self._consumer.assignment()

    seek = in_loop(AsyncConsumer.seek)
    seek_to_beginning = blocking(AsyncConsumer.seek_to_beginning)
    seek_to_end = blocking(AsyncConsumer.seek_to_end)
    position = blocking(AsyncConsumer.position)
    position_with_epoch = blocking(AsyncConsumer.position_with_epoch)
    pause = in_loop(AsyncConsumer.pause)
    resume = in_loop(AsyncConsumer.resume)

    def paused(self) -> frozenset[TopicPartition]:
        """Return the paused partitions."""
        return self._consumer.paused()

    @property
    def data_losses(self) -> tuple[DataLoss, ...]:
        """What was lost so far, the last 1000 of them."""
        return self._consumer.data_losses

    # -- commits and offsets -----------------------------------------------------------------------

    commit = blocking(AsyncConsumer.commit)
    committed = blocking(AsyncConsumer.committed)

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the offset that the next record gets, as of the last fetch."""
        return self._consumer.highwater(partition)

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Return the end of what read_committed shows, as of the last fetch."""
        return self._consumer.last_stable_offset(partition)

    beginning_offsets = blocking(AsyncConsumer.beginning_offsets)
    end_offsets = blocking(AsyncConsumer.end_offsets)
    offsets_for_times = blocking(AsyncConsumer.offsets_for_times)

    # -- reading -----------------------------------------------------------------------------------

    @overload
    def getone(self, *partitions: TopicPartition) -> ConsumerRecord: ...
    @overload
    def getone(self, *partitions: TopicPartition, timeout_ms: int) -> ConsumerRecord | None: ...
    def getone(
        self, *partitions: TopicPartition, timeout_ms: int | None = None
    ) -> ConsumerRecord | None:
        """Return the next record of these partitions, or of all; waits for it.

        With `timeout_ms` it waits no longer than that, and returns None where none came.
        """
        if timeout_ms is not None:
            arguments.timeout(timeout_ms)
        if not partitions and (record := self._stock.front.take_one()) is not None:
            return record
        rows = self._take(partitions, timeout_ms, 1)
        return rows[0] if rows else None

    def getmany(
        self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the records that are there, by partition; waits up to
        `timeout_ms` for the first of them.
        """
        check_getmany(timeout_ms, max_records)
        taken: dict[TopicPartition, list[ConsumerRecord]] = {}
        left = MOST_RECORDS if max_records is None else max_records
        self._stock.begin_front()
        try:
            while left > 0 and (
                rows := self._take(
                    partitions, 0 if taken else timeout_ms, left, raise_errors=not taken
                )
            ):
                taken.setdefault(self._stock.partition, []).extend(rows)
                left -= len(rows)
            return taken
        except BaseException:
            self._give_back(taken)
            raise

    def _give_back(self, rows: Rows) -> None:
        """Go back in front of what an interrupted call has taken: nobody gets it."""
        if not (positions := self._stock.lost(rows)):
            return

        async def work() -> None:
            self._core.go_back(positions)

        with suppress(KafkaError):  # what interrupted the call is the error
            self._run(work())

    def poll(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """The same as `getmany` of all partitions, under the name that Java's and kafka-python's
        consumers have for it.
        """
        return self.getmany(timeout_ms=timeout_ms, max_records=max_records)

    def _take(
        self,
        partitions: Collection[TopicPartition],
        timeout_ms: int | None,
        most: int,
        *,
        raise_errors: bool = True,
    ) -> list[ConsumerRecord]:
        """Return records of one partition; none where none came in time."""
        stock, of = self._stock, named(partitions)
        if rows := stock.take(most, of):
            return rows
        until = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        while True:
            if stock.undecoded(of):
                stock.decode(of)
                if rows := stock.take(most, of):
                    return rows
                if (failure := stock.failure(of)) is not None:
                    if raise_errors:
                        raise failure
                    return []
            left_ms = None if until is None else max(0, round((until - time.monotonic()) * 1000))
            found = self._run(self._core.poll(partitions, left_ms, raise_errors=raise_errors))
            if found is None or not (stock.is_open or raise_errors):
                return []
            if rows := stock.take(most, of):
                return rows

    def __iter__(self) -> Iterator[ConsumerRecord]:
        stock = self._stock
        while True:
            record = stock.front.take_one()
            yield record if record is not None else self.getone()

    def batches(self, *partitions: TopicPartition) -> Iterator[FetchedBatch]:
        """Yield Arrow RecordBatches, each with its partition and the next offset;
        forever, nothing copied.
        """
        taken = None
        while True:
            self._stock.begin(taken)
            try:
                found, taken = self._run(self._core.next_batch(partitions, taken))
            except BaseException:
                self._give_back({})
                raise
            if found is not None:
                yield found
            taken = self._core.current(taken)
            if taken is not None:
                taken.fetch.fill_batch()
