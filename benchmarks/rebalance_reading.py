"""What a group costs a reader: `python -m benchmarks.rebalance_reading HOW BY BOOTSTRAP TOPIC`.

HOW is `assigned` (partitions by hand) or `group` (the only member of a new group), BY is
`async-for`, `getmany` or `batches`. Printed are records and seconds, counted from the first record:
joining and looking positions up is not reading.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

import pyarrow as pa

from parley.client import AsyncConsumer, Client, NewTopic, TopicPartition

TOPIC, PARTITIONS, RECORDS, VALUE_BYTES = "read-in-group", 4, 4_000_000, 100
POLL_RECORDS = 500
"""As Java's consumer has it by default."""
WAYS = ("async-for", "getmany", "batches")
HOW = ("assigned", "group")


def fill(bootstrap: str) -> None:
    """Make the topic and write its records."""
    each = RECORDS // PARTITIONS
    table = pa.table({"value": pa.array([b"x" * VALUE_BYTES] * each)})
    with Client(bootstrap_servers=bootstrap) as client:
        client.create_topics([NewTopic(TOPIC, PARTITIONS)])
        for partition in range(PARTITIONS):
            client.produce(TOPIC, table, partition)


async def by_record(consumer: AsyncConsumer) -> AsyncIterator[int]:
    async for _ in consumer:
        yield 1


async def by_getmany(consumer: AsyncConsumer) -> AsyncIterator[int]:
    while True:
        found = await consumer.getmany(timeout_ms=1_000, max_records=POLL_RECORDS)
        yield sum(map(len, found.values()))


async def by_batch(consumer: AsyncConsumer) -> AsyncIterator[int]:
    async with aclosing(consumer.batches()) as batches:
        async for found in batches:
            yield found.batch.num_rows


READERS: dict[str, Callable[[AsyncConsumer], AsyncIterator[int]]] = {
    "async-for": by_record,
    "getmany": by_getmany,
    "batches": by_batch,
}


async def read(how: str, by: str, bootstrap: str, topic: str) -> dict[str, float]:
    """Read the topic once."""
    group = f"reading-{uuid.uuid4()}"
    async with AsyncConsumer(
        bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
    ) as consumer:
        if how == "group":
            consumer.subscribe([topic])
        else:
            consumer.assign([TopicPartition(topic, at) for at in range(PARTITIONS)])
        rows, first, began = 0, 0, 0.0
        async for count in READERS[by](consumer):
            if not rows and count:
                first, began = count, time.perf_counter()
            rows += count
            if rows >= RECORDS:
                break
        return {"records": rows - first, "seconds": time.perf_counter() - began}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(read(*sys.argv[1:5]))))
