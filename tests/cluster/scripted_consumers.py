"""Consumers of scripted brokers: impatient ones, and scenes of moved leaders
and logs that end early.
"""

from __future__ import annotations

import asyncio
from typing import Any

from parley.client import AsyncConsumer
from parley.schema import ApiKey

from ..support import GENEROUS_MS, GENEROUS_S
from .scripted import Scripted, batch

QUICK = {
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 20,
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 20,
    "default_api_timeout_ms": 5_000,
    "fetch_max_wait_ms": 1,
}


def consumer_of(cluster: Scripted, **options: Any) -> AsyncConsumer:
    return AsyncConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        **{**QUICK, "auto_offset_reset": "earliest", **options},
    )


async def offsets(consumer: AsyncConsumer, count: int) -> list[int]:
    """Return the offsets of exactly so many records."""
    found: list[int] = []
    async with asyncio.timeout(GENEROUS_S):
        while len(found) < count:
            got = await consumer.getmany(timeout_ms=GENEROUS_MS, max_records=count - len(found))
            found += [record.offset for records in got.values() for record in records]
    return found


def move(cluster: Scripted, leader: int, epoch: int) -> None:
    """Let another broker lead; the one before refuses from now on, without a hint."""
    before, cluster.leader, cluster.epoch = cluster.leader, leader, epoch
    cluster.answers.pop((leader, ApiKey.FETCH), None)
    if before != leader:
        cluster.answers[before, ApiKey.FETCH] = lambda _: cluster.fetched(None, error_code=6)


def short_log(cluster: Scripted, count: int) -> None:
    """Let the log end at an offset, so that a reader waits there."""

    def since(request: Any) -> bytes:
        topics = request.topics
        offset = topics[0].partitions[0].fetch_offset if topics else count
        return batch(offset, count - offset, cluster.epoch) if offset < count else b""

    cluster.since = since
