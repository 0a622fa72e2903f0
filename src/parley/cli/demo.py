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
SourceOption = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="HOST:PORT,…",
        help="Brokers of your own to copy from; nothing is forced on them.",
    ),
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="HOST:PORT,…",
        help="Brokers of your own to copy to, of Kafka 0.11 or later.",
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
    source: SourceOption = None,
    target: TargetOption = None,
    output: OutputOption = Path("demo-output"),
    rate: RateOption = None,
    output_format: FormatOption = None,
) -> None:
    """Run the demo job: rows from an old cluster to a new one and through Spark into a table, while
    brokers are upgraded and killed; then compare both clusters.

    Exit status 0 only if the account balances.
    """
    from parley.pipelines.demo.demo import DemoOptions, run_demo

    options = DemoOptions(
        input=input_file,
        key=tuple(key or ()),
        partition_by=partition_by,
        source=source,
        target=target,
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
