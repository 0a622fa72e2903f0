"""Runs a protocol's `Work` in a thread of the event loop's executor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from parley.protocol import Work


def off_loop(work: Work, finish: Callable[[Work], None]) -> None:
    """Run the work in a thread, then `finish` in the event loop; at once if no thread is left."""
    loop = asyncio.get_running_loop()
    try:
        done = loop.run_in_executor(None, work.run)
    except RuntimeError:  # the executor was shut down: the loop ends
        work.run()
        loop.call_soon(finish, work)
        return
    done.add_done_callback(lambda _: finish(work))
