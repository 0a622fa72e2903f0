"""The options of a replication, checked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from parley.client import ProduceOptions
from parley.errors import ConfigError
from parley.pipelines.checks import check_choice, check_name, check_number
from parley.types import Names, text, texts

KEEP, DROP = "keep", "drop"
FAIL, GO_ON = "fail", "go-on"
APPEND, ZERO = "append", "zero"
EARLIEST_START, LATEST_START = "earliest", "latest"
TRANSACTIONS, AT_LEAST_ONCE = "exactly-once", "at-least-once"


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicationOptions:
    """How topics are copied. Raises ConfigError for what cannot be used.

    `name` stands for this replication: it is the transactional id, and `<name>-offsets` the topic
    in the target with all that the replication knows. `topics` are names, `topics_pattern` a
    regular expression for whole names: topics that match later are followed.

    `delivery`: "exactly-once" needs a target from Kafka 0.11 on; "at-least-once" is for older ones,
    where a crash may double the records that were written since the last commit.
    `commit_interval_ms`: a transaction is committed after this time; readers of the target see the
    records then. `start`: "earliest", or "latest": what the source has at the very first start
    is not copied; topics and partitions that come later are, from their beginnings.
    `timestamp_when_missing`: what records of the oldest format (Kafka 0.9) get: "append" the time
    of copying, "zero" 0, or a number of milliseconds since 1970. `headers`: "keep", or "drop" for a
    target below 0.11, which refuses them. `two_way`: marks records with where they come from, in
    the header `parley-origin`, and leaves out those that come from the target. `source_id` and
    `target_id` name the clusters for it where they have no id (below Kafka 0.10.1).

    `accept` names findings of `plan` despite which copying begins. `groups`, or with `all_groups`
    all, have their offsets translated every `groups_interval_ms`, and when copying ends.

    `on_data_loss`: what happens where the source has deleted records before they were copied:
    "fail", or "go-on" with those that are left.

    `produce` are the options of writing: lz4 and requests of up to 16 MiB unless given.
    `buffer_bytes` may wait between both clusters. `readers` decode side by side.
    `refresh_interval_ms`: how often the source is asked for new topics and partitions;
    `trim_interval_ms`: how often for what it has deleted, which the map of offsets forgets then.
    `patience_ms`: how long trouble that may pass is met with another attempt, without any record
    getting through.
    """

    name: str
    topics: Names = ()
    topics_pattern: str | None = None
    delivery: str = TRANSACTIONS
    start: str = EARLIEST_START
    timestamp_when_missing: str | int = APPEND
    headers: str = KEEP
    two_way: bool = False
    source_id: str | None = None
    target_id: str | None = None
    commit_interval_ms: int = 500
    transaction_timeout_ms: int = 60_000
    refresh_interval_ms: int = 5_000
    trim_interval_ms: int = 3_600_000
    patience_ms: int = 120_000
    on_data_loss: str = FAIL
    accept: Names = ()
    groups: Names = ()
    all_groups: bool = False
    groups_interval_ms: int = 60_000
    buffer_bytes: int = 64 * 2**20
    readers: int = 2
    produce: ProduceOptions = field(
        default_factory=lambda: ProduceOptions(compression_type="lz4", max_request_size=16 * 2**20)
    )

    def __post_init__(self) -> None:
        check_name(self.name)
        for names in ("topics", "accept", "groups"):
            object.__setattr__(self, names, texts(names, getattr(self, names)))
        if self.offsets_topic in self.topics:
            raise ConfigError(
                f'the topic "{self.offsets_topic}" has the map of offsets of the replication '
                f'"{self.name}" and cannot be copied by it: give another name'
            )
        if not self.topics and self.topics_pattern is None:
            raise ConfigError("give topics, or a topics_pattern: it is not said what to replicate")
        if self.topics_pattern is not None:
            try:
                re.compile(text("topics_pattern", self.topics_pattern))
            except re.error as error:
                raise ConfigError(
                    f'topics_pattern="{self.topics_pattern}" is no regular expression: {error}'
                ) from error
        check_choice("delivery", self.delivery, TRANSACTIONS, AT_LEAST_ONCE)
        check_choice("start", self.start, EARLIEST_START, LATEST_START)
        check_choice("headers", self.headers, KEEP, DROP)
        check_choice("on_data_loss", self.on_data_loss, FAIL, GO_ON)
        if isinstance(self.timestamp_when_missing, str):
            check_choice("timestamp_when_missing", self.timestamp_when_missing, APPEND, ZERO)
        else:
            check_number("timestamp_when_missing", self.timestamp_when_missing, 0)
        for name in ("commit_interval_ms", "transaction_timeout_ms", "refresh_interval_ms"):
            check_number(name, getattr(self, name), 1)
        for name in ("patience_ms", "buffer_bytes", "readers", "groups_interval_ms"):
            check_number(name, getattr(self, name), 1)
        check_number("trim_interval_ms", self.trim_interval_ms, 1)
        if self.commit_interval_ms >= self.transaction_timeout_ms:
            raise ConfigError(
                f"commit_interval_ms={self.commit_interval_ms} has to be smaller than "
                f"transaction_timeout_ms={self.transaction_timeout_ms}"
            )

    @property
    def offsets_topic(self) -> str:
        """The topic of the target that has the map of offsets."""
        return f"{self.name}-offsets"

    @property
    def exactly_once(self) -> bool:
        """Whether records are written in transactions."""
        return self.delivery == TRANSACTIONS

    @property
    def translates_groups(self) -> bool:
        """Whether groups are translated while records are copied."""
        return self.all_groups or bool(tuple(self.groups))

    def wants(self, topic: str) -> bool:
        """Return whether a topic of the source is to be copied."""
        if topic in self.topics:
            return True
        if topic.startswith("__") or topic == self.offsets_topic:
            return False  # old brokers do not say which topics are internal
        pattern = self.topics_pattern
        return pattern is not None and re.fullmatch(pattern, topic) is not None
