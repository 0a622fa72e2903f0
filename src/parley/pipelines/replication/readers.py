"""Reading some partitions of the source for as long as the engine wants them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing

from parley.client import AsyncClient, FetchedBatch, FetchOptions, PartitionRange, TopicPartition

Deliver = Callable[[FetchedBatch], Awaitable[None]]
FETCH_BYTES = 4 * 2**20
"""Of one partition in an answer: a call to produce takes several."""


def fetch_options(isolation_level: str, options: FetchOptions | None = None) -> FetchOptions:
    """Return how a source is read."""
    given = options or FetchOptions(max_partition_fetch_bytes=FETCH_BYTES)
    return given.replace(isolation_level=isolation_level)


async def read(
    source: AsyncClient,
    ranges: Mapping[TopicPartition, PartitionRange],
    options: FetchOptions,
    deliver: Deliver,
) -> None:
    """Hand over what is read, until all ranges are at their ends. Raises as `fetch_many`."""
    if not ranges:
        return
    async with aclosing(source.fetch_many(ranges, options)) as batches:
        async for found in batches:
            await deliver(found)


def start(
    source: AsyncClient,
    ranges: Mapping[TopicPartition, PartitionRange],
    options: FetchOptions,
    deliver: Deliver,
    count: int,
) -> list[asyncio.Task[None]]:
    """Return readers that run, each of a share of the partitions: they decode side by side."""
    partitions = sorted(ranges)
    shares = [partitions[at::count] for at in range(min(count, len(partitions)))]
    return [
        asyncio.ensure_future(read(source, {tp: ranges[tp] for tp in share}, options, deliver))
        for share in shares
    ]


async def stop(tasks: list[asyncio.Task[None]]) -> None:
    """End readers, and wait for their ends."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def any_record(
    source: AsyncClient, ranges: Mapping[TopicPartition, PartitionRange], isolation_level: str
) -> bool:
    """Return whether ranges have any record at all. Raises as `fetch_many`."""
    async with aclosing(source.fetch_many(ranges, fetch_options(isolation_level))) as batches:
        async for _ in batches:
            return True
    return False
