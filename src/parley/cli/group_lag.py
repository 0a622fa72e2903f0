"""`parley groups lag`: how far a group is behind, once or again and again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from parley.cli.connecting import (
    BootstrapOption,
    CallTimeoutOption,
    CommandConfigOption,
    PinnedReleaseOption,
    client_options,
)
from parley.cli.output import FormatOption, OutputFormat, print_rows, say, table, wide_console
from parley.cli.partition_texts import read_partitions
from parley.client import Client, PartitionLag
from parley.errors import ConfigError, UnsupportedVersionError, broker_error
from parley.errors.codes import UNKNOWN_TOPIC_OR_PARTITION
from parley.types import TopicPartition

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS = ("topic", "partition", "committed", "end_offset", "lag", "member_id", "client_id", "host")
WATCH_COLUMNS = (
    "topic",
    "partition",
    "committed",
    "end_offset",
    "lag",
    "change",
    "member_id",
    "client_id",
    "host",
)
Lags = Mapping[TopicPartition, PartitionLag]


# size: every option of the command line is a parameter, given by its name
def lag(
    group: Annotated[str, typer.Argument(metavar="GROUP", hidden=True)],
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC[:0,1]", help="Only this topic, or these partitions of it. Repeatable."
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again and again, until Ctrl-C.")
    ] = False,
    interval_ms: Annotated[
        int, typer.Option(metavar="MS", help="How often --watch looks.", min=100)
    ] = 1_000,
    bootstrap_server: BootstrapOption = "localhost:9092",
    output_format: FormatOption = None,
    timeout_ms: CallTimeoutOption = 30_000,
    release: PinnedReleaseOption = None,
    command_config: CommandConfigOption = None,
) -> None:
    """Show, for each partition, what the group has committed, where it ends, and who has it.

    --watch adds how the lag has changed since the look before; in a pipe each look has its time.
    """
    if watch and output_format is OutputFormat.JSON:
        raise ConfigError("--watch prints no single document: give --format jsonl")
    with Client(client_options(bootstrap_server, timeout_ms, release, command_config)) as client:
        wanted = partitions_of(client, topic) if topic else None
        try:
            if watch:
                watch_lag(
                    lambda: client.group_lag(group, wanted),
                    output_format,
                    lambda: time.sleep(interval_ms / 1_000),
                )
            found = client.group_lag(group, wanted)
        except UnsupportedVersionError as error:
            if wanted is None:
                error.add_note("give --topic TOPIC, or --topic TOPIC:0,1 for some partitions")
            raise
    print_rows("groups lag", COLUMNS, [_row(tp, one) for tp, one in found.items()], output_format)
    say(f'group "{group}": {summary(found)}')


def partitions_of(client: Client, texts: Sequence[str]) -> list[TopicPartition]:
    """Return the partitions that `--topic` names; of a topic without numbers all that it has.

    Raises UnknownTopicOrPartitionError for what is not there.
    """
    named = [read_partitions(text) for text in texts]
    topics = client.metadata(list(dict.fromkeys(topic for topic, _ in named))).topics
    found = []
    for topic, indexes in named:
        there = topics[topic].partitions
        for index in sorted(there) if indexes is None else indexes:
            if index not in there:
                text = f'"{topic}" has no partition {index}; it has {_partitions(len(there))}'
                raise broker_error(UNKNOWN_TOPIC_OR_PARTITION, text)
            found.append(TopicPartition(topic, index))
    return list(dict.fromkeys(found))


def watch_lag(
    look: Callable[[], Lags], output_format: OutputFormat | None, pause: Callable[[], None]
) -> NoReturn:
    """Print what `look` finds, pausing in between, until something is raised: Ctrl-C, or an error.

    On a terminal each look replaces the one before; elsewhere the rows of each follow with their
    time.
    """
    on_screen = sys.stdout.isatty() and output_format in (None, OutputFormat.TABLE)
    before: Lags = {}
    if on_screen:
        from rich.live import Live

        with Live(console=wide_console(sys.stdout), auto_refresh=False) as screen:
            while True:
                found = look()
                screen.update(watched(before, found, _clock()), refresh=True)
                before = found
                pause()
    heading = True
    while True:
        found = look()
        timed = [{"time": _clock(), **row} for row in _rows(before, found)]
        before = found
        print_rows("groups lag", ("time", *WATCH_COLUMNS), timed, output_format, heading=heading)
        sys.stdout.flush()
        heading = False
        pause()


def watched(before: Lags, found: Lags, clock: str) -> Table:
    """Return what a terminal shows of a look, with the changes since the one before."""
    return table(WATCH_COLUMNS, _rows(before, found), caption=f"{clock}  {summary(found)}")


def _rows(before: Lags, found: Lags) -> list[dict[str, object]]:
    return [{**_row(tp, one), "change": _change(before.get(tp), one)} for tp, one in found.items()]


def _change(before: PartitionLag | None, now: PartitionLag) -> int | None:
    if before is None or before.lag is None or now.lag is None:
        return None
    return now.lag - before.lag


def _clock() -> str:
    return time.strftime("%H:%M:%S")


def summary(found: Lags) -> str:
    """Return a line about all partitions."""
    known = [one.lag for one in found.values() if one.lag is not None]
    unknown = len(found) - len(known)
    if not unknown:
        return f"lag {sum(known)} in {_partitions(len(found))}"
    why = f"unknown in {_partitions(unknown)} without a committed offset or a leader"
    return f"lag {sum(known)} in {_partitions(len(known))}, {why}" if known else f"lag {why}"


def _partitions(count: int) -> str:
    return f"{count} partition{'' if count == 1 else 's'}"


def _row(tp: TopicPartition, found: PartitionLag) -> dict[str, object]:
    owner = found.owner
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "committed": found.committed.offset if found.committed is not None else None,
        "end_offset": found.end_offset,
        "lag": found.lag,
        "member_id": owner.member_id if owner is not None else None,
        "client_id": owner.client_id if owner is not None else None,
        "host": owner.host if owner is not None else None,
    }
