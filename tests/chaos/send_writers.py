"""Senders that keep account of what they are let know, while their tasks are cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable

from parley import AsyncProducer, Producer
from parley.client import RecordMetadata
from parley.client.producer.failures import FailedRecords
from parley.errors import BufferExhaustedError, KafkaError

from .send_account import Reports

KEYS = 7
CANCELLED_OF_TEN = 5


class AsyncWriter:
    """A task that sends its numbers in order; the tasks that it starts for some of them are
    cancelled at random places.
    """

    def __init__(self, producer: AsyncProducer, topic: str, number: int, writers: int) -> None:
        self._producer, self._topic = producer, topic
        self._next, self._step = number, writers
        self._rng = random.Random(number)
        self.reports = Reports()
        self._taken: dict[int, object] = {}

    async def run(self, over: Callable[[], bool]) -> None:
        """Send until it is over."""
        rng = self._rng
        while not over():
            for _ in range(rng.randrange(1, 30)):
                number = self._next
                self._next += self._step
                if rng.randrange(10) < CANCELLED_OF_TEN:
                    await self._send_and_cancel(number)
                else:
                    try:
                        await self._send(number)
                    except (BufferExhaustedError, KafkaError):
                        self.reports.not_taken.add(number)
            await asyncio.sleep(rng.random() * 0.15)

    async def _send(self, number: int) -> None:
        key = b"%d" % (number % KEYS)
        self._taken[number] = await self._producer.send(self._topic, b"%d" % number, key)

    async def _send_and_cancel(self, number: int) -> None:
        async def send_and_wait() -> None:
            await self._send(number)
            await self._taken[number]  # type: ignore[misc]

        task = asyncio.ensure_future(send_and_wait())
        turns = self._rng.randrange(8)
        if turns < 6:
            for _ in range(turns):
                await asyncio.sleep(0)
        else:
            await asyncio.sleep(self._rng.random() * 0.02)
        self.reports.cancelled += task.cancel()
        with contextlib.suppress(asyncio.CancelledError, KafkaError):
            await task
        if number not in self._taken:
            self.reports.not_taken.add(number)

    async def settle(self) -> Reports:
        """Return what is known of each record, after everything was flushed."""
        reports = self.reports
        for number, acknowledgement in self._taken.items():
            if not acknowledgement.done():  # type: ignore[attr-defined]
                reports.missing.add(number)
                continue
            try:
                reports.acknowledged[number] = await acknowledgement  # type: ignore[misc]
            except KafkaError:
                doubt = acknowledgement.in_doubt  # type: ignore[attr-defined]
                (reports.in_doubt if doubt else reports.failed).add(number)
        return reports


class Failures:
    """`on_error` of a producer: how many records failed, by what it is called with."""

    def __init__(self) -> None:
        self.records = 0

    def __call__(self, error: KafkaError, failed: FailedRecords) -> None:
        self.records += failed.records


class BlockingWriter:
    """A thread that sends its numbers in order, with a callback for each."""

    def __init__(self, servers: str, topic: str, number: int, writers: int) -> None:
        self._servers, self._topic = servers, topic
        self._next, self._step = number, writers
        self.reports = Reports()
        self._called: Counter[int] = Counter()
        self._failure: BaseException | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._guarded)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def end(self) -> Reports:
        """Stop, flush and close; return what the callbacks were called with."""
        self._over.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self.reports

    def _guarded(self) -> None:
        try:
            with Producer(bootstrap_servers=self._servers, linger_ms=2) as producer:
                sent = self._send(producer)
                producer.flush()
            self.reports.missing.update(n for n in sent if self._called[n] != 1)
        except BaseException as error:
            self._failure = error

    def _send(self, producer: Producer) -> list[int]:
        sent = []
        while not self._over.wait(0.01):
            for _ in range(10):
                number = self._next
                self._next += self._step
                sent.append(number)
                producer.produce(
                    self._topic,
                    b"%d" % number,
                    b"%d" % (number % KEYS),
                    on_delivery=self._callback(number),
                )
        return sent

    def _callback(self, number: int) -> Callable[[KafkaError | None, RecordMetadata], None]:
        def delivered(error: KafkaError | None, found: RecordMetadata) -> None:
            self._called[number] += 1
            if error is None:
                self.reports.acknowledged[number] = found
            else:
                self.reports.in_doubt.add(number)  # a callback is not let know whether it is

        return delivered
