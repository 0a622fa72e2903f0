"""A replay of a table that runs until it is killed, or ends."""

from __future__ import annotations

import asyncio
import sys

from parley.client import ClientOptions
from parley.pipelines.replay import AsyncReplay, ReplayedTable, ReplayOptions


async def main(target: str, folder: str, to: str, rate: str) -> None:
    table = ReplayedTable(delta=folder, key="city", timestamp="event_time", value_format="json")
    given = ReplayOptions(
        name="again", table=table, to=to, partitions=3, commit_interval_ms=30,
        bytes_per_second=float(rate), buffer_bytes=400_000,
    )  # fmt: skip
    async with AsyncReplay(None, ClientOptions(bootstrap_servers=target), given) as replay:
        await replay.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
