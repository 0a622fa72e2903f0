"""`parley status`: how far a declared pipeline is."""

from __future__ import annotations

import typer

from parley.cli.connecting import run as run_async
from parley.cli.declared.arguments import FileArgument
from parley.cli.exit_codes import exit_code_of
from parley.cli.output import FormatOption, print_rows, say
from parley.errors import printable
from parley.pipelines.declared import AsyncPipeline, FlowStatus

app = typer.Typer(add_completion=False)
COLUMNS = ("flow", "kind", "state", "lag", "records")


@app.command()
def status(file: FileArgument, output_format: FormatOption = None) -> None:
    """Show how far each flow of a pipeline is. Disturbs no run. FILE is a pipeline in TOML.

    Where clusters do not say the lag of a flow, the others are shown all the same; the exit code is
    that of the first error.
    """
    found = run_async(_status(file))
    print_rows("status", COLUMNS, [one._asdict() for one in found], output_format)
    errors = [(one.flow, one.error) for one in found if one.error is not None]
    for flow, error in errors:
        say(printable(f"the lag of {flow} is not known: {error}"))
    if errors:
        raise typer.Exit(exit_code_of(errors[0][1]))


async def _status(file: FileArgument) -> list[FlowStatus]:
    async with AsyncPipeline.from_file(file) as pipeline:
        return await pipeline.status()
