"""What a group costs a reader: `python -m benchmarks.rebalance_reading BY BOOTSTRAP TOPIC`.

BY is `async-for`, `getmany` or `batches`. Two consumers of one process read the topic by turns:
one has its partitions assigned by hand, the other is the only member of a new group. Turns are
short, so what else the machine does meets both. Printed are the medians of the turns: records per
second of each, and the member's share of the other's. The first pair of turns is not counted, for
joining and looking positions up is not reading.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import NamedTuple

import pyarrow as pa

from benchmarks.bench import medians
from parley.client import AsyncConsumer, Client, NewTopic, TopicPartition

TOPIC, PARTITIONS, RECORDS, VALUE_BYTES = "read-in-group", 4, 4_000_000, 100
TURN_RECORDS = 400_000
"""More than twice what a consumer fetches ahead while the other one has its turn."""
POLL_RECORDS = 500
"""As Java's consumer has it by default."""
WAYS = ("async-for", "getmany", "batches")


def fill(bootstrap: str) -> None:
    """Make the topic and write its records."""
    each = RECORDS // PARTITIONS
    table = pa.table({"value": pa.array([b"x" * VALUE_BYTES] * each)})
    with Client(bootstrap_servers=bootstrap) as client:
        client.create_topics([NewTopic(TOPIC, PARTITIONS)])
        for partition in range(PARTITIONS):
            client.produce(TOPIC, table, partition)


async def by_record(consumer: AsyncConsumer) -> AsyncGenerator[int, None]:
    async for _ in consumer:
        yield 1


async def by_getmany(consumer: AsyncConsumer) -> AsyncGenerator[int, None]:
    while True:
        found = await consumer.getmany(timeout_ms=1_000, max_records=POLL_RECORDS)
        yield sum(map(len, found.values()))


async def by_batch(consumer: AsyncConsumer) -> AsyncGenerator[int, None]:
    async with aclosing(consumer.batches()) as batches:
        async for found in batches:
            yield found.batch.num_rows


READERS: dict[str, Callable[[AsyncConsumer], AsyncGenerator[int, None]]] = {
    "async-for": by_record,
    "getmany": by_getmany,
    "batches": by_batch,
}


def consumer_of(bootstrap: str) -> AsyncConsumer:
    """Return a consumer whose group nothing else has used."""
    return AsyncConsumer(
        bootstrap_servers=bootstrap,
        group_id=f"reading-{uuid.uuid4()}",
        auto_offset_reset="earliest",
    )


class Read(NamedTuple):
    """Records per second, and the group's share of the rate with partitions by hand."""

    assigned: float
    group: float
    share: float


async def read(by: str, bootstrap: str, topic: str) -> Read:
    """Read the topic once with each of the two."""
    async with consumer_of(bootstrap) as assigned, consumer_of(bootstrap) as member:
        assigned.assign([TopicPartition(topic, at) for at in range(PARTITIONS)])
        member.subscribe([topic])
        async with (
            aclosing(READERS[by](assigned)) as by_hand,
            aclosing(READERS[by](member)) as in_group,
        ):
            turns = [Turns(by_hand), Turns(in_group)]
            for turn in range(RECORDS // TURN_RECORDS):
                for one in turns if turn % 2 else turns[::-1]:
                    await one.take()
    pairs = list(zip(*(one.rates[1:] for one in turns), strict=True))
    return medians([Read(assigned, group, group / assigned) for assigned, group in pairs])


class Turns:
    """The turns of one reader."""

    def __init__(self, reader: AsyncGenerator[int, None]) -> None:
        self.rates: list[float] = []
        self._reader, self._rows = reader, 0

    async def take(self) -> None:
        """Read until all turns together have read their share; what comes at once may go over."""
        before, began = self._rows, time.perf_counter()
        while self._rows < TURN_RECORDS * (len(self.rates) + 1):
            self._rows += await anext(self._reader)
        self.rates.append((self._rows - before) / (time.perf_counter() - began))


if __name__ == "__main__":
    print(json.dumps(asyncio.run(read(*sys.argv[1:4]))._asdict()))
