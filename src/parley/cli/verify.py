"""`parley verify`: whether topics of two clusters, or two of one, hold the same records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from parley.cli.completion import complete_releases
from parley.cli.connecting import (
    BootstrapOption,
    CallTimeoutOption,
    CommandConfigOption,
    PinnedReleaseOption,
    client_options,
)
from parley.cli.exit_codes import ExitCode
from parley.cli.option_texts import own_option_names
from parley.cli.output import FormatOption, OutputFormat, print_document, print_rows, say
from parley.client import Client
from parley.errors import ConfigError, printable
from parley.pipelines.verify import (
    ComparedRecord,
    Difference,
    Verification,
    VerifiedPartition,
    VerifyOptions,
    verify_topics,
)
from parley.pipelines.verify.reading import READ_COMMITTED, READ_UNCOMMITTED
from parley.pipelines.verify.results import shortened

app = typer.Typer(add_completion=False)

DECLARED = ".toml"
"""Files of pipelines end like this."""
COLUMNS = (
    "topic",
    "partition",
    "against",
    "left_records",
    "right_records",
    "equal",
    "timestamps",
    "difference",
)
AgainstOption = Annotated[
    str | None,
    typer.Option(
        "--against-bootstrap-server",
        "-a",
        metavar="HOST:PORT,…",
        help="Brokers of the other cluster. [default: the same cluster]",
    ),
]
AgainstConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--against-command-config",
        metavar="FILE",
        help="A client.properties file for the other cluster.",
        dir_okay=False,
    ),
]
AgainstReleaseOption = Annotated[
    str | None,
    typer.Option(
        "--against-release",
        metavar="RELEASE",
        help="The other brokers' release, for those that cannot be asked.",
        autocompletion=complete_releases,
    ),
]


# size: every option of the command line is a parameter, given by its name
@app.command()
def verify(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC[=OTHER]", hidden=True)],
    bootstrap_server: BootstrapOption = "localhost:9092",
    against_bootstrap_server: AgainstOption = None,
    command_config: CommandConfigOption = None,
    against_command_config: AgainstConfigOption = None,
    release: PinnedReleaseOption = None,
    against_release: AgainstReleaseOption = None,
    ignore_timestamps: Annotated[
        bool, typer.Option("--ignore-timestamps", help="Leave timestamps out.")
    ] = False,
    latest_per_key: Annotated[
        bool,
        typer.Option(
            "--latest-per-key", help="Compare the latest record of each key: compacted topics."
        ),
    ] = False,
    ignore_tombstones: Annotated[
        bool,
        typer.Option(
            "--ignore-tombstones", help="With --latest-per-key: a deleted key is the same as none."
        ),
    ] = False,
    from_later_beginning: Annotated[
        bool,
        typer.Option(
            "--from-later-beginning",
            help="Begin with the first record of the side that retention has left less of.",
        ),
    ] = False,
    read_uncommitted: Annotated[
        bool,
        typer.Option(
            "--read-uncommitted", help="Compare records of open and aborted transactions, too."
        ),
    ] = False,
    output_format: FormatOption = None,
    timeout_ms: CallTimeoutOption = 30_000,
) -> None:
    """Compare topics record by record, by hashes; exit code 0 if they are equal, 5 if they differ.

    FILE.toml [FLOW…] in place of topics runs the flows of a declared pipeline that compare.
    TOPIC=OTHER compares a topic with one that has another name on the other side. Keys, values,
    headers and timestamps count, in the order of each partition; offsets do not. What was written
    when the command began is compared. stderr has the first difference of each partition side by
    side.
    """
    if topics and topics[0].endswith(DECLARED):
        from parley.cli.declared.verifying import verified

        file, *flows = topics
        outcomes = verified(Path(file), flows)
        for outcome in outcomes.values():
            report(outcome, {}, output_format)
        equal = all(outcome.equal for outcome in outcomes.values())
        raise typer.Exit(ExitCode.OK if equal else ExitCode.DIFFERENT)
    names = read_topics(topics)
    if against_bootstrap_server is None:
        if against_command_config is not None or against_release is not None:
            raise ConfigError("--against-… options need --against-bootstrap-server")
        same = [left for left, right in names.items() if left == right]
        if same:
            raise ConfigError(
                f'"{same[0]}" would be compared with itself: give --against-bootstrap-server, or '
                f"{same[0]}=OTHER"
            )
        against_bootstrap_server, against_command_config = bootstrap_server, command_config
        against_release = release
    with own_option_names():
        options = VerifyOptions(
            isolation_level=READ_UNCOMMITTED if read_uncommitted else READ_COMMITTED,
            ignore_timestamps=ignore_timestamps,
            latest_per_key=latest_per_key,
            ignore_tombstones=ignore_tombstones,
            from_later_beginning=from_later_beginning,
        )
    one = client_options(bootstrap_server, timeout_ms, release, command_config)
    other = client_options(
        against_bootstrap_server, timeout_ms, against_release, against_command_config
    )
    with Client(one) as left, Client(other) as right:
        found = verify_topics(left, right, names, options)
    report(found, names, output_format)
    raise typer.Exit(ExitCode.OK if found.equal else ExitCode.DIFFERENT)


def read_topics(texts: Sequence[str]) -> dict[str, str]:
    """Return the other side's name of each topic. Raises ConfigError for a topic named twice.

    >>> read_topics(["flights", "trips=trips-copy"])
    {'flights': 'flights', 'trips': 'trips-copy'}
    """
    names: dict[str, str] = {}
    for text in texts:
        left, equals, right = text.partition("=")
        if not left or (equals and not right):
            raise ConfigError(f'"{text}" names no topic: give TOPIC or TOPIC=OTHER')
        if left in names:
            raise ConfigError(f'topic "{left}" is named twice')
        names[left] = right or left
    return names


def report(found: Verification, names: dict[str, str], output_format: OutputFormat | None) -> None:
    """Print the rows to stdout; what differs, and one line about all, to stderr."""
    if output_format is OutputFormat.JSON:
        rows = [{**_row(one), "first_difference": _document(one)} for one in found.partitions]
        print_document("verify", {"equal": found.equal, "rows": rows})
    else:
        print_rows("verify", COLUMNS, [_row(one) for one in found.partitions], output_format)
    for one in found.partitions:
        if one.difference is not None:
            for line in difference_lines(one, one.difference):
                say(line)
    untimed = sum(not one.timestamps_compared for one in found.partitions)
    if untimed:
        say(f"timestamps were left out in {untimed} of {len(found.partitions)} partitions")
    say(summary(found))


def summary(found: Verification) -> str:
    """Return a line about all partitions."""
    records = sum(one.left_records for one in found.partitions)
    count = f"{len(found.partitions)} partition{'' if len(found.partitions) == 1 else 's'}"
    if found.equal:
        return f"equal: {count}, {records} records on each side"
    different = sum(not one.equal for one in found.partitions)
    return f"different: {different} of {count}"


def difference_lines(found: VerifiedPartition, difference: Difference) -> Iterator[str]:
    """Yield the lines that show a difference, both sides one below the other."""
    where = found.left if found.left is not None else found.right
    rank = "" if difference.rank is None else f", after {difference.rank} equal records"
    yield f"{_name(where)}{rank}: {printable(difference.detail)}"
    if difference.left is None and difference.right is None:
        return
    for side, record in (("left", difference.left), ("right", difference.right)):
        lines = ["no record"] if record is None else record.lines()
        for at, line in enumerate(lines):
            yield f"  {side if at == 0 else '':6}{line}"


def _name(tp: object) -> str:
    return printable(str(tp)).removesuffix("--1")


def _row(found: VerifiedPartition) -> dict[str, object]:
    where = found.left if found.left is not None else found.right
    assert where is not None
    return {
        "topic": where.topic,
        "partition": where.partition if where.partition >= 0 else None,
        "against": None if found.right is None else found.right.topic,
        "left_records": found.left_records,
        "right_records": found.right_records,
        "equal": found.equal,
        "timestamps": found.timestamps_compared,
        "difference": None if found.difference is None else found.difference.detail,
    }


def _document(found: VerifiedPartition) -> dict[str, object] | None:
    if found.difference is None:
        return None
    difference = found.difference
    return {
        "kind": difference.kind.value,
        "detail": difference.detail,
        "rank": difference.rank,
        "left": _record(difference.left),
        "right": _record(difference.right),
    }


def _record(record: ComparedRecord | None) -> dict[str, object] | None:
    if record is None:
        return None
    return {
        "topic": record.partition.topic,
        "partition": record.partition.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [{"key": key, "value": _text(value)} for key, value in record.headers],
    }


def _text(value: bytes | None) -> str | None:
    """Return bytes as Python writes them, cut short: JSON has no bytes."""
    return None if value is None else shortened(value)
