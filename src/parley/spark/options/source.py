"""A user's options as the reader and the writer hold them: checked, typed, immutable, picklable."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from parley.client import ClientOptions, FetchOptions, option_names
from parley.errors import ConfigError
from parley.spark.options.bounds import Bound, Committed, check_order, ending_bound, starting_bound
from parley.spark.options.kafka import read_client_options, read_fetch_options, without_effect
from parley.spark.options.schemas import TypedOptions, read_typed_options
from parley.spark.options.subscription import Subscription, read_subscription
from parley.spark.options.table import (
    FETCH_OFFSET_NUM_RETRIES,
    KAFKA_CONSUMER_POLL_TIMEOUT_MS,
    MAX_OFFSETS_PER_TRIGGER,
    MAX_PARTITIONS,
    MIN_OFFSETS_PER_TRIGGER,
    MIN_PARTITIONS,
)
from parley.spark.options.texts import GivenOptions, OptionValues, Use, read_options

log = logging.getLogger("parley.spark")
_said: set[str] = set()
TASK_PATIENCE_MS = 180_000
"""How long a task waits for records that should be there: no shorter than a task of Spark's own
source, which polls for 120 s and then asks for positions for 60 s.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceOptions:
    """Everything that a reader needs to know. `end` is None for a stream without an end."""

    client: ClientOptions
    fetch: FetchOptions
    subscription: Subscription
    start: Bound
    end: Bound | None
    own: OptionValues
    """The data source's other options: `own[MIN_PARTITIONS]`."""
    typed: TypedOptions | None = None
    """How keys and values are decoded; None where they stay bytes."""


def read_source_options(options: Mapping[str, str], use: Use) -> SourceOptions:
    """Return a read's options. Raises ConfigError for what no broker need be asked about."""
    given = read_options(options, use)
    client = _client(given)
    start = starting_bound(given, use)
    end = ending_bound(given, use)
    if end is not None:
        check_order(start, end)
    _check_limits(given)
    subscription = read_subscription(given)
    found = SourceOptions(
        client=client,
        fetch=read_fetch_options(given.kafka).replace(patience_ms=_patience_ms(given, client)),
        subscription=subscription,
        start=start,
        end=end,
        own=given.own,
        typed=read_typed_options(given, subscription),
    )
    looked_at = {"group.id"} if isinstance(start.everywhere, Committed) else set()
    others = {name: text for name, text in given.kafka.items() if name not in looked_at}
    say_once([*given.warnings, *without_effect(others, FetchOptions)])
    return found


def _client(given: GivenOptions) -> ClientOptions:
    """Return the options of the client of planner and tasks.

    It goes on trying to reach a first broker for as long as a question is asked altogether: a query
    that starts, or a task in a new process, meets an outage as one that is running does.
    """
    one_call_ms = read_client_options(given.kafka).default_api_timeout_ms
    patience_ms = min(one_call_ms * max(1, given[FETCH_OFFSET_NUM_RETRIES]), 2**31 - 1)
    return read_client_options(given.kafka, bootstrap_timeout_ms=patience_ms)


def _patience_ms(given: GivenOptions, client: ClientOptions) -> int:
    poll_timeout_ms = given[KAFKA_CONSUMER_POLL_TIMEOUT_MS]
    if poll_timeout_ms is not None:
        return poll_timeout_ms
    is_given = option_names(ClientOptions).keys() & given.kafka.keys()
    if any(option_names(ClientOptions)[name] == "default_api_timeout_ms" for name in is_given):
        return client.default_api_timeout_ms
    return TASK_PATIENCE_MS


def _check_limits(given: GivenOptions) -> None:
    least, most = given[MIN_OFFSETS_PER_TRIGGER], given[MAX_OFFSETS_PER_TRIGGER]
    if least is not None and most is not None and least > most:
        raise ConfigError(
            f"minOffsetsPerTrigger={least} is higher than maxOffsetsPerTrigger={most}: lower "
            "the one or raise the other"
        )
    fewest, most = given[MIN_PARTITIONS], given[MAX_PARTITIONS]
    if fewest is not None and most is not None and fewest > most:
        raise ConfigError(
            f"minPartitions={fewest} is higher than maxPartitions={most}: lower the one or raise "
            "the other"
        )


def say_once(sentences: Iterable[str]) -> None:
    """Log what a user should know. Spark makes readers and writers for every batch:
    once per process is enough.
    """
    for sentence in sentences:
        if sentence not in _said:
            _said.add(sentence)
            log.warning("%s", sentence)
