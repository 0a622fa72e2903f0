"""`parley discovery compare`: KIP-35's designs against a mixed embedded cluster, side by side."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from parley.cli.completion import complete_releases
from parley.cli.output import FormatOption, print_rows, say
from parley.devcluster import AsyncLocalCluster
from parley.drafts import (
    STRATEGIES,
    Cost,
    DocumentedDialect,
    DraftDialect,
    EmptyAnswerDialect,
    compare,
    shared_apis,
)
from parley.protocol import Dialect

app = typer.Typer(add_completion=False)

COLUMNS = (
    "strategy",
    "broker",
    "round_trips",
    "connections",
    "sent_bytes",
    "received_bytes",
    "apis",
    "outcome",
)

MIXED = ("0.9", "0.10.0", "2.4", "3.9", "4.3")
"""The releases of the cluster that is compared on."""


@app.callback()
def discovery() -> None:
    """Compare the ways in which a client could learn what a broker speaks (KIP-35)."""


@app.command("compare")
def compare_command(
    broker: Annotated[
        list[str] | None,
        typer.Option(
            "--release",
            metavar="RELEASE",
            help="Releases of the mixed cluster; may be repeated.",
            autocompletion=complete_releases,
        ),
    ] = None,
    output_format: FormatOption = None,
) -> None:
    """Run every strategy against every broker of a mixed cluster; print trips, bytes, outcome."""
    names = tuple(broker or MIXED)
    costs = asyncio.run(run(names))
    rows = [
        {
            "strategy": cost.strategy,
            "broker": label,
            "round_trips": cost.round_trips,
            "connections": cost.connections,
            "sent_bytes": cost.sent_bytes,
            "received_bytes": cost.received_bytes,
            "apis": len(cost.outcome.ranges) or None,
            "outcome": cost.outcome.summary,
        }
        for label, cost in costs
    ]
    print_rows("discovery compare", COLUMNS, rows, output_format)
    for strategy in STRATEGIES:
        found = shared_apis([cost for _, cost in costs if cost.strategy == strategy])
        say(
            f"{strategy}: "
            + (f"{found} APIs in common" if found is not None else "no common view of the cluster")
        )


async def run(names: tuple[str, ...]) -> list[tuple[str, Cost]]:
    """Return the costs of every strategy, on a cluster of its own, with the broker's label."""
    costs = []
    async with AsyncLocalCluster(len(names), releases=dict(enumerate(names, start=1))) as cluster:
        for name, strategy in STRATEGIES.items():
            for number, broker in enumerate(cluster.brokers):
                broker.dialect = _dialect(name, broker.release, number)
            found = await compare({name: strategy}, [broker.address for broker in cluster.brokers])
            costs += [(b.release, cost) for b, cost in zip(cluster.brokers, found, strict=True)]
    return costs


def _dialect(strategy: str, release: str, number: int) -> Dialect | None:
    """Return what a broker speaks for a strategy: the oldest knows no design, the next only v1."""
    if strategy == "accepted" or number == 0:
        return None
    if strategy in ("draft-30", "option-2"):
        return DraftDialect(release, ((1, 1), (1, 2), (2, 2))[min(number - 1, 2)])
    if strategy == "option-3":
        return DocumentedDialect(release)
    return EmptyAnswerDialect(release)
