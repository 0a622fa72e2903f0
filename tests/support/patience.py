"""How long a test waits for what must happen: until
it happens, and not by the clock of a quiet machine.

A limit of time in a test is one of two things. Either the test is about it: then it is a client's
option or a broker's setting, and a controllable clock moves it wherever that is possible. Or it
only keeps a failing test from waiting forever: then it is one of the constants here, because a
passing test never sees it.

`PARLEY_TEST_PATIENCE` multiplies them, and pytest's limit per test, on machines that are slower
still.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = float(os.environ.get("PARLEY_TEST_PATIENCE") or 1)
GENEROUS_S = max(1, round(120 * PATIENCE))
"""Seconds after which nobody believes any more that it will happen."""
GENEROUS_MS = 1000 * GENEROUS_S
_POLL_S = 0.02


def eventually(found: Callable[[], T], what: str = "", *, within_s: float = GENEROUS_S) -> T:
    """Call `found` until it returns something true, and
    return that. AssertionError says what was found last.

    An AssertionError of `found` counts as "not yet"; any other exception ends the wait.
    """
    deadline = time.monotonic() + within_s
    while True:
        last, value = _look(found)
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(_gave_up(what, within_s, value, last)) from last
        time.sleep(_POLL_S)


async def eventually_async(
    found: Callable[[], T], what: str = "", *, within_s: float = GENEROUS_S
) -> T:
    """Do the same in an event loop, which goes on meanwhile."""
    deadline = time.monotonic() + within_s
    while True:
        last, value = _look(found)
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(_gave_up(what, within_s, value, last)) from last
        await asyncio.sleep(_POLL_S)


def _look(found: Callable[[], T]) -> tuple[AssertionError | None, T | None]:
    try:
        return None, found()
    except AssertionError as error:
        return error, None


def _gave_up(what: str, within_s: float, value: object, last: AssertionError | None) -> str:
    return (
        f"{what or 'it'} did not come to be within {within_s:g} s; found last: "
        f"{last if last else repr(value)}"
    )
