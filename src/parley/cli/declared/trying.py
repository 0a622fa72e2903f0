"""`parley test`: the tests in a pipeline's file."""

from __future__ import annotations

import typer

from parley.cli.connecting import run as run_async
from parley.cli.declared.arguments import FileArgument, FlowsArgument
from parley.cli.exit_codes import ExitCode
from parley.cli.output import FormatOption, print_rows, say
from parley.pipelines.declared import AsyncPipeline, TrialResult

app = typer.Typer(add_completion=False)
COLUMNS = ("flow", "result", "expected", "missing", "unexpected")


@app.command("test")
def run_tests(
    file: FileArgument, flows: FlowsArgument = None, output_format: FormatOption = None
) -> None:
    """Run the tests in a pipeline's file, on embedded brokers. No cluster of the file is asked.

    FILE is a pipeline in TOML, FLOW some of its flows; without any, those with a [flow.NAME.test].
    Exit code 1 where something else came than was expected.
    """
    found = run_async(_test(file, flows))
    rows = [
        {
            "flow": one.flow,
            "result": "passed" if one.passed else "failed",
            "expected": one.expected,
            "missing": len(one.missing),
            "unexpected": len(one.unexpected),
        }
        for one in found
    ]
    print_rows("test", COLUMNS, rows, output_format)
    for one in found:
        for row in one.missing:
            say(f"{one.flow}: expected, and not there: {dict(row)}")
        for row in one.unexpected:
            say(f"{one.flow}: not expected: {dict(row)}")
    if not all(one.passed for one in found):
        raise typer.Exit(ExitCode.FAILED)


async def _test(file: FileArgument, flows: FlowsArgument) -> list[TrialResult]:
    async with AsyncPipeline.from_file(file) as pipeline:
        return await pipeline.test(flows)
