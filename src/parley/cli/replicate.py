"""`parley replicate`: copy topics from one cluster to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from parley.cli.connecting import CallTimeoutOption, ExecuteOption, run as run_async
from parley.cli.exit_codes import ExitCode
from parley.cli.option_texts import own_option_names
from parley.cli.output import FormatOption, print_rows, say
from parley.cli.replicate_moving import cutover, verify
from parley.cli.replicate_options import (
    NameOption,
    PatternOption,
    TopicOption,
    TwoWayOption,
    check_wanted,
    of_name,
    with_begun,
    with_replication,
)
from parley.cli.two_clusters import (
    AcceptOption,
    DeliveryOption,
    HeadersOption,
    SourceConfigOption,
    SourceOption,
    SourceReleaseOption,
    TargetConfigOption,
    TargetOption,
    TargetReleaseOption,
    TimestampOption,
    ended_by_signals,
    missing_timestamp,
    plan_rows,
    say_what_stops,
    sides,
    status_rows,
)

if TYPE_CHECKING:
    from parley.pipelines.replication import (
        AsyncReplication,
        GroupOffset,
        PartitionStatus,
        Plan,
    )

T = TypeVar("T")

app = typer.Typer(add_completion=False, no_args_is_help=True)
PLAN_COLUMNS = ("topic", "kind", "stops", "what")
STATUS_COLUMNS = ("topic", "partition", "next_offset", "end_offset", "lag", "target_end")
GROUP_COLUMNS = (
    "group",
    "topic",
    "partition",
    "source_offset",
    "target_offset",
    "current",
    "outcome",
)


@app.callback()
def replicate() -> None:
    """Copy topics from one cluster to another, of any releases: each record once where the target
    has transactions (Kafka 0.11), with a map of offsets that is exact for every record.
    """


# size: every option of the command line is a parameter, given by its name
@app.command()
@own_option_names()
def plan(
    source: SourceOption,
    target: TargetOption,
    name: NameOption,
    topic: TopicOption = None,
    topics_pattern: PatternOption = None,
    delivery: DeliveryOption = "exactly-once",
    headers: HeadersOption = "keep",
    timestamp_when_missing: TimestampOption = "append",
    two_way: TwoWayOption = False,
    accept: AcceptOption = None,
    source_config: SourceConfigOption = None,
    target_config: TargetConfigOption = None,
    source_release: SourceReleaseOption = None,
    target_release: TargetReleaseOption = None,
    output_format: FormatOption = None,
    timeout_ms: CallTimeoutOption = 30_000,
) -> None:
    """Show what would be created in the target, and what cannot be. Changes nothing.

    Exit code 1 where something stands in the way.
    """
    from parley.pipelines.replication import ReplicationOptions

    check_wanted(topic, topics_pattern)
    options = ReplicationOptions(
        name=name,
        topics=topic or (),
        topics_pattern=topics_pattern,
        delivery=delivery,
        headers=headers,
        timestamp_when_missing=missing_timestamp(timestamp_when_missing),
        two_way=two_way,
        accept=accept or (),
    )
    both = sides(
        (source, source_release, source_config),
        (target, target_release, target_config),
        timeout_ms,
    )

    async def work(replication: AsyncReplication) -> Plan:
        return await replication.plan()

    found: Plan = run_async(with_replication(both, options, work))
    print_rows("replicate plan", PLAN_COLUMNS, list(plan_rows(found)), output_format)
    if stopping := found.stopping(options.accept):
        say_what_stops(stopping)
        raise typer.Exit(ExitCode.FAILED)
    if not (found.create or found.add_partitions):
        say("the target has all topics and partitions")


# size: every option of the command line is a parameter, given by its name
@app.command()
@own_option_names()
def run(
    source: SourceOption,
    target: TargetOption,
    name: NameOption,
    topic: TopicOption = None,
    topics_pattern: PatternOption = None,
    until_caught_up: Annotated[
        bool,
        typer.Option("--until-caught-up", help="End where the source ends now; else never."),
    ] = False,
    delivery: DeliveryOption = "exactly-once",
    start: Annotated[
        str, typer.Option(metavar="WHERE", help="Where the first start begins: earliest or latest.")
    ] = "earliest",
    headers: HeadersOption = "keep",
    timestamp_when_missing: TimestampOption = "append",
    two_way: TwoWayOption = False,
    on_data_loss: Annotated[
        str,
        typer.Option(
            metavar="HOW", help="fail, or go-on, where the source deleted what was not copied yet."
        ),
    ] = "fail",
    accept: AcceptOption = None,
    commit_interval_ms: Annotated[
        int, typer.Option(metavar="MS", help="How often a transaction is committed.", min=1)
    ] = 500,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="GROUP", help="Translate this group's offsets. Repeatable."),
    ] = None,
    all_groups: Annotated[
        bool, typer.Option("--all-groups", help="Translate the offsets of all groups.")
    ] = False,
    groups_interval_ms: Annotated[
        int, typer.Option(metavar="MS", help="How often groups are translated.", min=1)
    ] = 60_000,
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
    """Create what `plan` shows, and copy: until Ctrl-C or SIGTERM, which end it after the open
    transaction, or until it has caught up. Start it again, and it goes on where it was.
    """
    from parley.client import ProduceOptions
    from parley.pipelines.replication import ReplicationOptions

    check_wanted(topic, topics_pattern)
    options = ReplicationOptions(
        name=name,
        topics=topic or (),
        topics_pattern=topics_pattern,
        delivery=delivery,
        start=start,
        headers=headers,
        timestamp_when_missing=missing_timestamp(timestamp_when_missing),
        two_way=two_way,
        on_data_loss=on_data_loss,
        accept=accept or (),
        commit_interval_ms=commit_interval_ms,
        groups=group or (),
        all_groups=all_groups,
        groups_interval_ms=groups_interval_ms,
        produce=ProduceOptions(compression_type=compression_type, max_request_size=16 * 2**20),
    )
    both = sides(
        (source, source_release, source_config),
        (target, target_release, target_config),
        timeout_ms,
    )

    async def work(replication: AsyncReplication) -> tuple[list[PartitionStatus], bool]:
        with ended_by_signals(replication) as interrupted:
            await replication.start()
            say(f"{name} copies; it has the map of offsets in {options.offsets_topic}")
            await replication.run(until_caught_up=until_caught_up)
            return await replication.status(), bool(interrupted)

    statuses, interrupted = run_async(with_replication(both, options, work))
    print_rows("replicate run", STATUS_COLUMNS, status_rows(statuses), output_format)
    say(f"{sum(one.records for one in statuses)} records copied")
    if interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)


# size: every option of the command line is a parameter, given by its name
@app.command()
@own_option_names()
def status(
    source: SourceOption,
    target: TargetOption,
    name: NameOption,
    topic: TopicOption = None,
    delivery: DeliveryOption = "exactly-once",
    source_config: SourceConfigOption = None,
    target_config: TargetConfigOption = None,
    source_release: SourceReleaseOption = None,
    target_release: TargetReleaseOption = None,
    output_format: FormatOption = None,
    timeout_ms: CallTimeoutOption = 30_000,
) -> None:
    """Show how far each partition is, as the target has it. Disturbs no replication that runs."""
    both = sides(
        (source, source_release, source_config),
        (target, target_release, target_config),
        timeout_ms,
    )

    async def work(replication: AsyncReplication) -> list[PartitionStatus]:
        return await replication.status()

    found = run_async(with_begun(both, of_name(name, topic, delivery), work))
    if not topic:
        found = [one for one in found if one.target_end >= 0]
    print_rows("replicate status", STATUS_COLUMNS, status_rows(found), output_format)
    say(f"{sum(one.lag for one in found)} offsets behind")


# size: every option of the command line is a parameter, given by its name
@app.command()
@own_option_names()
def groups(
    source: SourceOption,
    target: TargetOption,
    name: NameOption,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="GROUP", help="Only this group. Repeatable. [default: all]"),
    ] = None,
    topic: TopicOption = None,
    execute: ExecuteOption = False,
    delivery: DeliveryOption = "exactly-once",
    source_config: SourceConfigOption = None,
    target_config: TargetConfigOption = None,
    source_release: SourceReleaseOption = None,
    target_release: TargetReleaseOption = None,
    output_format: FormatOption = None,
    timeout_ms: CallTimeoutOption = 30_000,
) -> None:
    """Show where groups of the source go on in the target; --execute writes it.

    Groups with members in the target are left alone, and no offset goes back.
    """
    both = sides(
        (source, source_release, source_config),
        (target, target_release, target_config),
        timeout_ms,
    )

    async def work(replication: AsyncReplication) -> list[GroupOffset]:
        return await replication.translate_groups(group or (), write=execute)

    found = run_async(with_begun(both, of_name(name, topic, delivery), work))
    rows = [
        {**one._asdict(), "topic": one.partition.topic, "partition": one.partition.partition}
        for one in found
        if topic or one.target_offset is not None
    ]
    print_rows("replicate groups", GROUP_COLUMNS, rows, output_format)
    say("written" if execute else "nothing is written; --execute writes it")


app.command()(verify)
app.command()(cutover)
