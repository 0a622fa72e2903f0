"""`parley api-versions`: what every broker of a cluster speaks, side by side."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.completion import complete_features
from parley.cli.connecting import (
    BootstrapOption,
    CommandConfigOption,
    PinnedReleaseOption,
    TimeoutOption,
    connect_options,
    run,
)
from parley.cli.exit_codes import ExitCode
from parley.cli.output import print_document, say, wide_console
from parley.client import BrokerFinding, brokers_lacking, kips_of, looks_like, survey
from parley.errors import printable
from parley.versions import FEATURES, BrokerVersions, Feature, api_name
from parley.versions.java_client import broker_block

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(add_completion=False)


class Format(StrEnum):
    """The values of `--format`; kafka is byte for byte what Kafka 4.3.0's own tool prints."""

    TABLE = "table"
    JSON = "json"
    KAFKA = "kafka"


@app.command()
def api_versions(
    bootstrap_server: BootstrapOption = "localhost:9092",
    output_format: Annotated[
        Format, typer.Option("--format", metavar="FORMAT", help="table, json or kafka.")
    ] = Format.TABLE,
    require: Annotated[
        str | None,
        typer.Option(
            metavar="FEATURE,…",
            help="Features that every broker must have, with commas; exit code 4 without one.",
            autocompletion=complete_features,
        ),
    ] = None,
    timeout_ms: TimeoutOption = 10_000,
    release: PinnedReleaseOption = None,
    command_config: CommandConfigOption = None,
) -> None:
    """Show what every broker speaks: ranges, version in use, features, the release it looks like.

    Exit codes: 0; 1 a broker failed; 2 usage; 3 none could be reached; 4 a required feature is
    missing.
    """
    features = [Feature.named(name) for name in require.split(",")] if require else []
    findings = run(survey(connect_options(bootstrap_server, timeout_ms, release, command_config)))
    if output_format is Format.KAFKA:
        sys.stdout.write("".join(kafka_text(findings)))
    elif output_format is Format.JSON:
        print_document("api-versions", {"brokers": [as_json(finding) for finding in findings]})
    else:
        print_table(findings)
    raise typer.Exit(finish(findings, features))


def finish(findings: Sequence[BrokerFinding], features: Sequence[Feature]) -> ExitCode:
    """Say on stderr what failed and what is missing; return the exit code."""
    failed = [finding for finding in findings if finding.error is not None]
    for finding in failed:
        say(f"broker {finding.node.id} ({finding.node.address}) failed: {finding.error}")
    missing = brokers_lacking(
        [finding for finding in findings if finding.versions is not None], features
    )
    for feature, finding in missing:
        say(
            f"broker {finding.node.id} ({finding.node.address}) lacks "
            f"{feature.value}: it came with Kafka {FEATURES[feature].first_release}; "
            f"this broker looks like {looks_like(_versions(finding))}"
        )
    if missing:
        return ExitCode.UNSUPPORTED
    return ExitCode.FAILED if failed else ExitCode.OK


def kafka_text(findings: Sequence[BrokerFinding]) -> Iterator[str]:
    """Yield what Kafka's tool prints of each broker; a failed one gets its ERROR line."""
    for finding in findings:
        node = finding.node
        # a broker says them
        host, rack = printable(node.host), None if node.rack is None else printable(node.rack)
        if finding.versions is None:
            head = f"{host}:{node.port} (id: {node.id} rack: {rack or 'null'} isFenced: false)"
            yield f"{head} -> ERROR: {finding.error}\n"
        else:
            yield broker_block(host, node.port, node.id, rack, finding.versions.ranges)


def as_json(finding: BrokerFinding) -> dict[str, object]:
    """Return one broker's finding as JSON: keys are stable, ranges are [min, max]."""
    node, versions = finding.node, finding.versions
    found: dict[str, object] = {
        "id": node.id,
        "host": node.host,
        "port": node.port,
        "rack": node.rack,
    }
    if versions is None:
        return {**found, "error": str(finding.error)}
    resembles = looks_like(versions)
    return {
        **found,
        "inferred": finding.inferred,
        "looks_like": resembles.name,
        "looks_like_exactly": resembles.exactly,
        "apis": [
            {
                "key": key,
                "name": api_name(key),
                "advertised": [low, high],
                "in_use": (usable := versions.usable(key)) and usable.max,
                "why_unusable": None if usable else why_unusable(versions, key),
            }
            for key, (low, high) in sorted(versions.ranges.items())
        ],
        "supported_features": {
            name: list(span) for name, span in versions.supported_features.items()
        },
        "finalized_features": dict(versions.finalized_features),
        "finalized_features_epoch": versions.finalized_features_epoch,
        "features": [feature.value for feature in Feature if versions.supports(feature)],
        "kips": kips_of(versions),
    }


def why_unusable(versions: BrokerVersions, key: int) -> str:
    """Return why parley uses no version of an API that a broker advertises."""
    error = versions.unsupported(key, None)
    if error.client_range is None:
        return "not known to parley"
    if error.broker_range is not None and error.broker_range[0] > error.client_range[1]:
        return "broker too new"
    return (
        "broker too old" if versions.ranges[key].max < error.client_range[0] else "must not be used"
    )


def print_table(findings: Sequence[BrokerFinding]) -> None:
    """Print a column per broker: the range, → the version in use; * where brokers differ."""
    draw_table(wide_console(sys.stdout), findings)


def draw_table(console: Console, findings: Sequence[BrokerFinding]) -> None:
    """Draw on a console what `print_table` prints; tools/make_pictures.py has one for a picture."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("KEY", justify="right")
    table.add_column("API")
    for finding in findings:
        table.add_column(f"BROKER {finding.node.id}", no_wrap=True)
    table.add_column("")
    table.add_row("", "address", *(finding.node.address for finding in findings), "")
    table.add_row("", "looks like", *(_summary(finding) for finding in findings), "")
    for key in sorted(
        {key for f in findings if f.versions is not None for key in f.versions.ranges}
    ):
        cells = [_cell(finding, key) for finding in findings]
        differ = (
            len({cell for cell, f in zip(cells, findings, strict=True) if f.versions is not None})
            > 1
        )
        style = "yellow" if differ else ""
        table.add_row(
            str(key), api_name(key), *(Text(cell, style) for cell in cells), "*" if differ else ""
        )
    for name in sorted(
        {n for f in findings if f.versions is not None for n in f.versions.finalized_features}
    ):
        levels = [
            f.versions.finalized_features.get(name) if f.versions is not None else None
            for f in findings
        ]
        table.add_row("", name, *("-" if level is None else str(level) for level in levels),
                      "*" if len(set(levels)) > 1 else "")  # fmt: skip
    console.print(table)
    notes = Table.grid(padding=(0, 1, 0, 0))
    notes.add_column(no_wrap=True)
    for numbers, on in _grouped_kips(findings).items():
        notes.add_row(f"KIPs on at broker {', '.join(map(str, on))}:", numbers or "none")
    console.print(notes)


def _grouped_kips(findings: Sequence[BrokerFinding]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for finding in findings:
        if finding.versions is not None:
            numbers = " ".join(kip.removeprefix("KIP-") for kip in kips_of(finding.versions))
            grouped.setdefault(numbers, []).append(finding.node.id)
    return grouped


def _summary(finding: BrokerFinding) -> str:
    if finding.versions is None:
        return "failed"
    return f"{looks_like(finding.versions)}{' inferred' if finding.inferred else ''}"


def _cell(finding: BrokerFinding, key: int) -> str:
    versions = finding.versions
    if versions is None:
        return "?"
    advertised = versions.ranges.get(key)
    if advertised is None:
        return "-"
    usable = versions.usable(key)
    return (
        f"{advertised} → {usable.max}"
        if usable is not None
        else f"{advertised} ({why_unusable(versions, key)})"
    )


def _versions(finding: BrokerFinding) -> BrokerVersions:
    assert finding.versions is not None
    return finding.versions
