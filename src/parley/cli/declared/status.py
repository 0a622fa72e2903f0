"""`parley status`: how far a declared pipeline is."""

from __future__ import annotations

import typer

from parley.cli.connecting import run as run_async
from parley.cli.declared.arguments import FileArgument
from parley.cli.output import FormatOption, print_rows
from parley.pipelines.declared import AsyncPipeline, FlowStatus

app = typer.Typer(add_completion=False)
COLUMNS = ("flow", "kind", "state", "lag", "records")


@app.command()
def status(file: FileArgument, output_format: FormatOption = None) -> None:
    """Show how far each flow of a pipeline is. Disturbs no run. FILE is a pipeline in TOML."""
    found = run_async(_status(file))
    print_rows("status", COLUMNS, [one._asdict() for one in found], output_format)


async def _status(file: FileArgument) -> list[FlowStatus]:
    async with AsyncPipeline.from_file(file) as pipeline:
        return await pipeline.status()
