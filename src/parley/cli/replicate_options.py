"""What the commands of `parley replicate` share: what is copied, and a replication to ask."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from parley.cli.two_clusters import Sides
from parley.errors import ConfigError

if TYPE_CHECKING:
    from parley.pipelines.replication import AsyncReplication, ReplicationOptions

T = TypeVar("T")
EVERY_TOPIC = ".*"

NameOption = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="The replication: its transactional id, and the topic NAME-offsets."
    ),
]
TopicOption = Annotated[
    list[str] | None, typer.Option(metavar="TOPIC", help="Copy this topic. Repeatable.")
]
PatternOption = Annotated[
    str | None,
    typer.Option(metavar="REGEX", help="Copy all topics whose whole name matches, later ones too."),
]
TwoWayOption = Annotated[
    bool,
    typer.Option(
        "--two-way", help="Mark records with their origin, and leave out the target's own."
    ),
]


def check_wanted(topic: Sequence[str] | None, topics_pattern: str | None) -> None:
    """Raise ConfigError where it is not said what to copy."""
    if not topic and topics_pattern is None:
        raise ConfigError(
            "give --topic TOPIC or --topics-pattern REGEX: it is not said what to replicate"
        )


async def with_replication(
    both: Sides, options: ReplicationOptions, work: Callable[[AsyncReplication], Awaitable[T]]
) -> T:
    """Return what some work with a replication returns."""
    from parley.pipelines.replication import AsyncReplication

    async with AsyncReplication(both.source, both.target, options) as replication:
        return await work(replication)


async def with_begun(
    both: Sides, options: ReplicationOptions, work: Callable[[AsyncReplication], Awaitable[T]]
) -> T:
    """Return what some work with a replication returns. Raises ConfigError where the target has
    none of that name.
    """

    async def checked(replication: AsyncReplication) -> T:
        if options.offsets_topic not in (await replication.target.metadata()).topics:
            raise ConfigError(f'the target has no replication "{options.name}"')
        return await work(replication)

    return await with_replication(both, options, checked)


def of_name(
    name: str, topic: Sequence[str] | None, delivery: str, accept: Sequence[str] = ()
) -> ReplicationOptions:
    """Return options for looking: at some topics, or at all that were copied."""
    from parley.pipelines.replication import ReplicationOptions

    pattern = None if topic else EVERY_TOPIC
    return ReplicationOptions(
        name=name, topics=topic or (), topics_pattern=pattern, delivery=delivery, accept=accept
    )
