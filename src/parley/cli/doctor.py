"""`parley doctor`: what this installation can do, what is missing for more, and what that costs."""

from __future__ import annotations

import sys

import typer

from parley.cli import examination
from parley.cli.examination import BROKEN, Finding
from parley.cli.exit_codes import ExitCode
from parley.cli.output import FormatOption, OutputFormat, print_rows

app = typer.Typer(add_completion=False)


@app.command()
def doctor(output_format: FormatOption = None) -> None:
    """Say what this installation can do, what is missing for more, and what that costs."""
    findings = list(examination.examine())
    if output_format is OutputFormat.TABLE or (output_format is None and sys.stdout.isatty()):
        print("\n".join(examination.report_lines(findings)))
    else:
        print_rows(
            "doctor", Finding._fields, [finding._asdict() for finding in findings], output_format
        )
    if any(finding.status == BROKEN for finding in findings):
        raise typer.Exit(ExitCode.FAILED)
