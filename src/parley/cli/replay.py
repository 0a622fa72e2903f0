"""`parley replay`: write the records of a topic into another one, once more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from parley.cli.connecting import CallTimeoutOption, run as run_async
from parley.cli.exit_codes import ExitCode
from parley.cli.option_texts import own_option_names
from parley.cli.output import FormatOption, print_rows, say
from parley.cli.reset_plan import read_datetime
from parley.cli.two_clusters import (
    AcceptOption,
    DeliveryOption,
    HeadersOption,
    Sides,
    SourceConfigOption,
    SourceOption,
    SourceReleaseOption,
    TargetConfigOption,
    TargetReleaseOption,
    TimestampOption,
    ended_by_signals,
    missing_timestamp,
    plan_rows,
    say_what_stops,
    sides,
    status_rows,
)
from parley.errors import ConfigError
from parley.pipelines.checks import size

if TYPE_CHECKING:
    from parley.pipelines.replay import AsyncReplay, ReplayOptions, ReplayPlan, ReplayStatus

T = TypeVar("T")

app = typer.Typer(add_completion=False, no_args_is_help=True)
PLAN_COLUMNS = ("topic", "kind", "stops", "what")
STATUS_COLUMNS = ("topic", "partition", "next_offset", "end_offset", "lag")

TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="HOST:PORT,…",
        help="Brokers of the cluster to write to.",
        show_default="the source",
    ),
]
NameOption = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="The replay: its transactional id, and the topic NAME-offsets."
    ),
]
TopicOption = Annotated[str, typer.Option(metavar="TOPIC", help="The topic to read.")]
ToOption = Annotated[str | None, typer.Option(metavar="TOPIC", help="The topic to write.")]
DeadLettersOption = Annotated[
    bool,
    typer.Option(
        "--dead-letters",
        help="Write each record back where it came from, by Connect's or Spring's headers.",
    ),
]
AttemptsOption = Annotated[
    int,
    typer.Option(metavar="N", min=1, help="Leave dead letters that were tried so often."),
]
FromOption = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Only records from this time on, 2026-01-31T23:59:59 (UTC)."),
]
UntilOption = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only records before this time.")
]
LateOption = Annotated[
    int,
    typer.Option(
        metavar="MS",
        min=0,
        help="Read on for so long behind --until-datetime: older records may follow younger.",
    ),
]
PartitionByOption = Annotated[
    str,
    typer.Option(metavar="HOW", help="source: partitions stay; key: by the key, as Java's client."),
]
PartitionsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Partitions of the topic, if it is created, with --partition-by key.",
    ),
]
IntoLiveOption = Annotated[
    bool, typer.Option("--into-live", help="Also into a topic that is not empty.")
]


@app.callback()
def replay() -> None:
    """Write the records of a topic into another one once more, in the order of their times: all of
    them or those of a time, at once, at a rate, or with their gaps.
    """


# size: every option of the command line is a parameter, given by its name
@app.command()
@own_option_names()
def plan(
    source: SourceOption,
    name: NameOption,
    topic: TopicOption,
    to: ToOption = None,
    dead_letters: DeadLettersOption = False,
    max_attempts: AttemptsOption = 3,
    target: TargetOption = None,
    from_datetime: FromOption = None,
    until_datetime: UntilOption = None,
    late_ms: LateOption = 3_600_000,
    partition_by: PartitionByOption = "source",
    partitions: PartitionsOption = None,
    into_live: IntoLiveOption = False,
    delivery: DeliveryOption = "exactly-once",
    headers: HeadersOption = "keep",
    timestamp_when_missing: TimestampOption = "append",
    accept: AcceptOption = None,
    source_config: SourceConfigOption = None,
    target_config: TargetConfigOption = None,
    source_release: SourceReleaseOption = None,
    target_release: TargetReleaseOption = None,
    output_format: FormatOption = None,
    timeout_ms: CallTimeoutOption = 30_000,
) -> None:
    """Show which offsets are read, what would be created, and what cannot be. Changes nothing.

    Exit code 1 where something stands in the way.
    """
    from parley.pipelines.replay import ReplayOptions

    check_place(to, dead_letters=dead_letters)
    options = ReplayOptions(
        name=name,
        topic=topic,
        to=to,
        dead_letters=dead_letters,
        max_attempts=max_attempts,
        from_timestamp_ms=_time(from_datetime, "--from-datetime"),
        until_timestamp_ms=_time(until_datetime, "--until-datetime"),
        late_ms=late_ms,
        partition_by=partition_by,
        partitions=partitions,
        into_live=into_live,
        delivery=delivery,
        headers=headers,
        timestamp_when_missing=missing_timestamp(timestamp_when_missing),
        accept=accept or (),
    )
    both = sides(
        (source, source_release, source_config),
        (target or source, target_release, target_config),
        timeout_ms,
    )

    async def work(replay: AsyncReplay) -> ReplayPlan:
        return await replay.plan()

    found: ReplayPlan = run_async(_with(both, options, work))
    print_rows("replay plan", PLAN_COLUMNS, list(_plan_rows(found)), output_format)
    if stopping := found.stopping(options.accept):
        say_what_stops(stopping)
        raise typer.Exit(ExitCode.FAILED)


# size: every option of the command line is a parameter, given by its name
@app.command()
@own_option_names()
def run(
    source: SourceOption,
    name: NameOption,
    topic: TopicOption,
    to: ToOption = None,
    dead_letters: DeadLettersOption = False,
    max_attempts: AttemptsOption = 3,
    target: TargetOption = None,
    from_datetime: FromOption = None,
    until_datetime: UntilOption = None,
    late_ms: LateOption = 3_600_000,
    partition_by: PartitionByOption = "source",
    partitions: PartitionsOption = None,
    rate: Annotated[
        str | None,
        typer.Option(metavar="BYTES", help="So many bytes a second at most: 20MB, 512KiB."),
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option(metavar="TIMES", help="Keep the gaps between records: 1, or 10 in a tenth."),
    ] = None,
    into_live: IntoLiveOption = False,
    delivery: DeliveryOption = "exactly-once",
    headers: HeadersOption = "keep",
    timestamp_when_missing: TimestampOption = "append",
    accept: AcceptOption = None,
    commit_interval_ms: Annotated[
        int, typer.Option(metavar="MS", help="How often a transaction is committed.", min=1)
    ] = 500,
    compression_type: Annotated[
        str, typer.Option(metavar="CODEC", help="none, gzip, snappy, lz4 or zstd.")
    ] = "lz4",
    source_config: SourceConfigOption = None,
    target_config: TargetConfigOption = None,
    source_release: SourceReleaseOption = None,
    target_release: TargetReleaseOption = None,
    output_format: FormatOption = None,
    timeout_ms: CallTimeoutOption = 30_000,
) -> None:
    """Create what `plan` shows, and replay to the end; Ctrl-C or SIGTERM end it before, after the
    open transaction. Start it again, and it goes on where it was.
    """
    from parley.client import ProduceOptions
    from parley.pipelines.replay import ReplayOptions

    check_place(to, dead_letters=dead_letters)
    options = ReplayOptions(
        name=name,
        topic=topic,
        to=to,
        dead_letters=dead_letters,
        max_attempts=max_attempts,
        from_timestamp_ms=_time(from_datetime, "--from-datetime"),
        until_timestamp_ms=_time(until_datetime, "--until-datetime"),
        late_ms=late_ms,
        partition_by=partition_by,
        partitions=partitions,
        bytes_per_second=None if rate is None else read_rate(rate),
        speed=speed,
        into_live=into_live,
        delivery=delivery,
        headers=headers,
        timestamp_when_missing=missing_timestamp(timestamp_when_missing),
        accept=accept or (),
        commit_interval_ms=commit_interval_ms,
        produce=ProduceOptions(compression_type=compression_type, max_request_size=16 * 2**20),
    )
    both = sides(
        (source, source_release, source_config),
        (target or source, target_release, target_config),
        timeout_ms,
    )

    async def work(replay: AsyncReplay) -> tuple[list[ReplayStatus], bool]:
        with ended_by_signals(replay) as interrupted:
            await replay.start()
            say(f"{name} replays; how far it is stands in {options.offsets_topic}")
            await replay.run()
            return await replay.status(), bool(interrupted)

    statuses, interrupted = run_async(_with(both, options, work))
    print_rows("replay run", STATUS_COLUMNS, status_rows(statuses), output_format)
    say(f"{sum(one.records for one in statuses)} records replayed")
    if interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)


# size: every option of the command line is a parameter, given by its name
@app.command()
@own_option_names()
def status(
    source: SourceOption,
    name: NameOption,
    target: TargetOption = None,
    delivery: DeliveryOption = "exactly-once",
    source_config: SourceConfigOption = None,
    target_config: TargetConfigOption = None,
    source_release: SourceReleaseOption = None,
    target_release: TargetReleaseOption = None,
    output_format: FormatOption = None,
    timeout_ms: CallTimeoutOption = 30_000,
) -> None:
    """Show how far each partition is, as the target has it. Disturbs no replay that runs."""
    from parley.pipelines.replay import ReplayOptions

    both = sides(
        (source, source_release, source_config),
        (target or source, target_release, target_config),
        timeout_ms,
    )

    async def work(replay: AsyncReplay) -> list[ReplayStatus]:
        return await replay.status()

    anything = ReplayOptions(name=name, topic="any", to="any", delivery=delivery)
    found = run_async(_with(both, anything, work))
    print_rows("replay status", STATUS_COLUMNS, status_rows(found), output_format)
    say(f"{sum(one.lag for one in found)} offsets left")


# -- inside ----------------------------------------------------------------------------------------


def check_place(to: str | None, *, dead_letters: bool) -> None:
    """Raise ConfigError unless it is said, once, where records go."""
    if (to is None) != dead_letters:
        raise ConfigError(
            "give either --to TOPIC or --dead-letters, which go back where they came from"
        )


def read_rate(text: str) -> float:
    """Return the bytes of `--rate`."""
    try:
        return size(text)
    except ConfigError as error:
        raise ConfigError(f"--rate: {error}") from None


def _time(text: str | None, option: str) -> int | None:
    return None if text is None else read_datetime(text, option)


async def _with(
    both: Sides, options: ReplayOptions, work: Callable[[AsyncReplay], Awaitable[T]]
) -> T:
    from parley.pipelines.replay import AsyncReplay

    async with AsyncReplay(both.source, both.target, options) as replay:
        return await work(replay)


def _plan_rows(found: ReplayPlan) -> Iterator[dict[str, object]]:
    for tp, (start, end) in (found.ranges or {}).items():
        text = f"partition {tp.partition}, offsets {start} to {end - 1}" if start < end else ""
        what = text or f"partition {tp.partition}, nothing"
        yield {"topic": tp.topic, "kind": "read", "stops": False, "what": what}
    yield from plan_rows(found)
