"""The data source's own options as one table of typed rows, beside what Spark's own `kafka` source
has. Whoever needs an option's value looks it up by its row: a new option is a row here and its use.

Names are those of Spark's source where it has the option. `kafka.*` options are not here but in
`options.kafka.py`. The documentation's table is printed from here (`markdown_table`).
"""

from __future__ import annotations

from parley.spark.options.row import (
    INT32,
    INT64,
    OURS,
    OptionValue,
    SparkOption,
    Use,
    allowed,
    boolean,
    byte_count,
    default_text,
    duration,
    integer,
    json_text,
    moment,
    names,
    text,
)
from parley.spark.options.schema_table import SCHEMA_ROWS

_POSITIONS = 'or JSON {"topic":{"0":23,"1":-2}} with -2 for earliest and -1 for latest'
_BATCH_ONLY = "batch only"


# -- which records are read ------------------------------------------------------------------------

SUBSCRIBE = text(
    "subscribe",
    None,
    "topics to read, separated by commas",
)
SUBSCRIBE_PATTERN = text(
    "subscribePattern",
    None,
    "Java regular expression that the whole name of a topic must match",
)
ASSIGN = json_text(
    "assign",
    None,
    'partitions to read: {"topicA":[0,1],"topicB":[2]}',
)
STARTING_OFFSETS = text(
    "startingOffsets",
    None,
    (
        "where a new query starts: earliest, latest (streams only), -10 minutes (ago), "
        "-100 offsets (before the end of each partition), committed, "
        "committed-or-earliest, committed-or-latest (where the group kafka.group.id is), "
        f"{_POSITIONS}; default earliest for a batch, latest for a stream"
    ),
    sparks="earliest, latest, JSON",
)
STARTING_TIMESTAMP = moment(
    "startingTimestamp",
    None,
    "start at the first record this late",
    low=0,
    high=INT64,
    sparks="milliseconds only",
)
STARTING_OFFSETS_BY_TIMESTAMP = json_text(
    "startingOffsetsByTimestamp",
    None,
    'the same per partition: {"topic":{"0":1700000000000}}',
)
STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY = text(
    "startingOffsetsByTimestampStrategy",
    "error",
    "where to start in a partition without a record that late (a time ago: always latest)",
    choices=("error", "latest"),
)
ENDING_OFFSETS = text(
    "endingOffsets",
    None,
    (
        f"where reading ends (exclusive): latest {_POSITIONS}; default latest for a batch, "
        "never for a stream"
    ),
    sparks=_BATCH_ONLY,
)
ENDING_TIMESTAMP = moment(
    "endingTimestamp",
    None,
    "end in front of the first record this late",
    low=0,
    high=INT64,
    sparks=f"{_BATCH_ONLY}, milliseconds only",
)
ENDING_OFFSETS_BY_TIMESTAMP = json_text(
    "endingOffsetsByTimestamp",
    None,
    "the same per partition",
    sparks=_BATCH_ONLY,
)
INCLUDE_HEADERS = boolean(
    "includeHeaders",
    False,
    "whether rows have the column headers",
)
COLUMNS = names(
    "columns",
    "columns to read: others are not decoded; default all",
    sparks=OURS,
)
ARROW_BATCHES = boolean(
    "arrowBatches",
    False,
    (
        "whether each row is an Arrow batch of many records, which parley-delta and "
        "parley-iceberg write without Spark making rows of it; columns batch and records"
    ),
    sparks=OURS,
)
FAIL_ON_DATA_LOSS = boolean(
    "failOnDataLoss",
    True,
    (
        "whether a query fails when records that it was to read are gone (else: a warning, "
        "and it goes on)"
    ),
)

# -- the size of tasks and micro-batches -----------------------------------------------------------

MIN_PARTITIONS = integer(
    "minPartitions",
    None,
    "tasks wanted at least: large ranges are split",
    low=1,
    high=INT32,
)
MAX_PARTITIONS = integer(
    "maxPartitions",
    None,
    (
        "tasks wanted at most: where there are more ranges to read, a task reads several, of one "
        "leader where it can"
    ),
    low=1,
    high=INT32,
    sparks=OURS,
)
MAX_RECORDS_PER_PARTITION = integer(
    "maxRecordsPerPartition",
    None,
    "most offsets of one task",
    low=1,
    high=INT64,
)
MAX_BYTES_PER_PARTITION = byte_count(
    "maxBytesPerPartition",
    None,
    (
        "about the most bytes of keys and values of one task: partitions with large records "
        "are split more"
    ),
    low=1,
    high=INT64,
    sparks=OURS,
)
MAX_OFFSETS_PER_TRIGGER = integer(
    "maxOffsetsPerTrigger",
    None,
    "most offsets of one micro-batch, shared among the partitions by what they have to offer",
    use=Use.STREAM_READ,
    low=1,
    high=INT64,
)
MAX_BYTES_PER_TRIGGER = byte_count(
    "maxBytesPerTrigger",
    None,
    (
        "about the most bytes of keys and values of one micro-batch, estimated from samples "
        "of what is next"
    ),
    use=Use.STREAM_READ,
    low=1,
    high=INT64,
    sparks=OURS,
)
MIN_OFFSETS_PER_TRIGGER = integer(
    "minOffsetsPerTrigger",
    None,
    "offsets that must have come before a micro-batch is run",
    use=Use.STREAM_READ,
    low=1,
    high=INT64,
)
MAX_TRIGGER_DELAY = duration(
    "maxTriggerDelay",
    15 * 60_000,
    "longest wait for minOffsetsPerTrigger, after which less will do",
    use=Use.STREAM_READ,
    low=0,
    high=INT64,
)

# -- asking brokers, and reporting -----------------------------------------------------------------

FETCH_OFFSET_NUM_RETRIES = integer(
    "fetchOffset.numRetries",
    3,
    (
        "how often a question is asked when no broker answers, each time "
        "for kafka.default.api.timeout.ms, and how often a log that seems "
        "to have become shorter is asked for again"
    ),
    low=0,
    high=10_000,
)
FETCH_OFFSET_RETRY_INTERVAL_MS = integer(
    "fetchOffset.retryIntervalMs",
    10,
    "pause in between, in ms",
    low=0,
    high=INT32,
)
KAFKA_CONSUMER_POLL_TIMEOUT_MS = integer(
    "kafkaConsumer.pollTimeoutMs",
    None,
    (
        "longest wait of a task for records that should be there, in ms; without "
        "it kafka.default.api.timeout.ms holds, and without both 180000"
    ),
    low=1,
    high=INT32,
    sparks="default 120000",
)
COMMIT_TO_GROUP = text(
    "commitToGroup",
    None,
    (
        "group whose committed offsets follow the finished micro-batches, for lag monitors; "
        "nothing is read from it"
    ),
    use=Use.STREAM_READ,
    sparks=OURS,
)
REPORT_LAG = boolean(
    "reportLag",
    False,
    "whether the latest offsets in a query's progress also report the lag in bytes and in time",
    use=Use.STREAM_READ,
    sparks=OURS,
)
PUSH_FILTERS = boolean(
    "pushFilters",
    False,
    (
        "whether filters on topic, partition, offset and timestamp narrow what is read; needs "
        "spark.sql.python.filterPushdown.enabled=true"
    ),
    use=Use.BATCH_READ,
    sparks=OURS,
)
RACK_FROM_ENV = text(
    "rackFromEnv",
    None,
    (
        "name of the environment variable of each executor that holds its rack, for reading "
        "from the nearest replica"
    ),
    sparks=OURS,
)
GROUP_ID_PREFIX = text(
    "groupIdPrefix",
    None,
    "prefix of group ids",
    no_effect="parley reads without a consumer group",
)

# -- writing ---------------------------------------------------------------------------------------

TOPIC = text(
    "topic",
    None,
    "topic of all rows; a column topic is ignored",
    use=Use.WRITE,
)
DELIVERY = text(
    "delivery",
    "at-least-once",
    "exactly-once: read_committed consumers see every row of every micro-batch once",
    use=Use.WRITE,
    choices=("at-least-once", "exactly-once"),
    sparks=OURS,
)
TRANSACTIONAL_ID_PREFIX = text(
    "transactionalIdPrefix",
    None,
    (
        "begin of the transactional ids and of the journal topic's name; without it made of "
        "the checkpoint location"
    ),
    use=Use.WRITE,
    sparks=OURS,
)
LOST_TRANSACTIONS = text(
    "lostTransactions",
    "fail",
    (
        "what to do about rows that expired between decision and commit: fail, or log them "
        "and continue"
    ),
    use=Use.STREAM_WRITE,
    choices=("fail", "continue"),
    sparks=OURS,
)
ROW_HEADER = text(
    "rowHeader",
    None,
    (
        "name of a header to add to each record, query/batch/task/sequence, by which "
        "consumers recognise repetitions"
    ),
    use=Use.WRITE,
    sparks=OURS,
)


OPTIONS: tuple[SparkOption[OptionValue], ...] = (
    *(row for row in globals().values() if isinstance(row, SparkOption)),
    *SCHEMA_ROWS,
)
"""Every row above and those about schemas, in the order of the documentation: the options but
`kafka.*`.
"""

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


def markdown_table() -> str:
    """Return the table of options as the documentation shows it."""
    uses = ((Use.BATCH_READ, "batch"), (Use.STREAM_READ, "stream"), (Use.WRITE, "write"))
    lines = [
        "| option | for | values | default | meaning | Spark's `kafka` |",
        "|---|---|---|---|---|---|",
    ]
    for option in OPTIONS:
        where = ", ".join(name for use, name in uses if use & option.use)
        meaning = option.doc + (f" (no effect: {option.no_effect})" if option.no_effect else "")
        default = default_text(option)
        cells = (f"`{option.name}`", where, allowed(option), default, meaning, option.sparks)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
