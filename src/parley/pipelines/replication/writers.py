"""How records get into the target: in transactions, or at least once where it has none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeAlias

import pyarrow as pa

from parley.client import AsyncClient, ProduceOptions, ProduceResult
from parley.errors import InvalidTimestampError, NetworkError, UnsupportedVersionError

log = logging.getLogger("parley.pipelines")
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
_PAUSE_S = 0.2
Rows: TypeAlias = pa.RecordBatch | Sequence[pa.RecordBatch]


class WritingOptions(Protocol):
    """What has to be known of a job to write for it."""

    @property
    def name(self) -> str:
        """The transactional id."""

    @property
    def exactly_once(self) -> bool:
        """Whether records are written in transactions."""

    @property
    def transaction_timeout_ms(self) -> int:
        """When the brokers abort a transaction that nobody ends."""

    @property
    def patience_ms(self) -> int:
        """How long a commit is asked for again."""

    @property
    def produce(self) -> ProduceOptions:
        """How rows are written."""


class Writer(Protocol):
    """What an engine writes with."""

    isolation_level: str
    """How the topic of offsets is read."""

    async def start(self) -> None:
        """Be the only writer of this name, where the target can hold others off."""

    async def begin(self) -> None:
        """Begin what becomes visible together."""

    async def produce(self, topic: str | None, rows: Rows, partition: int | None) -> ProduceResult:
        """Write rows, by their columns `topic` and `partition` or their keys where none is named;
        return when they are acknowledged.
        """

    async def commit(self) -> None:
        """Make what was written since `begin` visible."""

    async def abort(self) -> None:
        """Take it back, where the target can. Raises ProducerFencedError."""

    async def close(self) -> None:
        """Write nothing any more. Idempotent."""


def writer_of(target: AsyncClient, options: WritingOptions) -> Writer:
    """Return the writer that the options mean."""
    if options.exactly_once:
        return TransactionalWriter(target, options)
    return PlainWriter(target, options)


class TransactionalWriter:
    """Writes in transactions of one id: a second copy fences the first."""

    isolation_level = READ_COMMITTED

    def __init__(self, target: AsyncClient, options: WritingOptions) -> None:
        self._options = options
        self._producer = target.transactions.producer(
            options.name,
            transaction_timeout_ms=options.transaction_timeout_ms,
            options=options.produce,
        )

    async def start(self) -> None:
        try:
            await self._producer.start()
        except UnsupportedVersionError as error:
            error.add_note(
                "the target has no transactions (Kafka 0.11): with "
                'delivery="at-least-once" records are copied without them'
            )
            raise

    async def begin(self) -> None:
        await self._producer.begin_transaction()

    async def produce(self, topic: str | None, rows: Rows, partition: int | None) -> ProduceResult:
        with _explained():
            return await self._producer.produce(topic, rows, partition)

    async def commit(self) -> None:
        until = asyncio.get_running_loop().time() + self._options.patience_ms / 1000
        while True:
            try:
                return await self._producer.commit_transaction()
            except NetworkError as error:  # whether it is committed is not known: ask again
                if asyncio.get_running_loop().time() > until:
                    raise
                log.warning("%s: the commit is asked for again: %s", self._options.name, error)
                await asyncio.sleep(_PAUSE_S)

    async def abort(self) -> None:
        if self._producer.can_abort:
            await self._producer.abort_transaction()

    async def close(self) -> None:
        await self._producer.close()


class PlainWriter:
    """Writes each record at once and at least once; nothing holds a second copy off."""

    isolation_level = READ_UNCOMMITTED

    def __init__(self, target: AsyncClient, options: WritingOptions) -> None:
        self._target, self._options = target, options

    async def start(self) -> None:
        pass

    async def begin(self) -> None:
        pass

    async def produce(self, topic: str | None, rows: Rows, partition: int | None) -> ProduceResult:
        with _explained():
            return await self._target.produce(topic, rows, partition, self._options.produce)

    async def commit(self) -> None:
        pass

    async def abort(self) -> None:
        pass

    async def close(self) -> None:
        pass


@contextmanager
def _explained() -> Iterator[None]:
    """Say what helps where the target refuses the times that records have."""
    try:
        yield
    except InvalidTimestampError as error:
        error.add_note(
            "records keep their times, and the target takes none so far from its clock: raise "
            "message.timestamp.after.max.ms or message.timestamp.before.max.ms of its topic "
            "(message.timestamp.difference.max.ms before Kafka 3.6), and begin again"
        )
        raise
