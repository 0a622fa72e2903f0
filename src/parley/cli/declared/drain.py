"""`parley drain`: end a declared pipeline in order."""

from __future__ import annotations

import typer

from parley.cli.declared.arguments import FileArgument
from parley.cli.output import say
from parley.pipelines.declared import Pipeline

app = typer.Typer(add_completion=False)


@app.command()
def drain(file: FileArgument) -> None:
    """Ask the run of a pipeline, in whatever process on this machine, to end in order. FILE is a
    pipeline in TOML.
    """
    with Pipeline.from_file(file) as pipeline:
        is_running = pipeline.drain()
    say("it ends" if is_running else "it does not run")
