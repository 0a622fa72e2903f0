"""The data source's own options as one typed table, beside what Spark's own `kafka` source has.

Names are those of Spark's source where it has the option. `kafka.*` options are not here but in
`options.kafka.py`. The documentation's table is printed from here (`markdown_table`).
"""

from __future__ import annotations

from enum import Enum, Flag, auto
from typing import NamedTuple, TypedDict, Unpack

_INT32, _INT64 = 2**31 - 1, 2**63 - 1


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
    MOMENT = "milliseconds since 1970-01-01 UTC, or a time ago such as -10 minutes"
    DURATION = "a time such as 15m or 90 seconds"
    BYTES = "bytes, also such as 64m"
    JSON = "JSON"


SAME = "the same"
OURS = "–"


class SparkOption(NamedTuple):
    """One line of the table."""

    name: str
    use: Use
    kind: Kind
    default: str | int | None
    doc: str
    low: int | None = None
    high: int | None = None
    choices: tuple[str, ...] = ()
    no_effect: str = ""
    """Why the option is accepted although nothing comes of it."""
    sparks: str = SAME
    """How Spark's own source has it: `SAME`, `OURS` where it has none, or the difference."""


class _More(TypedDict, total=False):
    low: int | None
    high: int | None
    choices: tuple[str, ...]
    no_effect: str
    sparks: str


def _read(
    name: str, kind: Kind, default: str | int | None, doc: str, **more: Unpack[_More]
) -> SparkOption:
    return SparkOption(name, Use.READ, kind, default, doc, **more)


def _stream(
    name: str, kind: Kind, default: str | int | None, doc: str, **more: Unpack[_More]
) -> SparkOption:
    return SparkOption(name, Use.STREAM_READ, kind, default, doc, **more)


_POSITIONS = 'or JSON {"topic":{"0":23,"1":-2}} with -2 for earliest and -1 for latest'
_BATCH_ONLY = "batch only"

WHAT_IS_READ = (
    _read("subscribe", Kind.TEXT, None, "topics to read, separated by commas"),
    _read(
        "subscribePattern",
        Kind.TEXT,
        None,
        "Java regular expression that the whole name of a topic must match",
    ),
    _read("assign", Kind.JSON, None, 'partitions to read: {"topicA":[0,1],"topicB":[2]}'),
    _read(
        "startingOffsets",
        Kind.TEXT,
        None,
        "where a new query starts: earliest, latest (streams only), -10 minutes (ago), "
        "-100 offsets (before the end of each partition), committed, "
        "committed-or-earliest, committed-or-latest (where the group kafka.group.id is), "
        f"{_POSITIONS}; default earliest for a batch, latest for a stream",
        sparks="earliest, latest, JSON",
    ),
    _read(
        "startingTimestamp",
        Kind.MOMENT,
        None,
        "start at the first record this late",
        low=0,
        high=_INT64,
        sparks="milliseconds only",
    ),
    _read(
        "startingOffsetsByTimestamp",
        Kind.JSON,
        None,
        'the same per partition: {"topic":{"0":1700000000000}}',
    ),
    _read(
        "startingOffsetsByTimestampStrategy",
        Kind.TEXT,
        "error",
        "where to start in a partition without a record that late (a time ago: always latest)",
        choices=("error", "latest"),
    ),
    _read(
        "endingOffsets",
        Kind.TEXT,
        None,
        f"where reading ends (exclusive): latest {_POSITIONS}; default latest for a batch, "
        "never for a stream",
        sparks=_BATCH_ONLY,
    ),
    _read(
        "endingTimestamp",
        Kind.MOMENT,
        None,
        "end in front of the first record this late",
        low=0,
        high=_INT64,
        sparks=f"{_BATCH_ONLY}, milliseconds only",
    ),
    _read(
        "endingOffsetsByTimestamp", Kind.JSON, None, "the same per partition", sparks=_BATCH_ONLY
    ),
    _read("includeHeaders", Kind.BOOLEAN, False, "whether rows have the column headers"),
    _read(
        "failOnDataLoss",
        Kind.BOOLEAN,
        True,
        "whether a query fails when records that it was to read are gone (else: a warning, "
        "and it goes on)",
    ),
)
"""Options that say which records are read."""

HOW_MUCH_AT_ONCE = (
    _read(
        "minPartitions",
        Kind.INTEGER,
        None,
        "tasks wanted at least: large ranges are split",
        low=1,
        high=_INT32,
    ),
    _read(
        "maxRecordsPerPartition", Kind.INTEGER, None, "most offsets of one task", low=1, high=_INT64
    ),
    _read(
        "maxBytesPerPartition",
        Kind.BYTES,
        None,
        "about the most bytes of keys and values of one task: partitions with large records "
        "are split more",
        low=1,
        high=_INT64,
        sparks=OURS,
    ),
    _stream(
        "maxOffsetsPerTrigger",
        Kind.INTEGER,
        None,
        "most offsets of one micro-batch, shared among the partitions by what they have to offer",
        low=1,
        high=_INT64,
    ),
    _stream(
        "maxBytesPerTrigger",
        Kind.BYTES,
        None,
        "about the most bytes of keys and values of one micro-batch, estimated from samples "
        "of what is next",
        low=1,
        high=_INT64,
        sparks=OURS,
    ),
    _stream(
        "minOffsetsPerTrigger",
        Kind.INTEGER,
        None,
        "offsets that must have come before a micro-batch is run",
        low=1,
        high=_INT64,
    ),
    _stream(
        "maxTriggerDelay",
        Kind.DURATION,
        15 * 60_000,
        "longest wait for minOffsetsPerTrigger, after which less will do",
        low=0,
        high=_INT64,
    ),
)
"""Options that size tasks and micro-batches."""

THE_REST = (
    _read(
        "fetchOffset.numRetries",
        Kind.INTEGER,
        3,
        "how often a question is asked when no broker answers, each time "
        "for kafka.default.api.timeout.ms, and how often a log that seems "
        "to have become shorter is asked for again",
        low=0,
        high=10_000,
    ),
    _read(
        "fetchOffset.retryIntervalMs",
        Kind.INTEGER,
        10,
        "pause in between, in ms",
        low=0,
        high=_INT32,
    ),
    _read(
        "kafkaConsumer.pollTimeoutMs",
        Kind.INTEGER,
        None,
        "longest wait of a task for records that should be there, in ms; without "
        "it kafka.default.api.timeout.ms holds, and without both 180000",
        low=1,
        high=_INT32,
        sparks="default 120000",
    ),
    _stream(
        "commitToGroup",
        Kind.TEXT,
        None,
        "group whose committed offsets follow the finished micro-batches, for lag monitors; "
        "nothing is read from it",
        sparks=OURS,
    ),
    _stream(
        "reportLag",
        Kind.BOOLEAN,
        False,
        "whether the latest offsets in a query's progress also report the lag in bytes and in time",
        sparks=OURS,
    ),
    SparkOption(
        "pushFilters",
        Use.BATCH_READ,
        Kind.BOOLEAN,
        False,
        "whether filters on topic, partition, offset and timestamp narrow what is read; needs "
        "spark.sql.python.filterPushdown.enabled=true",
        sparks=OURS,
    ),
    _read(
        "rackFromEnv",
        Kind.TEXT,
        None,
        "name of the environment variable of each executor that holds its rack, for reading "
        "from the nearest replica",
        sparks=OURS,
    ),
    _read(
        "groupIdPrefix",
        Kind.TEXT,
        None,
        "prefix of group ids",
        no_effect="parley reads without a consumer group",
    ),
)
"""Options about asking brokers and reporting."""

WRITING = (
    SparkOption(
        "topic", Use.WRITE, Kind.TEXT, None, "topic of all rows; a column topic is ignored"
    ),
    SparkOption(
        "delivery",
        Use.WRITE,
        Kind.TEXT,
        "at-least-once",
        "exactly-once: read_committed consumers see every row of every micro-batch once",
        choices=("at-least-once", "exactly-once"),
        sparks=OURS,
    ),
    SparkOption(
        "transactionalIdPrefix",
        Use.WRITE,
        Kind.TEXT,
        None,
        "begin of the transactional ids and of the journal topic's name; without it made of "
        "the checkpoint location",
        sparks=OURS,
    ),
    SparkOption(
        "lostTransactions",
        Use.STREAM_WRITE,
        Kind.TEXT,
        "fail",
        "what to do about rows that expired between decision and commit: fail, or log them "
        "and continue",
        choices=("fail", "continue"),
        sparks=OURS,
    ),
    SparkOption(
        "rowHeader",
        Use.WRITE,
        Kind.TEXT,
        None,
        "name of a header to add to each record, query/batch/task/sequence, by which "
        "consumers recognise repetitions",
        sparks=OURS,
    ),
)
"""Options of a write."""

OPTIONS = (*WHAT_IS_READ, *HOW_MUCH_AT_ONCE, *THE_REST, *WRITING)
"""Every option of the data source but `kafka.*`, in the order of the documentation."""

_SPARKS_OWN = """
    subscribe subscribePattern assign startingOffsets startingTimestamp startingOffsetsByTimestamp
    startingOffsetsByTimestampStrategy endingOffsets endingTimestamp endingOffsetsByTimestamp
    failOnDataLoss kafkaConsumer.pollTimeoutMs fetchOffset.numRetries fetchOffset.retryIntervalMs
    maxOffsetsPerTrigger minOffsetsPerTrigger maxTriggerDelay minPartitions maxRecordsPerPartition
    groupIdPrefix includeHeaders topic
"""
SPARKS_OWN_OPTIONS = frozenset(_SPARKS_OWN.split())
"""What the documentation of Spark's own source and sink lists, `kafka.*` aside. All
of them are options here too.
"""


def allowed(option: SparkOption) -> str:
    """Return in words which values an option takes."""
    if option.choices:
        return " or ".join(option.choices)
    if option.kind is Kind.INTEGER:
        top = f" to {option.high}" if option.high not in (None, _INT64) else ""
        return (
            f"an integer from {option.low or 0}{top}"
            if top
            else f"an integer of at least {option.low or 0}"
        )
    return str(option.kind.value)


def markdown_table() -> str:
    """Return the table of options as the documentation shows it."""
    uses = ((Use.BATCH_READ, "batch"), (Use.STREAM_READ, "stream"), (Use.WRITE, "write"))
    lines = [
        "| option | for | values | default | meaning | Spark's `kafka` |",
        "|---|---|---|---|---|---|",
    ]
    for option in OPTIONS:
        where = ", ".join(name for use, name in uses if use & option.use)
        words: dict[object, str] = {None: "", True: "true", False: "false"}
        default: object = words.get(option.default, option.default)
        if option.kind is Kind.DURATION and isinstance(option.default, int):
            default = f"{option.default // 60_000}m"
        meaning = option.doc + (f" (no effect: {option.no_effect})" if option.no_effect else "")
        cells = (f"`{option.name}`", where, allowed(option), default, meaning, option.sparks)
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return "\n".join(lines)
