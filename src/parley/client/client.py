"""The blocking client, for Spark tasks, scripts and notebooks: the same calls, from any thread.

1. One event loop in one thread serves all blocking clients of a process; it only moves bytes.
2. Decoding and encoding run in the thread that calls, so that readers in several threads use
   several processors.
3. After a fork nothing of the parent's loop, connections or clients is touched: a client that came
   along begins again with its options when it is first used in the child. (Spark forks its
   workers.)
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar, Unpack

from parley.client.admin.methods import Administration
from parley.client.async_client import AsyncClient
from parley.client.cluster.abilities import named_features
from parley.client.events import Listener
from parley.client.fetch.bounded import BoundedRead
from parley.client.fetch.decode import decode
from parley.client.fetch.ranges import Range, open_read
from parley.client.loop_thread import leave_behind, shared_loop
from parley.client.offsets.list_offsets import Spec
from parley.client.options import arguments
from parley.client.options.client_options import (
    ClientOptions,
    FetchOptions,
    ProduceOptions,
    client_options,
    shown_client,
)
from parley.client.options.values import ClientOptionValues, SchemaOptionValues
from parley.client.produce.calls import write_blocking
from parley.client.results import (
    FetchedBatch,
    ProduceResult,
)
from parley.client.transactions.calls import Transactions
from parley.errors import LocalProtocolError
from parley.net.blocking import Work, blocking
from parley.schema import ApiKey
from parley.types import Several, TopicPartition
from parley.versions import Feature

if TYPE_CHECKING:
    import pyarrow

    from parley.client.produce.producer import Producer, Writing
    from parley.client.produce.rows import Rows

T = TypeVar("T")


class Client(Administration):
    """A client of one cluster whose calls return when they are done, from whatever thread.

    >>> from parley import EARLIEST, LATEST, TopicPartition
    >>> with Client(bootstrap_servers="localhost:9092") as client:
    ...     for batch in client.fetch(TopicPartition("flights", 0), EARLIEST, LATEST):
    ...         print(batch.num_rows)
    2

    Options and methods are those of AsyncClient, whose docstrings say what they raise. `on_event`
    is called in the loop's thread; a pickled copy has none.
    """

    def __init__(
        self,
        options: ClientOptions | None = None,
        *,
        require: Several[Feature | str] = (),
        on_event: Listener | None = None,
        **named: Unpack[ClientOptionValues],
    ) -> None:
        self.options = client_options(options, named)
        arguments.listener("on_event", on_event)
        self._require = named_features(require)
        self._on_event = on_event
        self._guard = threading.Lock()
        self._client: AsyncClient | None = None
        self._pid = 0
        self._closed = False
        self.transactions = Transactions(lambda: self._async().transactions)
        """Transactional producers, and what else concerns transactions."""

    def __repr__(self) -> str:
        return shown_client(self, self.options, closed=self._closed)

    def __reduce__(self) -> tuple[partial[Client], tuple[ClientOptions]]:
        # a copy in another process begins again
        return partial(type(self), require=self._require), (self.options,)

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> Client:
        """Reach a broker. Raises BrokersUnreachable: each address, and the stage it failed in."""
        self._run(self._async().start())
        return self

    def close(self) -> None:
        """Close every connection. Records not yet acknowledged fail. Idempotent."""
        self._closed = True
        client, self._client = self._client, None
        if client is not None and self._pid == os.getpid():
            shared_loop().call(client.close())

    def __enter__(self) -> Client:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _async(self) -> AsyncClient:
        if self._closed:
            raise LocalProtocolError("this client is closed; make a new one")
        # forked: the locks and sockets that came along belong to the parent
        if self._pid != os.getpid():
            leave_behind(self._client)
            self._guard, self._client, self._pid = threading.Lock(), None, os.getpid()
        with self._guard:
            if self._client is None:
                self._client = AsyncClient(
                    self.options, require=self._require, on_event=self._on_event
                )
            return self._client

    @staticmethod
    def _run(work: Work[T]) -> T:
        return shared_loop().call(work)

    # -- cluster, offsets --------------------------------------------------------------------------

    metadata = blocking(AsyncClient.metadata)
    api_versions = blocking(AsyncClient.api_versions)
    supports = blocking(AsyncClient.supports)

    def versions_in_use(self) -> dict[int, dict[ApiKey, int]]:
        """Return the version of each API last spoken with each broker."""
        return self._async().versions_in_use()

    request = blocking(AsyncClient.request)
    list_offsets = blocking(AsyncClient.list_offsets)
    offsets_for_leader_epochs = blocking(AsyncClient.offsets_for_leader_epochs)
    commit_offsets = blocking(AsyncClient.commit_offsets)
    committed_offsets = blocking(AsyncClient.committed_offsets)

    # -- reading and writing -----------------------------------------------------------------------

    def fetch(
        self,
        tp: TopicPartition,
        start: int | Spec,
        end: int | Spec | None = None,
        options: FetchOptions | None = None,
        **schemas: Unpack[SchemaOptionValues],
    ) -> Iterator[pyarrow.RecordBatch]:
        """Yield a partition's records from `start` up to, not including, `end` (None: forever).

        With `value_format` or `key_format` values or keys are typed columns: see `SchemaOptions`.
        """
        for found in self.fetch_many({arguments.partition(tp): (start, end)}, options, **schemas):
            yield found.batch

    def fetch_many(
        self,
        ranges: Mapping[TopicPartition, Range],
        options: FetchOptions | None = None,
        **schemas: Unpack[SchemaOptionValues],
    ) -> Iterator[FetchedBatch]:
        """Yield the records of several partitions as they come: in order only within each.

        The next answer is received while this thread decodes the one before; leaving the iterator
        ends that. With `value_format` or `key_format` values or keys are typed columns: see
        `SchemaOptions`.
        """
        options = options if options is not None else FetchOptions()
        typed = None
        if schemas:
            from parley.client.fetch.typed import typed_for

            typed = typed_for(ranges, **schemas)
        client, loop = self._async(), shared_loop()

        async def begin() -> BoundedRead:
            return await open_read(await client._started(), ranges, options)

        reading = loop.call(begin())
        try:
            while (raw := loop.call(reading.next())) is not None:
                batches = decode(raw, options, typed)
                del raw  # it holds the receive buffer
                yield from batches
        finally:
            asyncio.run_coroutine_threadsafe(reading.close(), loop.loop)

    def produce(
        self,
        topic: str | None,
        rows: Rows,
        partition: int | None = None,
        options: ProduceOptions | None = None,
    ) -> ProduceResult:
        """Write rows and return when all are acknowledged, with their offsets.

        `rows` may be an iterator: what it yields is sent while the next is made.
        """
        checked = arguments.writing(topic, partition, options)
        client = self._async()

        async def begin() -> tuple[Producer, Writing]:
            await client._started()
            producer = client._producing()
            return producer, producer.begin(topic, partition, checked)

        return write_blocking(shared_loop(), begin, rows)
