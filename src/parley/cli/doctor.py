"""`parley doctor`: what this installation can do, what is missing for more, and what that costs;
with `--spark` what Spark's executors can do.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from parley.cli import examination, spark_examination
from parley.cli.examination import BROKEN, Finding
from parley.cli.exit_codes import ExitCode
from parley.cli.output import FormatOption, OutputFormat, print_rows
from parley.errors import ConfigError

LOCAL = "local[1]"
SparkOption = Annotated[
    bool,
    typer.Option(
        "--spark",
        help="Let Spark run one task too, and compare the Python worker that runs it with the one "
        "that plans it.",
    ),
]
MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help=f"Spark's master, or a Connect server (sc://host:port), for --spark; else {LOCAL}.",
    ),
]
SettingOption = Annotated[
    list[str] | None,
    typer.Option(
        "--conf", metavar="NAME=VALUE", help="A setting of Spark, for --spark; may be repeated."
    ),
]

app = typer.Typer(add_completion=False)


@app.command()
def doctor(
    spark: SparkOption = False,
    master: MasterOption = None,
    conf: SettingOption = None,
    output_format: FormatOption = None,
) -> None:
    """Say what this installation can do, what is missing for more, and what that costs."""
    if not spark and (master or conf):
        raise ConfigError("--master and --conf belong to --spark")
    findings = list(examination.examine())
    if spark:
        findings += spark_examination.examine_spark(master or LOCAL, conf or [])
    if output_format is OutputFormat.TABLE or (output_format is None and sys.stdout.isatty()):
        print("\n".join(examination.report_lines(findings)))
    else:
        print_rows(
            "doctor", Finding._fields, [finding._asdict() for finding in findings], output_format
        )
    if any(finding.status == BROKEN for finding in findings):
        raise typer.Exit(ExitCode.FAILED)
