"""A replay that runs until it is killed, or ends."""

from __future__ import annotations

import asyncio
import sys

from parley.client import ClientOptions
from parley.pipelines.replay import AsyncReplay, ReplayOptions


async def main(source: str, target: str, topic: str, to: str, rate: str) -> None:
    given = ReplayOptions(
        name="again", topic=topic, to=to, commit_interval_ms=30, bytes_per_second=float(rate)
    )
    old, new = (ClientOptions(bootstrap_servers=address) for address in (source, target))
    async with AsyncReplay(old, new, given) as replay:
        await replay.start()
        print("started", flush=True)
        await replay.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
