"""The blocking producer: the same records, from any thread."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, TypeVar, Unpack

from parley.client.loop_thread import shared_loop
from parley.client.options import arguments
from parley.client.options.client_options import shown_client
from parley.client.produce.calls import write_blocking
from parley.client.produce.chunk import Acknowledgement, OnDelivery, RecordChunk
from parley.client.producer.async_producer import AsyncProducer
from parley.client.producer.failures import OnError
from parley.client.producer.option_values import ProducerClientOptionValues
from parley.client.producer.options import ProducerOptions
from parley.client.producer.record import ProducerRecord, RecordHeaders
from parley.client.results import ProduceResult
from parley.client.transactions.block import blocking_block
from parley.errors import LocalProtocolError
from parley.net.blocking import Work, blocking
from parley.records import gather, row_handle

if TYPE_CHECKING:
    from parley.client.produce.producer import Producer as Writer, Writing
    from parley.client.produce.rows import Rows

T = TypeVar("T")
_NOW: Callable[[], float] = time.time


class Producer:
    """Sends records one by one, from any thread; they travel in batches.

    >>> with Producer(bootstrap_servers="localhost:9092") as producer:
    ...     acknowledgement = producer.produce("departures", b"SK4035", key=b"OSL")
    ...     print(acknowledgement.result().offset)  # waits; or give on_delivery, or flush
    0

    Options are those of ClientOptions and ProducerOptions, by name; methods are those of
    AsyncProducer, whose docstrings say what they raise. Callbacks run in the thread of parley's
    event loop and must not block: calls of this producer that may have to wait raise there. After a
    fork the child makes a producer of its own.
    """

    def __init__(
        self, *, on_error: OnError | None = None, **named: Unpack[ProducerClientOptionValues]
    ) -> None:
        self._producer = AsyncProducer(on_error=on_error, **named)
        self._core = self._producer._core
        self._pid = os.getpid()
        self._open: dict[str, RecordChunk] = {}

    def __repr__(self) -> str:
        return shown_client(self, self._core.client.options, closed=self._core.closed)

    def __reduce__(self) -> NoReturn:
        raise LocalProtocolError(
            "a producer cannot be sent to another process; make one there with the same options"
        )

    @property
    def options(self) -> ProducerOptions:
        """The options in use."""
        return self._core.options

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> Producer:
        """Reach a broker; with `transactional_id`, fence its former producer. `with` does it."""
        self._run(self._producer.start())
        if self._core.is_plain:
            self._open = self._core.writer.open
        return self

    def close(self, timeout_ms: int | None = None) -> None:
        """Take no more records and wait until the outcome of all others is known, or `timeout_ms`.

        See `AsyncProducer.close`. After a fork it closes nothing in the child.
        """
        self._open = {}
        if self._pid == os.getpid():
            self._run(self._producer.close(timeout_ms))

    def stop(self) -> None:
        """The same as `close`."""
        self.close()

    def __enter__(self) -> Producer:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- records -----------------------------------------------------------------------------------

    def produce(
        self,
        topic: str,
        value: object = None,
        key: object = None,
        headers: RecordHeaders | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Acknowledgement:
        """Take a record and return its acknowledgement, whose `result` waits; see
        `AsyncProducer.send` for what is raised.

        Blocks only while the topic is not known or `buffer_memory` is full. `on_delivery` is called
        with an error or None and the RecordMetadata, in the loop's thread.
        """
        taken = gather(
            self._open,
            Acknowledgement,
            _NOW(),
            topic,
            value,
            key,
            headers,
            partition,
            timestamp_ms,
            on_delivery,
        )
        if type(taken) is Acknowledgement:
            return taken
        record = ProducerRecord(topic, value, key, headers, partition, timestamp_ms)
        return self._produce(record, on_delivery)

    def _produce(self, record: ProducerRecord, on_delivery: OnDelivery | None) -> Acknowledgement:
        arguments.listener("on_delivery", on_delivery)
        self._check_process()
        core = self._core
        if not core.started and not core.closed:
            self.start()
        record, parts = core.prepared(record)
        taken = core.take(record, parts, on_delivery)
        if taken is None:
            taken = shared_loop().call(core.take_in_turn(record, parts, on_delivery))
        return row_handle(Acknowledgement, *taken)

    def send_batch(
        self, topic: str | None, rows: Rows, partition: int | None = None
    ) -> ProduceResult:
        """Write Arrow rows behind the records that were sent before, and return when they are
        acknowledged; see `Client.produce`.
        """
        self.start()
        if self._core.transactions is not None:
            return self._run(self._producer.send_batch(topic, rows, partition))
        options = arguments.writing(topic, partition, self.options)

        async def begin() -> tuple[Writer, Writing]:
            writer = self._core.client._producing()
            return writer, writer.begin(topic, partition, options)

        return write_blocking(shared_loop(), begin, rows)

    flush = blocking(AsyncProducer.flush)
    partitions_for = blocking(AsyncProducer.partitions_for)

    # -- transactions ------------------------------------------------------------------------------

    def transaction(self) -> contextlib.AbstractContextManager[Producer]:
        """Begin a transaction, commit it at the end of the block; abort it if the block raises.

        After Ctrl-C 10 s at most; see `AsyncProducer.transaction`.
        """
        return blocking_block(self, lambda raised: self._run(self._producer._abort_block(raised)))

    begin_transaction = blocking(AsyncProducer.begin_transaction)
    commit_transaction = blocking(AsyncProducer.commit_transaction)
    abort_transaction = blocking(AsyncProducer.abort_transaction)
    send_offsets_to_transaction = blocking(AsyncProducer.send_offsets_to_transaction)

    # -- inside ------------------------------------------------------------------------------------

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise LocalProtocolError(
                "this producer was made in another process; make a new one after a fork"
            )

    def _run(self, work: Work[T]) -> T:
        try:
            self._check_process()
        except LocalProtocolError:
            work.close()
            raise
        return shared_loop().call(work)

    def _async(self) -> AsyncProducer:
        return self._producer
