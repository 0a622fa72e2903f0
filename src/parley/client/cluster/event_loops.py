"""Which event loop a client belongs to: its sockets and futures work in no other one."""

from __future__ import annotations

import asyncio

from parley.errors import LocalProtocolError


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread, None where none does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def another_loop(what: str, *, is_closed: bool) -> LocalProtocolError:
    """Return the error for a call in another event loop than the one that `what` belongs to."""
    where = "which is closed" if is_closed else "which is not the one that makes this call"
    return LocalProtocolError(
        f"this {what} belongs to another event loop, {where}: the program started it there, and "
        "its connections work in no other. Make, use and close one in each asyncio.run() (`async "
        "with`), or take the blocking class, which has a loop of its own for all threads"
    )
