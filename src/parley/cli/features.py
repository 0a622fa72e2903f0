"""`parley features`: which named features a cluster's brokers have, for people and for scripts."""

from __future__ import annotations

from typing import Annotated

import typer

from parley.cli.api_versions import finish
from parley.cli.completion import complete_features
from parley.cli.connecting import (
    BootstrapOption,
    CommandConfigOption,
    PinnedReleaseOption,
    TimeoutOption,
    connect_options,
    run,
)
from parley.cli.output import FormatOption, print_rows
from parley.client import survey
from parley.versions import FEATURES, Feature

app = typer.Typer(add_completion=False)


@app.command()
def features(
    bootstrap_server: BootstrapOption = "localhost:9092",
    require: Annotated[
        str | None,
        typer.Option(
            metavar="FEATURE,…",
            help="Only these features, with commas; exit code 4 when one is missing.",
            autocompletion=complete_features,
        ),
    ] = None,
    output_format: FormatOption = None,
    timeout_ms: TimeoutOption = 10_000,
    release: PinnedReleaseOption = None,
    command_config: CommandConfigOption = None,
) -> None:
    """Show which brokers have each feature, its first release, and what parley does without it."""
    wanted = [Feature.named(name) for name in require.split(",")] if require else list(Feature)
    findings = run(survey(connect_options(bootstrap_server, timeout_ms, release, command_config)))
    rows: list[dict[str, object]] = []
    for feature in wanted:
        need = FEATURES[feature]
        row: dict[str, object] = {
            "feature": feature.value,
            "since": need.first_release,
            "kip": need.kip,
        }
        for finding in findings:
            row[f"broker_{finding.node.id}"] = (
                None if finding.versions is None else finding.versions.supports(feature)
            )
        rows.append({**row, "otherwise": need.otherwise})
    columns = [
        "feature",
        "since",
        "kip",
        *(f"broker_{finding.node.id}" for finding in findings),
        "otherwise",
    ]
    print_rows("features", columns, rows, output_format)
    raise typer.Exit(finish(findings, wanted if require else []))
