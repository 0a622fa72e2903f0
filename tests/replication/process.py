"""A replication that runs until it is killed, or until it has caught up with `once`."""

from __future__ import annotations

import asyncio
import sys

from parley.client import ClientOptions
from parley.pipelines.replication import AsyncReplication, ReplicationOptions


async def main(source: str, target: str, how: str) -> None:
    given = ReplicationOptions(name="to-new", topics=["flights"], commit_interval_ms=30)
    old, new = (ClientOptions(bootstrap_servers=address) for address in (source, target))
    async with AsyncReplication(old, new, given) as replication:
        await replication.start()
        print("started", flush=True)
        await replication.run(until_caught_up=how == "once")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
