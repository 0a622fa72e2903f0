"""`parley replicate verify` and `cutover`: whether it is all there, and what comes next."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from parley.cli.connecting import CallTimeoutOption, ExecuteOption, run as run_async
from parley.cli.exit_codes import ExitCode
from parley.cli.option_texts import own_option_names
from parley.cli.output import FormatOption, print_rows, say
from parley.cli.replicate_options import NameOption, TopicOption, of_name, with_replication
from parley.cli.two_clusters import (
    AcceptOption,
    DeliveryOption,
    Sides,
    SourceConfigOption,
    SourceOption,
    SourceReleaseOption,
    TargetConfigOption,
    TargetOption,
    TargetReleaseOption,
    sides,
)
from parley.errors import ConfigError

if TYPE_CHECKING:
    from parley.pipelines.replication import AsyncReplication, CutoverStep, PartitionStatus
    from parley.pipelines.verify import Verification

T = TypeVar("T")
CUTOVER_COLUMNS = ("step", "state", "what")


# size: every option of the command line is a parameter, given by its name
@own_option_names()
def verify(
    source: SourceOption,
    target: TargetOption,
    name: NameOption,
    topic: TopicOption = None,
    ignore_timestamps: Annotated[
        bool, typer.Option("--ignore-timestamps", help="Leave timestamps out.")
    ] = False,
    from_later_beginning: Annotated[
        bool,
        typer.Option(
            "--from-later-beginning",
            help="Begin with the first record of the side that retention has left less of.",
        ),
    ] = False,
    delivery: DeliveryOption = "exactly-once",
    source_config: SourceConfigOption = None,
    target_config: TargetConfigOption = None,
    source_release: SourceReleaseOption = None,
    target_release: TargetReleaseOption = None,
    output_format: FormatOption = None,
    timeout_ms: CallTimeoutOption = 30_000,
) -> None:
    """Compare what is copied with what it became, by hashes and the map of offsets; exit code 5 if
    it differs. The replication may run meanwhile.
    """
    from parley.cli.verify import report
    from parley.pipelines.verify import VerifyOptions

    both = sides(
        (source, source_release, source_config),
        (target, target_release, target_config),
        timeout_ms,
    )
    options = VerifyOptions(
        ignore_timestamps=ignore_timestamps, from_later_beginning=from_later_beginning
    )

    async def work(
        replication: AsyncReplication,
    ) -> tuple[Verification, list[PartitionStatus]]:
        return await replication.verify(options), await replication.status()

    found, statuses = run_async(_with_copied(both, name, topic, delivery, (), work))
    report(found, {one.partition.topic: one.partition.topic for one in statuses}, output_format)
    if behind := sum(one.lag for one in statuses):
        say(f"{behind} offsets are not copied yet, and were not compared")
    raise typer.Exit(ExitCode.OK if found.equal else ExitCode.DIFFERENT)


# size: every option of the command line is a parameter, given by its name
@own_option_names()
def cutover(
    source: SourceOption,
    target: TargetOption,
    name: NameOption,
    topic: TopicOption = None,
    execute: ExecuteOption = False,
    quiet_ms: Annotated[
        int,
        typer.Option(metavar="MS", min=1, help="So long nobody may have written to the source."),
    ] = 2_000,
    accept: AcceptOption = None,
    delivery: DeliveryOption = "exactly-once",
    source_config: SourceConfigOption = None,
    target_config: TargetConfigOption = None,
    source_release: SourceReleaseOption = None,
    target_release: TargetReleaseOption = None,
    output_format: FormatOption = None,
    timeout_ms: CallTimeoutOption = 30_000,
) -> None:
    """Show which steps to the target are done, and what comes next. With --execute what is left is
    copied, instead of by a copy that runs, and offsets of groups are written.

    Exit code 1 while a step is open.
    """
    both = sides(
        (source, source_release, source_config),
        (target, target_release, target_config),
        timeout_ms,
    )

    async def work(replication: AsyncReplication) -> list[CutoverStep]:
        return await replication.cutover(quiet_ms=quiet_ms, execute=execute)

    found = run_async(_with_copied(both, name, topic, delivery, accept or (), work))
    print_rows(
        "replicate cutover", CUTOVER_COLUMNS, [one._asdict() for one in found], output_format
    )
    if any(one.state != "done" for one in found):
        raise typer.Exit(ExitCode.FAILED)
    say("all is in the target")


async def _with_copied(
    both: Sides,
    name: str,
    topics: Sequence[str] | None,
    delivery: str,
    accept: Sequence[str],
    work: Callable[[AsyncReplication], Awaitable[T]],
) -> T:
    """Work with some topics, or with those of which something was copied."""
    if not topics:
        statuses = await with_replication(both, of_name(name, None, delivery), _status)
        topics = sorted({one.partition.topic for one in statuses if one.target_end >= 0})
        if not topics:
            raise ConfigError(
                f'the target has nothing that "{name}" copied: give the name of a replication that '
                "has run, or --topic"
            )
    return await with_replication(both, of_name(name, topics, delivery, accept), work)


async def _status(replication: AsyncReplication) -> list[PartitionStatus]:
    return await replication.status()
