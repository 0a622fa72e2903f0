"""The blocking share consumer: the same calls, from one thread at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import TypeVar, Unpack, overload

from parley.client.consumer.closing import after_body
from parley.client.consumer.records import ConsumerRecord
from parley.client.group.share.book import AcknowledgeType
from parley.client.loop_thread import CallerThread, shared_loop
from parley.client.options import arguments
from parley.client.options.client_options import shown_client
from parley.client.results import AcquiredBatch
from parley.client.share.async_consumer import AsyncShareConsumer
from parley.client.share.option_values import ShareConsumerClientOptionValues
from parley.errors import KafkaError, LocalProtocolError
from parley.net.blocking import Work, blocking, in_loop
from parley.types import Names, TopicPartition

T = TypeVar("T")


class ShareConsumer:
    """A member of a share group (KIP-932, Kafka 4.2) whose calls return when they are done.

    >>> with ShareConsumer(bootstrap_servers="localhost:9092", group_id="tasks") as consumer:
    ...     consumer.subscribe(["flights"])
    ...     for records in consumer.getmany(timeout_ms=60_000).values():
    ...         print([record.value for record in records])
    ...     consumer.commit()
    [b'SK4035', b'FI318']

    Options and methods are those of AsyncShareConsumer, whose docstrings say what they raise. The
    callback for acknowledgements is called in the thread that polls. After a fork the child makes
    a consumer of its own.
    """

    def __init__(self, **named: Unpack[ShareConsumerClientOptionValues]) -> None:
        self._consumer = AsyncShareConsumer(**named)
        self._caller = CallerThread()
        self._consumer._core.reporting.call_listener = self._caller.call
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return shown_client(
            self, self._consumer._core.client.options, closed=self._consumer._core._closed
        )

    def _run(self, work: Work[T]) -> T:
        if self._pid != os.getpid():  # the loop and the sockets belong to the parent
            work.close()
            raise LocalProtocolError(
                "this consumer was made in another process; make a new one after a fork"
            )
        polls = self._consumer._core.polls
        try:
            return self._caller.wait_for(shared_loop(), work)
        except BaseException:
            self._take_back(polls)
            raise

    def _take_back(self, polls: int) -> None:
        """Have a poll's records again that Ctrl-C came in front of: nobody else gets them."""

        async def in_loop() -> None:
            self._consumer._core.take_back(polls)

        with suppress(KafkaError):  # what interrupted the call is the error
            shared_loop().call(in_loop())

    def _async(self) -> AsyncShareConsumer:
        return self._consumer

    def start(self) -> ShareConsumer:
        """Reach a broker; `with` does it. Raises as AsyncShareConsumer.start."""
        self._run(self._consumer.start())
        return self

    close = blocking(AsyncShareConsumer.close)
    stop = blocking(AsyncShareConsumer.stop)

    def __enter__(self) -> ShareConsumer:
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

    # -- the group --------------------------------------------------------------------------------

    def subscribe(self, topics: Names) -> None:
        """Read topics, together with the other members. Replaces what was subscribed to before."""
        names = arguments.topic_names("topics", topics)  # an iterator is not run in the loop
        self._subscribe(names)

    _subscribe = in_loop(AsyncShareConsumer.subscribe)

    def subscription(self) -> frozenset[str]:
        """Return the topics subscribed to."""
        return self._consumer.subscription()

    unsubscribe = blocking(AsyncShareConsumer.unsubscribe)
    health = in_loop(AsyncShareConsumer.health)

    # -- reading ----------------------------------------------------------------------------------

    @overload
    def getone(self) -> ConsumerRecord: ...
    @overload
    def getone(self, *, timeout_ms: int) -> ConsumerRecord | None: ...
    def getone(self, *, timeout_ms: int | None = None) -> ConsumerRecord | None:
        """Return the next record; waits for it. It is a poll like `getmany`.

        With `timeout_ms` it waits no longer than that, and returns None where none came.
        """
        return self._run(self._consumer._next(timeout_ms))

    getmany = blocking(AsyncShareConsumer.getmany)

    def batches(self) -> Iterator[AcquiredBatch]:
        """Yield Arrow RecordBatches, as AsyncShareConsumer.batches; forever."""
        while True:
            yield self._next_batch()

    def _next_batch(self) -> AcquiredBatch:
        return self._run(self._consumer._core.next_batch())

    def __iter__(self) -> Iterator[ConsumerRecord]:
        while True:
            yield self.getone()

    # -- acknowledgements -------------------------------------------------------------------------

    def acknowledge(
        self,
        record: ConsumerRecord | AcquiredBatch | TopicPartition,
        type: AcknowledgeType = AcknowledgeType.ACCEPT,
        *,
        offset: int | None = None,
    ) -> None:
        """Say what becomes of a record (explicit mode), as AsyncShareConsumer.acknowledge."""
        # Not in the loop, for every record would wait for it: nothing there looks at what the
        # application has and has not committed.
        self._consumer.acknowledge(record, type, offset=offset)

    commit = blocking(AsyncShareConsumer.commit)
    commit_async = in_loop(AsyncShareConsumer.commit_async)
    set_acknowledgement_commit_callback = in_loop(
        AsyncShareConsumer.set_acknowledgement_commit_callback
    )

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long a record is this consumer's; None before the first answer."""
        return self._consumer.acquisition_lock_timeout_ms
