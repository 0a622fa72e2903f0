"""`parley consume`: print records as a member of a group, and commit what was printed."""

from __future__ import annotations

import base64
import dataclasses
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from types import FrameType
from typing import Annotated

import typer

from parley.cli.connecting import (
    BootstrapOption,
    CallTimeoutOption,
    CommandConfigOption,
    PinnedReleaseOption,
    client_options,
)
from parley.cli.option_texts import own_option_names
from parley.cli.output import OutputFormat, print_lines, print_rows, say
from parley.client import (
    Client,
    ClientOptions,
    Consumer,
    ConsumerRebalanceListener,
    ConsumerRecord,
)
from parley.errors import ConfigError, KafkaError, printable
from parley.types import OffsetAndMetadata, TopicPartition

app = typer.Typer(add_completion=False)
COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")
POLL_MS, MOST_AT_ONCE = 500, 500
COMMIT_EVERY_S = 5


class Encoding(StrEnum):
    """The values of `--encoding`; text is not lossless, for bytes that are no UTF-8."""

    TEXT = "text"
    BASE64 = "base64"
    HEX = "hex"


# size: every option of the command line is a parameter, given by its name
@app.command()
@own_option_names()
def consume(
    topics: Annotated[list[str] | None, typer.Argument(metavar="TOPIC", hidden=True)] = None,
    group: Annotated[
        str, typer.Option("--group", metavar="GROUP", help="The group to be a member of.")
    ] = "",
    pattern: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX", help="All topics whose whole name matches, instead of TOPIC."
        ),
    ] = None,
    group_protocol: Annotated[
        str,
        typer.Option(metavar="PROTOCOL", help="classic, consumer (KIP-848, Kafka 4.0) or auto."),
    ] = "classic",
    from_beginning: Annotated[
        bool,
        typer.Option(
            "--from-beginning",
            help="Begin with the first record where the group has no offset yet; else with new "
            "ones.",
        ),
    ] = False,
    max_records: Annotated[
        int | None, typer.Option(metavar="N", help="End after so many records.", min=1)
    ] = None,
    isolation_level: Annotated[
        str, typer.Option(metavar="LEVEL", help="read_uncommitted or read_committed.")
    ] = "read_uncommitted",
    bootstrap_server: BootstrapOption = "localhost:9092",
    output_format: Annotated[
        OutputFormat | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help='jsonl, with the headers, or csv, in which null is nothing and an empty text "". '
            "[default: tab-separated lines]",
        ),
    ] = None,
    encoding: Annotated[
        Encoding,
        typer.Option(
            metavar="HOW",
            help="How keys and values are printed: text, with \\xNN for what is no UTF-8; base64 "
            "or hex, which lose nothing.",
        ),
    ] = Encoding.TEXT,
    timeout_ms: CallTimeoutOption = 30_000,
    release: PinnedReleaseOption = None,
    command_config: CommandConfigOption = None,
) -> None:
    """Print records as a member of a group, from where the group is, until Ctrl-C or SIGTERM.

    What was printed is committed every 5 s, before partitions go to other members, and at the end;
    then the member leaves its group, and the others take over at once. Ctrl-C exits with 130,
    SIGTERM with 0.
    """
    if not group:
        raise ConfigError("--group is missing: consume reads as a member of a group")
    if bool(topics) == (pattern is not None):
        raise ConfigError("give either topics or --pattern, which stands for them")
    options = client_options(bootstrap_server, timeout_ms, release, command_config)
    consumer = Consumer(
        **{field.name: getattr(options, field.name) for field in dataclasses.fields(options)},
        group_id=group,
        group_protocol=group_protocol,
        auto_offset_reset="earliest" if from_beginning else "latest",
        isolation_level=isolation_level,
        enable_auto_commit=False,
    )
    printing = Printing(consumer, printer(output_format, encoding))
    counted = printing.counted(f'group "{group}"')
    with counted, ended_by_sigterm(), consumer, printing.committing():
        consumer.subscribe(topics or (), pattern=pattern, listener=printing)
        warn_of_missing(options, topics or (), pattern)
        printing.run(max_records)


def warn_of_missing(options: ClientOptions, topics: Sequence[str], pattern: str | None) -> None:
    """Say on stderr which topics are not there, or that none matches: a member waits until they
    are.
    """
    with Client(options) as client:
        there = client.metadata().topics
    for topic in dict.fromkeys(topics):
        if topic not in there:
            say(printable(f'warning: there is no topic "{topic}" yet; waiting until it is created'))
    if pattern is None:
        return
    names = [name for name, topic in there.items() if not topic.is_internal]
    if not any(re.fullmatch(pattern, name) for name in names):
        often_s = options.metadata_max_age_ms / 1000
        text = (
            f'warning: no topic matches "{pattern}" yet, by its whole name; waiting until one is '
        )
        say(printable(text + f"created, which is looked for every {often_s:.0f} s"))


class Terminated(BaseException):
    """SIGTERM came: raised where the command is, as Ctrl-C is."""


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end what runs inside in order, as Ctrl-C does; the command ends well."""

    def end(number: int, frame: FrameType | None) -> None:
        # `timeout` sends it twice, and the last commit must not be cut off
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except Terminated:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)


class Printing(ConsumerRebalanceListener):
    """Prints what a consumer reads. What was printed, and nothing else, is committed."""

    def __init__(self, consumer: Consumer, show: Callable[[ConsumerRecord], None]) -> None:
        self.count = 0
        self._consumer, self._show = consumer, show
        self._printed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._commit_at = time.monotonic() + COMMIT_EVERY_S

    def run(self, most: int | None) -> None:
        """Poll and print until so many records are printed, or something is
        raised: Ctrl-C, or an error.
        """
        while most is None or self.count < most:
            wanted = MOST_AT_ONCE if most is None else min(MOST_AT_ONCE, most - self.count)
            found = self._consumer.getmany(timeout_ms=POLL_MS, max_records=wanted)
            for tp, records in found.items():
                self._print(tp, records)
            if time.monotonic() >= self._commit_at:
                self._commit()

    def _print(self, tp: TopicPartition, records: Sequence[ConsumerRecord]) -> None:
        shown = 0
        try:
            for record in records:
                self._show(record)
                shown += 1
        finally:
            if shown:
                # nothing counts or is committed that a pipe's other end did not take
                sys.stdout.flush()
                last = records[shown - 1]
                self.count += shown
                self._printed[tp] = OffsetAndMetadata(last.offset + 1, "", last.leader_epoch)

    @contextmanager
    def counted(self, group: str) -> Iterator[None]:
        """Say at the end how many records were printed; an error before the first speaks for
        itself.
        """
        failed = False
        try:
            yield
        except Exception:
            failed = True
            raise
        finally:
            if self.count or not failed:
                say(f"{group}: {self.count} records printed")

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Commit at the end, however it comes."""
        try:
            yield
        finally:
            self._commit()

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self._commit()
        self.on_partitions_lost(revoked)

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        for tp in lost:
            self._printed.pop(tp, None)

    def _commit(self) -> None:
        """Commit; a group that does not take it hands the records out once more; say so."""
        self._commit_at = time.monotonic() + COMMIT_EVERY_S
        if not self._printed:
            return
        try:
            self._consumer.commit(self._printed)
        except KafkaError as error:
            say(printable(f"what was printed is not committed: {error}"))
        else:
            self._printed.clear()


def printer(
    output_format: OutputFormat | None, encoding: Encoding = Encoding.TEXT
) -> Callable[[ConsumerRecord], None]:
    """Return what prints a record. ConfigError for a format that has an end."""
    if output_format in (OutputFormat.JSON, OutputFormat.TABLE):
        raise ConfigError(f"records have no end: give --format jsonl instead of {output_format}")
    heading = True

    def show(record: ConsumerRecord) -> None:
        nonlocal heading
        row = row_of(record, encoding)
        if output_format is OutputFormat.JSONL:
            print_rows("consume", (*COLUMNS, "headers"), [row], output_format)
        elif output_format is OutputFormat.CSV:
            print_rows("consume", COLUMNS, [row], output_format, heading=heading)
        else:
            print_lines(COLUMNS, [row], heading=heading)
        heading = False

    return show


def row_of(record: ConsumerRecord, encoding: Encoding) -> Mapping[str, object]:
    """Return a record by columns, its bytes encoded."""
    known = record.timestamp >= 0
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": _moment(record.timestamp) if known else None,
        "key": _text(record.key, encoding),
        "value": _text(record.value, encoding),
        "headers": [[name, _text(value, encoding)] for name, value in record.headers],
    }


def _moment(timestamp_ms: int) -> str | int:
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):  # a producer may write any number
        return timestamp_ms
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _text(data: bytes | None, encoding: Encoding) -> str | None:
    if data is None:
        return None
    if encoding is Encoding.BASE64:
        return base64.b64encode(data).decode()
    return data.hex() if encoding is Encoding.HEX else data.decode("utf-8", "backslashreplace")
