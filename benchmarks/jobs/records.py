"""One producer of records in a process of its own: how fast, how soon acknowledged, how large.

    python -m benchmarks.jobs.records CLIENT MODE BOOTSTRAP TOPIC RECORDS [BROKER_PID]

MODE rate: sends as fast as it can, until all are acknowledged. many: the same to the topics TOPIC-0
and so on, MANY of them in turn, which are known before; then it rests. latency: 10,000 a second,
from the call to the acknowledgement. memory: all wait for a broker that stands still (BROKER_PID).
Every client: acks=all, idempotent, linger 5 ms, 100-byte values, 8-byte keys, no compression.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice

VALUE = b"v" * 100
KEYS = [b"%08d" % number for number in range(1_000)]
RATE_PER_S = 10_000
MIB = 2**20
MANY = 5_000
IDLE_S = 10.0


@dataclass
class Job:
    bootstrap: str
    topic: str
    records: int
    broker_pid: int
    topics: list[str]

    def each(self) -> Iterator[tuple[str, bytes]]:
        """Yield topic and key of each record, one topic after the other."""
        return islice(zip(cycle(self.topics), cycle(KEYS)), self.records)


class Clock:
    """Time and processor time of the process since a clock was made."""

    def __init__(self) -> None:
        self._began, self._used = time.perf_counter(), time.process_time()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def facts(self) -> dict[str, float]:
        return {"seconds": self.seconds, "cpu_seconds": time.process_time() - self._used}

    def idle(self) -> dict[str, float]:
        facts = self.facts()
        return {"idle_share": facts["cpu_seconds"] / facts["seconds"]}


def rests(job: Job) -> float:
    """Return how long to look at a client that has nothing to do."""
    return IDLE_S if len(job.topics) > 1 else 0.0


def settings(job: Job) -> dict[str, object]:
    return {"bootstrap_servers": job.bootstrap, "linger_ms": 5}


def parley_send(job: Job) -> dict[str, float]:
    from parley import AsyncProducer

    async def work() -> dict[str, float]:
        async with AsyncProducer(**settings(job)) as producer:
            first = Clock()
            await asyncio.gather(
                *(producer.send_and_wait(topic, VALUE, KEYS[0]) for topic in job.topics)
            )
            first_seconds, send, clock = first.seconds, producer.send, Clock()
            sent = [await send(topic, VALUE, key) for topic, key in job.each()]
            await producer.flush()
            facts = clock.facts()
            for one in sent:
                one.result()
            facts |= {"seconds_with_results": clock.seconds, "first_seconds": first_seconds}
            idle = Clock()
            await asyncio.sleep(rests(job))
            return facts | idle.idle()

    return asyncio.run(work())


def aiokafka(job: Job) -> dict[str, float]:
    from aiokafka import AIOKafkaProducer

    async def work() -> dict[str, float]:
        producer = AIOKafkaProducer(**settings(job), enable_idempotence=True)
        await producer.start()
        first = Clock()
        await asyncio.gather(
            *(producer.send_and_wait(topic, VALUE, key=KEYS[0]) for topic in job.topics)
        )
        first_seconds, clock = first.seconds, Clock()
        sent = [await producer.send(topic, VALUE, key=key) for topic, key in job.each()]
        await producer.flush()
        facts = clock.facts()
        for one in sent:
            one.result()
        idle = Clock()
        await asyncio.sleep(rests(job))
        facts |= idle.idle() | {"first_seconds": first_seconds}
        await producer.stop()
        return facts

    return asyncio.run(work())


def parley_produce(job: Job) -> dict[str, float]:
    from parley import Producer

    acknowledged = 0

    def delivered(error: object, metadata: object) -> None:
        nonlocal acknowledged
        if error is not None:
            raise SystemExit(str(error))
        acknowledged += 1

    with Producer(**settings(job)) as producer:
        first = Clock()
        for topic in job.topics:
            producer.produce(topic, VALUE, KEYS[0])
        producer.flush()
        first_seconds, produce, clock = first.seconds, producer.produce, Clock()
        for topic, key in job.each():
            produce(topic, VALUE, key, on_delivery=delivered)
        producer.flush()
        facts = clock.facts() | {"first_seconds": first_seconds}
        idle = Clock()
        time.sleep(rests(job))
        facts |= idle.idle()
    assert acknowledged == job.records
    return facts


def confluent_producer(job: Job, **options: object) -> object:
    from confluent_kafka import Producer

    return Producer(
        {
            "bootstrap.servers": job.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "partitioner": "murmur2_random",
            **options,
        }
    )


def confluent(job: Job) -> dict[str, float]:
    acknowledged = 0

    def delivered(error: object, message: object) -> None:
        nonlocal acknowledged
        if error is not None:
            raise SystemExit(str(error))
        acknowledged += 1

    producer = confluent_producer(job, **{"queue.buffering.max.messages": 1_000_000})
    first = Clock()
    for topic in job.topics:
        producer.produce(topic, VALUE, KEYS[0])
    producer.flush()
    first_seconds, produce, poll, clock = first.seconds, producer.produce, producer.poll, Clock()
    for topic, key in job.each():
        produce(topic, VALUE, key, on_delivery=delivered)
        poll(0)
    producer.flush()
    facts = clock.facts() | {"first_seconds": first_seconds}
    assert acknowledged == job.records
    idle = Clock()
    time.sleep(rests(job))
    return facts | idle.idle()


# ── latency ──────────────────────────────────────────────────────────────────


def percentiles(latencies: list[float]) -> dict[str, float]:
    ordered = sorted(latencies[len(latencies) // 10 :])  # the beginning warms up
    return {
        "p50_ms": ordered[len(ordered) // 2] * 1000,
        "p99_ms": ordered[len(ordered) * 99 // 100] * 1000,
    }


def paced(job: Job, send: Callable[[int], object]) -> None:
    began = time.perf_counter()
    sent = 0
    while sent < job.records:
        due = min(job.records, int((time.perf_counter() - began) * RATE_PER_S))
        for number in range(sent, due):
            send(number)
        sent = max(sent, due)
        time.sleep(0.001)


def parley_send_latency(job: Job) -> dict[str, float]:
    from parley import AsyncProducer

    latencies: list[float] = []

    async def work() -> None:
        sent: asyncio.Queue[tuple[float, Awaitable[object]] | None] = asyncio.Queue()

        async def acknowledge() -> None:
            # in the order of sending: never earlier than a task for each would see it
            while (entry := await sent.get()) is not None:
                began, acknowledgement = entry
                await acknowledgement
                latencies.append(time.perf_counter() - began)

        async with AsyncProducer(**settings(job)) as producer:
            await producer.send_and_wait(job.topic, VALUE, KEYS[0])
            waiting = asyncio.ensure_future(acknowledge())
            began, done = time.perf_counter(), 0
            while done < job.records:
                due = min(job.records, int((time.perf_counter() - began) * RATE_PER_S))
                for number in range(done, due):
                    at = time.perf_counter()
                    sent.put_nowait(
                        (at, await producer.send(job.topic, VALUE, KEYS[number % 1_000]))
                    )
                done = max(done, due)
                await asyncio.sleep(0.001)
            sent.put_nowait(None)
            await waiting

    asyncio.run(work())
    return percentiles(latencies)


def parley_produce_latency(job: Job) -> dict[str, float]:
    from parley import Producer

    latencies: list[float] = []
    with Producer(**settings(job)) as producer:
        producer.produce(job.topic, VALUE, KEYS[0]).result()

        def send(number: int) -> None:
            began = time.perf_counter()
            producer.produce(
                job.topic,
                VALUE,
                KEYS[number % 1_000],
                on_delivery=lambda *_: latencies.append(time.perf_counter() - began),
            )

        paced(job, send)
        producer.flush()
    return percentiles(latencies)


def confluent_latency(job: Job) -> dict[str, float]:
    latencies: list[float] = []
    producer = confluent_producer(job)
    producer.produce(job.topic, VALUE, KEYS[0])
    producer.flush()
    began, sent = time.perf_counter(), 0

    def send(number: int) -> None:
        at = time.perf_counter()
        producer.produce(
            job.topic,
            VALUE,
            KEYS[number % 1_000],
            on_delivery=lambda *_: latencies.append(time.perf_counter() - at),
        )

    while sent < job.records:
        due = min(job.records, int((time.perf_counter() - began) * RATE_PER_S))
        for number in range(sent, due):
            send(number)
        sent = max(sent, due)
        producer.poll(0.001)
    producer.flush()
    return percentiles(latencies)


# ── memory ───────────────────────────────────────────────────────────────────


def resident_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


def parley_send_memory(job: Job) -> dict[str, float]:
    from parley import AsyncProducer

    async def work() -> dict[str, float]:
        async with AsyncProducer(**settings(job), buffer_memory=1024 * MIB) as producer:
            await producer.send_and_wait(job.topic, VALUE, KEYS[0])
            gc.collect()
            before = resident_mb()
            os.kill(job.broker_pid, signal.SIGSTOP)
            try:
                sent = []
                for number in range(job.records):
                    # values of their own, as an application makes them
                    sent.append(
                        await producer.send(job.topic, b"%0100d" % number, KEYS[number % 1_000])
                    )
                assert not sent[-1].done()
                return {"mb": resident_mb() - before}
            finally:
                os.kill(job.broker_pid, signal.SIGCONT)

    return asyncio.run(work())


def confluent_memory(job: Job) -> dict[str, float]:
    producer = confluent_producer(job, **{"queue.buffering.max.messages": 2 * job.records})
    producer.produce(job.topic, VALUE, KEYS[0])
    producer.flush()
    before = resident_mb()
    os.kill(job.broker_pid, signal.SIGSTOP)
    try:
        for number in range(job.records):
            producer.produce(
                job.topic, b"%0100d" % number, KEYS[number % 1_000], on_delivery=print_error
            )
        return {"mb": resident_mb() - before}
    finally:
        os.kill(job.broker_pid, signal.SIGCONT)
        producer.flush()


def print_error(error: object, message: object) -> None:
    if error is not None:
        print(error, file=sys.stderr)


JOBS: dict[tuple[str, str], Callable[[Job], dict[str, float]]] = {
    ("parley_send", "rate"): parley_send,
    ("parley_produce", "rate"): parley_produce,
    ("confluent", "rate"): confluent,
    ("aiokafka", "rate"): aiokafka,
    ("parley_send", "latency"): parley_send_latency,
    ("parley_produce", "latency"): parley_produce_latency,
    ("confluent", "latency"): confluent_latency,
    ("parley_send", "memory"): parley_send_memory,
    ("confluent", "memory"): confluent_memory,
}


if __name__ == "__main__":
    client, mode, bootstrap, topic, records, *pid = sys.argv[1:]
    topics = [f"{topic}-{at}" for at in range(MANY)] if mode == "many" else [topic]
    job = Job(bootstrap, topic, int(records), int(pid[0]) if pid else 0, topics)
    work = JOBS[client, "rate" if mode == "many" else mode]
    print(json.dumps({"records": job.records, **work(job)}))
