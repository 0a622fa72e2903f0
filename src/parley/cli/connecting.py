"""The options that every command which talks to brokers has, and how they become ConnectOptions."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Any, TypeVar

import typer

from parley.net import ConnectOptions

Result = TypeVar("Result")

BootstrapOption = Annotated[
    str,
    typer.Option("--bootstrap-server", "-b", help="host:port of one or more brokers, separated by commas."),
]
TimeoutOption = Annotated[int, typer.Option("--timeout-ms", help="How long one broker may take.", min=1)]
PinnedReleaseOption = Annotated[
    str | None,
    typer.Option("--release", help="The brokers' release, for those that cannot be asked (0.9 behind SASL)."),
]


def connect_options(bootstrap_server: str, timeout_ms: int, release: str | None) -> ConnectOptions:
    """Return the options; ConfigError names what is wrong with them."""
    return ConnectOptions(
        bootstrap_servers=bootstrap_server,
        client_id="parley-cli",
        connect_timeout_ms=timeout_ms,
        request_timeout_ms=timeout_ms,
        release=release,
    )


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a command's asynchronous part to its end."""
    return asyncio.run(work)
