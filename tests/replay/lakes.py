"""Tables to be replayed, and where their records go."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from parley.devcluster import LocalCluster
from parley.pipelines.replay import AsyncReplay, ReplayedTable, ReplayOptions

from ..replication.sides import connection

TO, NAME = "orders-again", "again"
BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
CITIES = ("Oslo", "Rome", "Kyiv", "Lima", "Bern")


def orders(numbers: Sequence[int]) -> pa.Table:
    """Return orders by number: three of each second, of some cities and days."""
    times = [BEGIN + timedelta(seconds=number // 3) for number in numbers]
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "city": [CITIES[number % len(CITIES)] for number in numbers],
            "amount": [number / 4 for number in numbers],
            "event_time": pa.array(times, pa.timestamp("us", tz="UTC")),
            "day": [f"2026-11-{1 + number % 3:02}" for number in numbers],
        }
    )


def write_delta(folder: Path, *tables: pa.Table, **more: Any) -> str:
    """Append to a Delta table, one commit and more files for each; return its path."""
    from deltalake import write_deltalake

    for table in tables:
        write_deltalake(str(folder), table, mode="append", **more)
    return str(folder)


def table_replay(target: LocalCluster, table: ReplayedTable, **given: Any) -> AsyncReplay:
    named = {"name": NAME, "to": TO, "commit_interval_ms": 50, **given}
    return AsyncReplay(None, connection(target), ReplayOptions(table=table, **named))


async def replayed(target: LocalCluster, table: ReplayedTable, **given: Any) -> int:
    """Replay to the end; return how many records this took."""
    async with table_replay(target, table, **given) as replay:
        await replay.run()
        return replay.records
