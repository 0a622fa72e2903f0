"""The data source's own options: one typed table, and what is made of a user's text.

The table is the documentation too: `markdown_table()` prints it. Names are those of Spark's own
`kafka` source, case does not matter. `kafka.*` options are not here but in `kafka_options.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, Flag, auto
from typing import Any, NamedTuple

from parley.errors import ConfigError, nearest_hint

_INT64 = 2**63 - 1


class Use(Flag):
    """What a data source is opened for."""

    BATCH_READ = auto()
    STREAM_READ = auto()
    BATCH_WRITE = auto()
    STREAM_WRITE = auto()
    READ = BATCH_READ | STREAM_READ
    WRITE = BATCH_WRITE | STREAM_WRITE


class Kind(Enum):
    """How an option's text is read."""

    TEXT = "text"
    INTEGER = "integer"
    BOOLEAN = "true or false"
    MILLISECONDS = "milliseconds since 1970-01-01 UTC"
    JSON = "JSON"


class SparkOption(NamedTuple):
    """One line of the table. `refused` names the uses in which the option is an error instead of without effect."""

    name: str
    use: Use
    kind: Kind
    default: Any
    doc: str
    low: int | None = None
    high: int | None = None
    choices: tuple[str, ...] = ()
    refused: Use = Use(0)
    no_effect: str = ""
    """Why the option is accepted although nothing comes of it."""


def _read(name: str, kind: Kind, default: Any, doc: str, **more: Any) -> SparkOption:
    return SparkOption(name, Use.READ, kind, default, doc, **more)


def _ending(name: str, kind: Kind, default: Any, doc: str) -> SparkOption:
    return SparkOption(name, Use.BATCH_READ, kind, default, doc, refused=Use.STREAM_READ)


_POSITIONS = 'or JSON {"topic":{"0":23,"1":-2}} with -2 for earliest and -1 for latest'

OPTIONS = (
    _read("subscribe", Kind.TEXT, None, "topics to read, separated by commas"),
    _read("subscribePattern", Kind.TEXT, None, "Java regular expression that the whole name of a topic must match"),
    _read("assign", Kind.JSON, None, 'partitions to read: {"topicA":[0,1],"topicB":[2]}'),
    _read(
        "startingOffsets",
        Kind.TEXT,
        None,
        f"where a new query starts: earliest, latest (streams only), {_POSITIONS}; "
        "default earliest for a batch, latest for a stream",
    ),
    _read("startingTimestamp", Kind.MILLISECONDS, None, "start at the first record this late", low=0, high=_INT64),
    _read("startingOffsetsByTimestamp", Kind.JSON, None, 'the same per partition: {"topic":{"0":1700000000000}}'),
    _read(
        "startingOffsetsByTimestampStrategy",
        Kind.TEXT,
        "error",
        "where to start in a partition without a record that late",
        choices=("error", "latest"),
    ),
    _ending("endingOffsets", Kind.TEXT, "latest", f"where a batch ends (exclusive): latest {_POSITIONS}"),
    _ending("endingTimestamp", Kind.MILLISECONDS, None, "end in front of the first record this late"),
    _ending("endingOffsetsByTimestamp", Kind.JSON, None, "the same per partition"),
    _read(
        "failOnDataLoss",
        Kind.BOOLEAN,
        True,
        "whether a query fails when records that it was to read are gone (else: a warning, and it goes on)",
    ),
    _read("includeHeaders", Kind.BOOLEAN, False, "whether rows have the column headers"),
    _read("minPartitions", Kind.INTEGER, None, "tasks wanted at least: large ranges are split", low=1, high=2**31 - 1),
    _read("maxRecordsPerPartition", Kind.INTEGER, None, "most offsets of one task", low=1, high=_INT64),
    SparkOption(
        "maxOffsetsPerTrigger",
        Use.STREAM_READ,
        Kind.INTEGER,
        None,
        "most offsets of one micro-batch, shared among the partitions by what they have to offer",
        low=1,
        high=_INT64,
    ),
    _read(
        "fetchOffset.numRetries",
        Kind.INTEGER,
        3,
        "how often a log that seems to have become shorter is asked for again",
        low=0,
        high=10_000,
    ),
    _read("fetchOffset.retryIntervalMs", Kind.INTEGER, 10, "pause before that, in ms", low=0, high=2**31 - 1),
    _read(
        "kafkaConsumer.pollTimeoutMs",
        Kind.INTEGER,
        None,
        "longest wait for records that should be there, in ms; without it kafka.default.api.timeout.ms holds",
        low=1,
        high=2**31 - 1,
    ),
    _read("groupIdPrefix", Kind.TEXT, None, "prefix of group ids", no_effect="parley reads without a consumer group"),
    SparkOption(
        "topic", Use.WRITE, Kind.TEXT, None, "topic of all rows; the column topic, if there is one, is ignored"
    ),
)
"""Every option of the data source but `kafka.*`, in the order of the documentation."""

_BY_NAME = {option.name.lower(): option for option in OPTIONS}

# Spark hands its own keys to a data source as well: of tables (TableCatalog's reserved properties),
# of paths, of a stream's sink. They mean nothing here and are no mistake of the user's.
_SPARKS_OWN = frozenset(
    (
        "path", "paths", "checkpointlocation", "queryname", "outputmode", "owner", "provider", "location", "external",
        "is_managed_location", "comment", "collation", "mergeschema", "table_type", "transient_lastddltime", "format",
    )
)  # fmt: skip
_SPARKS_PREFIXES = ("option.", "spark.", "__")


@dataclass(frozen=True, slots=True)
class GivenOptions:
    """A user's options, checked one by one: typed values under the table's names, and the `kafka.*` texts."""

    values: Mapping[str, Any] = field(default_factory=dict)
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold credentials
    warnings: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Any:
        """Return the value of an option of the table, its default where the user gave none."""
        return self.values[name]

    def is_given(self, name: str) -> bool:
        """Return whether the option has a value other than None."""
        return self.values[name] is not None


def read_options(options: Mapping[str, str], use: Use) -> GivenOptions:
    """Return a user's options as typed values, defaults filled in.

    Raises ConfigError for an option that does not exist (naming the nearest one), for a value that
    cannot be read or is out of range, and for an option that this use must not have.
    """
    values = {option.name: option.default for option in OPTIONS}
    kafka: dict[str, str] = {}
    warnings: list[str] = []
    for key, text in options.items():
        name = key.lower()
        if name.startswith("kafka."):
            kafka[name.removeprefix("kafka.")] = text
            continue
        option = _BY_NAME.get(name)
        if option is None:
            if name in _SPARKS_OWN or name.startswith(_SPARKS_PREFIXES):
                continue
            raise ConfigError(f'there is no option "{key}".{nearest_option(name)}')
        if use & option.refused:
            raise ConfigError(
                f"{option.name} cannot be used in a streaming query, which has no end: "
                f"remove it, or read a batch with spark.read"
            )
        if not use & option.use:
            continue
        if option.no_effect:
            warnings.append(f"option {option.name} has no effect: {option.no_effect}")
        values[option.name] = read_value(option, text)
    return GivenOptions(values, kafka, tuple(warnings))


def nearest_option(name: str) -> str:
    """Return ` Did you mean "x"?` in the table's own spelling, or an empty text."""
    hint = nearest_hint(name.lower(), [*_BY_NAME, "kafka.bootstrap.servers"])
    for lower, option in _BY_NAME.items():
        hint = hint.replace(f'"{lower}"', f'"{option.name}"')
    return hint


def read_value(option: SparkOption, text: str) -> Any:
    """Return an option's text as its type. Raises ConfigError naming the option, the text and what is allowed."""
    text = str(text).strip()
    if option.kind is Kind.BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise _bad(option, text)
        return text.lower() == "true"
    if option.kind in (Kind.INTEGER, Kind.MILLISECONDS):
        return _integer(option, text)
    if option.choices:
        if text.lower() not in option.choices:
            raise ConfigError(f"{_bad(option, text)}{nearest_hint(text.lower(), option.choices)}")
        return text.lower()
    if not text:
        raise ConfigError(f"{option.name} is empty. It is to say: {option.doc}.")
    return text


def _integer(option: SparkOption, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise _bad(option, text) from None
    low = option.low if option.low is not None else 0
    high = option.high if option.high is not None else _INT64
    if not low <= value <= high:
        raise _bad(option, text)
    return value


def _bad(option: SparkOption, text: str) -> ConfigError:
    return ConfigError(f'{option.name}="{text}" cannot be used: {allowed(option)} is expected ({option.doc})')


def allowed(option: SparkOption) -> str:
    """Return in words which values an option takes."""
    if option.choices:
        return " or ".join(option.choices)
    if option.kind is Kind.INTEGER:
        top = f" to {option.high}" if option.high not in (None, _INT64) else ""
        return f"an integer from {option.low or 0}{top}" if top else f"an integer of at least {option.low or 0}"
    return str(option.kind.value)


def markdown_table() -> str:
    """Return the table of options as the documentation shows it."""
    uses = ((Use.BATCH_READ, "batch"), (Use.STREAM_READ, "stream"), (Use.WRITE, "write"))
    lines = ["| option | for | values | default | meaning |", "|---|---|---|---|---|"]
    for option in OPTIONS:
        where = ", ".join(name for use, name in uses if use & option.use)
        default = {None: "", True: "true", False: "false"}.get(option.default, option.default)
        meaning = option.doc + (f" (no effect: {option.no_effect})" if option.no_effect else "")
        lines.append(f"| `{option.name}` | {where} | {allowed(option)} | {default} | {meaning} |")
    return "\n".join(lines)
