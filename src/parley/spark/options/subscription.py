"""What a query reads: `subscribe`, `assign` or `subscribePattern`, exactly one of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from parley.client import ClusterMetadata, TopicPartition
from parley.errors import ConfigError, broker_error
from parley.errors.codes import UNKNOWN_TOPIC_OR_PARTITION
from parley.spark.options.table import ASSIGN, SUBSCRIBE, SUBSCRIBE_PATTERN
from parley.spark.options.texts import GivenOptions
from parley.spark.values.java_regex import translate
from parley.spark.values.offsets import show
from parley.spark.values.user_json import read_partitions

STRATEGIES = (SUBSCRIBE, SUBSCRIBE_PATTERN, ASSIGN)
_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class Subscription:
    """What is read: `topics` by name, all that `pattern` matches, or exactly `partitions`."""

    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    pattern_text: str = ""
    partitions: tuple[TopicPartition, ...] = field(default=())

    def wanted_topics(self) -> tuple[str, ...] | None:
        """Return the topics to ask metadata for, None for those of the whole cluster."""
        if self.pattern is not None:
            return None
        return self.topics or tuple(sorted({tp.topic for tp in self.partitions}))

    def matches(self, topic: str, *, is_internal: bool) -> bool:
        """Return whether a topic is read."""
        if self.pattern is not None:  # as Java's consumer: internal topics only by name
            return not is_internal and self.pattern.fullmatch(topic) is not None
        return topic in (self.wanted_topics() or ())

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"subscribePattern={self.pattern_text}"
        return (
            f"subscribe={','.join(self.topics)}"
            if self.topics
            else f"assign={show(self.partitions)}"
        )


def read_subscription(given: GivenOptions) -> Subscription:
    """Return what the options subscribe to. Raises ConfigError unless one of three does."""
    texts = {row.name: text for row in STRATEGIES if (text := given[row]) is not None}
    if len(texts) != 1:
        problem = "none is given" if not texts else f"{' and '.join(texts)} are given"
        names = ", ".join(row.name for row in STRATEGIES)
        raise ConfigError(f"exactly one of {names} says what is read; {problem}")
    ((strategy, text),) = texts.items()
    if strategy == "assign":
        partitions = read_partitions("assign", text)
        _check_names("assign", {tp.topic for tp in partitions})
        return Subscription(partitions=partitions)
    if strategy == "subscribePattern":
        return Subscription(pattern=translate(text), pattern_text=text)
    topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not topics:
        raise ConfigError(f'subscribe="{text}" names no topic; "topicA,topicB" is expected')
    _check_names("subscribe", topics)
    return Subscription(topics=topics)


def _check_names(option: str, topics: Iterable[str]) -> None:
    for topic in topics:
        if not _LEGAL.fullmatch(topic) or topic in (".", ".."):
            pattern = (
                " For a regular expression use subscribePattern."
                if re.search(r"[*+\[(|?\\]", topic)
                else ""
            )
            raise ConfigError(
                f'{option}: "{topic}" cannot be the name of a topic: 1 to 249 of a-z A-Z 0-9 '
                f". _ -{pattern}"
            )


def select_partitions(
    subscription: Subscription, metadata: ClusterMetadata
) -> tuple[TopicPartition, ...]:
    """Return the partitions to read of those that exist, sorted, without missing ones."""
    found = []
    chosen = set(subscription.partitions)
    for topic in metadata.topics.values():
        if subscription.matches(topic.name, is_internal=topic.is_internal):
            all_of_it = (TopicPartition(topic.name, number) for number in topic.partitions)
            found += [tp for tp in all_of_it if not chosen or tp in chosen]
    return tuple(sorted(found))


def check_existence(subscription: Subscription, metadata: ClusterMetadata) -> None:
    """Raise what is wrong if a named topic or partition does not exist, with those that do."""
    for topic in subscription.wanted_topics() or ():
        found = metadata.topics.get(topic)
        if found is None or not found.partitions:
            code = (
                found.error_code
                if found is not None and found.error_code
                else UNKNOWN_TOPIC_OR_PARTITION
            )
            raise broker_error(
                code,
                f'topic "{topic}" does not exist; create it, or correct the option',
                topic=topic,
            )
        for tp in subscription.partitions:
            if tp.topic == topic and tp.partition not in found.partitions:
                raise broker_error(
                    UNKNOWN_TOPIC_OR_PARTITION,
                    f'topic "{topic}" has {len(found.partitions)} partitions, numbered from '
                    "0; correct assign",
                    topic=topic,
                    partition=tp.partition,
                )
