"""`parley demo`: the demo job with its progress display and its account."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.exit_codes import ExitCode
from parley.cli.output import OutputFormat, print_document

app = typer.Typer(add_completion=False)


InputOption = Annotated[
    Path | None,
    typer.Option(
        "--input",
        metavar="FILE",
        help="A .csv, .jsonl or .parquet file. [default: 336,776 flights]",
    ),
]
KeyOption = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="COLUMN", help="Column of the record key; may be repeated."),
]
PartitionByOption = Annotated[
    str | None,
    typer.Option(
        "--partition-by", metavar="COLUMN", help="Column that the table is partitioned by."
    ),
]
BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        metavar="HOST:PORT",
        help="Brokers of your own; no leader moves are forced.",
    ),
]
OutputOption = Annotated[
    Path, typer.Option("--output", metavar="DIR", help="Where the results go.")
]
RateOption = Annotated[
    float | None,
    typer.Option(
        "--rate", min=0, metavar="ROWS", help="Rows per second to produce; 0: as fast as it goes."
    ),
]
FormatOption = Annotated[
    OutputFormat | None,
    typer.Option("--format", metavar="FORMAT", help="json prints the account as JSON."),
]


@app.command()
def demo(
    input_file: InputOption = None,
    key: KeyOption = None,
    partition_by: PartitionByOption = None,
    bootstrap_server: BootstrapOption = None,
    output: OutputOption = Path("demo-output"),
    rate: RateOption = None,
    output_format: FormatOption = None,
) -> None:
    """Run the demo job: rows through Kafka and Spark into a table, during a rolling upgrade.

    Exit status 0 only if the account balances.
    """
    from parley.pipelines.demo import DemoOptions, run_demo

    options = DemoOptions(
        input=input_file,
        key=tuple(key or ()),
        partition_by=partition_by,
        bootstrap_servers=bootstrap_server,
        output=output,
        rows_per_second=rate,
    )
    account = run_demo(options)
    if output_format is OutputFormat.JSON:
        print_document("demo", account.to_dict())
    else:
        print("\n".join(account.lines()))
    if not account.balanced:
        raise typer.Exit(ExitCode.FAILED)
