"""The blocking wrapper of a transactional producer: rows are encoded in the thread that calls."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, TypeVar, TypeVarTuple

from parley.client.options import arguments
from parley.client.options.client_options import ProduceOptions
from parley.client.produce.calls import Loop, write_blocking
from parley.client.results import ProduceResult
from parley.client.transactions.async_producer import AsyncTransactionProducer
from parley.client.transactions.block import blocking_block
from parley.client.transactions.state import State
from parley.client.transactions.writer import TransactionWriter
from parley.errors import LocalProtocolError
from parley.net.blocking import Work, blocking

if TYPE_CHECKING:
    from parley.client.produce.producer import Producer, Writing
    from parley.client.produce.rows import Rows

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class TransactionProducer:
    """A transactional producer whose calls block; made by `Client.transactions.producer`.

    >>> import parley, pyarrow
    >>> with parley.Client(bootstrap_servers="localhost:9092") as client:
    ...     with client.transactions.producer("copier-1") as producer:
    ...         with producer.transaction():  # commits at the end, aborts on an exception
    ...             producer.produce("copies", pyarrow.table({"value": ["one", "two"]})).records
    2

    Methods are those of AsyncTransactionProducer, whose docstrings say what they raise. It belongs
    to the process that made it: it cannot be pickled, and not be used after a fork. What another
    process needs in order to end a transaction is what `prepare_transaction` returns.
    """

    def __init__(self, loop: Loop, producer: AsyncTransactionProducer) -> None:
        self._loop, self._producer, self._pid = loop, producer, os.getpid()

    def __reduce__(self) -> NoReturn:
        raise LocalProtocolError(
            "a transactional producer cannot be sent to another process; prepare_transaction "
            "returns what can"
        )

    @property
    def transactional_id(self) -> str:
        """The name under which the coordinator knows this producer."""
        return self._producer.transactional_id

    @property
    def producer_id(self) -> int:
        """The producer id in use, -1 before `start`."""
        return self._producer.producer_id

    @property
    def producer_epoch(self) -> int:
        """The epoch in use, -1 before `start`."""
        return self._producer.producer_epoch

    @property
    def generation(self) -> int:
        """The protocol's generation of the last transaction: 1 or 2."""
        return self._producer.generation

    @property
    def state(self) -> State:
        """Where the producer stands."""
        return self._producer.state

    def start(self) -> TransactionProducer:
        """Take the transactional id over: fence its former producer, abort what that left open."""
        self._run(self._producer.start())
        return self

    def resume(self, producer_id: int, producer_epoch: int) -> TransactionProducer:
        """Go on as another process's producer that wrote nothing yet; instead of `start`."""
        self._run(self._producer.resume(producer_id, producer_epoch))
        return self

    def init_transactions(self) -> None:
        """The same as `start`, under the name that Java's producer has for it."""
        self.start()

    def close(self) -> None:
        """Abort an open transaction that was not handed over; stop. Idempotent, raises nothing."""
        if self._pid == os.getpid():
            self._run(self._producer.close())

    def stop(self) -> None:
        """The same as `close`."""
        self.close()

    def __enter__(self) -> TransactionProducer:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    begin_transaction = blocking(AsyncTransactionProducer.begin_transaction)
    commit_transaction = blocking(AsyncTransactionProducer.commit_transaction)
    abort_transaction = blocking(AsyncTransactionProducer.abort_transaction)

    def transaction(self) -> contextlib.AbstractContextManager[TransactionProducer]:
        """Begin a transaction, commit it at the end of the block; abort it if the block raises.

        After Ctrl-C 10 s at most; see `AsyncTransactionProducer.transaction`.
        """
        return blocking_block(self, lambda raised: self._run(self._producer._abort_block(raised)))

    prepare_transaction = blocking(AsyncTransactionProducer.prepare_transaction)

    def produce(
        self,
        topic: str | None,
        rows: Rows,
        partition: int | None = None,
        options: ProduceOptions | None = None,
    ) -> ProduceResult:
        """Write rows in the open transaction and return when all are acknowledged."""
        producer, loop = self._producer, self._loop
        checked = arguments.writing(topic, partition, producer.options.for_rows(options))
        entered: list[TransactionWriter] = []

        def enter() -> TransactionWriter:
            entered.append(producer.enter())
            return entered[0]

        def leave() -> None:
            if entered:
                producer.contents.leave()

        try:
            return self._write(self._run(_call(enter)), topic, rows, partition, checked)
        finally:  # without a wait, and whatever came: Ctrl-C may come when the loop has entered it
            loop.loop.call_soon_threadsafe(leave)

    def _write(
        self,
        writer: TransactionWriter,
        topic: str | None,
        rows: Rows,
        partition: int | None,
        options: ProduceOptions,
    ) -> ProduceResult:
        producer = self._producer

        async def begin() -> tuple[Producer, Writing]:
            return writer, writer.begin(topic, partition, options)

        try:
            result = write_blocking(self._loop, begin, rows)
            self._run(_call(producer.contents.wrote, result))
            return result
        except BaseException as raised:
            seen = self._run(_call(producer.contents.failure, raised))
            if seen is raised:
                raise
            raise seen from raised

    send_offsets_to_transaction = blocking(AsyncTransactionProducer.send_offsets_to_transaction)

    def _async(self) -> AsyncTransactionProducer:
        return self._producer

    def _run(self, work: Work[T]) -> T:
        if self._pid != os.getpid():
            work.close()
            raise LocalProtocolError(
                "this transactional producer belongs to the process that was forked; make another"
            )
        return self._loop.call(work)


async def _call(work: Callable[[*Ts], T], *arguments: *Ts) -> T:
    return work(*arguments)
