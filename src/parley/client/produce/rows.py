"""Rows → partitions → record batches. Runs in the caller's thread, never in the event loop's.

A row goes to its `partition` column or to the call's partition, where there is one; else to the
murmur2 hash of its key, as Java's producer sends it; rows without a key stick to one partition for
a batch's worth of bytes and then move on (KIP-480).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from parley.arrow import ProduceColumns
from parley.client.cluster.overdue import no_such_partition
from parley.client.options.arguments import topic_name
from parley.client.options.client_options import CODECS, ProduceOptions
from parley.client.produce.wire import BATCHES_VERSION
from parley.errors import ConfigError, KafkaError, UnsupportedVersionError, broker_error
from parley.errors.codes import MESSAGE_TOO_LARGE
from parley.records import (
    Buffer,
    Columns,
    EncodedBatch,
    WriteOptions,
    encode_batches,
    group_rows,
    partition_keys,
)
from parley.schema import ApiKey
from parley.types import TopicPartition
from parley.versions import BrokerVersions, Feature, VersionRange

if TYPE_CHECKING:
    from parley.client.produce.sequences import PartitionSequences

SLICE_ROWS = 65_536
"""Rows that are partitioned and encoded at a time: sending begins after the first slice."""
_RECORD_OVERHEAD = 12


class ArrowArray(Protocol):
    """One batch in Arrow's C data interface: a pyarrow RecordBatch, or another library's."""

    def __arrow_c_array__(self) -> object: ...


class ArrowStream(Protocol):
    """Batches in Arrow's C stream interface: a pyarrow Table, a DataFrame of pandas or
    polars, a query of duckdb.
    """

    def __arrow_c_stream__(self) -> object: ...


Rows: TypeAlias = ArrowArray | ArrowStream | Iterable[ArrowArray]
"""What `produce` takes: a RecordBatch, a Table or an iterable of RecordBatches, of pyarrow or in
Arrow's C interfaces.

The protocols and not pyarrow's classes, which are unknown to type checkers where no stubs for
pyarrow are installed.
"""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What is known of a topic when rows are written to it: partitions and record formats."""

    topic: str
    partition_count: int
    available: tuple[int, ...]
    """Partitions with a leader: where rows without a key go."""
    magics: Mapping[int, int]
    """Record format by partition, as its leader takes it; none for those without a leader."""
    versions: Mapping[int, BrokerVersions] = field(default_factory=dict)
    """What each partition's leader can do."""

    @property
    def is_newest(self) -> bool:
        """Whether every leader that is known takes the newest record format."""
        return min(self.magics.values(), default=2) == 2

    def magic(self, partition: int) -> int:
        """Return the format for a partition: its leader's, or that of most others."""
        return self.magics.get(partition, max(self.magics.values(), default=2))


class Sticky:
    """Which partition rows without key go to, and for how many more bytes. Use mutates it."""

    def __init__(self, rng: Callable[[], float]) -> None:
        self._rng = rng
        self._current: int | None = None
        self._left_bytes = 0

    def runs(
        self, rows: int, row_bytes: int, plan: TopicPlan, run_bytes: int
    ) -> Iterator[tuple[int, int]]:
        """Yield (partition, rows) for `rows` rows of about `row_bytes` each."""
        choices = self.choices(plan)
        while rows > 0:
            if self._current not in choices or self._left_bytes <= 0:
                others = [choice for choice in choices if choice != self._current] or list(choices)
                self._current = self.choose(others)
                self._left_bytes = max(1, run_bytes)
            count = min(rows, max(1, -(-self._left_bytes // row_bytes)))
            self._left_bytes -= count * row_bytes
            rows -= count
            yield self._current, count

    def choices(self, plan: TopicPlan) -> tuple[int, ...]:
        """Return the partitions that rows may go to."""
        return plan.available or tuple(range(plan.partition_count))

    def choose(self, choices: Sequence[int]) -> int:
        """Return one of the partitions."""
        return choices[min(len(choices) - 1, int(self._rng() * len(choices)))]


def slices(rows: Rows) -> Iterator[pa.RecordBatch]:
    """Yield the rows in pieces that are worth encoding at once, without copying large ones.

    Takes what speaks Arrow's C data protocols too (pandas, polars, duckdb). Raises ConfigError for
    anything else.
    """
    for found in _batches(rows):
        if not isinstance(found, pa.RecordBatch) and not hasattr(found, "__arrow_c_array__"):
            raise _no_rows(found)
        batch: pa.RecordBatch = (
            found if isinstance(found, pa.RecordBatch) else pa.record_batch(found)
        )
        for start in range(0, batch.num_rows, SLICE_ROWS):
            yield batch.slice(start, SLICE_ROWS)


def _batches(rows: object) -> Iterable[object]:
    if isinstance(rows, pa.RecordBatch):
        return [rows]
    if isinstance(rows, pa.Table):
        scattered = rows.num_rows and rows.num_rows < 4096 * rows.column(0).num_chunks
        table: pa.Table = rows.combine_chunks() if scattered else rows
        batches: Iterable[pa.RecordBatch] = table.to_batches(max_chunksize=SLICE_ROWS)
        return batches
    if isinstance(rows, str | bytes | Mapping | type):
        raise _no_rows(rows)
    if hasattr(rows, "__arrow_c_stream__"):
        stream: Iterable[pa.RecordBatch] = pa.RecordBatchReader.from_stream(rows)
        return stream
    if hasattr(rows, "__arrow_c_array__"):
        return [pa.record_batch(rows)]
    if not isinstance(rows, Iterable):
        raise _no_rows(rows)
    return rows


def _no_rows(found: object) -> ConfigError:
    kind = type(found).__name__
    return ConfigError(
        f"{kind} is not Arrow data: give a pyarrow RecordBatch or Table, or an iterable of "
        "RecordBatches"
    )


def check_columns(batch: pa.RecordBatch) -> None:
    """Raise ConfigError for rows that would have neither a key nor a value."""
    if not {"key", "value"} & set(batch.schema.names):
        names = ", ".join(batch.schema.names) or "none"
        raise ConfigError(f'rows to produce need a column "value" or "key"; these have: {names}')


def by_topic(batch: pa.RecordBatch, topic: str | None) -> list[tuple[str, pa.RecordBatch]]:
    """Return the rows by topic: the call's, or the `topic` column's; ConfigError without any."""
    if topic is not None:
        keep = [name for name in batch.schema.names if name != "topic"]
        return [(topic, batch.select(keep) if len(keep) != batch.num_columns else batch)]
    if "topic" not in batch.schema.names:
        raise ConfigError('no topic: give one to produce(), or add a column "topic"')
    column = batch.column("topic")
    if column.null_count:
        raise ConfigError('column "topic" has rows without a topic, and produce() was given none')
    rest = batch.select([name for name in batch.schema.names if name != "topic"])
    names = [topic_name(name.as_py()) for name in pc.unique(column)]
    if len(names) == 1:
        return [(names[0], rest)]
    return [(name, rest.filter(pc.equal(column, name))) for name in names]


def highest_partition(rows: pa.RecordBatch, fixed: int | None) -> int:
    """Return the highest partition that rows name, -1 where they name none."""
    if fixed is not None:
        return fixed
    at = rows.schema.get_field_index("partition")
    if at < 0 or not pa.types.is_integer(rows.schema.field(at).type):
        return -1  # other types are refused where the columns are read
    found = pc.max(rows.column(at)).as_py()
    return -1 if found is None else int(found)


def assign(
    rows: ProduceColumns,
    plan: TopicPlan,
    fixed: int | None,
    sticky: Sticky,
    options: ProduceOptions,
    hashed: Buffer | None = None,
) -> list[tuple[int, Buffer | None]]:
    """Return (partition, row indexes) for all rows; None stands for all rows in their order.

    `hashed` has the partitions of keys (int32, -1 without one) where they are not Java's. Raises
    the broker's error for a partition that the plan does not have, before anything is sent.
    """
    count, key = rows.columns.rows, rows.columns.key
    if fixed is not None:
        _check_partition(plan, fixed)
        return [(fixed, None)] if count else []
    if plan.partition_count == 1 and rows.partition is None:
        return [(0, None)] if count else []
    if options.partitioner_ignore_keys:
        hashed = None
    elif hashed is None and key is not None:
        hashed = partition_keys(key, plan.partition_count, count=count)
        if rows.partition is None and not key.null_count:
            return _grouped(hashed, plan)
    row_bytes = _mean_row_bytes(rows.columns)
    if hashed is None and rows.partition is None:
        runs = list(sticky.runs(count, row_bytes, plan, options.batch_size))
        return [(runs[0][0], None)] if len(runs) == 1 else _grouped(_filled(runs), plan)
    target = pa.repeat(pa.scalar(-1, pa.int32()), count)
    if hashed is not None:
        target = pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(hashed)])
    if rows.partition is not None:
        extremes = pc.min_max(rows.partition).as_py()
        for found in extremes.values():
            if found is not None:
                _check_partition(plan, found)
        target = pc.coalesce(rows.partition, target)
    open_rows = pc.equal(target, -1)
    how_many = pc.sum(open_rows).as_py() or 0
    if how_many:
        filled = _filled(sticky.runs(how_many, row_bytes, plan, options.batch_size))
        if how_many == count:
            return _grouped(filled, plan)
        fill = pa.Array.from_buffers(pa.int32(), how_many, [None, pa.py_buffer(filled)])
        target = pc.replace_with_mask(target, open_rows, fill)
    values = memoryview(target.buffers()[1]).cast("B")
    return _grouped(values[4 * target.offset : 4 * (target.offset + count)], plan)


def _filled(runs: Iterable[tuple[int, int]]) -> Buffer:
    """Return the partition of each row of some runs."""
    filled = array("i")
    for partition, run in runs:
        filled.extend(array("i", (partition,)) * run)
    return filled.tobytes()


def _grouped(targets: Buffer, plan: TopicPlan) -> list[tuple[int, Buffer | None]]:
    """Return the row indexes of each partition, in the order of the rows."""
    groups = group_rows(targets, plan.partition_count)
    if len(groups) == 1:
        return [(groups[0][0], None)]
    return [*groups]


def _mean_row_bytes(columns: Columns) -> int:
    total = _RECORD_OVERHEAD * columns.rows
    for column in (columns.key, columns.value):
        if column is not None:
            ends = memoryview(column.offsets).cast("B").cast("i")
            total += ends[-1] - ends[0]
    return max(1, total // max(1, columns.rows))


def _check_partition(plan: TopicPlan, partition: int) -> None:
    if not 0 <= partition < plan.partition_count:
        raise no_such_partition(TopicPartition(plan.topic, partition), plan.partition_count)


def encode(
    columns: Columns,
    rows: Buffer | None,
    magic: int,
    options: ProduceOptions,
    *,
    now_ms: int,
    numbers: PartitionSequences | None,
    transactional: bool = False,
) -> list[EncodedBatch]:
    """Return the batches of a partition's rows. Mutates: reserves sequences in `numbers`.

    Raises UnsupportedVersionError for what the format cannot hold, and the broker's
    MESSAGE_TOO_LARGE for a record beyond max_request_size; no sequence is used up then.
    """
    count = columns.rows if rows is None else len(rows) // 4
    before = numbers.next if numbers is not None else 0
    writing = unnumbered_options(magic, options, now_ms=now_ms)
    if numbers is not None:
        writing = replace(
            writing,
            producer_id=numbers.producer_id,
            producer_epoch=numbers.epoch,
            base_sequence=numbers.reserve(count),
            transactional=transactional,
        )
    try:
        batches = encode_batches(columns, rows, writing)
        for batch in batches:
            if len(batch.data) > options.max_request_size:
                raise too_large(len(batch.data), options)
    except BaseException:
        if numbers is not None:
            numbers.next = before
        raise
    return batches


def too_large(size: int, options: ProduceOptions) -> KafkaError:
    """Return the error for a batch of one record that no request may hold."""
    text = (
        f"a record makes a batch of {size} bytes, more than "
        f"max_request_size={options.max_request_size}; nothing was sent"
    )
    return broker_error(MESSAGE_TOO_LARGE, text)


def unnumbered_options(magic: int, options: ProduceOptions, *, now_ms: int) -> WriteOptions:
    """Return how batches are written that have no numbers."""
    largest = min(options.batch_size, options.max_request_size)
    return _unnumbered(magic, options.compression_type, options.compression_level, largest, now_ms)


@lru_cache(maxsize=16)
def _unnumbered(
    magic: int, codec: str, level: int | None, max_batch_bytes: int, now_ms: int
) -> WriteOptions:
    """Return how batches are written that have no numbers, made once for thousands of them."""
    return WriteOptions(
        magic=magic,
        codec=CODECS.index(codec),
        level=level,
        max_batch_bytes=max_batch_bytes,
        timestamp_ms=now_ms,
    )


def format_for(plan: TopicPlan, partition: int, newest_magic: int, options: ProduceOptions) -> int:
    """Return the format to write a partition in. `newest_magic` is what its leader has refused
    newer ones for.

    Who insists on idempotence asks the leader again: it refuses, or the topic has been upgraded.
    """
    leaders = plan.magic(partition)
    return leaders if options.enable_idempotence else min(leaders, newest_magic)


def check_format(
    columns: Columns, plan: TopicPlan, partition: int, magic: int, options: ProduceOptions
) -> None:
    """Refuse what the leader's record format, or the topic, cannot hold; before sending."""
    if magic < 2 and columns.headers is not None and columns.headers.count:
        raise no_headers(plan, partition)
    if magic < 2 and options.compression_type == "zstd":
        raise UnsupportedVersionError(
            f"{plan.topic}-{partition} takes no zstd: its leader, or the topic's "
            "log.message.format.version, is older than Kafka 0.11; take another compression_type",
            api="PRODUCE",
            feature="zstd",
            first_release="2.1",
        )


def no_headers(plan: TopicPlan, partition: int) -> UnsupportedVersionError:
    """Return the error for headers that a partition's leader, or its topic, cannot store."""
    if partition in plan.versions and plan.magic(partition) < 2:
        allowed = VersionRange(BATCHES_VERSION, 2**15 - 1)
        try:
            plan.versions[partition].choose(ApiKey.PRODUCE, allowed, feature=Feature.RECORD_HEADERS)
        except UnsupportedVersionError as error:
            return error
    return UnsupportedVersionError(
        f"{plan.topic}-{partition} takes no record headers: its leader, or the topic's "
        "log.message.format.version, is older than Kafka 0.11; leave them out",
        api="PRODUCE",
        feature="record-headers",
        first_release="0.11.0",
    )
