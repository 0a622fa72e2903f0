"""aiokafka: `getmany()`."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, TopicPartition

from benchmarks.contestants import Job, run


async def read_async(job: Job) -> int:
    consumer = AIOKafkaConsumer(bootstrap_servers=job.bootstrap, enable_auto_commit=False)
    await consumer.start()
    try:
        partitions = [TopicPartition(job.topic, p) for p in range(job.partitions)]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        rows = 0
        while rows < job.records:
            found = await consumer.getmany(timeout_ms=10_000)
            rows += sum(len(records) for records in found.values())
        job.finish()
        return rows
    finally:
        await consumer.stop()


def read(job: Job) -> int:
    return asyncio.run(read_async(job))


if __name__ == "__main__":
    run(read)
