"""The blocking consumer: the same calls, from one thread at a time. Decoding runs in the thread that calls."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, TypeVar

from parley.client.blocking import shared_loop
from parley.client.consumer import Consumer
from parley.client.consumer_core import LossListener, OffsetsToCommit
from parley.client.consumer_rows import ConsumerRecord
from parley.client.positions import DataLoss
from parley.client.results import FetchedBatch, OffsetAndTimestamp
from parley.errors import LocalProtocolError
from parley.types import OffsetAndMetadata, TopicPartition

T = TypeVar("T")


class BlockingConsumer:
    """A consumer of assigned partitions whose calls return when they are done.

    >>> with BlockingConsumer(bootstrap_servers="localhost:9092") as consumer:  # doctest: +SKIP
    ...     consumer.assign([TopicPartition("flights", 0)])
    ...     for record in consumer:
    ...         print(record.offset, record.value)

    Options and methods are those of Consumer, whose docstrings say what they raise. `on_data_loss` is called
    in the loop's thread. After a fork the child makes one of its own.
    """

    def __init__(self, *, on_data_loss: LossListener | None = None, **named: Any) -> None:
        self._consumer = Consumer(on_data_loss=on_data_loss, **named)
        self._core = self._consumer._core
        self._pid = os.getpid()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._pid != os.getpid():  # the loop and the sockets that came along belong to the parent
            work.close()
            raise LocalProtocolError("this consumer was made in another process; make a new one after a fork")
        return shared_loop().call(work)

    def _do(self, function: Any, *arguments: Any, **keywords: Any) -> Any:
        async def call() -> Any:
            return function(*arguments, **keywords)

        return self._run(call())

    def start(self) -> BlockingConsumer:
        """Reach a broker; `with` does it."""
        self._run(self._consumer.start())
        return self

    def stop(self) -> None:
        """Stop reading, without a commit. Idempotent."""
        self._run(self._consumer.stop())

    def __enter__(self) -> BlockingConsumer:
        self._run(self._consumer.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- assignment and positions ---------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others; those assigned before keep their positions."""
        self._do(self._consumer.assign, list(partitions))

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions."""
        return self._consumer.assignment()

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go to an offset; one with a leader epoch is validated first."""
        self._do(self._consumer.seek, partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the first offset that is there, in these partitions or all."""
        self._run(self._consumer.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go to the end, in these partitions or all."""
        self._run(self._consumer.seek_to_end(*partitions))

    def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record."""
        return self._run(self._consumer.position(partition))

    def position_with_epoch(self, partition: TopicPartition) -> OffsetAndMetadata:
        """Return the position with the leader epoch of the record before it."""
        return self._run(self._consumer.position_with_epoch(partition))

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these partitions until they are resumed."""
        self._do(self._consumer.pause, *partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on with paused partitions."""
        self._do(self._consumer.resume, *partitions)

    def paused(self) -> frozenset[TopicPartition]:
        """Return the paused partitions."""
        return self._consumer.paused()

    @property
    def data_losses(self) -> tuple[DataLoss, ...]:
        """What was lost so far, the last 1000 of them."""
        return self._consumer.data_losses

    # -- commits and offsets --------------------------------------------------------------------------

    def commit(self, offsets: OffsetsToCommit | None = None) -> None:
        """Commit positions, or the offsets given, with their leader epochs."""
        self._run(self._consumer.commit(offsets))

    def committed(self, partition: TopicPartition) -> OffsetAndMetadata | None:
        """Return what the group has committed for a partition, None where nothing."""
        return self._run(self._consumer.committed(partition))

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the offset that the next record gets, as of the last fetch."""
        return self._consumer.highwater(partition)

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Return the end of what read_committed shows, as of the last fetch."""
        return self._consumer.last_stable_offset(partition)

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition that is there."""
        return self._run(self._consumer.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end of each partition."""
        return self._run(self._consumer.end_offsets(partitions))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after each time in milliseconds, None where there is none."""
        return self._run(self._consumer.offsets_for_times(timestamps))

    # -- reading --------------------------------------------------------------------------------------

    def getone(self, *partitions: TopicPartition) -> ConsumerRecord:
        """Return the next record of these partitions, or of all; waits for it."""
        while True:
            found = self._rows(partitions, None, 1)
            if found:
                return found[0]

    def getmany(
        self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the records that are there, by partition; waits up to `timeout_ms` for the first of them."""
        until = time.monotonic() + timeout_ms / 1000
        taken: dict[TopicPartition, list[ConsumerRecord]] = {}
        left = 2**31 - 1 if max_records is None else max_records
        while left > 0:
            wait_ms = 0 if taken else max(0, round((until - time.monotonic()) * 1000))
            found = self._rows(partitions, wait_ms, left, tell=not taken)
            if found is None:
                break
            if found:
                taken.setdefault(TopicPartition(found[0].topic, found[0].partition), []).extend(found)
                left -= len(found)
        return taken

    def _rows(
        self, partitions: Collection[TopicPartition], timeout_ms: int | None, most: int, *, tell: bool = True
    ) -> list[ConsumerRecord] | None:
        front = None
        while True:
            rows, front = self._run(self._core.next_rows(partitions, timeout_ms, most, tell=tell, filled=front))
            if front is None:
                return rows
            front.fill_rows(self._core.position_of(front))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        while True:
            yield self.getone()

    def batches(self, *partitions: TopicPartition) -> Iterator[FetchedBatch]:
        """Yield Arrow RecordBatches, each with its partition and the next offset; for ever, nothing copied."""
        front = None
        while True:
            found, front = self._run(self._core.next_batch(partitions, front))
            if found is not None:
                yield found
            front = self._core.current(front)
            if front is not None:
                front.fill_batch(self._core.position_of(front))
