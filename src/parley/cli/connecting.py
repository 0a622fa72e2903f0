"""The options that commands which talk to brokers share, and how they become ConnectOptions."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from parley.cli.completion import complete_releases
from parley.cli.output import say
from parley.client import (
    ClientOptions,
    connect_options as client_connect_options,
    option_names,
    read_properties,
)
from parley.net import ConnectOptions

Result = TypeVar("Result")

BootstrapOption = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT,…",
        help="One or more brokers of the cluster, with commas.",
    ),
]
TimeoutOption = Annotated[
    int, typer.Option("--timeout-ms", metavar="MS", help="How long one broker may take.", min=1)
]
CallTimeoutOption = Annotated[
    int,
    typer.Option(
        "--timeout-ms", metavar="MS", help="How long each call may take, with its retries.", min=1
    ),
]
PinnedReleaseOption = Annotated[
    str | None,
    typer.Option(
        "--release",
        metavar="RELEASE",
        help="The brokers' release, for those that cannot be asked (0.9 behind SASL).",
        autocompletion=complete_releases,
    ),
]

CommandConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        help="A client.properties file as Kafka's tools take it: TLS, logins.",
        dir_okay=False,
    ),
]
ExecuteOption = Annotated[
    bool,
    typer.Option(
        "--execute/--dry-run",
        help="Write it, or only show it. [default: --dry-run]",
        show_default=False,
    ),
]


def connect_options(
    bootstrap_server: str, timeout_ms: int, release: str | None, command_config: Path | None = None
) -> ConnectOptions:
    """Return the options; ConfigError names what is wrong with them."""
    return replace(
        ConnectOptions()
        if command_config is None
        else client_connect_options(read_command_config(command_config)),
        bootstrap_servers=bootstrap_server,
        client_id="parley-cli",
        socket_connection_setup_timeout_ms=timeout_ms,
        request_timeout_ms=timeout_ms,
        release=release,
    )


def client_options(
    bootstrap_server: str, timeout_ms: int, release: str | None, command_config: Path | None = None
) -> ClientOptions:
    """Return the options of a client whose calls end within `timeout_ms`; ConfigError
    names what is wrong with them.
    """
    return replace(
        ClientOptions() if command_config is None else read_command_config(command_config),
        bootstrap_servers=bootstrap_server,
        client_id="parley-cli",
        socket_connection_setup_timeout_ms=timeout_ms,
        request_timeout_ms=timeout_ms,
        default_api_timeout_ms=timeout_ms,
        broker_version_hint=release,
    )


def read_command_config(path: Path) -> ClientOptions:
    """Return the options in a file of Kafka's names; those that parley lacks are named on stderr.

    Raises ConfigError, without the file's values, when it cannot be read or an option cannot be
    used.
    """
    names, found = option_names(ClientOptions), {}
    for name, value in read_properties(path).items():
        if name in names:
            found[name] = value
        else:
            say(f"{path}: {name} has no effect here")
    return ClientOptions.from_properties(found)


def run(work: Coroutine[object, None, Result]) -> Result:
    """Run a command's asynchronous part to its end."""
    return asyncio.run(work)
