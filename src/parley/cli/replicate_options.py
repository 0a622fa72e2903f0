"""The options that the commands of `parley replicate` share: two clusters, and what is copied."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from parley.cli.completion import complete_releases
from parley.cli.connecting import client_options
from parley.client import ClientOptions

SourceOption = Annotated[
    str,
    typer.Option("--source", metavar="HOST:PORT,…", help="Brokers of the cluster to copy from."),
]
TargetOption = Annotated[
    str, typer.Option("--target", metavar="HOST:PORT,…", help="Brokers of the cluster to copy to.")
]
SourceConfigOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="A client.properties file for the source: TLS, logins.", dir_okay=False
    ),
]
TargetConfigOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The same for the target.", dir_okay=False),
]
SourceReleaseOption = Annotated[
    str | None,
    typer.Option(
        metavar="RELEASE",
        help="The source's release, where it cannot be asked (0.9 behind SASL).",
        autocompletion=complete_releases,
    ),
]
TargetReleaseOption = Annotated[
    str | None,
    typer.Option(
        metavar="RELEASE", help="The same for the target.", autocompletion=complete_releases
    ),
]
NameOption = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="The replication: its transactional id, and the topic NAME-offsets."
    ),
]
TopicOption = Annotated[
    list[str] | None, typer.Option(metavar="TOPIC", help="Copy this topic. Repeatable.")
]
PatternOption = Annotated[
    str | None,
    typer.Option(metavar="REGEX", help="Copy all topics whose whole name matches, later ones too."),
]
DeliveryOption = Annotated[
    str, typer.Option(metavar="HOW", help="exactly-once, or at-least-once for targets below 0.11.")
]
HeadersOption = Annotated[
    str, typer.Option(metavar="HOW", help="keep, or drop for targets below 0.11.")
]
TimestampOption = Annotated[
    str,
    typer.Option(
        metavar="WHAT",
        help="What records of Kafka 0.9 get: append (the time of copying), zero, or milliseconds.",
    ),
]
TwoWayOption = Annotated[
    bool,
    typer.Option(
        "--two-way", help="Mark records with their origin, and leave out the target's own."
    ),
]
AcceptOption = Annotated[
    list[str] | None,
    typer.Option(metavar="CODE", help="Go on despite a finding of `plan`. Repeatable."),
]


@dataclass(frozen=True, slots=True)
class Sides:
    """How both clusters are reached."""

    source: ClientOptions
    target: ClientOptions


def sides(
    source: tuple[str, str | None, Path | None],
    target: tuple[str, str | None, Path | None],
    timeout_ms: int,
) -> Sides:
    """Return the options of both clients, each of (addresses, release, file)."""
    old, new = (
        client_options(addresses, timeout_ms, release, file)
        for addresses, release, file in (source, target)
    )
    return Sides(old, new)


def missing_timestamp(text: str) -> str | int:
    """Return what `--timestamp-when-missing` means."""
    return int(text) if text.isdigit() else text
