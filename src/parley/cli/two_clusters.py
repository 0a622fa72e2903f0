"""What commands share that copy from one cluster to another: their options, how a plan is shown,
and how a signal ends a job.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from parley.cli.completion import complete_releases
from parley.cli.connecting import client_options
from parley.cli.option_texts import in_options
from parley.cli.output import say
from parley.client import ClientOptions

if TYPE_CHECKING:
    from parley.pipelines.replay import ReplayStatus
    from parley.pipelines.replication import Finding, PartitionStatus, Plan

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
AcceptOption = Annotated[
    list[str] | None,
    typer.Option(metavar="CODE", help="Go on despite a finding of `plan`. Repeatable."),
]


REMEDIES = {
    "add-partitions": "add the partitions in the target",
    "create-topics": "create the topics in the target",
    "exactly-once": "give --delivery at-least-once",
    "headers": "give --headers drop",
    "name": "leave the topic out",
}
"""What helps where accepting does not: the target refuses it all the same."""


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


class Stops(Protocol):
    """A job that can be ended."""

    def stop(self) -> None:
        """Let it end in order."""


@contextlib.contextmanager
def ended_by_signals(job: Stops) -> Iterator[list[bool]]:
    """Let SIGTERM and Ctrl-C end a job in order; what is yielded says whether it was
    Ctrl-C.
    """
    loop = asyncio.get_running_loop()
    interrupted: list[bool] = []

    def interrupt() -> None:
        interrupted.append(True)
        job.stop()

    loop.add_signal_handler(signal.SIGTERM, job.stop)
    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        yield interrupted
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        loop.remove_signal_handler(signal.SIGINT)


def plan_rows(found: Plan) -> Iterator[dict[str, object]]:
    """Return a row for each thing that would be changed, and for each finding."""
    for topic in found.create:
        configs = ", ".join(f"{name}={value}" for name, value in topic.configs.items())
        text = f"{topic.num_partitions} partitions, {topic.replication_factor} replicas"
        text += f", {configs}" if configs else ""
        yield {"topic": topic.name, "kind": "create", "stops": False, "what": text}
    for name, count in found.add_partitions.items():
        text = f"partitions up to {count}"
        yield {"topic": name, "kind": "add-partitions", "stops": False, "what": text}
    for one in (*found.rights, *found.findings):
        yield {
            "topic": one.topic,
            "kind": one.code,
            "stops": one.stops,
            "what": in_options(one.text),
        }


def say_what_stops(stopping: Iterable[Finding]) -> None:
    """Say what helps against findings that stand in the way: which to accept, what else to do."""
    codes = sorted({one.code for one in stopping})
    for code in codes:
        if code in REMEDIES:
            say(f"{code} stands in the way: {REMEDIES[code]}")
    if accepted := " ".join(f"--accept {code}" for code in codes if code not in REMEDIES):
        say(f"this stands in the way; to go on all the same: {accepted}")


def status_rows(
    statuses: Sequence[PartitionStatus] | Sequence[ReplayStatus],
) -> list[dict[str, object]]:
    """Return a row for each partition of a job."""
    return [
        {
            **one._asdict(),
            "topic": one.partition.topic,
            "partition": one.partition.partition,
            "lag": one.lag,
        }
        for one in statuses
    ]
