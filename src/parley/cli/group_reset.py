"""`parley groups reset-offsets`: where a group goes on reading, planned, then written on demand."""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from parley.cli.connecting import (
    BootstrapOption,
    CallTimeoutOption,
    CommandConfigOption,
    ExecuteOption,
    PinnedReleaseOption,
    client_options,
)
from parley.cli.group_lag import partitions_of
from parley.cli.output import FormatOption, print_rows, say
from parley.cli.reset_plan import Known, Move, Reset, plan, read_offsets
from parley.client import EARLIEST, LATEST, Client, GroupDescription, Timestamp
from parley.errors import ConfigError, KafkaError
from parley.types import TopicPartition

COLUMNS = ("topic", "partition", "current_offset", "new_offset", "change")


# size: every option of the command line is a parameter, given by its name
def reset_offsets(
    group: Annotated[str, typer.Argument(metavar="GROUP", hidden=True)],
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="To the first record.")
    ] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Behind the last record.")] = False,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="To a time, as 2026-01-31T23:59:59.000; UTC without a zone."
        ),
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option(metavar="DURATION", help="To so long before now: P7D, PT1H30M.")
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option(metavar="COUNT", help="So many offsets on, or back if it is negative."),
    ] = None,
    to_offset: Annotated[int | None, typer.Option(metavar="OFFSET", help="To this offset.")] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="To the offsets of a CSV file: topic,partition,offset.",
            dir_okay=False,
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC[:0,1]", help="This topic, or these partitions of it. Repeatable."
        ),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Every partition that the group has committed.")
    ] = False,
    execute: ExecuteOption = False,
    bootstrap_server: BootstrapOption = "localhost:9092",
    output_format: FormatOption = None,
    timeout_ms: CallTimeoutOption = 30_000,
    release: PinnedReleaseOption = None,
    command_config: CommandConfigOption = None,
) -> None:
    """Set the offsets at which a group goes on. Shows them; --execute writes them.

    The group must have no members then. Offsets outside of the log become the nearest ones inside.
    """
    reset = Reset(
        to_earliest=to_earliest,
        to_latest=to_latest,
        to_datetime=to_datetime,
        by_duration=by_duration,
        shift_by=shift_by,
        to_offset=to_offset,
        from_file=None if from_file is None else str(from_file),
    )
    timestamp_ms = reset.timestamp_ms(time.time_ns() // 1_000_000)
    listed = {} if from_file is None else read_file(from_file)
    check_scope(reset, topic, all_topics=all_topics)
    with Client(client_options(bootstrap_server, timeout_ms, release, command_config)) as client:
        check_members(client, group, execute=execute)
        wanted = list(listed) or (
            partitions_of(client, topic) if topic else committed_by(client, group)
        )
        moves = plan(reset, known_of(client, group, wanted, timestamp_ms), listed)
        if execute:
            client.alter_group_offsets(group, {move.partition: move.new for move in moves})
    print_rows("groups reset-offsets", COLUMNS, [_row(move) for move in moves], output_format)
    for move in moves:
        if move.asked is not None:
            say(f"{move.partition}: there is no offset {move.asked}; {move.new} is the nearest")
    say("written" if execute else "nothing is written; --execute writes it")


def read_file(path: Path) -> dict[TopicPartition, int]:
    """Return the offsets of a file. Raises ConfigError when it cannot be read."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            return read_offsets(str(path), lines)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def check_scope(reset: Reset, topic: Sequence[str] | None, *, all_topics: bool) -> None:
    """Raise ConfigError unless it is said, once, which partitions are meant."""
    said = [bool(topic), all_topics, reset.from_file is not None]
    if sum(said) > 1:
        raise ConfigError("give one of --topic, --all-topics and --from-file, which says it itself")
    if not any(said):
        raise ConfigError(
            "give --topic TOPIC, --topic TOPIC:0,1 or --all-topics: it is not said which partitions"
        )


def check_members(client: Client, group: str, *, execute: bool) -> None:
    """Raise KafkaError, before anything is written, for a group with members; a dry run says so."""
    found = _described(client, group)
    if found is None or not found.members:
        return
    count = len(found.members)
    has = f'group "{group}" has {count} member{"" if count == 1 else "s"} ({found.state})'
    if execute:
        raise KafkaError(
            f"{has}; nothing was written. Stop them, or take them out with `parley groups "
            f"remove-member {group} --all`, and reset again"
        )
    say(f"{has}: stop them before --execute")


def _described(client: Client, group: str) -> GroupDescription | None:
    """Return how a group stands, None where there is none: then the reset makes it."""
    from parley.errors import GroupIdNotFoundError

    try:
        return client.describe_groups([group])[group]
    except GroupIdNotFoundError:
        return None


def committed_by(client: Client, group: str) -> list[TopicPartition]:
    """Return the partitions that a group has committed. Raises KafkaError where there are none."""
    found = list(client.list_group_offsets(group))
    if not found:
        raise KafkaError(
            f'group "{group}" has committed nothing, or does not exist: name the partitions with '
            "--topic; `parley groups list` shows the groups"
        )
    return found


def known_of(
    client: Client, group: str, wanted: Sequence[TopicPartition], timestamp_ms: int | None
) -> dict[TopicPartition, Known]:
    """Return what has to be known of partitions to plan their offsets. Raises the error
    of one that does not exist.
    """
    committed = client.list_group_offsets(group, wanted)
    begins = client.list_offsets(dict.fromkeys(wanted, EARLIEST))
    ends = client.list_offsets(dict.fromkeys(wanted, LATEST))
    times = (
        {}
        if timestamp_ms is None
        else client.list_offsets(dict.fromkeys(wanted, Timestamp(timestamp_ms)))
    )
    return {
        tp: Known(
            begins[tp].offset, ends[tp].offset, committed[tp], times[tp].offset if times else None
        )
        for tp in wanted
    }


def _row(move: Move) -> dict[str, object]:
    return {
        "topic": move.partition.topic,
        "partition": move.partition.partition,
        "current_offset": move.current,
        "new_offset": move.new,
        "change": None if move.current is None else move.new - move.current,
    }
