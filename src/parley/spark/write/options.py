"""A user's options as the writer holds them: checked, typed, immutable, picklable."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from parley.client import ClientOptions, ProduceOptions
from parley.errors import ConfigError
from parley.spark.options.kafka import read_client_options, read_produce_options, without_effect
from parley.spark.options.source import say_once
from parley.spark.options.table import DELIVERY, LOST_TRANSACTIONS, TRANSACTIONAL_ID_PREFIX
from parley.spark.options.texts import GivenOptions, OptionValues, Use, read_options
from parley.spark.write.encoding_options import EncodingOptions, read_encoding_options
from parley.spark.write.prefix import checkpoint_prefix

EXACTLY_ONCE = "exactly-once"
DEFAULT_TIMEOUT_MS = 900_000
"""The longest transaction time-out of a broker's default (transaction.max.timeout.ms)."""
_TIMEOUT = "transaction.timeout.ms"
_PREFIX = re.compile(r"[a-zA-Z0-9._-]{1,200}")


@dataclass(frozen=True, kw_only=True, slots=True)
class TransactionSettings:
    """How an exactly-once write uses transactions."""

    prefix: str
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    go_on_after_loss: bool = False

    @property
    def journal(self) -> str:
        """The topic of the query's journal."""
        return f"{self.prefix}-journal"


@dataclass(frozen=True, kw_only=True, slots=True)
class SinkOptions:
    """Everything that a writer needs to know."""

    client: ClientOptions
    produce: ProduceOptions
    own: OptionValues
    """The data source's own options: `own[ROW_HEADER]`."""
    transactions: TransactionSettings | None = None
    """None for at-least-once."""
    encoding: EncodingOptions | None = None
    """How keys and values are encoded; None where the rows have bytes or texts."""


def read_sink_options(options: Mapping[str, str], use: Use) -> SinkOptions:
    """Return a write's options. Raises ConfigError for what no broker need be asked about."""
    given = read_options(options, use)
    produce = read_produce_options(given.kafka)
    client = _client(given.kafka, produce)
    transactions = None
    others = dict(given.kafka)
    if given[DELIVERY] == EXACTLY_ONCE:
        others.pop(_TIMEOUT, None)
        _check_guarantees(produce)
        transactions = TransactionSettings(
            prefix=_prefix(given, options, use),
            timeout_ms=_timeout_ms(given.kafka),
            go_on_after_loss=given[LOST_TRANSACTIONS] == "continue",
        )
    found = SinkOptions(
        client=client,
        produce=produce,
        own=given.own,
        transactions=transactions,
        encoding=read_encoding_options(given),
    )
    say_once([*given.warnings, *without_effect(others, ProduceOptions)])
    return found


def _client(kafka: Mapping[str, str], produce: ProduceOptions) -> ClientOptions:
    """Return the options of a writer's client.

    `kafka.max.block.ms` bounds the first connection and the calls of a transaction. Where it is not
    given they last as long as rows may be on their way: an outage that rows outlive ends no
    transaction, and no task that Spark gave to a new process.
    """
    waits_ms = (
        produce.max_block_ms
        if "max.block.ms" in kafka
        else max(produce.max_block_ms, produce.delivery_timeout_ms)
    )
    return read_client_options(
        kafka, default_api_timeout_ms=waits_ms, bootstrap_timeout_ms=waits_ms
    )


def _prefix(given: GivenOptions, options: Mapping[str, str], use: Use) -> str:
    prefix = given[TRANSACTIONAL_ID_PREFIX]
    if prefix is not None:
        if _PREFIX.fullmatch(prefix) is None:
            raise ConfigError(
                f'transactionalIdPrefix="{prefix}" cannot be used: 1 to 200 letters, digits, dots, '
                "underscores and hyphens are expected, for the journal's topic is named after it"
            )
        return prefix
    if use & Use.BATCH_WRITE:
        return "parley"
    location = next(
        (text for name, text in options.items() if name.lower() == "checkpointlocation"), ""
    ).strip()
    if not location:
        raise ConfigError(
            "delivery=exactly-once needs a name for the query that stays over restarts: set the "
            "option checkpointLocation (on the writer itself; "
            "spark.sql.streaming.checkpointLocation is not seen here), or transactionalIdPrefix"
        )
    return checkpoint_prefix(location)


def _timeout_ms(kafka: Mapping[str, str]) -> int:
    text = kafka.get(_TIMEOUT, str(DEFAULT_TIMEOUT_MS)).strip()
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 2**31:
        raise ConfigError(
            f'option kafka.{_TIMEOUT}="{text}" cannot be used: milliseconds from 1 to '
            f"{2**31 - 1} are expected"
        )
    return int(text)


def _check_guarantees(produce: ProduceOptions) -> None:
    if produce.acks != "all":
        raise ConfigError(f'delivery=exactly-once needs kafka.acks=all, not "{produce.acks}"')
    if produce.enable_idempotence is False:
        raise ConfigError(
            "delivery=exactly-once needs idempotence: leave kafka.enable.idempotence away"
        )
