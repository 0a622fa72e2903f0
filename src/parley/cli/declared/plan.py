"""`parley plan`: what a declared pipeline would do."""

from __future__ import annotations

import hashlib

import typer

from parley.cli.connecting import run as run_async
from parley.cli.declared.arguments import FileArgument, FlowsArgument
from parley.cli.exit_codes import ExitCode
from parley.cli.output import FormatOption, print_rows, say
from parley.pipelines.declared import AsyncPipeline, PlannedChange
from parley.pipelines.queries import LATER
from parley.pipelines.rights import RIGHTS

app = typer.Typer(add_completion=False)
COLUMNS = ("flow", "kind", "topic", "change", "stops", "what")


@app.command()
def plan(
    file: FileArgument, flows: FlowsArgument = None, output_format: FormatOption = None
) -> None:
    """Show what a pipeline would create, copy and compare, and what cannot be. Changes nothing.

    FILE is a pipeline in TOML, FLOW some of its flows; without any, those that are auto.
    Exit code 1 where something stands in the way.
    """
    found = run_async(_plan(file, flows))
    print_rows("plan", COLUMNS, [one._asdict() for one in found], output_format)
    if any(one.stops for one in found):
        say("something stands in the way; accept = [...] of a flow names what it does not mind")
        raise typer.Exit(ExitCode.FAILED)
    say(f"plan {digest(found)}")


async def _plan(file: FileArgument, flows: FlowsArgument) -> list[PlannedChange]:
    async with AsyncPipeline.from_file(file) as pipeline:
        return await pipeline.plan(flows)


def digest(found: list[PlannedChange]) -> str:
    """Return a short name of what would be changed: the same as long as that is the same."""
    changes = [one for one in found if one.change not in ("read", LATER, RIGHTS)]
    return hashlib.sha256(repr(sorted(map(repr, changes))).encode()).hexdigest()[:12]
