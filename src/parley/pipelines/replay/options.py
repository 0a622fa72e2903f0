"""The options of a replay, checked."""

from __future__ import annotations

from dataclasses import dataclass, field

from parley.client import ProduceOptions
from parley.errors import ConfigError
from parley.pipelines.checks import check_choice, check_name, check_number
from parley.pipelines.replay.table_options import ReplayedTable
from parley.pipelines.replication.options import (
    APPEND,
    AT_LEAST_ONCE,
    DROP,
    KEEP,
    TRANSACTIONS,
    ZERO,
)
from parley.types import Names, text, texts

SOURCE_PARTITION, KEY = "source", "key"


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayOptions:
    """What is replayed, and how. Raises ConfigError for what cannot be used.

    `name` stands for this replay: it is the transactional id, and `<name>-offsets` the topic in the
    target that has how far it is. `topic` is the source's topic, `to` the target's. Or `table` is
    read, a Delta or Iceberg table. Or, with `dead_letters`, each record goes back where it came
    from, by the headers of Kafka Connect or Spring: those that were tried `max_attempts` times are
    left, and a replay that is begun again goes on with what the topic has by then.

    `from_timestamp_ms` and `until_timestamp_ms`, in milliseconds since 1970, choose records by
    their timestamps: from the first on, and up to, not including, the second. A record may stand
    behind younger ones: reading goes on up to the first record that is `late_ms` younger than
    `until_timestamp_ms`. Where the topic ends when the replay begins, it ends, too.

    `partition_by`: "source" keeps each record's partition, of a table that in its column
    "partition"; "key" chooses it by the key, as Java's producer does, for topics with other numbers
    of partitions. It is "source" for a topic and "key" for a table unless given. `partitions` is
    how many a topic that is created then gets: as many as the source's, or 1, unless given.

    `bytes_per_second` of keys and values is not exceeded. `speed` keeps the gaps between records:
    1.0 as they were, 10.0 in a tenth of the time. Without both, records go as fast as they can.

    A target's topic has to be empty when a replay begins; `into_live` also writes into one that is
    not. `delivery`, `headers`, `timestamp_when_missing`, `accept`, `commit_interval_ms`,
    `transaction_timeout_ms`, `patience_ms` and `produce` are those of a replication.
    `buffer_bytes` may wait between source and target; a table's rows are sorted within about as
    much, and wait in temporary files where they are more.
    """

    name: str
    topic: str | None = None
    table: ReplayedTable | None = None
    to: str | None = None
    dead_letters: bool = False
    max_attempts: int = 3
    from_timestamp_ms: int | None = None
    until_timestamp_ms: int | None = None
    late_ms: int = 3_600_000
    partition_by: str | None = None
    partitions: int | None = None
    bytes_per_second: float | None = None
    speed: float | None = None
    into_live: bool = False
    delivery: str = TRANSACTIONS
    headers: str = KEEP
    timestamp_when_missing: str | int = APPEND
    accept: Names = ()
    commit_interval_ms: int = 500
    transaction_timeout_ms: int = 60_000
    patience_ms: int = 120_000
    buffer_bytes: int = 64 * 2**20
    produce: ProduceOptions = field(
        default_factory=lambda: ProduceOptions(compression_type="lz4", max_request_size=16 * 2**20)
    )

    def __post_init__(self) -> None:
        check_name(self.name)
        if (self.to is None) != self.dead_letters:
            raise ConfigError(
                f"to={self.to!r} and dead_letters={self.dead_letters}: give the target's topic, or "
                "dead_letters=True, which go back where they came from"
            )
        if (self.topic is None) == (self.table is None):
            raise ConfigError("give one of topic and table: what is replayed?")
        if self.partition_by is None:
            chosen = SOURCE_PARTITION if self.table is None else KEY
            object.__setattr__(self, "partition_by", chosen)
        for name in ("topic", "to"):
            given = getattr(self, name)
            if given is not None and text(name, given) == self.offsets_topic:
                raise ConfigError(
                    f'{name}="{self.offsets_topic}" has how far the replay "{self.name}" is: give '
                    "the replay another name"
                )
        object.__setattr__(self, "accept", texts("accept", self.accept))
        check_choice("partition_by", self.partition_by, SOURCE_PARTITION, KEY)
        check_choice("delivery", self.delivery, TRANSACTIONS, AT_LEAST_ONCE)
        check_choice("headers", self.headers, KEEP, DROP)
        if isinstance(self.timestamp_when_missing, str):
            check_choice("timestamp_when_missing", self.timestamp_when_missing, APPEND, ZERO)
        else:
            check_number("timestamp_when_missing", self.timestamp_when_missing, 0)
        for name in ("from_timestamp_ms", "until_timestamp_ms", "partitions"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), 1 if name == "partitions" else 0)
        for name in ("commit_interval_ms", "transaction_timeout_ms", "patience_ms", "buffer_bytes"):
            check_number(name, getattr(self, name), 1)
        check_number("late_ms", self.late_ms, 0)
        check_number("max_attempts", self.max_attempts, 1)
        for name in ("bytes_per_second", "speed"):
            self._above_zero(name)
        self._fit_together()

    @property
    def offsets_topic(self) -> str:
        """The topic of the target that has how far the replay is."""
        return f"{self.name}-offsets"

    @property
    def source_name(self) -> str:
        """The topic or the table that is read."""
        return (self.table.name if self.table is not None else self.topic) or ""

    @property
    def exactly_once(self) -> bool:
        """Whether records are written in transactions."""
        return self.delivery == TRANSACTIONS

    @property
    def needs_times(self) -> bool:
        """Whether records without timestamps cannot be replayed like this."""
        return (self.from_timestamp_ms, self.until_timestamp_ms, self.speed) != (None, None, None)

    def _fit_together(self) -> None:
        if self.table is not None:
            for name in ("dead_letters", "from_timestamp_ms", "until_timestamp_ms"):
                if getattr(self, name):
                    raise ConfigError(f"{name} is for topics: choose a table's rows with where")
        begin, end = self.from_timestamp_ms, self.until_timestamp_ms
        if begin is not None and end is not None and begin >= end:
            raise ConfigError(
                f"from_timestamp_ms={begin} is not before until_timestamp_ms={end}: no record "
                "is between them"
            )
        if self.partitions is not None and self.partition_by != KEY:
            raise ConfigError(
                'partitions goes with partition_by="key": each record keeps its partition otherwise'
            )
        if self.dead_letters and self.headers == DROP:
            raise ConfigError('headers="drop" would lose how often dead letters were tried')
        if self.commit_interval_ms >= self.transaction_timeout_ms:
            raise ConfigError(
                f"commit_interval_ms={self.commit_interval_ms} has to be smaller than "
                f"transaction_timeout_ms={self.transaction_timeout_ms}"
            )

    def _above_zero(self, name: str) -> None:
        value = getattr(self, name)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0
        ):
            raise ConfigError(f"{name}={value!r} cannot be used: a number above 0 is")
