"""One consumer that reads topics record by record, in a process of its own.

`python -m benchmarks.record_reader WAY BOOTSTRAP PREFIX TOPICS PARTITIONS RECORDS IDLE_S` reads the
topics PREFIX-0 and so on from their beginnings, looks at each value, and prints one JSON line: how
long it took from the first record to the last, and which share of a core the process took while it
polled for nothing afterwards.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.jobs.processes import PEAK, own_megabytes

AT_ONCE = 1_000
"""Records in one call; with confluent-kafka more were slower."""
POLL_MS = 1_000


@dataclass
class Job:
    """What to read, and what was found."""

    bootstrap: str
    places: list[tuple[str, int]]
    records: int
    idle_s: float
    began: float = 0.0
    used: float = 0.0
    facts: dict[str, float] = field(default_factory=dict)
    _idle_from: tuple[float, float] = (0.0, 0.0)

    def begin(self) -> None:
        """Start the clock: a first record is there."""
        self.began, self.used = time.perf_counter(), time.process_time()

    def finish(self, rows: int) -> None:
        """Stop it: the last one was seen."""
        seconds, cpu = time.perf_counter() - self.began, time.process_time() - self.used
        peak_mb = own_megabytes(PEAK)
        self.facts = {
            "rows": rows, "seconds": seconds, "cpu_seconds": cpu, "peak_rss_mb": peak_mb
        }  # fmt: skip

    @property
    def idling(self) -> bool:
        """Whether to poll on, now that everything was read."""
        now, used = time.perf_counter(), time.process_time()
        if self._idle_from == (0.0, 0.0):
            self._idle_from = now, used
        since = now - self._idle_from[0]
        if since < self.idle_s:
            return True
        self.facts["idle_share"] = (used - self._idle_from[1]) / since if since else 0.0
        return False


def parley_getone(job: Job) -> None:
    with _parley(job) as consumer:
        while consumer.getone(timeout_ms=POLL_MS) is None:
            pass
        job.begin()
        rows, size = 1, 0
        while rows < job.records:
            size += len(consumer.getone().value)
            rows += 1
        job.finish(rows)
        while job.idling:
            consumer.getone(timeout_ms=POLL_MS)


def parley_for(job: Job) -> None:
    with _parley(job) as consumer:
        rows, size = 0, 0
        for record in consumer:
            if not rows:
                job.begin()
            size += len(record.value)
            rows += 1
            if rows == job.records:
                break
        job.finish(rows)
        while job.idling:
            consumer.getone(timeout_ms=POLL_MS)


def parley_getmany(job: Job) -> None:
    with _parley(job) as consumer:
        rows, size = 0, 0
        while rows < job.records:
            for records in consumer.getmany(timeout_ms=POLL_MS, max_records=AT_ONCE).values():
                if not rows:
                    job.begin()
                for record in records:
                    size += len(record.value)
                rows += len(records)
        job.finish(rows)
        while job.idling:
            consumer.getmany(timeout_ms=POLL_MS)


def parley_async_for(job: Job) -> None:
    async def read() -> None:
        async with _parley(job, awaits=True) as consumer:
            await _each(job, consumer)
            while job.idling:
                await consumer.getone(timeout_ms=POLL_MS)

    asyncio.run(read())


async def _each(job: Job, consumer: Any) -> None:
    """Look at each record of an asynchronous consumer, parley's or aiokafka's."""
    rows, size = 0, 0
    async for record in consumer:
        if not rows:
            job.begin()
        size += len(record.value)
        rows += 1
        if rows == job.records:
            break
    job.finish(rows)


def parley_async_getmany(job: Job) -> None:
    async def read() -> None:
        async with _parley(job, awaits=True) as consumer:
            rows, size = 0, 0
            while rows < job.records:
                found = await consumer.getmany(timeout_ms=POLL_MS, max_records=AT_ONCE)
                for records in found.values():
                    if not rows:
                        job.begin()
                    for record in records:
                        size += len(record.value)
                    rows += len(records)
            job.finish(rows)
            while job.idling:
                await consumer.getmany(timeout_ms=POLL_MS)

    asyncio.run(read())


def _parley(job: Job, *, awaits: bool = False) -> Any:
    from parley import AsyncConsumer, Consumer, TopicPartition

    kind: Any = AsyncConsumer if awaits else Consumer
    consumer = kind(bootstrap_servers=job.bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(*place) for place in job.places])
    return consumer


def confluent_consume(job: Job) -> None:
    consumer = _confluent(job)
    rows, size = 0, 0
    while rows < job.records:
        for message in consumer.consume(AT_ONCE, POLL_MS / 1_000):
            if not rows:
                job.begin()
            size += len(_value(message))
            rows += 1
    job.finish(rows)
    while job.idling:
        consumer.consume(AT_ONCE, POLL_MS / 1_000)
    consumer.close()


def confluent_poll(job: Job) -> None:
    consumer = _confluent(job)
    rows, size = 0, 0
    while rows < job.records:
        message = consumer.poll(POLL_MS / 1_000)
        if message is not None:
            if not rows:
                job.begin()
            size += len(_value(message))
            rows += 1
    job.finish(rows)
    while job.idling:
        consumer.poll(POLL_MS / 1_000)
    consumer.close()


def _value(message: Any) -> bytes:
    if message.error() is not None:
        raise SystemExit(str(message.error()))
    value: bytes = message.value()
    return value


def _confluent(job: Job) -> Any:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": job.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            # else it rests for a second whenever 100,000 messages wait
            "fetch.queue.backoff.ms": 1,
        }
    )
    consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in job.places])
    return consumer


def aiokafka_async_for(job: Job) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def read() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=job.bootstrap, enable_auto_commit=False, auto_offset_reset="earliest"
        )
        await consumer.start()
        consumer.assign([TopicPartition(*place) for place in job.places])
        await _each(job, consumer)
        while job.idling:
            await consumer.getmany(timeout_ms=POLL_MS)
        await consumer.stop()

    asyncio.run(read())


WAYS: dict[str, Callable[[Job], None]] = {
    "parley_async_for": parley_async_for,
    "aiokafka_async_for": aiokafka_async_for,
    "parley_getmany": parley_getmany,
    "parley_async_getmany": parley_async_getmany,
    "confluent_consume": confluent_consume,
    "parley_getone": parley_getone,
    "parley_for": parley_for,
    "confluent_poll": confluent_poll,
}


def main() -> None:
    way, bootstrap, prefix, topics, partitions, records, idle_s = sys.argv[1:]
    places = [(f"{prefix}-{at}", p) for at in range(int(topics)) for p in range(int(partitions))]
    job = Job(bootstrap, places, int(records), float(idle_s))
    WAYS[way](job)
    print(json.dumps(job.facts))


if __name__ == "__main__":
    main()
