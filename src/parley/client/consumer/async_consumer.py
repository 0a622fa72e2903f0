"""The asynchronous consumer: in a group or of assigned partitions, positions
that know their history.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from types import TracebackType
from typing import Unpack, overload

from parley.client.async_client import AsyncClient
from parley.client.consumer.closing import CLOSE_TIMEOUT_MS, after_body, close_consumer
from parley.client.consumer.core import ConsumerCore, LossListener
from parley.client.consumer.health import GroupHealth
from parley.client.consumer.listener import ConsumerRebalanceListener
from parley.client.consumer.option_values import ConsumerClientOptionValues
from parley.client.consumer.options import ConsumerOptions
from parley.client.consumer.polls import MOST_RECORDS, check_getmany, named
from parley.client.consumer.records import ConsumerRecord
from parley.client.consumer.subscription import wanted_topics
from parley.client.fetch.positions import DataLoss
from parley.client.options import arguments
from parley.client.options.client_options import ClientOptions, shown_client
from parley.client.options.fields import split_named
from parley.client.results import (
    EARLIEST,
    LATEST,
    ConsumerGroupMetadata,
    FetchedBatch,
    OffsetAndTimestamp,
    Timestamp,
)
from parley.types import Names, OffsetAndMetadata, Several, TopicPartition, text


class AsyncConsumer:
    """A member of a group, or a consumer of assigned partitions, for one event loop and one task at
    a time.

    >>> async def read() -> None:
    ...     options = {"group_id": "readers", "auto_offset_reset": "earliest"}
    ...     async with AsyncConsumer(bootstrap_servers="localhost:9092", **options) as consumer:
    ...         consumer.subscribe(["flights"])  # or: assign([TopicPartition("flights", 0)])
    ...         record = await consumer.getone()  # or: async for record in consumer
    ...         print(record.offset, record.value)
    >>> asyncio.run(read())
    0 b'SK4035'

    Options are those of ClientOptions and ConsumerOptions, by name; with `client` given only the
    latter, and that client stays open. What is subscribed to is shared among the members of
    `group_id`, of whatever client (classic protocol, Kafka 0.9 and later); partitions change in
    `getone`, `getmany` and their kin, and nowhere else. Offsets are committed for `group_id`, by
    default every 5 s, when partitions are given up and at `close`; assigned partitions without
    membership, which a group with members refuses. Positions are validated when leaders move
    (KIP-320). Where records are lost (truncation, re-creation, retention), reading goes on at the
    right place with `auto_offset_reset` earliest, latest or by_duration: `on_data_loss` is called
    with each DataLoss, and `data_losses` keeps them. With "none" the call raises
    LogTruncationError, TopicRecreatedError or DataLossError, and again until a seek. What a call
    raises after some records, it raises at the next call.
    """

    def __init__(
        self,
        client: AsyncClient | None = None,
        *,
        on_data_loss: LossListener | None = None,
        **named: Unpack[ConsumerClientOptionValues],
    ) -> None:
        self._own: AsyncClient | None = None
        arguments.optional("client", client, AsyncClient)
        arguments.listener("on_data_loss", on_data_loss)
        if client is None:
            client_options, options = split_named(named, ClientOptions, ConsumerOptions)
            client = self._own = AsyncClient(client_options)
        else:
            options = ConsumerOptions.of(named)
        self._core = ConsumerCore(client, options, on_data_loss)
        self._stock = self._core.stock
        self._decoding: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return shown_client(self, self._core.client.options, closed=self._core._closed)

    # -- life --------------------------------------------------------------------------------------

    async def start(self) -> AsyncConsumer:
        """Reach a broker; `async with` does it. Raises BrokersUnreachable."""
        await self._core.start()
        return self

    async def close(self, *, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Commit, unless `enable_auto_commit` is off, leave the group and stop reading. Idempotent.

        Waits `timeout_ms` for brokers, and for the listener as long as it takes:
        `on_partitions_revoked` is called before the group is left. What is not answered in time is
        given up, and logged. A static member stays in the group for a session. Cancelled, it ends
        at once. Raises LocalProtocolError in another event loop than the consumer's, unless that is
        closed. Then nobody leaves, nor where it was cancelled: the group notices after a session.
        """
        await close_consumer(self._core, self._own, timeout_ms)

    async def stop(self) -> None:
        """The same as `close`, under the name that aiokafka's consumer has for it."""
        await self.close()

    async def __aenter__(self) -> AsyncConsumer:
        try:
            return await self.start()
        except BaseException:
            await self.close()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with after_body(error):
            await self.close()

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

        Replaces what was subscribed to before. The listener is called in the polls of this
        consumer. Raises ConfigError without a `group_id`, and LocalProtocolError while partitions
        are assigned by hand.
        """
        self._core.group.subscribe(wanted_topics(topics, pattern, listener))

    async def unsubscribe(self) -> None:
        """Commit and give everything up as `close` does, and leave the group; or drop
        what was assigned by hand.
        """
        await self._core.group.unsubscribe()

    def subscription(self) -> frozenset[str]:
        """Return the topics subscribed to; with a pattern, those that matched last."""
        return self._core.group.topics

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return who this member is, for `send_offsets_to_transaction` (KIP-447).
        Outside of a group: nobody.
        """
        return self._core.group.metadata()

    def enforce_rebalance(self, reason: str = "the application asked for a rebalance") -> None:
        """Let the group rebalance; the coordinator logs the reason (KIP-800). Does
        nothing outside of one.
        """
        self._core.group.enforce_rebalance(text("reason", reason))

    def health(self) -> GroupHealth | None:
        """Return how the membership is: state, last rebalance and its reason, age of the last poll,
        stalled partitions.

        None where this consumer has not subscribed.
        """
        return self._core.group.health()

    # -- assignment and positions ------------------------------------------------------------------

    def assign(self, partitions: Several[TopicPartition]) -> None:
        """Read these partitions and no others; those assigned before keep their positions."""
        self._core.assign(partitions)

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions."""
        return self._core.assignment

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go to an offset. With an OffsetAndMetadata that has a leader epoch the
        position is validated first.
        """
        self._core.seek(partition, offset)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the first offset that is there, in these partitions or all.
        Returns when it is found.
        """
        self._core.seek_to(EARLIEST, partitions)
        await self._core.positioned(partitions or tuple(self._core.assignment))

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go to the end (read_committed: the last stable offset), in these partitions or all."""
        self._core.seek_to(LATEST, partitions)
        await self._core.positioned(partitions or tuple(self._core.assignment))

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record. Raises RequestTimedOut, or what
        stands in the way of one.
        """
        return (await self._core.position(partition)).offset

    async def position_with_epoch(self, partition: TopicPartition) -> OffsetAndMetadata:
        """Return the position with the leader epoch of the record before it (-1:
        unknown), as `commit` sends it.
        """
        return await self._core.position(partition)

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these partitions until they are resumed; positions stay."""
        self._core.pause(partitions, paused=True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on with paused partitions."""
        self._core.pause(partitions, paused=False)

    def paused(self) -> frozenset[TopicPartition]:
        """Return the paused partitions."""
        return frozenset(tp for tp in self._core.assignment if self._core.part(tp).paused)

    @property
    def data_losses(self) -> tuple[DataLoss, ...]:
        """What was lost so far, the last 1000 of them."""
        return tuple(self._core.losses)

    # -- commits -----------------------------------------------------------------------------------

    async def commit(self, offsets: arguments.OffsetsToCommit | None = None) -> None:
        """Commit positions, or the offsets given (the *next* to be read), with their leader epochs.

        An offset is a number, (offset, metadata) or an OffsetAndMetadata. Raises ConfigError
        without a `group_id`, DataLossError for an offset of a history that is gone,
        RebalanceInProgressError while the group rebalances (poll, then commit again),
        CommitFailedError where partitions are lost or some were refused, and what the broker
        answers: a group with active members refuses who is none of them.
        """
        await self._core.group.commit(offsets)

    async def committed(self, partition: TopicPartition) -> OffsetAndMetadata | None:
        """Return what the group has committed for a partition, None where nothing.

        Waits until metadata is as new as the committed epoch; raises RequestTimedOut when it does
        not get there.
        """
        return (await self._core.group.committed([arguments.partition(partition)]))[partition]

    # -- reading -----------------------------------------------------------------------------------

    @overload
    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord: ...
    @overload
    async def getone(
        self, *partitions: TopicPartition, timeout_ms: int
    ) -> ConsumerRecord | None: ...
    async def getone(
        self, *partitions: TopicPartition, timeout_ms: int | None = None
    ) -> ConsumerRecord | None:
        """Return the next record of these partitions, or of all; waits for it.

        With `timeout_ms` it waits no longer than that, and returns None where none came.
        """
        arguments.timeout(timeout_ms)
        if not partitions and (record := self._stock.front.take_one()) is not None:
            return record
        rows = await self._take(partitions, timeout_ms, 1)
        return rows[0] if rows else None

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the records that are there, by partition; waits up to
        `timeout_ms` for the first of them.

        What is there is decoded a piece at a time, some 2,000 records. A call that is cancelled has
        taken none.
        """
        check_getmany(timeout_ms, max_records)
        taken: dict[TopicPartition, list[ConsumerRecord]] = {}
        left = MOST_RECORDS if max_records is None else max_records
        rows = await self._take(partitions, timeout_ms, left)
        stock, of = self._stock, named(partitions)
        while rows:  # nothing is awaited from here on: a cancelled call would lose what it has
            taken.setdefault(stock.partition, []).extend(rows)
            left -= len(rows)
            rows = stock.take(left, of) if left > 0 else []
        return taken

    async def poll(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """The same as `getmany` of all partitions, under the name that Java's and kafka-python's
        consumers have for it.
        """
        return await self.getmany(timeout_ms=timeout_ms, max_records=max_records)

    async def _take(
        self,
        partitions: Collection[TopicPartition],
        timeout_ms: int | None,
        most: int,
    ) -> list[ConsumerRecord]:
        """Return records of one partition; none where none came in time."""
        stock, of = self._stock, named(partitions)
        if rows := stock.take(most, of):
            return rows
        core = self._core
        deadline = None if timeout_ms is None else core.cluster.deadline(timeout_ms)
        while True:
            if stock.undecoded(of):
                await self._in_thread(lambda: stock.decode(of))
                if rows := stock.take(most, of):
                    return rows
                if (failure := stock.failure(of)) is not None:
                    raise failure
            left_ms = None if deadline is None else deadline.remaining_ms(core.cluster.now_ms())
            if await core.poll(partitions, left_ms) is None:
                return []
            if rows := stock.take(most, of):
                return rows

    async def _in_thread(self, decode: Callable[[], None]) -> None:
        """Decode in another thread. A call that is cancelled meanwhile leaves that to the next."""
        under_way = self._decoding
        if under_way is None or under_way.done():
            under_way = self._decoding = asyncio.ensure_future(asyncio.to_thread(decode))
        await asyncio.shield(under_way)

    def __aiter__(self) -> AsyncConsumer:
        return self

    async def __anext__(self) -> ConsumerRecord:
        record = self._stock.front.take_one()
        return record if record is not None else await self.getone()

    async def batches(self, *partitions: TopicPartition) -> AsyncGenerator[FetchedBatch, None]:
        """Yield Arrow RecordBatches, each with its partition and the next offset, of these
        partitions or all; forever.

        Nothing is copied per record. A batch counts as consumed when it is yielded. Close it
        (`aclosing`).
        """
        taken = None
        while True:
            found, taken = await self._core.next_batch(partitions, taken)
            if found is not None:
                yield found
            taken = self._core.current(taken)
            if taken is not None:
                await self._in_thread(taken.fetch.fill_batch)

    # -- offsets -----------------------------------------------------------------------------------

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the offset that the next record gets, as of the last fetch; None before one."""
        found = self._core.part(partition).high_watermark
        return found if found >= 0 else None

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Return the end of what read_committed shows, as of the last fetch; None
        before one and on old brokers.
        """
        found = self._core.part(partition).last_stable_offset
        return found if found >= 0 else None

    async def beginning_offsets(
        self, partitions: Several[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition that is there."""
        found = await self._core.client.list_offsets(
            dict.fromkeys(arguments.partitions(partitions), EARLIEST)
        )
        return {tp: answer.offset for tp, answer in found.items()}

    async def end_offsets(self, partitions: Several[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end of each partition: for read_committed the last stable offset."""
        level = self._core.options.isolation_level
        wanted = dict.fromkeys(arguments.partitions(partitions), LATEST)
        found = await self._core.client.list_offsets(wanted, isolation_level=level)
        return {tp: answer.offset for tp, answer in found.items()}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after each time in milliseconds, None where
        there is none (Kafka 0.10.1).
        """
        times = arguments.by_partition(
            "timestamps", timestamps, 'TopicPartition("flights", 0): 1700000000000'
        )
        wanted = {
            tp: Timestamp(arguments.number(f"{tp}: ms", ms, 0, arguments.INT64))
            for tp, ms in times.items()
        }
        found = await self._core.client.list_offsets(wanted)
        return {tp: answer if answer.offset >= 0 else None for tp, answer in found.items()}
