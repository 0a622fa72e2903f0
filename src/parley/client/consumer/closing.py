"""The end of a consumer: how long it may take, whose error comes out, what calls say afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from parley.client.async_client import AsyncClient
from parley.client.options import arguments
from parley.errors import LocalProtocolError

CLOSE_TIMEOUT_MS = 30_000
"""How long the last commit and the farewells may take, as in Java."""


class Core(Protocol):
    """What a consumer is made of."""

    client: AsyncClient

    async def close(self, timeout_ms: int) -> None:
        """End the reading."""


async def close_consumer(core: Core, own: AsyncClient | None, timeout_ms: int) -> None:
    """Close a consumer and the client that is its `own`, whatever the first one raises.

    Raises ConfigError, with nothing closed, for what it cannot wait by.
    """
    arguments.number("timeout_ms", timeout_ms, 0, arguments.INT32)
    try:
        if core.client._is_alive():
            await core.close(timeout_ms)
    finally:
        if own is not None:
            await own.close()


def not_running(*, closed: bool) -> LocalProtocolError:
    """Return the error of a call that needs a consumer which was started, and is not closed."""
    if closed:
        return LocalProtocolError("this consumer is closed; make a new one")
    return LocalProtocolError(
        "this consumer is not started: call start(), or use it in a `with` or `async with` block"
    )


@contextmanager
def after_body(error: BaseException | None) -> Iterator[None]:
    """Close in here at the end of a `with` block: what its body raised comes out, and a failure to
    close is a note of it.
    """
    try:
        yield
    except Exception as failed:
        if error is None:
            raise
        error.add_note(f"closing the consumer failed as well: {failed!r}")
