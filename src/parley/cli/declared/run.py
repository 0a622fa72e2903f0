"""`parley run`: a declared pipeline at work."""

from __future__ import annotations

from typing import Annotated

import typer

from parley.cli.connecting import run as run_async
from parley.cli.declared.arguments import FileArgument, FlowsArgument
from parley.cli.declared.plan import digest
from parley.cli.declared.status import COLUMNS
from parley.cli.exit_codes import ExitCode
from parley.cli.output import FormatOption, print_rows, say
from parley.cli.two_clusters import ended_by_signals
from parley.errors import ConfigError
from parley.pipelines.declared import AsyncPipeline, FlowStatus

app = typer.Typer(add_completion=False)


@app.command()
def run(
    file: FileArgument,
    flows: FlowsArgument = None,
    plan: Annotated[
        str | None,
        typer.Option(metavar="DIGEST", help="Only if `parley plan` would still say this."),
    ] = None,
    output_format: FormatOption = None,
) -> None:
    """Run a pipeline: to its end, or until Ctrl-C, SIGTERM or `parley drain`, which end it in
    order. Begun again, it goes on where it was.

    FILE is a pipeline in TOML, FLOW some of its flows; without any, those that are auto.
    Exit code 0 when it is done or drained, 5 if a comparison differs, 6 for lost data, 7 where it
    runs already.
    """
    found, differs, interrupted = run_async(_run(file, flows, plan))
    print_rows("run", COLUMNS, [one._asdict() for one in found], output_format)
    if interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)
    if differs:
        say(f"different: {', '.join(differs)}; `parley verify` shows where")
        raise typer.Exit(ExitCode.DIFFERENT)


async def _run(
    file: FileArgument, flows: FlowsArgument, plan: str | None
) -> tuple[list[FlowStatus], list[str], bool]:
    async with AsyncPipeline.from_file(file) as pipeline:
        if plan is not None and (now := digest(await pipeline.plan(flows))) != plan:
            raise ConfigError(f"the plan is {now} by now, and not {plan}: look at it again")
        with ended_by_signals(pipeline) as interrupted:
            say(f"{pipeline.declaration.name} runs; `parley drain {file}` ends it")
            await pipeline.run(flows)
        return await pipeline.status(), pipeline.different(), bool(interrupted)
