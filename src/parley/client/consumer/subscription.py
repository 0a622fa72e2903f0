"""What a member of a group subscribes to: topics by their names, or all that match a pattern."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Collection
from typing import NamedTuple

from parley.client.cluster.core import Cluster
from parley.client.consumer.listener import ConsumerRebalanceListener
from parley.client.consumer.named_topics import NamedTopics
from parley.client.options import arguments
from parley.errors import ConfigError, KafkaError
from parley.types import Names, name_refused, shown

log = logging.getLogger("parley.client")


class Subscribed(NamedTuple):
    """What a consumer reads as a member: topics, or all whose whole name a pattern matches."""

    topics: frozenset[str]
    pattern: re.Pattern[str] | None
    listener: ConsumerRebalanceListener


def wanted_topics(
    topics: Names, pattern: str | re.Pattern[str] | None, listener: ConsumerRebalanceListener | None
) -> Subscribed:
    """Return what `subscribe` was called with. Raises ConfigError for both or neither,
    and for a broken pattern.
    """
    arguments.optional("listener", listener, ConsumerRebalanceListener)
    names = names_to_subscribe(topics)
    if bool(names) == (pattern is not None):
        raise ConfigError("subscribe takes either topics or a pattern, and at least one topic")
    if isinstance(pattern, str):
        try:
            pattern = re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"pattern={pattern!r} is no regular expression: {error}") from error
    arguments.optional("pattern", pattern, re.Pattern)
    return Subscribed(frozenset(names), pattern, listener or ConsumerRebalanceListener())


def names_to_subscribe(topics: Names) -> tuple[str, ...]:
    """Return topics' names. Raises ConfigError for one that no topic can have: nobody would ever
    read anything of it.
    """
    names = arguments.topic_names("topics", topics)
    for name in names:
        if reason := name_refused(name):
            raise ConfigError(f"topics: {shown(name)} is no name of a topic: {reason}")
    return names


class Subscription:
    """The topics of one member, which `take` gets when they are known and when others match.

    Belongs to the event loop.
    """

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        take: Callable[[Collection[str]], None],
        on_news: Callable[[], None],
        *,
        internal: bool,
    ) -> None:
        self._cluster, self._group_id, self._take = cluster, group_id, take
        self._on_news, self._internal = on_news, internal
        self._named = NamedTopics(cluster, group_id, on_news)
        self._looking: asyncio.Task[None] | None = None
        self.pattern: re.Pattern[str] | None = None

    def begin(self, wanted: Subscribed) -> None:
        """Read these topics and no others."""
        self.end()
        self.pattern = wanted.pattern
        if wanted.pattern is None:
            self._take(wanted.topics)
            self._named.watch(wanted.topics)
        else:
            work = self._match_topics(wanted.pattern)
            self._looking = asyncio.get_running_loop().create_task(work)

    def end(self) -> None:
        """Look for topics no more."""
        self.pattern = None
        self._named.stop()
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()

    @property
    def error(self) -> KafkaError | None:
        """What stands in the way of topics that are named, until `take_error`."""
        return self._named.error

    def take_error(self) -> KafkaError | None:
        """Return that, once."""
        return self._named.take_error()

    async def _match_topics(self, pattern: re.Pattern[str]) -> None:
        """Look for topics that match, now and as often as metadata is refreshed (G41)."""
        cluster, attempt = self._cluster, 0
        while True:
            try:
                view = await cluster.describe_all(cluster.deadline())
            except KafkaError as error:
                log.warning(
                    "group %s: the topics of the cluster are not known yet: %s",
                    self._group_id,
                    error,
                )
                await cluster.clock.sleep_ms(cluster.backoff.delay_ms(attempt, cluster.rng))
                attempt += 1
                continue
            attempt = 0
            self._take(
                [
                    topic.name
                    for topic in view.topics.values()
                    if pattern.fullmatch(topic.name) and (self._internal or not topic.is_internal)
                ]
            )
            self._on_news()
            await cluster.clock.sleep_ms(cluster.options.metadata_max_age_ms)
